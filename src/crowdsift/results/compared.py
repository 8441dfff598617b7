"""P(one item is truly better than another), with the votes on that pair taken as they are.

For two items that were never compared the posterior of their difference is the Gaussian of the
fit. For a compared pair that is replaced by what all other votes imply times the likelihood of its
own votes; see `crowdsift.numeric.own_votes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crowdsift.numeric.likelihoods import normal_cdf
from crowdsift.numeric.own_votes import OwnVotes, chances_of_sign, few_points
from crowdsift.results.predict import worker_draws
from crowdsift.results.query import model_of
from crowdsift.votes.graph import pair_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.engines.grid import WorkerPoints
    from crowdsift.results.fit import Fit
    from crowdsift.votes.comparisons import Comparisons

    Codes = NDArray[np.int64]
    Values = NDArray[np.float64]

_POINTS = 4  # of Gauss, for a posterior of reliability alone
_JOINT = 16  # of a posterior of reliability, tie width and side bias


class Pairs(NamedTuple):
    """Pairs of items in a query: rows of the item table, differences, and their sd."""

    first: Codes
    second: Codes
    difference: Values
    sd: Values


def better(fit: Fit, code: Codes, query: Pairs) -> Values:
    """P(the first is truly better), `code` being that of every row of the item table.

    The Gaussian of the difference stands where the votes are not held by the fit or more than two
    million, are of another method than sift, or depend on more than two items (groups, covariates,
    features, workers who differ by context).
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


def _compared(fit: Fit, code: Codes, one: Codes, two: Codes) -> tuple[Codes, OwnVotes] | None:
    """Which of the compared pairs every pair is (-1: none), and their votes.

    The first item of a compared pair is that of the smaller code.
    """
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
    given = _Given(sites.worker[mine].astype(np.int64), pair[mine], winner[mine] < loser[mine],
                   sites.kind[mine].astype(np.int64))  # fmt: skip
    scale = float((fit.population or {}).get("scale") or 1.0)
    tau, nu = (part[mine].astype(np.float64) for part in (sites.tau, sites.nu))
    own = _own_votes(fit, votes, rows, starts, where, (given, scale**2 * tau, scale * nu))
    return None if own is None else (number[place.reshape(-1)], own)


class _Given(NamedTuple):
    """What identifies a vote: worker, pair, whether its first item won, and the kind of a site."""

    worker: Codes
    pair: Codes
    low_won: NDArray[np.bool_]
    kind: Codes

    def keys(self, workers: int) -> Codes:
        """One number for all of that; a tie is of the item shown first."""
        return ((self.pair * workers + self.worker) * 2 + self.low_won) * 4 + self.kind + 1


def _places(known: Codes, wanted: Codes) -> Codes:
    """Where numbers are among rising ones, -1 where they are not."""
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _plain(fit: Fit) -> bool:
    """Whether the posterior is that of the model, in which votes depend on their two items only."""
    beside = fit.summary.get("group_effect"), fit.summary.get("dependent_by")
    apart = fit.posterior is None or fit.posterior.in_context is not None
    return fit.method == "sift" and not apart and not any(beside)


def _own_votes(
    fit: Fit,
    votes: Comparisons,
    rows: NDArray[np.intp],
    starts: NDArray[np.intp],
    pair: Codes,
    sites: tuple[_Given, Values, Values],
) -> OwnVotes | None:
    """The rows of votes, by pair; a share of a win is a win and a loss, each of its weight.

    None where some vote has no site.
    """
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


def _points(fit: Fit, draws: WorkerPoints, *, ties: bool) -> tuple[Values, ...]:
    """Points of workers, and their weights: few, since every vote is taken at all of them.

    Quantiles lose the tails of a wide posterior; they are moved so that its mean is the estimate.
    """
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
