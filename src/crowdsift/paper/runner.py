"""Settings run in parallel processes, each with one thread; what is finished is kept at once."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from crowdsift.paper.base import Experiment, Options, Record, Setting
    from crowdsift.paper.store import Store

#: Called with how much of the work is done, of how much, and how many settings of how many.
Progress = Callable[[float, float, int, int], None]

# What libraries of linear algebra read when they are loaded.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def run_missing(store: Store, jobs: int, progress: Progress | None = None) -> None:
    """Run what the store has not, in so many processes."""
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


_made: dict[tuple[type[Experiment], Options], Experiment] = {}  # in each process


def _work(kind: type[Experiment], options: Options, setting: Setting, methods: Sequence[str]) -> list[Record]:
    if (kind, options) not in _made:
        _made[kind, options] = kind(options)
    return _made[kind, options].run(setting, methods)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed."""
    import signal
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # what the library warns of stands in the notes
    parent = parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the processes now: what they are at is not finished, and will be done again."""
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
