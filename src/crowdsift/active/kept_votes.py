"""The votes of a saved fit on their way out: those it keeps, or the file that it names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.votes.labels import context_names, context_parts
from crowdsift.votes.replies import is_cut

if TYPE_CHECKING:
    from crowdsift.fitting import Fit
    from crowdsift.io.ingest import CodedVotes
    from crowdsift.io.options import ReadOptions

__all__ = ["require_same_votes", "votes_of"]


def votes_of(fit: Fit, options: ReadOptions, *, texts: bool) -> tuple[Any, ReadOptions]:
    """Something to read the votes of a fit from, and how.

    Parameters
    ----------
    fit
        A fit that was loaded.
    options
        How to read the file of votes, where that is needed.
    texts
        Whether whole texts of replies are needed, which a folder does not hold.
    """
    votes = fit.votes
    if texts and any(is_cut(label[-1] if votes and votes.by else label) for label in fit.labels):
        source = str(fit.summary.get("source") or ("" if votes is None else votes.source))
        if not Path(source).is_file():
            raise RequestError(
                f"the folder holds the beginnings of replies, and the votes that it names "
                f"({source or 'none'}) are no file here; export the file itself with --fit "
                "(fitted=), or give texts (--texts)"
            )
        return source, options
    if votes is None:
        raise RequestError(
            "the votes of this fit were not kept (there were too many, or with features); export "
            "the file itself with --fit (fitted=)"
        )
    if given := [name for name in options.changed() if name != "threads"]:
        raise RequestError(
            f"{', '.join(given)}: options of reading, and the votes of this folder are read already"
        )
    columns: dict[str, list[Any]] = {}
    for name, codes in (("first", votes.first), ("second", votes.second)):
        labels = votes.items[codes].tolist()
        if votes.by:
            *values, labels = context_parts(labels, votes.by)
            columns |= dict(zip(context_names(votes.by), values, strict=True))
        columns[name] = labels
    columns["outcome"] = votes.outcome.tolist()
    if votes.has_workers:
        columns["worker"] = votes.workers[votes.worker_codes()].tolist()
    columns["votes"] = votes.weight.tolist()
    reading = replace(
        options, columns={"weight": "votes"}, format="plain", by=votes.by,
        workers=votes.has_workers, sides=votes.sides_known,
    )  # fmt: skip
    return columns, reading


def require_same_votes(coded: CodedVotes, fit: Fit) -> None:
    """Refuse a file that is read again and gives other votes than were fitted."""
    weight = len(coded.first) if coded.weight is None else float(np.sum(coded.weight, dtype=float))
    votes = float(fit.summary["votes"])
    if not np.isclose(weight, votes, rtol=1e-4):
        raise RequestError(
            f"{coded.table.source} gives {weight:,g} votes now, and {votes:,g} were fitted; export "
            "all files that were fitted, with the options of reading they had, and --fit (fitted=)"
        )
