"""Predictions of votes, and differences of scores, from the fields of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdsift.engines.grid import WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.numeric.distributions import half_width
from crowdsift.results.query import as_list, is_sequence, keys_of, model_of, places_of, positions
from crowdsift.results.tables import Table
from crowdsift.votes.labels import as_column, context_codes, context_parts, key_of, shown
from crowdsift.votes.pseudonyms import Hiding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crowdsift.models import Model
    from crowdsift.results.fit import Fit

_BLOCK = 4096  # pairs at a time
_NUMBERS = 16_384  # of workers' points at a time, which stay in the cache


class Question(NamedTuple):
    """A question about votes: differences of scores, codes of workers (-1: the crowd)."""

    difference: NDArray[np.float64]
    worker: NDArray[np.int64]
    single: bool


def question(fit: Fit, first: Any, second: Any, worker: Any, unknown: str = "error") -> Question:
    """Differences of scores and codes of workers for what is asked of `predict`."""
    if unknown not in ("error", "prior"):
        raise RequestError(f"unknown must be 'error' or 'prior', not {unknown!r}")
    one, two, who = as_list(first), as_list(second), labels_of_workers(fit, worker)
    n = max(len(one), len(two), len(who))
    if {len(one), len(two), len(who)} - {1, n}:
        raise RequestError(
            f"{len(one)} first items, {len(two)} second ones and {len(who)} workers do not fit"
        )
    known = places_of(fit.worker_table["worker"])
    padded = np.append(fit.item_table["score"], 0.0)  # the prior's score, for unseen items
    place = places_of(fit.labels)
    a, b = (
        np.broadcast_to([place.get(key, -1) for key in keys_of(side)], (n,)) for side in (one, two)
    )
    if unknown == "error":
        _refuse_across(fit, a, b)
    codes = np.broadcast_to([known.get(key, -1) for key in keys_of(who)], (n,))
    if unknown == "error":
        _refuse_unknown([*one, *two], place, "item", "the prior's score, 0")
        named = [] if fit.worker_table.height == 0 else [each for each in who if each is not None]
        _refuse_unknown(named, known, "worker", "a worker drawn from the crowd")
    single = not is_sequence(first) and not is_sequence(second) and n == 1
    return Question(padded[a] - padded[b], _in_context(fit, codes, a), single)


def labels_of_workers(fit: Fit, worker: Any, key: Any = None) -> list[Any]:
    """Return the labels of workers as the fit has them: pseudonyms where its workers are hidden.

    Parameters
    ----------
    fit
        The fit.
    worker
        A label, a sequence of labels, or None for anyone of the crowd.
    key
        The file of the key with which workers are hidden; needed for labels of a fit with a key.
    """
    hiding, labels = Hiding.of(fit.summary.get("workers_hidden")), as_list(worker)
    if key is not None:
        if hiding is None:
            raise RequestError("the workers of this fit are not hidden: leave out --hide-key")
        hiding = hiding.or_same(Hiding.of(key))
    if hiding is None:
        return labels
    return [None if label is None else hiding.pseudonym(label) for label in labels]


def _refuse_unknown(labels: list[Any], known: dict[Any, int], what: str, prior: str) -> None:
    """Refuse labels without votes, by name."""
    keys = keys_of(labels)
    missing = {key: label for key, label in zip(keys, labels, strict=True) if key not in known}
    if not missing:
        return
    names = ", ".join(map(shown, list(missing.values())[:5]))
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    what = f"the {what} {names} has" if len(missing) == 1 else f"the {what}s {names}{more} have"
    raise RequestError(
        f"{what} no votes in this fit; unknown='prior' (--unknown prior) takes {prior}, instead"
    )


def outcomes(fit: Fit, query: Question, *, decided: bool = False) -> NDArray[np.float64]:
    """Win, tie and loss, a row each; if `decided`, methods without ties leave them out."""
    model = model_of(fit)
    draws = worker_draws(fit, model)
    if effect := 2.0 * float(fit.summary.get("group_effect") or 0.0):  # two items in a new group
        spread = draws.side_variance + effect * draws.reliability**2
        draws = draws._replace(side_variance=spread)
    if decided and model.tie_column == "tie_rate":
        draws = draws._replace(width=np.zeros_like(draws.width))
    result = np.empty((3, len(query.difference)))
    n_workers = max(fit.worker_table.height, 1)
    for begin in range(0, result.shape[1], _BLOCK):
        named = begin + np.flatnonzero(query.worker[begin : begin + _BLOCK] >= 0)
        difference, code = query.difference[named][:, None], query.worker[named]
        parts = model.outcome_probabilities(difference, *(column[code] for column in draws))
        result[:, named] = [np.broadcast_to(part, parts[0].shape).mean(axis=1) for part in parts]
    # By anyone of the crowd: the mean over all of it, once for every distance.
    nobody = np.flatnonzero(query.worker < 0)
    apart, place = np.unique(query.difference[nobody], return_inverse=True)
    found = np.empty((3, len(apart)))
    columns = [column[:n_workers] for column in draws]
    step = max(_NUMBERS // np.broadcast(*columns).size, 1)
    for begin in range(0, len(apart), step):
        some = slice(begin, begin + step)
        parts = model.outcome_probabilities(apart[some, None, None], *columns)
        found[:, some] = [np.broadcast_to(p, parts[0].shape).mean(axis=(1, 2)) for p in parts]
    result[:, nobody] = found[:, place.reshape(-1)]
    return result


def predictions(fit: Fit, first: Any, second: Any, worker: Any, unknown: str = "error") -> Table:
    """A row per pair: its labels, the probability of `Fit.predict`, and win, tie and loss.

    Examples
    --------
    >>> import crowdsift
    >>> from crowdsift.results.predict import predictions
    >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
    >>> predictions(crowdsift.fit(votes, "bt"), ["a"], ["b"], None)
    first  second  probability     win  tie    loss
    a      b            0.6655  0.6655    0  0.3345
    """
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


def probabilities(fit: Fit, difference: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(first over second) by a worker of the crowd, for differences of scores."""
    nobody = np.full(len(difference), -1, np.int64)
    win, _, loss = outcomes(fit, Question(difference, nobody, single=False), decided=True)
    return np.asarray(win / (win + loss))


def differences(fit: Fit, first: Any, second: Any) -> tuple[NDArray[Any], ...]:
    """Rows of the item table, differences of scores and their sd, of items that have votes."""
    place = places_of(fit.labels)
    try:
        one, two = (
            np.array([place[key] for key in keys_of(as_list(side))]) for side in (first, second)
        )
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
    """Points of every worker's posterior, one row each; its tie parameter for the width.

    Where workers differ by context, rows of workers in contexts follow.
    Without a posterior the table's estimates stand alone, a side bias with its variance.
    """
    table, known = fit.worker_table, fit.posterior
    height = max(table.height, 1)  # without workers: one who is nobody

    def column(name: str, other: float) -> NDArray[np.float64]:
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


def _in_context(fit: Fit, worker: NDArray[np.int64], item: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of `worker_draws` for workers at items; -1 stays: a worker of the crowd."""
    apart = None if fit.posterior is None else fit.posterior.in_context
    if fit.posterior is None or apart is None:
        return worker
    codes, labels = context_codes(fit.posterior.items), fit.labels
    context = np.array([codes[key_of(labels[i][0])] if i >= 0 else -1 for i in item.tolist()])
    rows = apart.rows(worker, context, fit.worker_table.height)
    return np.where((worker < 0) | (context < 0), worker, rows)


def _refuse_across(fit: Fit, one: NDArray[np.int64], two: NDArray[np.int64]) -> None:
    """Refuse pairs of items, by rows, between which no chain of votes leads; -1 is unseen."""
    component = np.append(fit.item_table["component"], 0)
    across = (component[one] != component[two]) & (one >= 0) & (two >= 0)
    if not across.any():
        return
    pair = int(np.argmax(across))
    a, b, labels = one[pair], two[pair], fit.labels
    raise RequestError(
        f"{labels[a]!r} is in component {component[a]} and {labels[b]!r} in component "
        f"{component[b]}: no chain of votes connects them, so they cannot be compared"
    )


def difference_sd(fit: Fit, one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.float64]:
    """Standard deviations of differences, by rows of the item table."""
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


def item_codes(fit: Fit) -> NDArray[np.int64]:
    """The codes of the rows of the item table, as the votes and the posterior have them."""
    items = fit.labels if fit.posterior is None else fit.posterior.items
    return positions(fit.labels, items)
