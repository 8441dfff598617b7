"""Panels of judges, one of them trusted: the panel of each worker, and votes by judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.numeric import Indices, Labels, Mask
from crowdsift.votes.comparisons import Comparisons, frozen

MAX_JUDGES = 30  # judges with separate biases, those with most votes; the others share the bias of their panel
OTHERS = "others"  # the panel of all judges if each would be a panel by itself


class Panels(NamedTuple):
    """The column of panels, its trusted values, and the panel of every worker by label."""

    column: str
    trusted: tuple[str, ...]
    of: Mapping[Any, str]

    def names(self, votes: Comparisons) -> Labels:
        """Return the panel of every worker; gold is trusted."""
        return np.array([self.of.get(who, self.trusted[0]) for who in votes.workers], object)

    def is_trusted(self, votes: Comparisons) -> Mask:
        """Return which workers are trusted."""
        return np.isin(self.names(votes), self.trusted)

    def renamed(self, labels: Labels, names: Labels) -> Panels:
        """Return these panels for other names of workers."""
        known = zip(labels, names, strict=True)
        return self._replace(of={name: self.of[who] for who, name in known if who in self.of})

    def merged(self, other: Panels | None) -> Panels:
        """Return these panels together with those of further workers."""
        return self if other is None else self._replace(of={**other.of, **self.of})


class PanelVotes(NamedTuple):
    """Votes with separate items for the trusted panel (board 0) and for each judge.

    `item` and `board` are those of every node, `panel` is the panel of each judge by its number, and `names` are the
    names of panels.
    """

    votes: Comparisons
    item: Indices
    board: Indices
    panel: Indices
    names: tuple[str, ...]
    trusted: Mask  # of workers


def in_panels(votes: Comparisons) -> PanelVotes:
    """Return the votes by panel and judge."""
    assert votes.panels is not None
    label, trusted = votes.panels.names(votes), votes.panels.is_trusted(votes)
    if 1 < (~trusted).sum() == len(set(label[~trusted])):  # no judges to share a bias
        label[~trusted] = OTHERS
    names = tuple(sorted(set(label[~trusted].tolist())))
    code = {name: number for number, name in enumerate(names)}
    judges = np.flatnonzero(~trusted)
    first = judges[np.argsort(-votes.loads[judges], kind="stable")][:MAX_JUDGES]
    keys = {int(who): (code[label[who]], int(who) if who in first else -1) for who in judges}
    boards = {key: number for number, key in enumerate(sorted(set(keys.values())), start=1)}
    of_worker = np.array([boards[keys[who]] if who in keys else 0 for who in range(len(label))])
    offset = of_worker[votes.worker_codes()].astype(np.int64) * votes.n_items
    ends = np.concatenate([offset + votes.first, offset + votes.second])
    nodes, place = np.unique(ends, return_inverse=True)
    code_of = place.reshape(-1).astype(np.uint32)
    split = replace(
        votes,
        first=frozen(code_of[: len(votes)]),
        second=frozen(code_of[len(votes) :]),
        panels=None,
        items=frozen(np.arange(len(nodes)).astype(object)),
        item_class=None,
        class_names=(),
    )
    panel = np.array([number for number, _ in sorted(boards)], np.int64)
    item, board = nodes % votes.n_items, nodes // votes.n_items
    return PanelVotes(split, item, board, panel, names, trusted)


def with_panels(
    votes: Comparisons, worker: Indices, labels: list[str], codes: Indices, column: str, trusted: tuple[str, ...]
) -> Comparisons:
    """Return votes with the panel of every worker, from the worker and panel of every row."""
    if not votes.has_workers:
        raise RequestError("trusted votes (--trusted) need a column of workers: every judge has its own biases")
    count = len(labels)
    pairs = np.unique(worker * count + codes)
    who, panel = pairs // count, pairs % count
    twice = np.flatnonzero(np.diff(who) == 0)
    if len(twice):
        at = int(twice[0])
        raise RequestError(
            f"worker {votes.workers[who[at]]!r} has votes with {column}={labels[panel[at]]} and with "
            f"{column}={labels[panel[at + 1]]}; a judge belongs to one panel. Give each its own label in the worker "
            "column"
        )
    of = {votes.workers[w]: labels[p] for w, p in zip(who, panel, strict=True)}
    found = replace(votes, panels=Panels(column, trusted, of))
    refuse_panels(found)
    return found


def refuse_panels(votes: Comparisons) -> None:
    """Raise an error for a trusted value without votes, and for panels with too few shared items."""
    assert votes.panels is not None
    column, trusted, of = votes.panels
    for value in trusted:
        if value not in of.values():
            known = sorted(set(of.values()))
            raise RequestError(
                f"no vote has {column}={value}; the column {column!r} holds "
                f"{', '.join(known[:8])}{' ...' if len(known) > 8 else ''}"
            )
    split = in_panels(votes)
    if not split.names:
        raise RequestError(
            f"every vote has {column}={' or '.join(trusted)}: there is no other "
            "panel to correct; omit --trusted (trusted=)"
        )
    ours = np.unique(split.item[split.board == 0])
    for number, name in enumerate(split.names):
        boards = 1 + np.flatnonzero(split.panel == number)
        shared = np.intersect1d(ours, split.item[np.isin(split.board, boards)])
        if len(shared) < 2:
            raise RequestError(
                f"{column}={name} and the trusted panel have votes on {len(shared)} common items; at least 2 are "
                "needed to compare them. Omit --trusted, or fit the trusted votes alone"
            )
