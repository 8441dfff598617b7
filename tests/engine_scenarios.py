"""What a solver asks of an engine, pass by pass: every engine must answer as the reference does.

A scenario takes an engine and a seed and yields named results. Codes of items and workers are the
same in all engines; pairs and votes may come in any order, and are put in one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from grid_cases import SHAPES, SIDE

from crowdsift.engines.base import Engine, SlopePrior
from crowdsift.engines.grid import RELIABILITY_ONLY, WorkerPoints, WorkerPriors
from crowdsift.engines.operators import WeightedPairs
from crowdsift.numeric.likelihoods import LIKELIHOODS
from crowdsift.solvers.ep.variances import loopy_bp
from crowdsift.solvers.worker_prior import WorkerPrior, power_grid


class Slack(NamedTuple):
    """How far results may be apart: relative, and as a share of 1 + the largest entry."""

    relative: float
    absolute: float


EXACT = Slack(0.0, 0.0)
# Sums of doubles in another order.
DOUBLE = Slack(1e-9, 1e-9)
# Curvatures of votes may be kept in single precision.
SINGLE = Slack(1e-5, 1e-5)
# Sites and messages may be kept in single precision, and move what follows from them.
SITES = Slack(2e-4, 2e-5)
# Adaptive grids are placed by moments of such messages, and a grid moves by steps.
GRIDS = Slack(5e-3, 2e-3)
# Newton steps of workers end at a tolerance.
SETTLED = Slack(1e-6, 1e-6)


class Named(NamedTuple):
    name: str
    value: Any
    slack: Slack


Results = Iterator[Named]
Scenario = Callable[[Engine, int], Results]


def records(name: str, record: Any, slack: Slack) -> Results:
    """The entries of a named tuple."""
    for field, value in zip(record._fields, record, strict=True):
        yield Named(f"{name}.{field}", value, slack)


def dense(n: int, pairs: WeightedPairs) -> Any:
    """Weights of pairs as a matrix, whatever their order; those of one pair add up."""
    matrix = np.zeros((n, n))
    np.add.at(matrix, (np.minimum(*pairs[:2]), np.maximum(*pairs[:2])), pairs.weight)
    return matrix


def operator(
    name: str,
    made: Any,
    n: int,
    *,
    pairs: bool = True,
    definite: bool = True,
    slack: Slack = SINGLE,
) -> Results:
    """Everything that an operator can do."""
    v = np.random.default_rng(n).normal(size=(2, n))
    yield Named(f"{name}.diagonal", made.diagonal(), slack)
    for at in (0, 1):
        yield Named(f"{name}.multiply", made.multiply(v[at]), slack)
    if pairs:
        yield Named(f"{name}.pairs", dense(n, made.pairs()), slack)
    if definite:
        solution = made.solve(v[0], v[1], shift=0.7, tolerance=1e-12)
        assert solution.converged
        # the matrix is known to `slack`, and its inverse is at most 1/0.7
        yield Named(f"{name}.solve", solution.x, Slack(30 * slack.relative, 30 * slack.absolute))
        assert made.solve(v[0], solution.x, shift=0.7, tolerance=1e-6).converged


# --- counts --------------------------------------------------------------------------------------


def facts(engine: Engine, seed: int) -> Results:
    """What is known without a pass."""
    known = engine.facts
    for name in ("n_items", "n_workers", "n_features", "sides_known", "ties", "n_gold"):
        yield Named(name, getattr(known, name), EXACT)
    yield Named("total_weight", known.total_weight, DOUBLE)
    yield Named("component", known.component, EXACT)


def tallies(engine: Engine, seed: int) -> Results:
    """Votes counted, for ranks of which some are equal."""
    rank = np.random.default_rng(seed).integers(1, 5, engine.facts.n_items).astype(np.float64)
    yield from records("tally", engine.counts.tally(rank), DOUBLE)


def margins(engine: Engine, seed: int) -> Results:
    x = np.random.default_rng(seed).normal(size=engine.facts.n_items)
    for prior in (0.5, 1.0):
        yield Named(f"margins({prior})", engine.counts.margins(prior).multiply(x), DOUBLE)


# --- slopes and EM -------------------------------------------------------------------------------


def _point(engine: Engine, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-3, 3, engine.facts.n_items), rng.uniform(-3, 3, engine.facts.n_workers)


def slope_likelihood(engine: Engine, seed: int) -> Results:
    yield Named("log_likelihood", engine.slopes.log_likelihood(*_point(engine, seed)), DOUBLE)


def slope_curvature(engine: Engine, seed: int) -> Results:
    """Also: an operator stays what it was when a later pass has another."""
    n = engine.facts.n_items
    before = engine.slopes.curvature(*_point(engine, seed))
    after = engine.slopes.curvature(*_point(engine, seed + 1))
    for name, found in (("before", before), ("after", after)):
        for field in ("value", "gradient", "information"):
            yield Named(f"{name}.{field}", getattr(found, field), DOUBLE)
        yield from operator(f"{name}.laplacian", found.laplacian, n)


def common_slope(engine: Engine, seed: int) -> Results:
    """The profile without a prior: one slope, given."""
    scores, _ = _point(engine, seed)
    slopes = np.full(engine.facts.n_workers, [-0.7, 0.0, 1.3][seed % 3])
    found = engine.slopes.profile(scores, slopes)
    for field in ("value", "gradient", "slopes", "curvature"):
        yield Named(field, getattr(found, field), DOUBLE)
    yield from operator("hessian", found.hessian, engine.facts.n_items, pairs=False)


def own_slopes(engine: Engine, seed: int) -> Results:
    """The profile with a prior: every slope at its optimum."""
    scores, slopes = _point(engine, seed)
    found = engine.slopes.profile(scores, slopes, SlopePrior(0.8, 2.0, 1e-9))
    for field in ("value", "gradient", "slopes", "curvature"):
        yield Named(field, getattr(found, field), SETTLED)
    # A Schur complement that need not be positive: no solves
    yield from operator("hessian", found.hessian, len(scores), pairs=False, definite=False)


def coarse_profile(engine: Engine, seed: int) -> Results:
    """A gradient that need not resolve steps below 1e-3 is exact to a tenth of such a step."""
    scores, slopes = _point(engine, seed)
    for prior in (None, SlopePrior(0.8, 2.0, 1e-9)):
        start = slopes if prior else np.ones(len(slopes))
        found = engine.slopes.profile(scores, start, prior, resolution=1e-3)
        size = 1.0 + found.hessian.diagonal()
        yield Named("step", found.gradient / size, Slack(0.0, 1e-4))
        yield Named("value", found.value, Slack(1e-5, 1e-5))


def expectation_maximisation(engine: Engine, seed: int) -> Results:
    """An E-step, its item system, and regressions of workers with theirs."""
    scores, slopes = _point(engine, seed)
    n = len(scores)
    step = engine.em.e_step(scores, slopes)
    yield Named("log_likelihood", step.log_likelihood, DOUBLE)
    yield Named("precision", step.precision, SINGLE)
    before = step.system
    for ridge in (1.0, 0.1):
        found, system = step.regress(scores[::-1].copy(), ridge)
        yield Named(f"slopes({ridge})", found, SINGLE)
        yield Named(f"rhs({ridge})", system.rhs, SINGLE)
        yield from operator(f"laplacian({ridge})", system.laplacian, n)
    yield Named("system.rhs", before.rhs, SINGLE)
    yield from operator("system.laplacian", before.laplacian, n)


# --- likelihoods ---------------------------------------------------------------------------------


def _parameters(engine: Engine, name: str) -> int:
    """How many a worker has; 0 where the votes do not have what the likelihood needs."""
    features = engine.facts.n_features
    return {"led-logit": (1 + features) * (features > 0), "shifted-logit": features}.get(name, 1)


def likelihood_derivatives(engine: Engine, seed: int) -> Results:
    """Value and derivatives of every likelihood, and the matrices that they leave."""
    rng = np.random.default_rng(seed)
    n, m = engine.facts.n_items, engine.facts.n_workers
    for name in sorted(LIKELIHOODS):
        p = _parameters(engine, name)
        if not p:
            continue
        scores, most = rng.uniform(-3, 3, n), 1.0 if name == "flipped-logit" else 2.0
        theta = rng.uniform(0.05, 0.95, (m, p)) * most
        found = engine.likelihood.derivatives(name, scores, theta)
        for field in ("value", "items", "workers", "blocks"):
            yield Named(f"{name}.{field}", getattr(found, field), DOUBLE)
        inverse = rng.normal(size=(m, p, p))
        inverse = inverse @ inverse.transpose(0, 2, 1)
        reduced = found.hessian.reduced(inverse)
        yield from operator(f"{name}.reduced", reduced, n, pairs=False, definite=False)
        yield from operator(f"{name}.laplacian", found.hessian.reduced(None), n, definite=False)


def likelihood_workers(engine: Engine, seed: int) -> Results:
    """Workers' parameters at the maximum of their penalised likelihood, within bounds.

    A likelihood may have several maxima; with a strong prior it has one.
    """
    rng = np.random.default_rng(seed)
    n, m = engine.facts.n_items, engine.facts.n_workers
    for name in sorted(LIKELIHOODS):
        p = _parameters(engine, name)
        if not p:
            continue
        bounds = (0.05, 0.95) if name == "flipped-logit" else (-np.inf, np.inf)
        found = engine.likelihood.fit_workers(
            name, rng.uniform(-1, 1, n), np.full((m, p), 0.6), centre=np.full(p, 0.5),
            penalty=40.0, bounds=bounds, tolerance=1e-9,
        )  # fmt: skip
        yield Named(name, found, SETTLED)


# --- expectation propagation ---------------------------------------------------------------------


class Ground(NamedTuple):
    """A grid of types, a prior over it, and means of the items at two times."""

    levels: Any
    prior: Any
    means: Any
    types: Any


def _ground(engine: Engine, seed: int) -> Ground:
    rng = np.random.default_rng(seed)
    types = SHAPES[seed % len(SHAPES)]
    levels = power_grid(int(rng.choice([5, 11, 17, 41, 49, 51])))  # lanes full and not
    prior = rng.dirichlet(np.full(types.n_types(levels), 0.5)) + 1e-6
    return Ground(levels, prior / prior.sum(), rng.uniform(-2, 2, (2, engine.facts.n_items)), types)


def _own_priors(engine: Engine, ground: Ground, seed: int) -> WorkerPriors:
    rng = np.random.default_rng(seed)
    crowd = engine.facts.n_workers - engine.facts.n_gold
    masses = rng.dirichlet(np.full(len(ground.prior), 0.5), crowd) + 1e-6
    return WorkerPriors(masses, rng.normal(size=crowd), rng.uniform(0.1, 1.0, crowd))


def _started(engine: Engine, ground: Ground, clip: bool = True) -> Any:
    """Sites after one full update."""
    sites = engine.grid.sites(ground.types, 1.5)
    sites.update(ground.levels, ground.prior, ground.means[0], damping=1.0, clip=clip, side=SIDE)
    return sites


def _exact_variances(engine: Engine, sites: Any, effect: float = 0.0) -> tuple[Any, Any, float]:
    """The system with variances from a factorisation set; those of items, log-determinant."""
    system = sites.system(sites.pair_sums(), effect)
    low, high, weight = system.laplacian.pairs()
    made = engine.grid.factoriser(low, high, engine.facts.n_items, 1e12)
    items, pairs, log_determinant, definite = made(weight)
    assert definite
    sites.set_pair_variances(pairs)
    return system, items, log_determinant


def by_pair(n: int, found: Any) -> Any:
    """Posteriors of pairs by the codes of their items, the lower first, whatever their order."""
    table = np.full((2, n, n), np.nan)
    back = found.first > found.second
    low, high = np.where(back, found.second, found.first), np.where(back, found.first, found.second)
    mean = np.where(back, -found.mean, found.mean)
    table[:, low, high] = mean, found.variance
    # what several shards have they have alike
    np.testing.assert_allclose(table[0][low, high], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table[1][low, high], found.variance, rtol=1e-5, atol=1e-5)
    return table


def by_vote(sites: Any) -> Results:
    """Sites of votes in the order of worker, winner, loser and kind."""
    found = sites.vote_sites()
    worker = np.repeat(np.arange(len(found.held)), found.held)
    order = np.lexsort((found.kind, found.loser, found.winner, worker))
    yield Named("sites.held", found.held, EXACT)
    for field in ("winner", "loser", "kind"):
        yield Named(f"sites.{field}", getattr(found, field)[order], EXACT)
    for field in ("tau", "nu", "side_tau", "side_nu"):
        yield Named(f"sites.{field}", getattr(found, field)[order], SITES)
    for field in ("low", "high"):
        yield Named(f"sites.{field}", getattr(found, field), GRIDS)


def _summary(engine: Engine, sites: Any, ground: Ground, own: Any = None) -> Results:
    """Everything that can be asked of sites after a pass."""
    n = engine.facts.n_items
    everyone = slice(engine.facts.n_workers)
    yield Named("type_counts", sites.type_counts(ground.prior[::-1].copy()), SITES)
    told = sites.posteriors(ground.prior, everyone, own)
    yield Named("points", told.points, GRIDS)
    yield Named("masses", told.masses, SITES)
    some = slice(engine.facts.n_workers // 2, engine.facts.n_workers)
    assert np.array_equal(sites.posteriors(ground.prior, some, own).masses, told.masses[some])
    system = sites.system(sites.pair_sums())
    yield Named("rhs", system.rhs, SITES)
    yield from operator("laplacian", system.laplacian, n, definite=False, slack=SITES)
    pairs = sites.pair_posteriors(ground.means[1])
    yield Named("pairs", by_pair(n, pairs), SITES)
    yield from by_vote(sites)


def _weighed(engine: Engine, name: str, update: Any) -> Results:
    """An update; every vote adds its error to sums over votes."""
    votes = 1.0 + engine.facts.total_weight
    for field in ("log_messages", "log_sites", "gold_margin"):
        yield Named(f"{name}.{field}", getattr(update, field) / votes, SITES)
    for field in ("counts", "regular", "side_tau", "side_nu"):
        yield Named(f"{name}.{field}", getattr(update, field), SITES)


def site_updates(engine: Engine, seed: int) -> Results:
    """Two updates with exact variances between them, then all that sites can be asked."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    sites = engine.grid.sites(types, 1.5)
    for field in ("n_votes", "n_pairs"):
        yield Named(field, getattr(sites, field), EXACT)
    assert sites.pairs_held >= sites.n_pairs
    first = sites.update(levels, prior, means[0], damping=1.0, clip=True, side=SIDE)
    yield from _weighed(engine, "first", first)
    system, items, log_determinant = _exact_variances(engine, sites)
    yield Named("system.rhs", system.rhs, SITES)
    yield from operator("system", system.laplacian, engine.facts.n_items, slack=SITES)
    yield Named("items", items, SITES)
    yield Named("log_determinant", log_determinant, SITES)
    clip = bool(seed % 2)
    second = sites.update(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE)
    yield from _weighed(engine, "second", second)
    yield from _summary(engine, sites, ground)


def pair_effects(engine: Engine, seed: int) -> Results:
    """An effect of every pair, on a copy: what it adds, and that the sites stay as they are."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    n, votes = engine.facts.n_items, 1.0 + engine.facts.total_weight
    effect = [0.01, 0.3, 4.0][seed % 3]
    sites = _started(engine, ground)
    before = sites.system(sites.pair_sums())
    twin = sites.copy()
    system, items, log_determinant = _exact_variances(engine, twin, effect)
    yield Named("rhs", system.rhs, SITES)
    yield Named("log_pairs", system.log_pairs / votes, SITES)
    yield from operator("effect", system.laplacian, n, slack=SITES)
    yield Named("items", items, SITES)
    yield Named("log_determinant", log_determinant, SITES)
    found = twin.pair_posteriors(means[1])
    yield Named("pairs", by_pair(n, found), SITES)
    yield Named("slope", found.slope / votes**2, SITES)
    update = twin.update(levels, prior, means[1], damping=0.5, clip=bool(seed % 2), side=SIDE)
    yield from _weighed(engine, "update", update)
    twin.transform(scale=1.25)
    rescaled = twin.system(twin.pair_sums(), effect / 1.25**2)
    yield Named("rescaled.rhs", rescaled.rhs, SITES)
    yield from operator("rescaled", rescaled.laplacian, n, definite=False, slack=SITES)
    after = sites.system(sites.pair_sums())
    np.testing.assert_array_equal(after.rhs, before.rhs)
    assert after.log_pairs == before.log_pairs == 0.0
    yield from _summary(engine, sites, ground)


def transforms(engine: Engine, seed: int) -> Results:
    """Sites in other units, of the other sign, without negative precisions, with their grids."""
    ground = _ground(engine, seed)
    n = engine.facts.n_items
    sites = _started(engine, ground, clip=False)
    _with_adaptive_grids(engine, sites, ground)
    for step in ({"scale": 1.25}, {"flip": True}, {"clip": True}, {"scale": 0.5, "grids": True}):
        sites.transform(**step)
        (name,) = list(step)[:1]
        system = sites.system(sites.pair_sums())
        yield Named(f"{name}.rhs", system.rhs, SITES)
        yield from operator(name, system.laplacian, n, definite=False, slack=SITES)
        yield Named(f"{name}.pairs", by_pair(n, sites.pair_posteriors(ground.means[1])), SITES)
        yield from by_vote(sites)
    assert (system.laplacian.diagonal() >= 0.0).all()


def _with_adaptive_grids(engine: Engine, sites: Any, ground: Ground) -> None:
    """The first worker has a grid of its own, unless it is gold."""
    m, crowd = engine.facts.n_workers, engine.facts.n_workers - engine.facts.n_gold
    own = np.arange(m) < min(1, crowd)
    low, high = (np.where(own, end, np.nan) for end in (0.5, 1.5))
    sites.set_vote_sites(sites.vote_sites()._replace(low=low, high=high), len(ground.levels))


def worker_priors(engine: Engine, seed: int) -> Results:
    """Priors of workers' own, with an adaptive grid; rows of the common prior are that prior."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    own = _own_priors(engine, ground, seed)
    sites = engine.grid.sites(types, 1.5)
    first = sites.update(levels, prior, means[0], damping=1.0, clip=True, side=SIDE, own=own)
    yield from _weighed(engine, "first", first)
    _with_adaptive_grids(engine, sites, ground)
    clip = bool(seed % 2)
    second = sites.update(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE, own=own)
    yield from _weighed(engine, "second", second)
    yield from _summary(engine, sites, ground, own)
    crowd = len(own.masses)
    common = WorkerPriors(
        np.tile(prior, (crowd, 1)), np.full(crowd, SIDE.mean), np.full(crowd, SIDE.variance)
    )
    third, again = (
        sites.update(levels, prior, means[0], damping=0.0, clip=clip, side=SIDE, own=each)
        for each in (None, common)
    )
    for one, other in zip(third, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=SITES.relative, atol=SITES.absolute)
    yield Named("third", third.log_messages / (1.0 + engine.facts.total_weight), SITES)


def some_workers(engine: Engine, seed: int) -> Results:
    """An update of the sites of some workers alone."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    sites = _started(engine, ground, clip=False)
    chosen = np.random.default_rng(seed).random(engine.facts.n_workers) < 0.5
    before = sites.vote_sites()
    update = sites.update(
        levels, prior, means[1], damping=1.0, clip=False, side=SIDE, workers=chosen
    )
    yield from _weighed(engine, "update", update)
    after = sites.vote_sites()
    still = ~chosen[np.repeat(np.arange(len(chosen)), after.held)]
    for field in ("tau", "nu", "side_tau", "side_nu"):
        np.testing.assert_array_equal(getattr(after, field)[still], getattr(before, field)[still])
    system = sites.system(sites.pair_sums())
    yield Named("rhs", system.rhs, SITES)
    yield from by_vote(sites)


def vote_sites(engine: Engine, seed: int) -> Results:
    """Sites and adaptive grids taken over by new sites go on alike."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    sites = _started(engine, ground)
    _with_adaptive_grids(engine, sites, ground)
    twin = engine.grid.sites(types, 1.5)
    twin.set_vote_sites(sites.vote_sites(), len(levels))
    for one, two in zip(sites.vote_sites(), twin.vote_sites(), strict=True):
        np.testing.assert_array_equal(one, two)
    twin.system(twin.pair_sums())
    update = twin.update(levels, prior, means[1], damping=0.5, clip=True, side=SIDE)
    yield from _weighed(engine, "update", update)
    yield from _summary(engine, twin, ground)


def suspended(engine: Engine, seed: int) -> Results:
    """Sites that were suspended go on where they were, when their variances are found anew."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    kept, sites = (_started(engine, ground) for _ in range(2))
    sites.suspend()
    _started(engine, ground)  # another run meanwhile
    updates = []
    for each in (kept, sites):
        _exact_variances(engine, each)
        updates.append(each.update(levels, prior, means[1], damping=0.5, clip=True, side=SIDE))
    for one, two in zip(*updates, strict=True):
        np.testing.assert_array_equal(one, two)
    yield from _weighed(engine, "update", updates[1])
    yield from _summary(engine, sites, ground)


def belief_propagation(engine: Engine, seed: int) -> Results:
    """Sweeps one by one, then to the end from no messages and from earlier ones."""
    ground = _ground(engine, seed)
    n = engine.facts.n_items
    sites = _started(engine, ground)
    laplacian = sites.system(sites.pair_sums()).laplacian
    D, messages = 1.0 + laplacian.diagonal(), np.zeros(n)
    for sweep in range(3):
        found = sites.propagate(D - messages, np.zeros(n), fresh=sweep == 0)
        messages = found.sums
        yield Named(f"sweep {sweep}", messages, SITES)
        yield Named("improper", found.improper, EXACT)
    variances, sums = loopy_bp(sites, laplacian.diagonal(), None)
    # 30 sweeps need not be enough on a small dense graph: what they reach is the same
    for field in ("items", "log_determinant", "definite"):
        yield Named(f"loopy.{field}", getattr(variances, field), SITES)
    if variances.definite:
        yield Named("loopy.pairs", by_pair(n, sites.pair_posteriors(ground.means[0])), SITES)
        again, _ = loopy_bp(sites, laplacian.diagonal(), sums)
        yield Named("again.items", again.items, SITES)
        last = sites.propagate(D - sums, np.zeros(n), last=True)
        yield Named("degrees", last.degrees, EXACT)


def correlations(engine: Engine, seed: int) -> Results:
    found = engine.grid.correlations()
    x = np.random.default_rng(seed).normal(size=engine.facts.n_items)
    yield Named("multiply", found.multiply(x), SINGLE)
    yield Named("diagonal", found.diagonal(), SINGLE)


def predictions(engine: Engine, seed: int) -> Results:
    """The likelihood of votes given points of workers."""
    rng = np.random.default_rng(seed)
    types = SHAPES[seed % len(SHAPES)]
    m, n = engine.facts.n_workers, engine.facts.n_items
    points = WorkerPoints(
        rng.normal(size=(m, 7)),
        rng.choice(types.widths, (m, 7)),
        rng.normal(size=(m, 7)) * types.sides,
        rng.uniform(0, 1, (m, 7)) * types.sides,
    )
    scores = rng.uniform(-3, 3, n)
    sites = engine.grid.sites(types, 2.0)
    first, second = sites.pair_posteriors(np.zeros(n))[:2]
    variances = 0.1 + 0.2 * ((first + second) % 5)
    found = sites.pair_likelihood(scores[first] - scores[second], variances, points)
    yield Named("pair_likelihood", found, SINGLE)


def factorisations(engine: Engine, seed: int) -> Results:
    """Exact variances with weights of both signs, and of a matrix that is not definite."""
    n = engine.facts.n_items
    rng = np.random.default_rng(seed)
    compared = dense(n, engine.slopes.curvature(*_point(engine, seed)).laplacian.pairs()) > 0.0
    low, high = (ends.astype(np.uint32) for ends in np.nonzero(compared))
    low, high = np.append(low, low[:1]), np.append(high, high[:1])  # one of them twice
    made = engine.grid.factoriser(low, high, n, 1e12)
    share = rng.uniform(-0.3, 2.0, len(low)) / (1.0 + np.max(np.bincount(np.append(low, high))))
    for name, weight in (("definite", share), ("indefinite", -1000.0 * np.abs(share))):
        items, pairs, log_determinant, definite = made(weight)
        yield Named(f"{name}.definite", definite, EXACT)
        if definite:
            yield Named(f"{name}.items", items, DOUBLE)
            yield Named(f"{name}.pairs", pairs, DOUBLE)
            yield Named(f"{name}.log_determinant", log_determinant, DOUBLE)


def adaptive_grids(engine: Engine, seed: int) -> Results:
    """Few workers with many votes, whose likelihoods are narrower than a cell of the grid."""
    levels = power_grid(25)
    prior = WorkerPrior.start(levels, 1.0, 0.5).masses
    means = np.linspace(-1, 1, engine.facts.n_items)
    sites = engine.grid.sites(RELIABILITY_ONLY, 2.0)
    for step in range(3):
        update = sites.update(levels, prior, means, damping=0.5, clip=True, side=SIDE)
        yield Named(f"moved {step}", sites.refine(), EXACT)
    told = sites.posteriors(prior, slice(engine.facts.n_workers))
    yield Named("counts", update.counts, GRIDS)
    yield Named("log_messages", update.log_messages, GRIDS)
    yield Named("points", told.points, GRIDS)
    yield Named("masses", told.masses, GRIDS)
    yield Named("type_counts", sites.type_counts(prior), GRIDS)
    spread = np.ptp(told.points[:, len(levels) + 1 :], axis=1)
    assert (spread < 2.0).all()  # every worker has a grid of its own
    np.testing.assert_allclose(update.counts.sum(), engine.facts.n_workers, rtol=1e-5)


def contexts(engine: Engine, seed: int) -> Results:
    """Workers in contexts as workers, gold the same in all."""
    found = engine.by_context()
    yield Named("worker", found.worker, EXACT)
    yield Named("context", found.context, EXACT)
    for scenario in (facts, tallies, site_updates, slope_curvature):
        for name, value, slack in scenario(found.engine, seed):
            yield Named(f"{scenario.__name__}.{name}", value, slack)


# Scenarios for any votes, by the capability that they need.
SCENARIOS: dict[str, tuple[Scenario, ...]] = {
    "counts": (facts, tallies, margins),
    "slopes": (slope_likelihood, slope_curvature, common_slope, own_slopes, coarse_profile),
    "em": (expectation_maximisation,),
    "likelihood": (likelihood_derivatives, likelihood_workers),
    "grid": (
        site_updates, pair_effects, transforms, worker_priors, some_workers, vote_sites, suspended,
        belief_propagation, correlations, predictions, factorisations,
    ),
}  # fmt: skip
