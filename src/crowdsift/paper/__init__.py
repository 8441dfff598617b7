"""The experiments of the paper, one command each: settings, runs, tables, figures, pages.

A new experiment is one new file and one line here.
"""

import difflib
from pathlib import Path

from crowdsift.errors import RequestError
from crowdsift.paper.ablations import Ablations
from crowdsift.paper.base import Experiment, Options
from crowdsift.paper.real import Real
from crowdsift.paper.spammers import Spammers
from crowdsift.paper.synthetic import Synthetic

__all__ = ["EXPERIMENTS", "Experiment", "Options", "experiment", "requested"]

_KINDS: tuple[type[Experiment], ...] = (Real, Synthetic, Spammers, Ablations)
EXPERIMENTS: dict[str, type[Experiment]] = {kind.name: kind for kind in _KINDS}


def experiment(name: str, options: Options) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise RequestError(f"unknown experiment {name!r}; the experiments are {', '.join(EXPERIMENTS)}{hint}")
    return EXPERIMENTS[name](options)


def requested(
    *, quick: bool = False, seeds: int | None = None, tune: bool = False, data: Path | None = None, fetch: bool = False
) -> Options:
    """Return the options of a run: 10 seeds, 2 for a quick run, or the given number."""
    if seeds is None:
        seeds = 2 if quick else 10
    return Options(quick, seeds, tune, data, fetch)
