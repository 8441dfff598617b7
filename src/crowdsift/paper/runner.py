"""Run an experiment from its settings to its page, and write the page of all experiments.

Settings run in parallel processes, each with one thread; finished records are saved at once.
"""

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from crowdsift.errors import RequestError
from crowdsift.io.files import write_folder
from crowdsift.models import MODELS
from crowdsift.numeric.threads import thread_count
from crowdsift.paper import EXPERIMENTS, Options, experiment
from crowdsift.paper.base import Experiment, Record, Setting
from crowdsift.paper.figures import require_matplotlib
from crowdsift.paper.output import FOLDER, Files, content, described, fits_wanted, write
from crowdsift.paper.store import Store, made_with
from crowdsift.paper.summary import MARGIN

# Called with the work done, the total work, and the numbers of finished and of all settings.
Progress = Callable[[float, float, int, int], None]

_LARGE = 1_000_000  # bytes of a table that is left out
# Environment variables that libraries of linear algebra read when they are loaded.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def reproduce(
    name: str,
    out: Path,
    options: Options | None = None,
    *,
    jobs: int | None = None,
    redo: Collection[str] = (),
    progress: Progress | None = None,
) -> list[str]:
    """Run the unfinished part of an experiment, then write its tables, figures and page."""
    # `out`: the folder, which stores every finished setting; the same call continues after an interruption. `redo`:
    # methods whose results are computed again; "all" empties the folder first, even one with another version or other
    # options.
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
    """Run what an experiment lacks, write its output, and return the names of the files."""
    require_matplotlib()
    with Store(Path(out), chosen).opened(redo) as store:
        run_missing(store, thread_count(jobs), progress)
        return write(Path(out), chosen, store.records())


def write_results(runs: Path, out: Path, data: Path | None = None, *, fetch: bool = False) -> None:
    """Write results.md, and results/ beside it with tables and figures, from the runs in a folder."""
    # `runs` has one folder for each experiment, under its name. The page names missing experiments, and marks
    # unfinished ones. `data` and `fetch` are those of the runs: a folder that is searched first for data sets, and
    # whether to download.
    found = {}
    for name in EXPERIMENTS:
        if (runs / name / "run.json").is_file():
            found[name] = _finished(name, runs / name, data, fetch)
    if not found:
        raise RequestError(
            f"{runs} holds no run; make one with crowdsift reproduce synthetic --out "
            f"{runs / 'synthetic'}, or say with --runs where they are"
        )
    files: Files = {}
    parts = [_head(found)]
    for chosen, records in found.values():
        page = chosen.page(records)
        parts.append(f"## {chosen.title}\n\n{described(chosen, records)}\n{page.text}")
        for name, body in content(chosen, records, page).items():
            large = isinstance(body, str) and len(body) > _LARGE
            if not large and not name.endswith(("-seconds.csv", ".svg")):  # as in the runs
                files[name] = body
    write_folder(out / "results", files)
    write_folder(out, {"results.md": "\n".join(parts).replace(FOLDER, "results/")})


def _finished(name: str, folder: Path, data: Path | None, fetch: bool) -> tuple[Experiment, list[Record]]:
    options = made_with(folder, data, fetch)
    chosen = experiment(name, options)
    with Store(folder, chosen).opened() as store:
        return chosen, store.records()


def _head(found: dict[str, tuple[Experiment, list[Record]]]) -> str:
    """Return the first lines of the page: where the default beats, ties with or loses to the best of the eight."""
    lines = ["# Results", ""]
    lines.append(
        "`sift`, the default, against the best of the paper's eight methods, picked after the "
        f"fact in every setting; mean accuracy, a tie is within {MARGIN:g}:"
    )
    lines.append("")
    for chosen, records in found.values():
        known = chosen.standings(records)
        result = [f"{part}: {value}" for part, value in known.items() if value.settings]
        if result:
            wanted = fits_wanted(chosen)
            state = "" if len(records) == wanted else f" ({len(records)} of {wanted} fits done)"
            lines.append(f"- **{chosen.title}**{state} · {'; '.join(result)}")
    missing = [EXPERIMENTS[name].title for name in EXPERIMENTS if name not in found]
    if missing:
        lines += ["", f"Not run: {', '.join(missing)}."]
    lines += ["", ""]
    return "\n".join(lines) + _ABOUT


_ABOUT = """\
This page is written by `crowdsift reproduce results` from the runs in `reproduce-output`; see
[how to make them](reproduce.md). The tables are in `docs/research/results/` as CSV. Unless said
otherwise every method runs at its defaults, and all see the same votes.
"""


def run_missing(store: Store, jobs: int, progress: Progress | None = None) -> None:
    """Run the experiments that the store lacks, in this number of processes."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    experiment = store.experiment
    left = [(setting, store.missing(setting)) for setting in experiment.settings()]
    if experiment.by_method:
        left = [(setting, (name,)) for setting, methods in left for name in methods]
    left = [(setting, methods) for setting, methods in left if methods]
    if not left:
        return
    shares = [experiment.cost(setting) * len(methods) / len(experiment.methods(setting)) for setting, methods in left]
    total, done = sum(shares), 0.0
    if progress is not None:
        progress(0.0, total, 0, len(left))
    with _one_thread_each():
        pool = ProcessPoolExecutor(min(jobs, len(left)), mp_context=get_context("spawn"), initializer=_start_worker)
        try:
            tasks = {
                pool.submit(_work, type(experiment), experiment.options, setting, methods): share
                for (setting, methods), share in zip(left, shares, strict=True)
            }
            for count, task in enumerate(as_completed(tasks), 1):
                store.add(task.result())
                done += tasks[task]
                if progress is not None:
                    progress(done, total, count, len(left))
            pool.shutdown()
        except BrokenProcessPool:
            _stop(pool)
            raise RequestError(
                "a process was killed, perhaps for lack of memory; what is finished is kept: "
                "start the same command again, with fewer --jobs"
            ) from None
        except BaseException:
            _stop(pool)
            raise


_made: dict[tuple[type[Experiment], Options], Experiment] = {}  # one per process


def _work(kind: type[Experiment], options: Options, setting: Setting, methods: Sequence[str]) -> list[Record]:
    if (kind, options) not in _made:
        _made[kind, options] = kind(options)
    return _made[kind, options].run(setting, methods)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed."""
    import signal
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # the notes contain the library's warnings
    parent = parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes now; their unfinished work will be repeated."""
    workers = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join()


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Yield the environment of the processes that are started inside the block."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def shown(title: str) -> Iterator[Progress]:
    """Yield a function that shows the settings done, the time since the start and the time left.

    The time left is estimated from the expected cost of settings, not from their number.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]} of {task.fields[settings]} settings"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=600.0,
    )
    with bar:
        task = bar.add_task(title, total=None, count=0, settings="?")

        def report(done: float, total: float, count: int, settings: int) -> None:
            bar.update(task, completed=done, total=total, count=count, settings=settings)

        yield report
