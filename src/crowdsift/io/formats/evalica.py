"""evalica: left, right and the winner, without workers."""

from crowdsift.io.formats.base import Format

EVALICA = Format(
    name="evalica",
    title="pairs of evalica, without workers",
    columns={"left": ("left",), "right": ("right",), "winner": ("winner",)},
    needs=("left", "right", "winner"),
    without=("worker",),
    values={"left": "left", "right": "right", "tie": "tie", "draw": "tie", "ignore": ""},
    workers=False,
)
