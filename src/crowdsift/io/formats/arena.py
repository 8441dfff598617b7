"""Battles of models: Chatbot Arena, MT-bench and evalica."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crowdsift.io.formats import Format, Unfolded
from crowdsift.io.formats.judges import unfolded_votes
from crowdsift.votes.source import Source

# Later files have "both bad" as a separate answer; for the order it means the same as a tie.
_BOTH_BAD = ("tie (bothbad)", "bothbad", "both_bad", "both bad")
_VERDICTS = {"model_a": "left", "model_b": "right", "tie": "tie", **dict.fromkeys(_BOTH_BAD, "both bad")}
_MODELS = {"left": ("model_a",), "right": ("model_b",), "winner": ("winner",)}
_JUDGES = ("judge", "judge_hash", "judge_id", "user_id")

_JUDGED = Format(
    name="arena",
    title="Chatbot Arena votes",
    columns={**_MODELS, "worker": _JUDGES},
    needs=("left", "right", "winner", "worker"),
    values=_VERDICTS,
    dependent="evaluation_session_id",
)

# arena-rank uses the same columns without judges.
_WITHOUT_JUDGES = Format(
    name="arena-rank",
    title="battles of models without judges",
    columns=_MODELS,
    needs=("left", "right", "winner"),
    without=(*_JUDGES, "worker"),
    values=_VERDICTS,
    workers=False,
    dependent="evaluation_session_id",
)


_SINGLE = Format(
    name="mtbench",
    title="MT-bench judgments",
    columns={**_MODELS, "worker": ("judge",)},
    needs=("left", "right", "winner", "worker"),
    marks=("question_id", "turn"),
    without=("tstamp", "language", "anony"),
    values={**_VERDICTS, "tie (inconsistent)": "tie"},
)


def both_games(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Make two votes of every row: model_1 is on the left in the first game only."""
    # `g2_winner` names the model, not the side, so it needs no reversal.

    def votes(row: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        one, two, judge = row["model_1"], row["model_2"], row[roles["worker"]]
        worker = " ".join(map(str, judge)) if isinstance(judge, list) else judge
        for left, right, answer in ((one, two, row["g1_winner"]), (two, one, row["g2_winner"])):
            yield left, right, {"model_1": one, "model_2": two, "tie": "tie"}.get(answer), worker

    names = ("model_1", "model_2", "g1_winner", "g2_winner", roles["worker"])
    return unfolded_votes(table, names, condition, votes)


_BOTH_ORDERS = Format(
    name="mtbench-pairs",
    title="MT-bench judgments of an LLM, both orders in a row",
    columns={"worker": ("judge",)},
    needs=("worker",),
    marks=("model_1", "model_2", "g1_winner", "g2_winner"),
    unfold=both_games,
)


ARENA = (_JUDGED, _WITHOUT_JUDGES)
MTBENCH = (_SINGLE, _BOTH_ORDERS)
EVALICA = Format(
    name="evalica",
    title="pairs of evalica, without workers",
    columns={"left": ("left",), "right": ("right",), "winner": ("winner",)},
    needs=("left", "right", "winner"),
    without=("worker",),
    values={"left": "left", "right": "right", "tie": "tie", "draw": "tie", "ignore": ""},
    workers=False,
)
