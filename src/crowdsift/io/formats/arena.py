"""Battles of models: Chatbot Arena, MT-bench and evalica; and any two columns of items with an answer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crowdsift.io.formats import ASSUMED, PEOPLE, Format, Unfolded
from crowdsift.io.formats.judges import unfolded_votes
from crowdsift.votes.source import Source

# Later files have "both bad" as a separate answer; for the order it means the same as a tie.
_BOTH_BAD = ("tie (bothbad)", "bothbad", "both_bad", "both bad")
_VERDICTS = {"model_a": "left", "model_b": "right", "tie": "tie", **dict.fromkeys(_BOTH_BAD, "both bad")}
_MODELS = {"left": ("model_a",), "right": ("model_b",), "winner": ("winner",)}

_JUDGED = Format(
    name="arena",
    title="Chatbot Arena votes",
    columns={**_MODELS, "worker": PEOPLE},
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
    without=PEOPLE,
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


_ONE_HOT = {"winner_model_a": "left", "winner_model_b": "right", "winner_tie": "tie"}


def marked_answers(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Return the votes of rows with a column for every answer, 1 for the one that was given."""

    def votes(row: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        given = [answer for name, answer in _ONE_HOT.items() if str(row.get(name)) in ("1", "1.0", "True", "true")]
        yield row["model_a"], row["model_b"], " and ".join(given), row.get(roles.get("worker", ""))

    return unfolded_votes(table, ("model_a", "model_b", *_ONE_HOT, *roles.values()), condition, votes)


_MARKED = Format(
    name="arena",
    title="Chatbot Arena votes, a column for every answer",
    columns={"worker": PEOPLE},
    marks=("model_a", "model_b", "winner_model_a", "winner_model_b"),
    pooled=True,
    unfold=marked_answers,
)
ARENA = (_JUDGED, _WITHOUT_JUDGES, _MARKED)
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

_ANSWERS = (
    *("winner", "preference", "preferred", "choice", "verdict", "decision", "selected", "selection", "better"),
    *("better_response", "better_response_id", "better_answer", "better_output", "vote", "human_preference"),
    *("selected_object", "chosen", "overall_pref"),
)
_REPLIES = ("response", "output", "answer", "completion", "reply", "summary", "text")
_PROMPTS = ("prompt", "question", "instruction", "input", "query", "context", "post")
PAIRS = tuple(
    Format(
        name=ASSUMED,
        title="two columns of items and one of answers",
        columns={"winner": _ANSWERS, "worker": PEOPLE, **({"context": _PROMPTS} if replies else {})},
        needs=("left", "right", "winner", *(("context",) if replies else ())),
        nouns=nouns,
        pooled=True,
        sets_aside=True,
        replies=replies,
    )
    for nouns, replies in (
        (("model", "system", "player", "item", "object", "option", "candidate", "script", "image", "photo"), False),
        (_REPLIES, True),
        (_REPLIES, False),
    )
)
