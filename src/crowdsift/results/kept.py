"""Save the votes of a fit and its posterior of scores and workers, and read them back.

With them a loaded fit answers as the one in memory does: it goes on with more votes, predicts,
makes its report, chooses the next pairs. Codes are those of the labels in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.engines.grid import WorkerPoints
from crowdsift.io.items import GoldLabels
from crowdsift.io.options import ReadOptions
from crowdsift.io.saved import parquet_bytes, parquet_columns
from crowdsift.models.covariance import ComponentCovariance
from crowdsift.numeric.distributions import half_width
from crowdsift.results.fit import Posterior
from crowdsift.solvers.ep.terms.contexts import ContextPoints
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import as_column, context_codes, factorize, match_labels, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.results.fit import Fit
    from crowdsift.results.tables import Table

VOTES, PAIRS, RELIABILITIES = "votes.parquet", "precision.parquet", "reliabilities.parquet"
GOLD, ROW_IDS = "gold.parquet", "row_ids.parquet"
CONTEXTS = "context_reliabilities.parquet"
KEPT = (VOTES, PAIRS, RELIABILITIES, CONTEXTS, GOLD, ROW_IDS)
MOST_VOTES = 2_000_000  # distinct rows, pairs or workers, beyond which a file is not written
_QUANTILES = "quantile"  # the prefix of the columns of `Posterior.quantiles`


def kept_files(fit: Fit) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files by name, and what the record says of them."""
    files: dict[str, bytes] = {}
    details: dict[str, Any] = {}
    votes, posterior = fit.votes, fit.posterior
    plain = votes is not None and votes.features is None and votes.item_class is None
    if votes is not None and plain and len(votes) <= MOST_VOTES:
        files[VOTES] = parquet_bytes(
            {"worker": votes.worker_codes().astype(np.uint32), "first": votes.first,
             "second": votes.second, "outcome": votes.outcome, "weight": votes.weight}
        )  # fmt: skip
        details["votes"] = {"sides_known": votes.sides_known, "has_workers": votes.has_workers,
                         "source": votes.source, "reading": dict(votes.reading),
                         "row_ids": votes.row_ids is not None}  # fmt: skip
        if votes.row_ids is not None:
            files[ROW_IDS] = parquet_bytes({"id": votes.row_ids})
    if fit.gold is not None:
        known = _in_order(fit)[0].tolist()
        places = (match_labels(labels.tolist(), known) for labels in fit.gold)
        files[GOLD] = parquet_bytes(dict(zip(("winner", "loser"), places, strict=True)))
    if posterior is None:
        return files, details
    covariances, quantiles, points = posterior.covariances, posterior.quantiles, posterior.points
    if covariances is not None and len(covariances.pairs[0]) <= MOST_VOTES:
        names = ("low", "high", "weight")
        files[PAIRS] = parquet_bytes(dict(zip(names, covariances.pairs, strict=True)))
        details["precision"] = {"shift": covariances.shift, "size": covariances.scale}
    columns = {} if quantiles is None else _split(_QUANTILES, quantiles)
    if points is not None:
        columns |= _point_columns(points)
    if columns and len(next(iter(columns.values()))) <= MOST_VOTES:
        files[RELIABILITIES] = parquet_bytes(columns)
        if (apart := posterior.in_context) is not None:
            who = {"worker": apart.worker, "context": apart.context}
            files[CONTEXTS] = parquet_bytes({**who, **_point_columns(apart.points)})
    return files, details


def kept_votes(
    read: Callable[[str], bytes | None], details: dict[str, Any], fit: Fit
) -> Comparisons | None:
    """The votes of a loaded fit, where they were kept."""
    content = read(VOTES)
    if content is None or "votes" not in details:
        return None
    columns, about = parquet_columns(content), details["votes"]
    ids = read(ROW_IDS) if about.get("row_ids") else b""
    if ids is None:  # deleted: rows that come again could not be found
        return None
    named = bool(about["has_workers"])
    workers = fit.worker_table["worker"] if named else np.array([None], dtype=object)
    votes = Comparisons.from_codes(
        columns["first"],
        columns["second"],
        worker=columns["worker"] if named else None,
        outcome=columns["outcome"],
        weight=columns["weight"],
        items=_in_order(fit)[0],
        workers=workers,
        sides_known=bool(about["sides_known"]),
        by=fit.by,
        source=str(about["source"]),
        summed=True,
    )
    reading = ReadOptions.of(about.get("reading") or {}, None).remembered()
    intake = fit.summary.get("intake")
    return replace(
        votes,
        intake=None if intake is None else Intake.from_json(intake),
        reading=reading,
        row_ids=parquet_columns(ids)["id"] if ids else None,
    )


def kept_gold(read: Callable[[str], bytes | None], fit: Fit) -> GoldLabels | None:
    """Return the gold pairs of a loaded fit; None if it had none."""
    content = read(GOLD)
    if content is None:
        return None
    columns, labels = parquet_columns(content), _in_order(fit)[0]
    return GoldLabels(labels[columns["winner"]], labels[columns["loser"]])


def posterior_of(
    read: Callable[[str], bytes | None], details: dict[str, Any], fit: Fit
) -> Posterior | None:
    """Return the posterior of a loaded fit; None if nothing of it was kept."""
    pairs, reliabilities, contexts = read(PAIRS), read(RELIABILITIES), read(CONTEXTS)
    if pairs is None and reliabilities is None:
        return None
    labels, code = _in_order(fit)
    component, sd = np.empty(len(code), np.int64), np.empty(len(code))
    component[code] = fit.item_table["component"] - 1
    table: Table = fit.item_table
    sd[code] = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
    covariances = quantiles = points = apart = None
    if pairs is not None:
        found, about = parquet_columns(pairs), details["precision"]
        covariances = ComponentCovariance(
            component, found["low"], found["high"], found["weight"], float(about["shift"]),
            float(about["size"]),
        )  # fmt: skip
    if reliabilities is not None:
        columns, height = parquet_columns(reliabilities), max(fit.worker_table.height, 1)
        quantiles, points = _joined(columns, _QUANTILES, height), _points_of(columns, height)
    if contexts is not None and points is not None:
        apart = _context_points(parquet_columns(contexts), fit, len(context_codes(labels)))
    known_sd = sd if np.isfinite(sd).any() else None
    return Posterior(labels, known_sd, covariances, quantiles, points, apart)


def _context_points(columns: dict[str, NDArray[Any]], fit: Fit, n_contexts: int) -> ContextPoints:
    """Return the posteriors of workers by context; raise ValueError for unknown codes."""
    worker, context = (columns[name].astype(np.int64) for name in ("worker", "context"))
    points = _points_of(columns, len(worker))
    for code, end in ((worker, fit.worker_table.height), (context, n_contexts)):
        if points is None or code.min(initial=0) < 0 or code.max(initial=0) >= end:
            raise ValueError(f"{CONTEXTS} is of other workers or contexts")
    assert points is not None
    return ContextPoints(worker, context, points)


def _split(name: str, rows: NDArray[np.float64]) -> dict[str, NDArray[np.float32]]:
    """Return the columns of a matrix under numbered names, in single precision."""
    return {f"{name}{i:02d}": column for i, column in enumerate(rows.T.astype(np.float32))}


def _joined(columns: dict[str, NDArray[Any]], name: str, height: int) -> NDArray[np.float64] | None:
    """Return the matrix that `_split` wrote; None if there is none."""
    names = sorted(each for each in columns if each.rstrip("0123456789") == name)
    if not names:
        return None
    found = np.stack([columns[each] for each in names], axis=1).astype(np.float64)
    if len(found) != height or not np.isfinite(found).all():
        raise ValueError(f"{name} has {len(found)} rows for {height} workers, or no numbers")
    return found


def _point_columns(points: WorkerPoints) -> dict[str, NDArray[np.float32]]:
    return {
        key: column
        for name, rows in points._asdict().items()
        for key, column in _split(name, rows).items()
    }


def _points_of(columns: dict[str, NDArray[Any]], height: int) -> WorkerPoints | None:
    """Return the points of the posterior of every worker; None if they were not saved."""
    found = [_joined(columns, name, height) for name in WorkerPoints._fields]
    known = [each for each in found if each is not None]
    if known and len(known) < len(found):
        raise ValueError("some of the columns of the points are missing")
    return WorkerPoints(*known) if known else None


def _in_order(fit: Fit) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    """The labels of items in the order of their codes, and the code of every row of the table."""
    items = merge([factorize(as_column(fit.item_table["item"].tolist()))])[1][0].astype(np.int64)
    keys = [items]
    for by in reversed(fit.context_columns):
        keys.append(merge([factorize(as_column(fit.item_table[by].tolist()))])[1][0].astype(int))
    order = np.lexsort(keys)
    labels = np.empty(len(order), dtype=object)
    labels[:] = fit.labels
    return labels[order], np.argsort(order)
