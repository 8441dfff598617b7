"""One experiment from its settings to its page."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from crowdsift.errors import RequestError
from crowdsift.models import MODELS
from crowdsift.numeric.threads import thread_count
from crowdsift.paper import Options, experiment
from crowdsift.paper.figures import require_matplotlib
from crowdsift.paper.output import write
from crowdsift.paper.runner import run_missing
from crowdsift.paper.store import Store

if TYPE_CHECKING:
    from crowdsift.paper.base import Experiment
    from crowdsift.paper.runner import Progress


def reproduce(
    name: str,
    out: Path,
    options: Options | None = None,
    *,
    jobs: int | None = None,
    redo: Collection[str] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Run what is not finished of an experiment, then write its tables, figures and page."""
    # `out`: the folder. It keeps every finished setting; the same call goes on where it was stopped; `redo`: methods
    # whose results are dropped and made again; "all" starts the folder anew, also where it is of another version or of
    # other options.
    chosen = experiment(name, options or Options())
    for method in redo:
        if method != "all" and method not in MODELS:
            raise RequestError(f"cannot redo {method!r}; give all or methods of {', '.join(MODELS)}")
    return perform(chosen, out, jobs=jobs, redo=redo, progress=progress)


def perform(
    chosen: Experiment,
    out: Path,
    *,
    jobs: int | None = None,
    redo: Collection[str] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Return the same for an experiment that is made already."""
    require_matplotlib()
    with Store(Path(out), chosen).opened(redo) as store:
        run_missing(store, thread_count(jobs), progress)
        return write(Path(out), chosen, store.records())
