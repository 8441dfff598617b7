"""MT-bench judgments: of people and experts a row each, of LLM judges both orders in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdsift.io.formats.arena import VERDICTS
from crowdsift.io.formats.base import Format
from crowdsift.io.formats.unfolded import Unfolded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crowdsift.votes.source import Source

MTBENCH = Format(
    name="mtbench",
    title="MT-bench judgments",
    columns={
        "left": ("model_a",),
        "right": ("model_b",),
        "winner": ("winner",),
        "worker": ("judge",),
    },
    needs=("left", "right", "winner", "worker"),
    marks=("question_id", "turn"),
    without=("tstamp", "language", "anony"),
    values={**VERDICTS, "tie (inconsistent)": "tie"},
)


def both_games(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """A row holds two games: the first with model_1 on the left, the second the other way round.

    `g2_winner` names the model, not the side, so nothing is turned here.
    """
    names = ("model_1", "model_2", "g1_winner", "g2_winner", roles["worker"])
    columns: dict[str, list[Any]] = {"left": [], "right": [], "winner": [], "worker": []}
    row = []
    table.load(names, condition=condition)
    for number, (one, two, first, second, judge) in enumerate(table.rows(names)):
        worker = " ".join(map(str, judge)) if isinstance(judge, list) else judge
        for left, right, answer in ((one, two, first), (two, one, second)):
            winner = {"model_1": one, "model_2": two, "tie": "tie"}.get(answer)
            for name, entry in zip(columns, (left, right, winner, worker), strict=True):
                columns[name].append(entry)
            row.append(number)
    return Unfolded(columns, range(len(row)), row)


MTBENCH_PAIRS = Format(
    name="mtbench-pairs",
    title="MT-bench judgments of an LLM, both orders in a row",
    columns={"worker": ("judge",)},
    needs=("worker",),
    marks=("model_1", "model_2", "g1_winner", "g2_winner"),
    unfold=both_games,
)
