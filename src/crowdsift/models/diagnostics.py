"""Points of a fit that need attention: a kind for programs, a sentence for people."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The subject of a diagnostic."""

    CONVERGENCE = "convergence"  # the method stopped before its tolerance
    SIGN = "sign"  # the votes do not determine which end of the scores is the top
    DIRECTION = "direction"  # voters agree on no direction: there is no common ranking
    GOLD = "gold"  # gold pairs contradict the scores
    INFORMATION = "information"  # the votes hold no information, or none about workers
    ISLANDS = "islands"  # items without a chain of votes between them
    ONE_WAY = "one-way"  # items that only won or only lost
    COPIED = "copied"  # votes on a pair agree more than scores explain
    CONTEXTS = "contexts"  # workers differ by context more than the model allows
    FEATURES = "features"  # features of items are missing, constant, or useless
    SCALE = "scale"  # the scores do not have the scale that was requested
    INTERVALS = "intervals"  # limits may be inaccurate
    METHOD = "method"  # a method other than the default was used
    RESOURCES = "resources"  # threads or memory differ from the request
    UPDATE = "update"  # new votes are repeated or only partly used


@dataclass(frozen=True)
class Diagnostic:
    """A point of a fit that needs attention."""

    kind: Kind
    message: str

    def __str__(self) -> str:
        return self.message
