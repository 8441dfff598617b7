"""What deserves a look in a fit: a kind for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a diagnostic is about."""

    CONVERGENCE = "convergence"  # the method stopped before its tolerance
    SIGN = "sign"  # which end of the scores is up is not settled
    DIRECTION = "direction"  # voters agree on no direction: there is no common ranking
    GOLD = "gold"  # known pairs and scores do not go together
    INFORMATION = "information"  # the votes hold none, or none about workers
    ISLANDS = "islands"  # items without a chain of votes between them
    ONE_WAY = "one-way"  # items that only won or only lost
    COPIED = "copied"  # votes on a pair agree beyond what scores explain
    CONTEXTS = "contexts"  # workers differ by context as far as the model goes
    FEATURES = "features"  # of items: missing, constant, or of no use
    SCALE = "scale"  # the scores have no such scale as was asked for
    INTERVALS = "intervals"  # limits may be off
    METHOD = "method"  # another than the default one was taken
    RESOURCES = "resources"  # threads or memory other than asked for
    UPDATE = "update"  # new votes that are repeated or not used in full


@dataclass(frozen=True)
class Diagnostic:
    """One thing that deserves a look."""

    kind: Kind
    message: str

    def __str__(self) -> str:
        return self.message
