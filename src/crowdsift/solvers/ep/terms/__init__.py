"""Terms of the model that sift keeps only for evidence, in the order in which they are tried.

A new term is one new file with one class, and one line in `TERMS`.
"""

from collections.abc import Iterable

from crowdsift.errors import RequestError
from crowdsift.solvers.ep.state import Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term
from crowdsift.solvers.ep.terms.boards import PartialPooling
from crowdsift.solvers.ep.terms.contexts import Contexts
from crowdsift.solvers.ep.terms.covariates import Covariates
from crowdsift.solvers.ep.terms.dependent import DependentVotes
from crowdsift.solvers.ep.terms.dimensions import Dimensions
from crowdsift.solvers.ep.terms.features import Features
from crowdsift.solvers.ep.terms.pair_effect import PairEffect

__all__ = ["TERMS", "compatible", "exclusion", "refuse_combinations"]

TERMS: tuple[Term, ...] = (
    Features(),
    Covariates(),
    PartialPooling(),
    Contexts(),
    PairEffect(),
    DependentVotes(),
    Dimensions(),
)
_BY_NAME = {term.name: term for term in TERMS}


def exclusion(one: str, other: str) -> Exclusion | None:
    """Return why two terms cannot be combined; None if they can."""
    for this, that in ((one, other), (other, one)):
        for found in _BY_NAME[this].excludes:
            if found.term == that:
                return found
    return None


def compatible(settings: Settings) -> Settings:
    """Return settings without the automatic terms that are excluded by a term whose data were given."""
    for given in TERMS:
        for other in TERMS:
            if given.given(settings) and exclusion(given.name, other.name) is not None:
                settings = other.switched_off(settings)
    return settings


def refuse_combinations(requested: Iterable[str]) -> None:
    """Raise an error if terms were requested that cannot be combined."""
    names = set(requested)
    terms = [term for term in TERMS if term.name in names]
    for place, other in enumerate(terms):
        for term in terms[:place]:
            found = exclusion(term.name, other.name)
            if found is not None and found.refused:
                way_out = f", or {other.way_out}" if other.way_out else ""
                raise RequestError(
                    f"sift takes {term.subject} ({term.option}) or {other.subject} ({other.option}), not both at once "
                    f"yet: {found.reason[0].lower()}{found.reason[1:-1]}; omit one of the two{way_out}"
                )
