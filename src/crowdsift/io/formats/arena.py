"""Chatbot Arena: two models, and which of their answers a judge preferred."""

from crowdsift.io.formats.base import Format

# Of later files "both bad" is an answer of its own; it says no more about the order than a tie.
VERDICTS = {
    "model_a": "left",
    "model_b": "right",
    "tie": "tie",
    "tie (bothbad)": "both bad",
    "bothbad": "both bad",
    "both_bad": "both bad",
    "both bad": "both bad",
}

ARENA = Format(
    name="arena",
    title="Chatbot Arena votes",
    columns={
        "left": ("model_a",),
        "right": ("model_b",),
        "winner": ("winner",),
        "worker": ("judge", "judge_hash", "judge_id", "user_id"),
    },
    needs=("left", "right", "winner", "worker"),
    values=VERDICTS,
)

# arena-rank reads the same columns without judges.
ARENA_RANK = Format(
    name="arena-rank",
    title="battles of models without judges",
    columns={"left": ("model_a",), "right": ("model_b",), "winner": ("winner",)},
    needs=("left", "right", "winner"),
    without=("judge", "judge_hash", "judge_id", "user_id", "worker"),
    values=VERDICTS,
    workers=False,
)
