"""Engines hold the votes and offer passes over them; here they are found by name."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from crowdsift.engines.base import CAPABILITIES
from crowdsift.errors import RequestError
from crowdsift.numeric.threads import thread_count
from crowdsift.votes.kernels import COMPILED

if TYPE_CHECKING:
    from crowdsift.engines.base import Engine
    from crowdsift.votes.comparisons import Comparisons

__all__ = ["ENGINES", "choose_engine", "offers"]

# Votes from which on a GPU is used where there is one; its start takes longer than a small fit.
_MANY_VOTES = 2_000_000
# Where each engine lives; its module has a function `engine(comparisons, threads)`.
ENGINES = {
    "cpu": "crowdsift.engines.cpu",
    "reference": "crowdsift.engines.reference",
    "sharded": "crowdsift.engines.sharded",
    "torch": "crowdsift.engines.torch",
}


def choose_engine(name: str, comparisons: Comparisons, threads: int | None = None) -> Engine:
    """The engine of that name over the comparisons.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.engines import choose_engine
    >>> votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> choose_engine("auto", votes).facts.n_items
    2
    """
    chosen = _fastest(len(comparisons)) if name == "auto" else name
    if chosen not in ENGINES:
        raise RequestError(f"unknown engine {name!r}; the engines are auto, {', '.join(ENGINES)}")
    module: Any = import_module(ENGINES[chosen])
    made: Engine = module.engine(comparisons, thread_count(threads))
    return made


def _fastest(votes: int) -> str:
    """Without a choice: a GPU for many votes, else the compiled core, else what is there."""
    if find_spec("torch") is not None and (votes >= _MANY_VOTES or not COMPILED):
        import torch

        if not COMPILED or torch.cuda.is_available():
            return "torch"
    return "cpu" if COMPILED else "reference"


def offers(engine: Engine) -> tuple[str, ...]:
    """The capabilities of an engine.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.engines import choose_engine, offers
    >>> votes = Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> offers(choose_engine("cpu", votes))
    ('counts', 'slopes', 'em', 'likelihood', 'grid')
    """
    return tuple(name for name in CAPABILITIES if getattr(engine, name) is not None)
