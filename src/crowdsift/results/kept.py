"""What a saved fit keeps beside its tables: its votes, and the posterior of scores and workers.

With them a loaded fit answers as the one in memory does: it goes on with more votes, makes its
report, chooses the next pairs. Codes are those of the labels in their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.gold import GoldLabels
from crowdsift.io.item_values import match_labels
from crowdsift.io.options import ReadOptions
from crowdsift.io.parquet import parquet_bytes, parquet_columns
from crowdsift.models.covariance import ComponentCovariance
from crowdsift.numeric.distributions import half_width
from crowdsift.results.posterior import Posterior
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import as_column, factorize, merge

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from crowdsift.results.data import FitData
    from crowdsift.results.tables import Table

__all__ = ["KEPT", "MOST_VOTES", "kept_files", "kept_gold", "kept_votes", "posterior_of"]

VOTES, PAIRS, RELIABILITIES = "votes.parquet", "precision.parquet", "reliabilities.parquet"
GOLD, ROW_IDS = "gold.parquet", "row_ids.parquet"
KEPT = (VOTES, PAIRS, RELIABILITIES, GOLD, ROW_IDS)
MOST_VOTES = 2_000_000  # distinct rows, pairs or workers, beyond which a file is not written


def kept_files(fit: FitData) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files, and what the record says of them."""
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
    covariances, quantiles = posterior.covariances, posterior.quantiles
    if covariances is not None and len(covariances.pairs[0]) <= MOST_VOTES:
        names = ("low", "high", "weight")
        files[PAIRS] = parquet_bytes(dict(zip(names, covariances.pairs, strict=True)))
        details["precision"] = {"shift": covariances.shift, "size": covariances.scale}
    if quantiles is not None and len(quantiles) <= MOST_VOTES:
        columns = {f"q{i:02d}": column for i, column in enumerate(quantiles.T.astype(np.float32))}
        files[RELIABILITIES] = parquet_bytes(columns)
    return files, details


def kept_votes(
    read: Callable[[str], bytes | None], details: dict[str, Any], fit: FitData
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
    )
    reading = ReadOptions.of(about.get("reading") or {}, None).remembered()
    intake = fit.summary.get("intake")
    return replace(
        votes,
        intake=None if intake is None else Intake.from_json(intake),
        reading=reading,
        row_ids=parquet_columns(ids)["id"] if ids else None,
    )


def kept_gold(read: Callable[[str], bytes | None], fit: FitData) -> GoldLabels | None:
    """Return the gold pairs of a loaded fit; None if it had none."""
    content = read(GOLD)
    if content is None:
        return None
    columns, labels = parquet_columns(content), _in_order(fit)[0]
    return GoldLabels(labels[columns["winner"]], labels[columns["loser"]])


def posterior_of(
    read: Callable[[str], bytes | None], details: dict[str, Any], fit: FitData
) -> Posterior | None:
    """The posterior of a loaded fit; None where nothing of it was kept."""
    pairs, reliabilities = read(PAIRS), read(RELIABILITIES)
    if pairs is None and reliabilities is None:
        return None
    labels, code = _in_order(fit)
    component, sd = np.empty(len(code), np.int64), np.empty(len(code))
    component[code] = fit.item_table["component"] - 1
    table: Table = fit.item_table
    sd[code] = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
    covariances = quantiles = None
    if pairs is not None:
        found, about = parquet_columns(pairs), details["precision"]
        covariances = ComponentCovariance(
            component, found["low"], found["high"], found["weight"], float(about["shift"]),
            float(about["size"]),
        )  # fmt: skip
    if reliabilities is not None:
        columns = parquet_columns(reliabilities)
        quantiles = np.stack([columns[name] for name in sorted(columns)], axis=1).astype(np.float64)
        if len(quantiles) != max(fit.worker_table.height, 1):
            raise ValueError(f"{RELIABILITIES} is of other workers")
    return Posterior(labels, sd if np.isfinite(sd).any() else None, covariances, quantiles)


def _in_order(fit: FitData) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    """The labels of items in the order of their codes, and the code of every row of the table."""
    items = merge([factorize(as_column(fit.item_table["item"].tolist()))])[1][0].astype(np.int64)
    keys = [items]
    for by in reversed(fit.context_columns):
        keys.append(merge([factorize(as_column(fit.item_table[by].tolist()))])[1][0].astype(int))
    order = np.lexsort(keys)
    labels = np.empty(len(order), dtype=object)
    labels[:] = fit.labels
    return labels[order], np.argsort(order)
