"""Predictions of votes, and which of two items is truly better.

For two items that were never compared the posterior of their difference is the Gaussian of the fit. For a compared pair
this is replaced by the posterior from all other votes times the likelihood of the pair's votes; see
`crowdsift.numeric.own_votes`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.models import Model
from crowdsift.models.base import WorkerPoints
from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.numeric import Indices, Mask, Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.numeric.likelihoods import normal_cdf, sigmoid
from crowdsift.numeric.own_votes import OwnVotes, chances_of_sign, few_points
from crowdsift.results.fit import Fit
from crowdsift.results.query import as_list, is_sequence, keys_of, model_of, places_of, positions
from crowdsift.results.scales import typical_reliability
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import pair_keys
from crowdsift.votes.labels import as_column, context_codes, context_parts, key_of, shown
from crowdsift.votes.pseudonyms import Hiding

_BLOCK = 4096  # pairs processed at a time
_NUMBERS = 16_384  # numbers of workers' points at a time, which fit into the cache
_MOST_NUMBERS = 50_000_000  # most votes of random workers that are predicted one by one in several dimensions


class Question(NamedTuple):
    """Differences of scores, codes of workers (-1: a random one) and of items (-1: a new one)."""

    difference: Vector
    worker: Indices
    single: bool
    first: Indices | None = None
    second: Indices | None = None


def question(fit: Fit, first: Any, second: Any, worker: Any, unknown: str = "error") -> Question:
    """Return differences of scores and codes of workers for the arguments of `predict`."""
    if unknown not in ("error", "prior"):
        raise RequestError(f"unknown must be 'error' or 'prior', not {unknown!r}")
    one, two, who = as_list(first), as_list(second), labels_of_workers(fit, worker)
    n = max(len(one), len(two), len(who))
    if {len(one), len(two), len(who)} - {1, n}:
        raise RequestError(f"{len(one)} first items, {len(two)} second ones and {len(who)} workers do not fit")
    known = places_of(fit.worker_table["worker"])
    padded = np.append(fit.item_table["score"], 0.0)  # the prior's score, for items without votes
    place = places_of(fit.labels)
    a, b = (np.broadcast_to([place.get(key, -1) for key in keys_of(side)], (n,)) for side in (one, two))
    if unknown == "error":
        _refuse_across(fit, a, b)
    codes = np.broadcast_to([known.get(key, -1) for key in keys_of(who)], (n,))
    if unknown == "error":
        _refuse_unknown([*one, *two], place, "item", "the prior's score, 0")
        named = [] if fit.worker_table.height == 0 else [each for each in who if each is not None]
        _refuse_unknown(named, known, "worker", "a worker drawn from the crowd")
    single = not is_sequence(first) and not is_sequence(second) and n == 1
    ends = () if dimensions_of(fit) is None else (np.append(item_codes(fit), -1)[s] for s in (a, b))
    difference = padded[a] - padded[b] + _bias(fit, codes, a) - _bias(fit, codes, b)
    return Question(difference, _in_context(fit, codes, a), single, *ends)


def _bias(fit: Fit, worker: NDArray[np.integer], item: Indices) -> Vector | float:
    """Return the biases of the workers' panels for items (rows; -1: new), in units of scores."""
    about, table = fit.summary.get("trusted"), fit.panel_biases
    if not about or table is None:
        return 0.0
    rows = {panel["panel"]: row for row, panel in enumerate(about["panels"])}
    # Panels of one judge each are one in the table. The last row is that of the trusted panel, and of anyone.
    own = [-1 if name in about["values"] else rows.get(name, 0) for name in fit.worker_table["panel"]]
    bias = np.zeros((len(rows) + 1, len(fit.labels) + 1))
    bias[:-1, :-1] = table["bias"].astype(np.float64).reshape(len(rows), -1) / abs(typical_reliability(fit))
    return np.asarray(bias[np.append(own, -1)[worker], item])


def dimensions_of(fit: Fit) -> DimensionEstimate | None:
    """Return the dimensions of a fit; None if it has one."""
    return None if fit.posterior is None else fit.posterior.dimensions


def labels_of_workers(fit: Fit, worker: Any, key: Any = None) -> list[Any]:
    """Return the labels of workers as the fit has them: as pseudonyms if its workers are hidden."""
    # `worker` is a label, a sequence of labels, or None for a random worker. `key` is the file of the key with which
    # workers are hidden; it is needed for labels in a fit with a key.
    hiding, labels = Hiding.of(fit.summary.get("workers_hidden")), as_list(worker)
    if key is not None:
        if hiding is None:
            raise RequestError("the workers of this fit are not hidden: leave out --hide-key")
        hiding = hiding.or_same(Hiding.of(key))
    if hiding is None:
        return labels
    return [None if label is None else hiding.pseudonym(label) for label in labels]


def _refuse_unknown(labels: list[Any], known: dict[Any, int], what: str, prior: str) -> None:
    keys = keys_of(labels)
    missing = {key: label for key, label in zip(keys, labels, strict=True) if key not in known}
    if not missing:
        return
    names = ", ".join(map(shown, list(missing.values())[:5]))
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    what = f"the {what} {names} has" if len(missing) == 1 else f"the {what}s {names}{more} have"
    raise RequestError(f"{what} no votes in this fit; unknown='prior' (--unknown prior) takes {prior}, instead")


def outcomes(fit: Fit, query: Question, *, decided: bool = False) -> Vector:
    """Return win, tie and loss, one row each; if `decided`, methods without ties omit them."""
    model = model_of(fit)
    draws = worker_draws(fit, model)
    if effect := 2.0 * float(fit.summary.get("group_effect") or 0.0):  # two items in a new group
        spread = draws.side_variance + effect * draws.reliability**2
        draws = draws._replace(side_variance=spread)
    if decided and model.tie_column == "tie_rate":
        draws = draws._replace(width=np.zeros_like(draws.width))
    result = np.empty((3, len(query.difference)))
    n_workers = max(fit.worker_table.height, 1)
    known = dimensions_of(fit)
    for begin in range(0, result.shape[1], _BLOCK):
        named = begin + np.flatnonzero(query.worker[begin : begin + _BLOCK] >= 0)
        difference, code = query.difference[named][:, None], query.worker[named]
        points, offset = WorkerPoints(*(column[code] for column in draws)), np.zeros((1, 1))
        if known is not None:
            points, offset = _shifted(known, query, named, code, points)
        parts = model.outcome_probabilities(difference, *points, offset=offset)
        result[:, named] = [np.broadcast_to(part, parts[0].shape).mean(axis=1) for part in parts]
    if known is not None:
        _by_crowd(known, query, model, WorkerPoints(*(c[:n_workers] for c in draws)), result)
        return result
    # For a random worker: the mean over all workers, computed once for every distance.
    nobody = np.flatnonzero(query.worker < 0)
    apart, place = np.unique(query.difference[nobody], return_inverse=True)
    found = np.zeros((3, len(apart)))
    voters = np.arange(n_workers)
    if about := fit.summary.get("trusted"):
        voters = np.flatnonzero(np.isin(fit.worker_table["panel"], about["values"]))
    n_points = np.broadcast(*draws).shape[1]
    for some in np.array_split(voters, -(-len(voters) * n_points // _NUMBERS)):
        columns = [column[some] for column in draws]
        step = max(_NUMBERS // (len(some) * n_points), 1)
        for begin in range(0, len(apart), step):
            at = slice(begin, begin + step)
            parts = model.outcome_probabilities(apart[at, None, None], *columns)
            found[:, at] += [np.broadcast_to(p, parts[0].shape).sum(axis=(1, 2)) for p in parts]
    result[:, nobody] = found[:, place.reshape(-1)] / (len(voters) * n_points)
    return result


def _shifted(
    known: DimensionEstimate, query: Question, rows: Indices, worker: Any, points: WorkerPoints
) -> tuple[WorkerPoints, Vector]:
    """Return the points with mean and variance of the contribution of other dimensions."""
    assert query.first is not None
    assert query.second is not None
    padded, ends = known.with_strangers(), (query.first[rows], query.second[rows])
    shape = np.broadcast_shapes(np.shape(worker), ends[0].shape)
    offset, variance = padded.offsets(*np.broadcast_arrays(np.broadcast_to(worker, shape), *ends))
    spread = points.side_variance + variance[..., None]
    return points._replace(side_variance=spread), offset[..., None]


def _by_crowd(known: DimensionEstimate, query: Question, model: Model, points: WorkerPoints, result: Vector) -> None:
    """Fill in votes of random workers: the mean over all workers, or for many pairs over a part of them."""
    nobody = np.flatnonzero(query.worker < 0)
    n_workers, n_points = np.broadcast(*points).shape
    most = max(_MOST_NUMBERS // max(len(nobody), 1), 1)
    workers = np.arange(n_workers)[:: -(-n_workers // most)]
    step = -(-n_points // max(most // len(workers), 1))
    some = WorkerPoints(
        *(np.broadcast_to(column, (n_workers, n_points))[workers, step // 2 :: step] for column in points)
    )
    size = max(_NUMBERS * 16 // some.reliability.size, 1)
    for begin in range(0, len(nobody), size):
        rows = nobody[begin : begin + size]
        shifted, offset = _shifted(known, query, rows[:, None], workers, some)
        parts = model.outcome_probabilities(query.difference[rows, None, None], *shifted, offset=offset)
        result[:, rows] = [np.broadcast_to(p, parts[0].shape).mean(axis=(1, 2)) for p in parts]


def predictions(fit: Fit, first: Any, second: Any, worker: Any, unknown: str = "error") -> Table:
    """Return one row per pair: labels, the probability of `Fit.predict`, and win, tie and loss."""
    query = question(fit, first, second, worker, unknown)
    decided, all_three = outcomes(fit, query, decided=True), outcomes(fit, query)
    columns: dict[str, Any] = {}
    one, two, who = as_list(first), as_list(second), labels_of_workers(fit, worker)
    if by := fit.context_columns:
        *values, one = context_parts(one, by)
        columns |= dict(zip(by, values, strict=True))
        two = [label[1] for label in two]
    columns |= {"first": one, "second": two}
    if any(each is not None for each in who):
        columns["worker"] = ["" if each is None else each for each in who]
    table = {name: as_column(values) for name, values in columns.items()}
    table["probability"] = decided[0] / (decided[0] + decided[2])
    return Table({**table, **dict(zip(("win", "tie", "loss"), all_three, strict=True))})


def probabilities(fit: Fit, difference: Vector, first: Indices | None = None, second: Indices | None = None) -> Vector:
    """Return P(first over second) by a random worker, for differences of scores."""
    # In several dimensions the codes of the items are needed as well.
    nobody = np.full(len(difference), -1, np.int64)
    query = Question(difference, nobody, False, first, second)
    win, _, loss = outcomes(fit, query, decided=True)
    return np.asarray(win / (win + loss))


def vote_probability(fit: Fit, votes: Comparisons) -> Vector:
    """Return P(first preferred) for every vote, from the estimate of its worker in all dimensions."""
    # NaN if an item has no votes in the fit, or if the method estimates no reliabilities.
    table, padded = fit.item_table, np.append(fit.item_table["score"].astype(np.float64), np.nan)
    held = np.append(table["comparisons"] > 0, False)
    row, own = positions(votes.items, fit.labels, missing=-1), np.full(len(votes), np.nan)
    scores = np.where(held[row], padded[row], np.nan)
    if fit.worker_table.height:
        own = fit.worker_table["reliability"].astype(np.float64)[votes.worker_codes()]
    gap, known = scores[votes.first] - scores[votes.second], dimensions_of(fit)
    gap = gap + _bias(fit, votes.worker_codes(), row[votes.first]) - _bias(fit, votes.worker_codes(), row[votes.second])
    if known is None:
        return np.asarray(model_of(fit).probability(gap, own), np.float64)
    return sigmoid(own * gap + known.offsets(votes.worker_codes(), votes.first, votes.second)[0])


def differences(fit: Fit, first: Any, second: Any) -> tuple[NDArray[Any], ...]:
    """Return rows of the item table, differences of scores and their sd, for items with votes."""
    place = places_of(fit.labels)
    try:
        one, two = (np.array([place[key] for key in keys_of(as_list(side))]) for side in (first, second))
        one, two = np.broadcast_arrays(one, two)
    except KeyError as error:
        (key,) = error.args
        name = key[1] if type(key) is tuple else key
        raise RequestError(f"{name!r} is not among the items") from None
    except ValueError:
        raise RequestError("as many first items as second ones are needed") from None
    _refuse_across(fit, one, two)
    score = fit.item_table["score"]
    return one, two, score[one] - score[two], difference_sd(fit, one, two)


def worker_draws(fit: Fit, model: Model) -> WorkerPoints:
    """Return points of every worker's posterior, one row per worker; tie rates become tie widths."""
    # If workers differ by context, rows of workers in contexts follow. Without a posterior the table's estimates are
    # the only points, and a side bias has its variance.
    table, known = fit.worker_table, fit.posterior
    height = max(table.height, 1)  # without workers: a single random worker

    def column(name: str, other: float) -> Vector:
        if name not in table or not table.height:
            return np.full((height, 1), other)
        return table[name].astype(np.float64)[:, None]

    rate = float(fit.summary.get("tie_rate") or 0.0)
    tie = column(model.tie_column, rate if model.tie_column == "tie_rate" else 0.0)
    if known is not None and known.points is not None:
        points, apart = known.points, known.in_context
        if apart is not None:
            points, tie = apart.below(points), np.concatenate([tie, tie[apart.worker]])
        return points._replace(width=points.width if model.tie_column == "tie_width" else tie)
    reliability = column("reliability", np.nan)
    if known is not None and known.quantiles is not None:
        reliability = known.quantiles
    low, side, high = (column(f"side_{name}", 0.0) for name in ("lower", "bias", "upper"))
    variance = (0.5 * (high - low) / half_width(fit.level)) ** 2
    return WorkerPoints(reliability, tie, np.nan_to_num(side), np.nan_to_num(variance))


def _in_context(fit: Fit, worker: Indices, item: Indices) -> Indices:
    """Return rows of `worker_draws` for workers at items; -1, a random worker, stays."""
    apart = None if fit.posterior is None else fit.posterior.in_context
    if fit.posterior is None or apart is None:
        return worker
    codes, labels = context_codes(fit.posterior.items), fit.labels
    context = np.array([codes[key_of(labels[i][0])] if i >= 0 else -1 for i in item.tolist()])
    rows = apart.rows(worker, context, fit.worker_table.height)
    return np.where((worker < 0) | (context < 0), worker, rows)


def _refuse_across(fit: Fit, one: Indices, two: Indices) -> None:
    """Raise an error for pairs of items that no chain of votes connects; -1 is an item without votes."""
    component = np.append(fit.item_table["component"], 0)
    across = (component[one] != component[two]) & (one >= 0) & (two >= 0)
    if not across.any():
        return
    pair = int(np.argmax(across))
    a, b, labels = one[pair], two[pair], fit.labels
    raise RequestError(
        f"{labels[a]!r} is in component {component[a]} and {labels[b]!r} in component {component[b]}: no chain of "
        "votes connects them, so they cannot be compared"
    )


def difference_sd(fit: Fit, one: Indices, two: Indices) -> Vector:
    """Return standard deviations of differences, by rows of the item table."""
    table = fit.item_table
    if fit.posterior is not None:
        codes = item_codes(fit)
        sd = fit.posterior.difference_sd(codes[one], codes[two])
    else:
        half = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
        sd = np.sqrt(half[one] ** 2 + half[two] ** 2)
    if sd is None or np.isnan(sd).any():
        raise RequestError(f"{fit.method} gives no intervals for these items")
    return np.asarray(sd)


def item_codes(fit: Fit) -> Indices:
    """Return the codes of the rows of the item table, as in the votes and the posterior."""
    items = fit.labels if fit.posterior is None else fit.posterior.items
    return positions(fit.labels, items)


_POINTS = 4  # Gauss points for a posterior of reliability alone
_JOINT = 16  # points for a posterior of reliability, tie width and side bias


class Pairs(NamedTuple):
    """Pairs of items in a query: rows of the item table, differences, and their sd."""

    first: Indices
    second: Indices
    difference: Vector
    sd: Vector


def better(fit: Fit, code: Indices, query: Pairs) -> Vector:
    """Return P(the first is truly better); `code` is the code of every row of the item table.

    The Gaussian of the difference is used if the fit does not keep the votes, if there are more than two million, and
    for methods other than sift. It is also used if votes depend on more than two items (groups, covariates, features,
    workers who differ by context).
    """
    difference, sd = query.difference, query.sd
    certain = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))  # no error at all
    ratio = np.divide(difference, sd, out=certain, where=sd > 0)
    one, two = code[query.first], code[query.second]
    found = _compared(fit, code, one, two)
    if found is None:
        return normal_cdf(ratio)
    place, votes = found
    known = (place >= 0) & (sd > 0)
    result, place, sign = np.empty(len(ratio)), place[known], np.where(one < two, 1, -1)[known]
    result[~known] = normal_cdf(ratio[~known])
    mean, variance = np.zeros(len(votes.starts)), np.ones(len(votes.starts))
    mean[place], variance[place] = sign * difference[known], sd[known] ** 2
    effect = float(fit.summary.get("pair_effect") or 0.0)
    below, above = chances_of_sign(mean, variance, votes, effect)[:, place]
    result[known] = np.where(sign > 0, above, below)
    return result


def _compared(fit: Fit, code: Indices, one: Indices, two: Indices) -> tuple[Indices, OwnVotes] | None:
    # The first item of a compared pair is the one with the smaller code.
    votes, sites = fit.votes, fit.sites
    if votes is None or sites is None or not len(one) or not _plain(fit):
        return None
    n = votes.n_items
    query, place = np.unique(pair_keys(one, two, n), return_inverse=True)
    where = _places(query, pair_keys(votes.first, votes.second, n))
    rows = np.flatnonzero((where >= 0) & (votes.weight > 0.0))
    if not len(rows):
        return None
    rows = rows[np.argsort(where[rows], kind="stable")]
    compared, starts = np.unique(where[rows], return_index=True)
    number = np.full(len(query), -1)
    number[compared] = np.arange(len(compared))
    winner, loser = code[sites.winner], code[sites.loser]
    pair = _places(query, pair_keys(winner, loser, n))
    mine = np.flatnonzero(pair >= 0)
    given = _Given(
        sites.worker[mine].astype(np.int64), pair[mine], winner[mine] < loser[mine], sites.kind[mine].astype(np.int64)
    )
    scale = float((fit.population or {}).get("scale") or 1.0)
    tau, nu = (part[mine].astype(np.float64) for part in (sites.tau, sites.nu))
    own = _own_votes(fit, votes, rows, starts, where, (given, scale**2 * tau, scale * nu))
    return None if own is None else (number[place.reshape(-1)], own)


class _Given(NamedTuple):
    """The key of a vote: worker, pair, whether its first item won, and the kind of site."""

    worker: Indices
    pair: Indices
    low_won: Mask
    kind: Indices

    def keys(self, workers: int) -> Indices:
        """Return one number per key; a tie belongs to the item shown first."""
        return ((self.pair * workers + self.worker) * 2 + self.low_won) * 4 + self.kind + 1


def _places(known: Indices, wanted: Indices) -> Indices:
    """Return the indices of numbers among ascending ones, -1 if they are missing."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _plain(fit: Fit) -> bool:
    """Return whether votes depend only on their two items under the posterior."""
    beside = fit.summary.get("group_effect"), fit.summary.get("dependent_by")
    apart = fit.posterior is None or fit.posterior.in_context is not None
    return fit.method == "sift" and not apart and not any(beside) and dimensions_of(fit) is None


def _own_votes(
    fit: Fit,
    votes: Comparisons,
    rows: NDArray[np.intp],
    starts: NDArray[np.intp],
    pair: Indices,
    sites: tuple[_Given, Vector, Vector],
) -> OwnVotes | None:
    # None if some vote has no site.
    model = model_of(fit)
    widths = model.tie_column == "tie_width" and votes.ties_are_outcomes
    outcome, weight = (part[rows].astype(np.float64) for part in (votes.outcome, votes.weight))
    tie = (outcome == 0.5) & widths
    both = (outcome > 0.0) & (outcome < 1.0) & ~tie
    entry = np.repeat(np.arange(len(rows)), 1 + both)
    lost = np.append(False, entry[1:] == entry[:-1]) | (outcome == 0.0)[entry]
    share, tie = np.where(tie, 1.0, outcome)[entry], tie[entry]
    swapped = (votes.first[rows] > votes.second[rows])[entry]
    worker = np.searchsorted(votes.offsets, rows, side="right")[entry] - 1
    kind = np.where(tie, 2, np.where(lost, -1, 1))
    low_won = lost == swapped
    given, tau, nu = sites
    known = given.keys(votes.n_workers + 1)
    order = np.argsort(known)
    mine = _Given(worker, pair[rows][entry], low_won, kind).keys(votes.n_workers + 1)
    site = _places(known[order], mine)
    if (site < 0).any():
        return None
    site, towards = order[site], np.where(low_won, 1.0, -1.0)
    return OwnVotes(
        np.searchsorted(entry, starts),
        np.where(tie, 1.0, towards),
        tie,
        weight[entry] * np.where(lost, 1.0 - share, share),
        np.where(swapped, -1.0, 1.0) * votes.sides_known,
        tau[site],
        towards * nu[site],
        worker,
        *_points(fit, worker_draws(fit, model), ties=widths),
    )


def _points(fit: Fit, draws: WorkerPoints, *, ties: bool) -> tuple[Vector, ...]:
    """Return points of workers and their weights; few, since every vote is evaluated at all of them."""
    # Quantiles lose the tails of a wide posterior, so they are moved until their mean is the estimate.
    reliability, table = draws.reliability, fit.worker_table
    if table.height:
        lost = table["reliability"].astype(np.float64) - reliability.mean(axis=1)
        reliability = reliability + lost[:, None]
    width = draws.width if ties else np.zeros_like(draws.width)
    if not (width.any() or draws.side.any() or draws.side_variance.any()):
        points, weight = few_points(reliability, _POINTS)
        none = np.zeros_like(points)
        return points, none, none, none, weight
    parts = np.broadcast_arrays(reliability, width, draws.side, draws.side_variance)
    step = max(parts[0].shape[1] // _JOINT, 1)
    some = [part[:, step // 2 :: step] for part in parts]
    return *some, np.full(some[0].shape, 1.0 / some[0].shape[1])
