"""The formats in which tools of the field write votes, in the order in which they are tried."""

from crowdsift.io.formats.arena import ARENA, ARENA_RANK
from crowdsift.io.formats.argilla import ARGILLA
from crowdsift.io.formats.base import Format, Found
from crowdsift.io.formats.evalica import EVALICA
from crowdsift.io.formats.label_studio import LABEL_STUDIO, LABEL_STUDIO_MIN
from crowdsift.io.formats.mtbench import MTBENCH, MTBENCH_PAIRS
from crowdsift.io.formats.mturk import MTURK
from crowdsift.io.formats.rankings import RANKINGS
from crowdsift.io.formats.toloka import CROWD_KIT, TOLOKA
from crowdsift.io.formats.trl import TRL

__all__ = ["FORMATS", "NAMES", "Format", "Found"]

FORMATS: tuple[Format, ...] = (
    MTBENCH,
    MTBENCH_PAIRS,
    ARENA,
    ARENA_RANK,
    *TRL,
    MTURK,
    TOLOKA,
    CROWD_KIT,
    LABEL_STUDIO,
    LABEL_STUDIO_MIN,
    *ARGILLA,
    RANKINGS,
    EVALICA,
)
NAMES = ("plain", *dict.fromkeys(each.name for each in FORMATS))
