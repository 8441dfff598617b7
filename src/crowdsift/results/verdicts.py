"""A verdict for every worker, by evidence, intervals and agreement with others.

Evidence, for methods without worker types. With the scores held fixed, a type is a reliability β on a grid, or a
preference for one side that ignores the items. The share of every type among workers is learned by EM, as in `sift`,
and b is the median of its positive part. Types are adversarial for β < -b/4, random for |β| ≤ b/4, informative for β >
b/4, and one-sided. The methods themselves judge a worker with one vote by a normal approximation around it; here one
vote is one factor of a likelihood.

Only decided votes count: a tie is no evidence against anybody. A vote is a slip in 2 % of the cases, so that no single
vote accuses, and differences shrink according to their error.

Agreement of workers with the order that the votes of others imply. The scores are those of all votes. One Newton step
from them leaves a worker's own votes out. Let Λ be the curvature of the objective in a component, and Λ_s and g_s the
contributions of the worker's votes to it and to the gradient: scores of the others are m - (Λ - Λ_s)⁻¹ g_s.
Votes on pairs that no chain of the others' votes connects do not count. For large components, and for methods that
treat all workers alike, the order is that of all votes, and pairs with an item that no other worker has judged do not
count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift._core import judged_by_one
from crowdsift.numeric import MIN_LOG_BAYES_FACTOR, Indices, Labels, Mask
from crowdsift.numeric.likelihoods import LOGISTIC_SMOOTHING, sigmoid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from crowdsift.numeric import Vector
    from crowdsift.numeric.distributions import Distribution
    from crowdsift.results.build import FitBuilder

    Codes = Indices
    AnyCodes = NDArray[np.integer]

MIN_VOTES = 5.0  # least votes for a verdict other than undecided
MAX_USEFUL = 0.1  # probability of being informative above which a worker is not accused
MIN_DISTINCT = 0.9  # probability of weighing mostly other things above which a worker is distinct
LITTLE = 0.5  # share of the typical reliability: a worker surely below it is weak, or random
MIN_SIDE_INFORMATION = 0.5  # share of an unbiased worker's information below which a worker is one-sided
ACCUSED = ("random", "one-sided", "adversarial")
SURE, ENOUGH = 0.99, 20  # least probability of a verdict, and least votes, for "block"
MAX_ABOVE_RANDOM = 0.75  # probability of beating random clicks above which a random worker is not blocked
MIN_LEAN = 0.25  # least distance of the share of left answers from one half for one-sided workers
_LOGISTIC_VARIANCE = 8.0 / np.pi  # variance of the Gaussian that replaces σ


def words_of(
    evidence: Vector,
    useful: Vector,
    typical: float,
    intervals: Sequence[tuple[Vector, Vector]],
    votes: Vector,
    agreement: Vector,
    left_share: Vector,
    one_sided: Mask,
    distinct: Vector | None = None,
) -> Labels:
    """Return a verdict for every worker; the rule is the same for all methods."""
    # Every verdict but `undecided` takes 5 decided votes and evidence: the averaged likelihood of the worker's own
    # votes under a class of types must be 3 nats above that under another class. No verdict contradicts the figures
    # beside it in a table. The interval must agree with it at the level of the table and at 90 %, and the agreement
    # with others must not be on the other side of one half. No worker is accused who is useful with a probability above
    # 10 %. The table of verdicts in docs/results-of-a-fit.md has the rule of each: `one-sided` is checked first, then
    # `distinct` (in several dimensions), `adversarial`, `random`, `weak` and `reliable`. `evidence` holds logarithms of
    # averaged likelihoods, columns adversarial, random, informative and perhaps one-sided; it is -inf for adversarial
    # types if there is no common direction.
    adversarial, random, informative = evidence[:, :3].T
    above, below, inside, little = (np.ones(len(votes), bool) for _ in range(4))
    for lower, upper in intervals:
        above &= lower > 0.0
        below &= upper < 0.0
        little &= upper < LITTLE * typical
        inside &= (lower <= 0.0) & (upper >= 0.0) & (lower > -LITTLE * typical)
    no_use, in_doubt = np.maximum(adversarial, random) - informative, useful <= MAX_USEFUL
    against = (adversarial - informative >= MIN_LOG_BAYES_FACTOR) & (adversarial >= random)
    words = np.full(len(votes), "undecided", dtype=object)
    follows = above & ~(agreement <= 0.5)
    words[follows & (no_use <= -MIN_LOG_BAYES_FACTOR)] = "reliable"
    by_random = random - informative >= MIN_LOG_BAYES_FACTOR
    words[follows & (little | by_random)] = "weak"
    words[inside & little & by_random & in_doubt] = "random"
    words[below & against & in_doubt & ~(agreement >= 0.5)] = "adversarial"
    if distinct is not None:
        explained = np.maximum(adversarial, informative) - random >= MIN_LOG_BAYES_FACTOR
        words[explained & (words == "random")] = "undecided"
        words[explained & (distinct >= MIN_DISTINCT)] = "distinct"
    if evidence.shape[1] > 3:
        ahead = evidence[:, 3] - evidence[:, :3].max(axis=1)
        one_sided = one_sided | ((ahead >= MIN_LOG_BAYES_FACTOR) & in_doubt)
    words[one_sided & (np.abs(left_share - 0.5) >= MIN_LEAN)] = "one-sided"
    words[votes < MIN_VOTES] = "undecided"
    return words


# Names of language models. All judges count as models if at least half of the names match.
_MODELS = re.compile(
    r"gpt|claude|gemini|gemma|llama|mi[sx]tral|qwen|deepseek|vicuna|command-r|palm-?2|grok|\bllm", re.IGNORECASE
)
_FOR_MODELS = {"pay": "use", "review": "review", "block": "leave out"}


def for_models(suggested: Labels, workers: Sequence[Any], panels: bool) -> Labels:
    """Return "use" and "leave out" in place of "pay" and "block" for language models; with panels, by each name."""
    named = np.array([_MODELS.search(str(worker)) is not None for worker in workers], dtype=bool)
    if not panels:
        named[:] = named.any() and 2 * named.sum() >= len(named)
    return np.where(named, [_FOR_MODELS[each] for each in suggested], suggested)


def suggestions(words: Labels, probability: Mapping[str, Vector], votes: Vector, above: Vector) -> Labels:
    """Return pay, review or block for every worker: see `reasons.decisions`."""
    result = np.full(len(words), "pay", dtype=object)
    for word, sure in probability.items():
        block = (sure >= SURE) & (votes >= ENOUGH)
        if word == "random":
            block &= ~(above > MAX_ABOVE_RANDOM)
        result[words == word] = np.where(block, "block", "review")[words == word]
    return result


def side_information(reliability: Vector, side: Vector, spread: float) -> Vector:
    """Return the information about items as a share of that without a side bias."""
    # A vote σ(βd + γ) has the information β²E[σ'(βd + γ)] about d, with d of variance `spread` among pairs. With a
    # Gaussian in place of σ' the share is exp(-γ²/(2(8/π + β² spread))).
    return np.exp(-0.5 * side**2 / (_LOGISTIC_VARIANCE + reliability**2 * spread))


def shares(below: Distribution, typical: float) -> tuple[Vector, Vector, Vector]:
    """Return every worker's probabilities of being adversarial, random and reliable."""
    # Random is within a quarter of the typical reliability around 0.
    zone = 0.25 * typical
    adversarial, reliable = below(-zone), 1.0 - below(zone)
    return adversarial, np.clip(1.0 - adversarial - reliable, 0.0, 1.0), reliable


def class_shares(evidence: Vector) -> Vector:
    """Return every worker's probabilities of the classes; the shares of the classes among workers are learned."""
    prior = np.array(_SHARES)[: evidence.shape[1]]
    logs = np.maximum(evidence, -1e300)
    weights = _by_em(logs, prior / prior.sum())
    joint = np.exp(logs - logs.max(axis=1, keepdims=True)) * weights
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


_STEPS = 2.0 ** np.arange(-3.0, 2.0, 0.5)  # reliabilities of types, in units of a first guess of b
_LEANS = np.array([-1.5, -0.75, 0.0, 0.75, 1.5])  # leans to the left of types, in logits
_USUAL_LEAN = 0.5  # their standard deviation before votes
_SIDES = np.array([0.8, 0.9, 0.97, 0.2, 0.1, 0.03])  # P(left) of one-sided types
_SHARES = (0.1, 0.17, 0.7, 0.03)  # prior shares of the classes
_PRIOR_WORKERS = 20.0  # number of workers that these shares count as
_SLIPS = 0.02
_BINS = 129  # bins of differences
_NUMBERS = 8_000_000  # numbers in an array over workers and bins at a time
_ROWS = 1 << 20  # votes processed at a time
_LEARNED_FROM = 20_000  # most workers from which shares are learned; of more, a part is used
_ITERATIONS = 60
_NORMAL_FROM = 20.0  # votes of a worker from which on a normal approximation replaces them
_MOST_VOTES = 1e6  # most votes of a worker, so that no sum of weights overflows


class VoteEvidence(NamedTuple):
    """A row per worker, columns adversarial, random, informative and, with sides, one-sided.

    `evidence` holds logarithms of averaged likelihoods, up to a constant a worker, `posterior` the probabilities of the
    classes by what the crowd is like; `typical` is b.
    """

    evidence: Vector
    posterior: Vector
    typical: float


def vote_evidence(fitted: FitBuilder) -> VoteEvidence | None:
    """Return the evidence of every worker's votes; None if no worker defines a scale."""
    votes, result = fitted.votes, fitted.estimate.workers
    assert result.reliability is not None
    beta = result.reliability - result.random_level
    sure = np.abs(beta) > 0.0
    guess = float(np.median(np.abs(beta[sure]))) if sure.any() else 0.0
    if not 0.0 < guess < np.inf:
        return None
    levels = guess * np.concatenate([-_STEPS[::-1], [0.0], _STEPS])
    leans = np.zeros(1)
    if votes.elsewhere is None:
        leans = _LEANS if votes.sides_known else leans
        logs = _log_likelihoods(fitted, levels, leans)
    else:  # the rows are on other machines
        assert result.reliability_sd is not None
        distance = (levels - beta[:, None]) / np.maximum(result.reliability_sd, 1e-12)[:, None]
        logs = np.where(fitted.votes.loads[:, None] < _NORMAL_FROM, 0.0, -0.5 * distance**2)
        logs -= logs.max(axis=1, keepdims=True)
    level, lean = np.repeat(levels, len(leans)), np.tile(leans, len(levels))
    sides = logs.shape[1] - len(level)
    weights = _learned(logs, level, lean, guess)
    of_level = weights[: len(level)].reshape(len(levels), -1).sum(axis=1)
    up, down = of_level[levels > 0], of_level[levels < 0][::-1]
    chosen = up if up.sum() >= down.sum() else down
    reached = np.cumsum(chosen) - 0.5 * chosen
    typical = float(np.interp(0.5 * chosen.sum(), reached, guess * _STEPS))
    of_class = np.append(_classes(level, typical), np.full(sides, 3))
    joint = weights[:, None] * (of_class[:, None] == np.arange(4 if sides else 3))
    parts = np.array_split(logs, -(-len(logs) // _LEARNED_FROM))
    masses = np.concatenate([np.exp(part.astype(np.float64)) @ joint for part in parts])
    evidence = np.log(np.maximum(masses / np.maximum(joint.sum(axis=0), 1e-300), 1e-300))
    return VoteEvidence(evidence, masses / masses.sum(axis=1, keepdims=True), typical)


def _classes(levels: Vector, typical: float) -> Vector:
    zone = 0.25 * typical
    return np.where(levels < -zone, 0, np.where(levels > zone, 2, 1))


def _learned(logs: NDArray[np.floating], level: Vector, lean: Vector, guess: float) -> Vector:
    of_class = _classes(level, guess)
    usual = np.exp(-0.5 * lean**2 / _USUAL_LEAN**2)
    usual[(of_class == 1) & (np.abs(lean) > 1.0)] = 0.0  # such workers are one-sided
    of_class = np.append(of_class, np.full(logs.shape[1] - len(level), 3))
    usual = np.append(usual, np.ones(len(of_class) - len(level)))
    prior = np.array(_SHARES)[of_class] * usual / np.bincount(of_class, usual, 4)[of_class]
    return _by_em(logs, prior / prior.sum())


def _by_em(logs: NDArray[np.floating], prior: Vector) -> Vector:
    """Return the shares of components of a mixture, from the log-likelihoods of every worker."""
    some = logs[:: -(-len(logs) // _LEARNED_FROM)].astype(np.float64)
    likelihood = np.exp(some - some.max(axis=1, keepdims=True))
    weights = prior
    for _ in range(_ITERATIONS):
        counts = weights * (likelihood.T @ (1.0 / (likelihood @ weights)))
        weights = (counts + _PRIOR_WORKERS * prior) / (len(some) + _PRIOR_WORKERS)
    return np.asarray(weights)


def _log_likelihoods(fitted: FitBuilder, levels: Vector, leans: Vector) -> NDArray[np.float32]:
    # A row per worker, its largest value 0. Votes are counted by whether the left item was chosen and in bins of the
    # difference in favour of the chosen item.
    votes, level = fitted.votes, fitted.estimate.workers.random_level
    far = max(float(np.ptp(fitted.estimate.scores)), 1e-12)
    at = np.linspace(-far, far, _BINS)
    grid = np.stack([fitted.model.probability(at, np.full(_BINS, level + each)) for each in levels], axis=1)
    grid = np.clip(grid, 0.0, 1.0)[None, :, :, None]
    odds = np.exp(np.stack([-leans, leans]))[:, None, None, :]
    chance = grid * odds / (grid * odds + 1.0 - grid)
    table = np.log((1.0 - _SLIPS) * chance + 0.5 * _SLIPS).reshape(2 * _BINS, -1)
    differences = _differences(fitted, float(levels[-1]) / _STEPS[-1])
    sided = int(votes.sides_known)
    result = np.zeros((votes.n_workers, table.shape[1] + len(_SIDES) * sided), np.float32)
    step = max(_NUMBERS // (2 * _BINS), 1)
    for begin in range(0, votes.n_workers, step):
        end = min(begin + step, votes.n_workers)
        counts = np.zeros((end - begin) * 2 * _BINS)
        last = int(votes.offsets[end])
        for start in range(int(votes.offsets[begin]), last, _ROWS):
            rows = slice(start, min(start + _ROWS, last))
            answer = votes.weight[rows] * (2.0 * votes.outcome[rows].astype(np.float64) - 1.0)
            ends = np.clip(votes.offsets[begin : end + 1], rows.start, rows.stop)
            worker = np.repeat(np.arange(end - begin), np.diff(ends))
            gap = np.sign(answer) * differences(votes.first[rows], votes.second[rows])
            place = np.rint((gap + far) * ((_BINS - 1) / (2.0 * far))).astype(np.int64)
            counts += np.bincount((2 * worker + (answer > 0.0)) * _BINS + place, np.abs(answer), len(counts))
        tallies = counts.reshape(-1, 2 * _BINS)
        tallies *= np.minimum(1.0, _MOST_VOTES / np.maximum(tallies.sum(axis=1, keepdims=True), 1e-300))
        logs = tallies @ table
        if sided:
            of_side = counts.reshape(-1, 2, _BINS).sum(axis=2)
            logs = np.hstack([logs, of_side @ np.log([1.0 - _SIDES, _SIDES])])
        result[begin:end] = logs - logs.max(axis=1, keepdims=True)
    return result


def _differences(fitted: FitBuilder, reliability: float) -> Callable[[AnyCodes, AnyCodes], Vector]:
    """Return a function of two arrays of items that gives differences of scores, shrunk by their error."""
    # E[σ(bd)] for d ~ N(m, v) is close to σ(b'm) with b' = b/√(1 + b²vπ/8).
    scores, sd = fitted.estimate.scores, fitted.score_sd
    if sd is None:
        return lambda first, second: scores[first] - scores[second]
    step, level = np.array([0.01, -0.01]), fitted.estimate.workers.random_level
    up, down = fitted.model.probability(step, np.full(2, level + reliability))
    slope = float(up - down) / 0.005  # in logits per unit of score
    variance = np.where(np.isfinite(sd), sd, 0.0) ** 2 * (LOGISTIC_SMOOTHING * slope**2)

    def shrunk(first: AnyCodes, second: AnyCodes) -> Vector:
        spread = np.sqrt(1.0 + variance[first] + variance[second])
        return np.asarray((scores[first] - scores[second]) / spread)

    return shrunk


_LARGEST = 64  # most items of a component in which a worker's votes are left out
_MOST_WORK = 1e8  # most multiplications in all
_BLOCK_NUMBERS = 2_000_000  # numbers in matrices at a time
_VOTES_AT_A_TIME = 1 << 22  # votes read from files at a time
_EQUAL = 1e-9  # difference of scores below which there is no order


class _Votes(NamedTuple):
    worker: Codes
    first: Codes
    second: Codes
    sign: Vector  # of the outcome for the first item, 0 for a tie
    weight: Vector
    curvature: Vector
    residual: Vector


def agreement(fitted: FitBuilder) -> Vector:
    """Return each worker's share of decided votes that agree with the order by others' votes."""
    # NaN for a worker whose votes cannot be compared.
    votes = fitted.votes
    if votes.elsewhere is not None or (votes.on_disk and len(votes) > _VOTES_AT_A_TIME):
        return fitted.counted.agreement  # of all votes: the rows are not in memory
    component = fitted.component.astype(np.int64)
    sizes = np.bincount(component)
    alone = judged_by_one(votes.first, votes.second, votes.offsets, votes.n_items) > 0
    small_ones = fitted.model.uses_workers and bool((sizes[sizes > 1] <= _LARGEST).any())
    if not small_ones and not alone.any():
        return fitted.counted.agreement
    rows, count = _votes(fitted), votes.n_workers
    gap = fitted.estimate.scores[rows.first] - fitted.estimate.scores[rows.second]
    order = np.where(np.abs(gap) > _EQUAL, np.sign(gap), 0.0)
    order[alone[rows.first] | alone[rows.second]] = 0.0
    if small_ones:
        # The votes of a worker in a component are one problem.
        key = rows.worker * len(sizes) + component[rows.first]
        problems, of_vote = np.unique(key, return_inverse=True)
        work = sizes[problems % len(sizes)].astype(np.float64) ** 3
        by_work = np.argsort(work, kind="stable")
        small = np.empty(len(work), bool)
        small[by_work] = np.cumsum(work[by_work]) <= _MOST_WORK
        small &= sizes[problems % len(sizes)] <= _LARGEST
        _leave_out(fitted, rows, problems, of_vote, small, order)
    counts = rows.weight * (rows.sign != 0) * (order != 0)
    agreed = np.bincount(rows.worker, counts * (rows.sign == order), count)
    total = np.bincount(rows.worker, counts, count)
    share = np.full(count, np.nan)
    np.divide(agreed, total, out=share, where=total > 0)
    return share


def _votes(fitted: FitBuilder) -> _Votes:
    votes, result = fitted.votes, fitted.estimate.workers
    first, second = votes.first.astype(np.int64), votes.second.astype(np.int64)
    worker = votes.worker_codes().astype(np.int64)
    weight, outcome = votes.weight.astype(np.float64), votes.outcome.astype(np.float64)
    beta = np.ones(votes.n_workers)
    if result.reliability is not None:
        beta = result.reliability - result.random_level
    slope, scores, found = beta[worker], fitted.estimate.scores, fitted.estimate.dimensions
    offset = 0.0 if found is None else found.offsets(worker, first, second)[0]
    p = sigmoid(slope * (scores[first] - scores[second]) + offset)
    return _Votes(
        worker,
        first,
        second,
        np.sign(outcome - 0.5),
        weight,
        weight * slope**2 * p * (1.0 - p),
        weight * slope * (outcome - p),
    )


def _leave_out(
    fitted: FitBuilder, votes: _Votes, problems: Codes, of_vote: NDArray[np.intp], small: Mask, order: Vector
) -> None:
    component = fitted.component.astype(np.int64)
    sizes = np.bincount(component)
    by_component = np.argsort(component, kind="stable")
    start = np.cumsum(sizes) - sizes
    place = np.empty(len(component), np.int64)
    place[by_component] = np.arange(len(component)) - np.repeat(start, sizes)
    which = problems % len(sizes)
    by_problem = np.argsort(of_vote, kind="stable")
    ends = np.cumsum(np.bincount(of_vote, minlength=len(problems)))
    precision = fitted.estimate.precision
    shift = 1.0 if precision is None else precision.shift * precision.size**2
    whole = _Laplacians(votes, component, place, sizes, shift)
    for k in np.unique(sizes[which[small]]).tolist():
        chosen = np.flatnonzero(small & (sizes[which] == k))
        step = max(_BLOCK_NUMBERS // (k * k), 1)
        for begin in range(0, len(chosen), step):
            some = chosen[begin : begin + step]
            rows = _runs(by_problem, ends, some)
            problem = np.searchsorted(some, of_vote[rows])
            one, two = place[votes.first[rows]], place[votes.second[rows]]
            left, gone = whole.without(which[some], rows, problem, one, two)
            items = by_component[start[which[some]][:, None] + np.arange(k)]
            scores = fitted.estimate.scores[items]
            ends_of = np.concatenate([problem * k + one, problem * k + two])
            residual = np.concatenate([votes.residual[rows], -votes.residual[rows]])
            gradient = np.bincount(ends_of, residual, len(some) * k).reshape(len(some), k)
            try:
                scores = scores - np.linalg.solve(left, gradient[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:  # slopes are not finite: no order is known
                continue
            gap = scores[problem, one] - scores[problem, two]
            known = gone[problem, one, two] & (np.abs(gap) > _EQUAL)
            order[rows] = np.where(known, np.sign(gap), 0.0)


class _Laplacians:
    """Curvatures of components and counts of their votes, by pair with the smaller index first."""

    def __init__(self, votes: _Votes, component: Codes, place: Codes, sizes: Codes, shift: float) -> None:
        self._votes, self._sizes, self._shift = votes, sizes, shift
        small = sizes <= _LARGEST
        self._start = np.cumsum(np.where(small, sizes**2, 0)) - np.where(small, sizes**2, 0)
        used = small[component[votes.first]]
        where = component[votes.first[used]]
        one, two = place[votes.first[used]], place[votes.second[used]]
        at = self._start[where] + np.minimum(one, two) * sizes[where] + np.maximum(one, two)
        length = int(np.where(small, sizes**2, 0).sum())
        self._weight = np.asarray(np.bincount(at, votes.curvature[used], length), np.float64)
        self._count = np.bincount(at, minlength=length)

    def without(self, which: Codes, rows: Codes, problem: Codes, one: Codes, two: Codes) -> tuple[Vector, Mask]:
        """Return the curvatures Λ - Λ_s of components of one size without a worker, and which items stay connected."""
        k = int(self._sizes[which[0]])
        each, row = np.unique(which, return_inverse=True)
        begin = self._start[each][:, None] + np.arange(k * k)
        weight, linked = self._weight[begin], self._count[begin]
        weight, linked = weight.reshape(-1, k, k), linked.reshape(-1, k, k)
        matrix: Vector = -(weight + weight.transpose(0, 2, 1))[row]
        joined = (linked + linked.transpose(0, 2, 1) > 0)[row]
        # The worker's own pairs are reduced; all others stay.
        key = (problem * k + np.minimum(one, two)) * k + np.maximum(one, two)
        pairs, of_pair = np.unique(key, return_inverse=True)
        problem, one, two = pairs // (k * k), pairs // k % k, pairs % k
        at = begin[row[problem], one * k + two]
        others = self._count[at] > np.bincount(of_pair)
        left = self._weight[at] - np.bincount(of_pair, self._votes.curvature[rows])
        left = np.where(others & (left > 0), left, 0.0)
        matrix[problem, one, two] = matrix[problem, two, one] = -left
        joined[problem, one, two] = joined[problem, two, one] = others
        items = np.arange(k)
        matrix[:, items, items] = self._shift - matrix.sum(axis=2)
        joined[:, items, items] = True
        return matrix, _connected(joined)


def _connected(linked: Mask) -> Mask:
    """Return which items a chain of links connects; every item is linked with itself."""
    n, k, _ = linked.shape
    step = linked.astype(np.float32)
    found = step[:, :1, :]
    reached, before = int(np.count_nonzero(found)), 0
    while reached > before:  # most graphs are connected: one row of each suffices
        found = (found @ step > 0).astype(np.float32)
        reached, before = int(np.count_nonzero(found)), reached
    connected = np.ones((n, k, k), bool)
    apart = np.flatnonzero(~found.all(axis=(1, 2)))
    reach = step[apart]
    for _ in range(int(np.ceil(np.log2(max(k - 1, 1)))) if len(apart) else 0):
        reach = (reach @ reach > 0).astype(np.float32)
    connected[apart] = reach > 0
    return connected


def _runs(order: Codes, ends: Codes, some: Codes) -> Codes:
    begin = np.where(some > 0, ends[some - 1], 0)
    length = ends[some] - begin
    offset = np.repeat(begin - (np.cumsum(length) - length), length)
    return np.asarray(order[np.arange(int(length.sum())) + offset])
