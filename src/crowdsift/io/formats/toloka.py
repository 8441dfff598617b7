"""Toloka: assignments as they are downloaded; and crowd-kit, which reads them."""

from crowdsift.io.formats.base import Format

TOLOKA = Format(
    name="toloka",
    title="assignments of Toloka",
    columns={"worker": ("ASSIGNMENT:worker_id",)},
    needs=("left", "right", "winner", "worker"),
    marks=("ASSIGNMENT:assignment_id",),
    noted=("ASSIGNMENT:status", "REJECTED", "rejected assignments"),
    pairs="INPUT:",
    words=True,
    answers="OUTPUT:",
)

CROWD_KIT = Format(
    name="crowd-kit",
    title="comparisons of crowd-kit",
    columns={
        "left": ("left",),
        "right": ("right",),
        "winner": ("label",),
        "worker": ("worker", "performer"),
    },
    needs=("left", "right", "winner", "worker"),
)
