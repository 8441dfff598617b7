"""sift in several dimensions: when they are tried, and how the estimate is made."""

from dataclasses import replace

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.engines.dimensions import MAX_DIMENSIONS, Part
from crowdsift.engines.grid import WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, WorkerEstimate
from crowdsift.models.covariance import ScorePrecision, exact_items
from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Codes, Mask, Vector
from crowdsift.numeric.distributions import Z90, half_width, normal_quantiles
from crowdsift.numeric.likelihoods import normal_cdf
from crowdsift.solvers.ep.terms.dimensions import Setting, State, Trial, begin, fitted, resumed, search

_RESPONSE_WORK = 1e9  # largest sum of squared numbers of positions that workers judge
_OPEN_CAUTION = (1.0, 1.0, 0.5, 0.0)  # caution of the passes over workers under a broad prior
_DRAWS = 64  # draws of the weights of every worker, for the probability that it is distinct


def refuse_dimensions(engine: Engine, count: int) -> None:
    """Raise an error if the votes or the engine do not support this number of dimensions."""
    refuse_count(count, *_carriers(engine))
    if count > 1 and engine.dimensions is None:
        raise RequestError(
            "several dimensions need the engine 'cpu', 'torch', 'sharded' or 'dask'; choose one, or --dimensions 1"
        )


def refuse_count(count: int, items: int, workers: int, islands: int = 1) -> None:
    """Raise an error if the given numbers do not support this number of dimensions."""
    if count > (most := _most(items, workers, islands)):
        apart = f" in {islands:,} islands" if islands > 1 else ""
        raise RequestError(
            f"{count} dimensions are too many for {items:,} items{apart} and {workers:,} worker{'s' * (workers != 1)}, "
            f"which can carry {most} (never more than {MAX_DIMENSIONS}): --dimensions {most} "
            f"(dimensions={most}) or auto"
        )


def _carriers(engine: Engine) -> tuple[int, int, int]:
    facts = engine.facts
    return facts.n_items, facts.n_workers - facts.n_gold, len(np.unique(facts.component))


def _most(items: int, workers: int, islands: int) -> int:
    """Return the largest number of dimensions that the items, islands and workers allow."""
    return max(min(items - islands, workers, MAX_DIMENSIONS), 1)


def with_dimensions(
    estimate: Estimate,
    engine: Engine,
    asked: int,
    earlier: DimensionEstimate | None = None,
    trusted: Mask | None = None,
) -> Estimate:
    """Return the estimate in several dimensions if they are requested, or clearly better."""
    # The score follows the workers who are `trusted`, otherwise gold, otherwise the mean of all. With `asked` = 0
    # evidence and left-out votes decide. `estimate` is that of one dimension. The number of an earlier estimate is
    # kept, and its positions and weights are where to start.
    workers, facts = estimate.workers, engine.facts
    if asked == 1 or (not asked and engine.dimensions is None):
        return estimate
    refuse_dimensions(engine, asked)
    assert workers.reliability is not None
    assert workers.reliability_sd is not None
    assert estimate.score_sd is not None
    columns, sds = [workers.reliability], [workers.reliability_sd]
    if workers.side_bias is not None and workers.side_sd is not None:
        columns, sds = [*columns, workers.side_bias], [*sds, workers.side_sd]
    width = workers.extra.get("tie_width", np.zeros(facts.n_workers))
    ties = "tie_width" in workers.extra
    setting = Setting(required(engine.dimensions), width, ties, facts.component)
    one = begin(estimate.scores, estimate.score_sd**2, np.stack(columns, 1), np.stack(sds, 1))
    if earlier is not None and asked in (0, earlier.count):
        return _estimate(estimate, engine, setting, resumed(setting, _earlier(earlier, one)), earlier.trials)
    if asked:
        return _estimate(estimate, engine, setting, fitted(setting, one, asked, facts.loads), (), trusted)
    state, trials = search(setting, one, _most(*_carriers(engine)), facts.loads)
    if state is None:
        tested = float(facts.loads.sum())
        return replace(estimate, population={**(estimate.population or {}), "tested": tested})
    rival = estimate.in_context is not None or bool(estimate.details["pair_effect"])
    if rival and state.bound <= (estimate.evidence or 0.0) + MIN_LOG_BAYES_FACTOR:
        return estimate
    return _estimate(estimate, engine, setting, state, trials)


def _earlier(earlier: DimensionEstimate, one: State) -> State:
    """Return the end of an earlier run, in the codes of these votes, with the sides of the run in one dimension."""
    D, weights = earlier.count, np.concatenate([earlier.weights, one.weights[:, 1:]], axis=1)
    S, E = weights.shape
    second, spread = np.zeros((S, E, E)), np.linalg.inv(one.crowd.precision)
    second[:, :D, :D] = earlier.weight_covariance
    second[:, D:, D:] = one.second[:, 1:, 1:] - one.weights[:, 1:, None] * one.weights[:, None, 1:]
    covariance = np.zeros((E, E))
    covariance[:D, :D], covariance[D:, D:] = earlier.covariance, spread[1:, 1:]
    mean = np.append(earlier.mean, one.crowd.mean[1:])
    return State(
        positions=earlier.positions,
        covariance=earlier.position_covariance + np.eye(D) / earlier.component_size[:, None, None],
        weights=weights,
        second=second + weights[:, :, None] * weights[:, None, :],
        crowd=one.crowd._replace(mean=mean, precision=np.asarray(np.linalg.inv(covariance), np.float64)),
        shares=one.shares,
    )


def _estimate(
    one: Estimate,
    engine: Engine,
    setting: Setting,
    state: State,
    trials: tuple[Trial, ...],
    trusted: Mask | None = None,
) -> Estimate:
    facts, D = engine.facts, state.count
    voters = facts.n_workers - facts.n_gold
    share = np.where(np.arange(facts.n_workers) >= voters if trusted is None else trusted, facts.loads, 0.0)
    share = share / max(float(share.sum()), 1e-300)
    direction = share @ state.weights[:, :D] if share.any() else state.crowd.mean[:D]
    state = state.turned(_basis(state, direction))
    settled_by = "trusted" if trusted is not None else "gold" if facts.n_gold else "common"
    found = _record(state, engine, setting, trials, settled_by)
    workers = _workers(one, found, setting, state)
    assert workers.quantiles is not None
    precision, whole = None, _score_covariance(found, setting, state, engine, share)
    variance = (np.diag(whole) if whole.ndim == 2 else whole) - 1.0 / found.component_size
    if whole.ndim == 2 and exact_items(facts.component).any():
        precision = _precision(whole, facts.component)
    none = np.zeros(facts.n_workers)
    side, side_sd = (none if each is None else each for each in (workers.side_bias, workers.side_sd))
    count = workers.quantiles.shape[1]
    rest = (np.tile(each[:, None], count) for each in (setting.width, side, side_sd**2))
    return replace(
        one,
        scores=found.positions[:, 0].copy(),
        log_likelihood=setting.passes.log_probability(
            state.positions,
            0.0 * state.covariance,
            state.weights,
            state.weights[:, :, None] * state.weights[:, None, :],
            setting.width,
            setting.ties,
            int(Part.ALL),
        )[0],
        score_sd=np.sqrt(np.maximum(variance, 0.0)),
        precision=precision,
        theta=workers.quantiles,
        points=WorkerPoints(workers.quantiles, *rest),
        workers=workers,
        evidence=state.bound,
        sign=workers.sign_support(facts.loads[:voters]),
        details={**one.details, "pair_effect": 0.0},
        pairs=None,
        in_context=None,
        population={**(one.population or {}), "scale": 1.0, "dimensions": D, "tested": float(facts.loads.sum())},
        sites=None,
        dimensions=found,
    )


def _record(
    state: State, engine: Engine, setting: Setting, trials: tuple[Trial, ...], direction: str
) -> DimensionEstimate:
    """Return positions about the means of their components, weights, and the population."""
    facts, D = engine.facts, state.count
    voters, sizes = facts.n_workers - facts.n_gold, np.bincount(facts.component)
    size = sizes[facts.component]
    level = 1.0 / size[:, None, None]
    sums = np.stack([np.bincount(facts.component, column) for column in state.positions.T], 1)
    weights = state.weights[:, :D]
    V = state.second[:, :D, :D] - weights[:, :, None] * weights[:, None, :]
    V = V + state.shares[:, 2:].sum(axis=1)[:, None, None] * _open(state, setting)
    spread: Vector = np.asarray(np.linalg.inv(state.crowd.precision)[:D, :D], np.float64)
    mean, count = state.crowd.mean[:D], max(float(state.shares[:voters, :2].sum()), 1.0)
    of_mean = (spread + V[:voters].mean(axis=0)) / count
    return DimensionEstimate(
        positions=state.positions - (sums / sizes[:, None])[facts.component],
        position_covariance=state.blocks() - (state.blocks() if state.covariance.ndim == 3 else np.eye(D)) * level,
        weights=weights,
        weight_covariance=V,
        mean=mean,
        mean_covariance=of_mean,
        covariance=spread,
        direction=direction,
        has_common=bool(direction != "common" or mean @ np.linalg.solve(of_mean, mean) > _chi_square(D)),
        trials=trials,
        distinct=_distinct(weights, V),
        component_size=size.astype(np.int64),
    )


def _open(state: State, setting: Setting) -> Vector:
    """Return the covariance of each worker's weights from its votes and a broad prior about 0."""
    # The weights of random workers are 0 by definition: how close to that they are depends on the votes.
    D, crowd = state.count, state.crowd
    mean = np.where(np.arange(len(crowd.mean)) < D, crowd.mean, 0.0)
    broad = np.linalg.inv(np.linalg.inv(crowd.precision) + np.outer(mean, mean))
    one_class = np.array([0.0, -700.0, -700.0, -700.0])
    crowd = crowd._replace(mean=crowd.mean - mean, precision=broad, log_shares=one_class)
    for caution in _OPEN_CAUTION:
        found = setting.update(replace(state, crowd=crowd), caution)
        state = replace(state, weights=found.weights, second=found.second)
    a = state.weights[:, :D]
    return np.asarray(state.second[:, :D, :D] - a[:, :, None] * a[:, None, :])


def _workers(one: Estimate, found: DimensionEstimate, setting: Setting, state: State) -> WorkerEstimate:
    """Return reliabilities along the reported direction, and the evidence of classes."""
    D, sided = found.count, state.weights.shape[1] > found.count
    beta, sd = found.weights[:, 0], np.sqrt(np.maximum(found.weight_covariance[:, 0, 0], 1e-12))
    side = side_sd = None
    if sided:
        side = state.weights[:, D].copy()
        side_sd = np.sqrt(np.maximum(state.second[:, D, D] - side**2, 0.0))
    return WorkerEstimate(
        reliability=beta.copy(),
        reliability_sd=sd,
        reliability_lower=beta - Z90 * sd,
        reliability_upper=beta + Z90 * sd,
        quantiles=normal_quantiles(beta, sd),
        side_bias=side,
        side_sd=side_sd,
        one_sided=state.shares[:, 3].copy() if sided else None,
        typical=_typical(float(found.mean[0]), float(found.covariance[0, 0])),
        class_evidence=setting.passes.class_evidence(
            state.positions, state.covariance, state.crowd, state.weights, setting.width, setting.ties
        ),
        extra=one.workers.extra,
    )


def left_out_dimensions(engine: Engine, estimate: Estimate) -> float:
    """Return the log-likelihood of the engine's votes at an estimate in several dimensions."""
    found, workers = estimate.dimensions, estimate.workers
    assert found is not None
    size = np.maximum(found.component_size, 2)
    blocks = found.position_covariance * (size / (size - 1.0))[:, None, None]
    weights, V = found.weights, found.weight_covariance
    if workers.side_bias is not None and workers.side_sd is not None:
        weights = np.concatenate([weights, workers.side_bias[:, None]], axis=1)
        V = np.pad(V, ((0, 0), (0, 1), (0, 1)))
        V[:, -1, -1] = workers.side_sd**2
    second = V + weights[:, :, None] * weights[:, None, :]
    width = workers.extra.get("tie_width", np.zeros(len(weights)))
    passes = required(engine.dimensions)
    return passes.log_probability(
        found.positions, blocks, weights, second, width, "tie_width" in workers.extra, int(Part.ALL)
    )[0]


def _basis(state: State, direction: Vector) -> Vector:
    """Return a rotation with the direction as first axis and the others by explained variance."""
    D = state.count
    length = float(np.linalg.norm(direction))
    first = direction / length if length > 0.0 else np.eye(D)[0]  # nothing was learned
    rest = np.linalg.svd(first[None])[2][1:].T
    square = state.second[:, :D, :D].mean(axis=0)
    values, vectors = np.linalg.eigh(rest.T @ square @ rest)
    rest = rest @ vectors[:, np.argsort(-values)]
    sign = np.where(state.crowd.mean[:D] @ rest < 0.0, -1.0, 1.0)
    return np.concatenate([first[:, None], rest * sign], axis=1)


def _score_covariance(
    found: DimensionEstimate, setting: Setting, state: State, engine: Engine, share: Vector
) -> Vector:
    """Return the covariance of the scores, given uncertain weights and an uncertain direction."""
    # Weights are eliminated from the joint curvature, and the direction of the score is uncertain. Scores have unit
    # size, so their scale is certain. If this takes too long, the result is the variance of every score, with other
    # items as known. `share` is the part of every worker in the direction, 0 for all if it is the common one. The
    # errors of trusted workers are taken as independent of positions.
    facts, (K, D) = engine.facts, state.positions.shape
    exact, touched = state.covariance.ndim == 2, np.minimum(2.0 * facts.loads, K) * D
    plain: Vector = state.covariance.reshape(K, D, K, D)[:, 0, :, 0] if exact else state.covariance[:, 0, 0]
    whole = exact and float(touched @ touched) <= _RESPONSE_WORK
    curvature = setting.passes.response(
        state.positions, state.crowd, state.weights, state.shares, setting.width, setting.ties, whole
    )
    length = max(abs(float(share @ state.weights[:, 0] if share.any() else state.crowd.mean[0])), 1e-9)
    others, of_mean = found.positions[:, 1:] / length, found.mean_covariance[1:, 1:]
    if share.any():
        of_mean = np.einsum("s,sij->ij", share**2, found.weight_covariance[:, 1:, 1:])
    if not whole:
        values, vectors = np.linalg.eigh(curvature.reshape(K, D, D) + np.eye(D))
        own = (vectors[:, 0] ** 2 / np.maximum(values, 1.0)).sum(axis=1)
        level = 1.0 / found.component_size
        variance = own * (1.0 - level) + np.einsum("ia,ab,ib->i", others, of_mean, others) + level
        ratio = np.sqrt(variance / np.diag(plain)) if exact else variance
        return np.asarray(plain * np.outer(ratio, ratio) if exact else variance)
    rows = K * D
    at = rows if not facts.n_gold else len(curvature) - D  # rows of μ, or of the weights of gold
    if not facts.n_gold:
        curvature = curvature[:-D, :-D]
    curvature = curvature + np.diag(np.arange(len(curvature)) < rows)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # The prior has precision 1. Vectors below rotate positions and weights together, which leaves scores unchanged.
    root = (values > 0.99)[:, None] * vectors.T / np.sqrt(np.maximum(values, 1.0))[:, None]
    gradient, trusted = np.zeros((K, len(curvature))), found.direction == "trusted"
    gradient[np.arange(K), np.arange(K) * D] = 1.0
    if not trusted:
        gradient[:, at + 1 : at + D] = others
    half = gradient @ root.T
    if trusted:
        half = np.concatenate([half, others @ np.linalg.cholesky(of_mean)], axis=1)
    s = found.positions[:, 0] / max(float(np.linalg.norm(found.positions[:, 0])), 1e-300)
    half = half - np.outer(s, s @ half)
    return np.asarray(half @ half.T + float(s @ plain @ s) * np.outer(s, s))


def _precision(covariance: Vector, component: Codes) -> ScorePrecision:
    """Return the precision of scores as weights of pairs; levels have precision 1."""
    inverse = np.linalg.inv(covariance)
    low, high = (each.astype(np.uint32) for each in np.triu_indices(len(inverse), 1))
    within = component[low] == component[high]
    low, high = low[within], high[within]
    return ScorePrecision(low, high, -inverse[low, high], component, 1.0, 1.0)


def _typical(mean: float, variance: float) -> float:
    """Return the median of the positive part of N(mean, variance)."""
    sd = float(np.sqrt(variance))
    grid = np.linspace(0.0, max(mean, 0.0) + 6.0 * sd, 2_001)
    below = normal_cdf((grid - mean) / sd)
    return float(np.interp(0.5 * (below[0] + 1.0), below, grid))


def _chi_square(D: int) -> float:
    """Return the squared radius of a 90 % region in D dimensions, by Wilson and Hilferty."""
    share = 2.0 / (9.0 * D)
    return float(D * (1.0 - share + half_width(0.8) * share**0.5) ** 3)


def _distinct(weights: Vector, V: Vector) -> Vector:
    """Return the probability that weights outside the first axis explain more than those along it."""
    noise = np.random.default_rng(0).standard_normal((_DRAWS, weights.shape[1]))
    values, vectors = np.linalg.eigh(V)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    draws = weights[:, None, :] + np.einsum("sij,nj->sni", root, noise)
    return np.asarray(((draws[..., 1:] ** 2).sum(-1) > draws[..., 0] ** 2).mean(axis=1))
