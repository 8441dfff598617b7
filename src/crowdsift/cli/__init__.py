"""The command line: it parses, calls the library and prints, without arithmetic. One file per command."""

import errno
import inspect
import os
import signal
import sys
import tempfile
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from crowdsift.cli.ask import ask, plan
from crowdsift.cli.evaluate import evaluate
from crowdsift.cli.export import export
from crowdsift.cli.fit import fit
from crowdsift.cli.interrupts import Interrupted, defer_signals, handle_signals, ignore_signals, signal_seen
from crowdsift.cli.next import next_
from crowdsift.cli.options import require_targets
from crowdsift.cli.reproduce import reproduce
from crowdsift.cli.saved import compare, predict, report, update
from crowdsift.cli.simulated import demo, simulate, spam
from crowdsift.cli.terminal import say, whole_writes
from crowdsift.errors import COMMAND_LINE, CrowdsiftError
from crowdsift.io import forget_written, read_files, written

__all__ = ["app", "main", "program"]

app = typer.Typer(
    name="crowdsift",
    help="Scores for items and a verdict on every worker, from pairwise votes alone.",
    no_args_is_help=True,
    add_completion=True,  # --install-completion
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from crowdsift._version import __version__

        print(f"crowdsift {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Scores for items and a verdict on every worker, from pairwise votes alone."""


_SHORTAGE = (
    "not enough memory for these votes: the system gives no more memory or no further thread; raise the limit (ulimit "
    "-v, ulimit -u, or that of the container), or use fewer --threads"
)


class _Command(TyperCommand):
    """A command that checks its files before it runs, and explains a glob without quotes."""

    def invoke(self, ctx: Any) -> Any:
        options = {
            each.name: each.opts[0] if each.opts[0].startswith("-") else each.metavar or each.name
            for each in self.params
        }
        if self.callback is not None:
            require_targets(inspect.unwrap(self.callback), ctx.params, options)
        return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        args = list(args)
        if "--worker-from-path" in args:  # its pattern may be omitted
            place = args.index("--worker-from-path")
            following = (*args[place + 1 :], "-")[0]
            if following.startswith("-") or read_files(following) or os.path.isdir(following):
                args[place] += "=auto"
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if "unexpected extra argument" in (message := str(getattr(error, "message", ""))):
                error.message = (  # type: ignore[attr-defined]
                    f'{message}; one file is read, or a glob in quotes: "votes-*.csv"'
                )
            raise


# The list of commands shows these, with one line each.
_COMMANDS = (
    (demo, "Simulate a crowd with spammers, fit it and show the result.", ""),
    (fit, "Fit votes: scores of items, verdicts on workers.", "fit votes.csv --out result --report report.html"),
    (update, "Add votes to a saved fit.", "update result new.csv"),
    (report, "Write the report of a saved fit.", "report result"),
    (compare, "Compare two saved fits of the same items.", "compare session1 session2 --plot both.pdf"),
    (predict, "Predict votes on pairs by a saved fit.", "predict result pairs.csv"),
    (next_, "Choose the comparisons worth asking next.", "next votes.csv --pairs 100 --out ask.csv"),
    (ask, "Collect votes in the browser.", "ask items.csv --study study.sqlite --goal first"),
    (plan, "Estimate how many more votes are needed.", "plan items.csv --goal top-3"),
    (export, "Write votes with soft labels, to train on.", "export votes.jsonl --out train.jsonl"),
    (evaluate, "Compare methods on the same votes.", "evaluate votes.csv --methods sift,bt"),
    (spam, "Add spammers to votes.", "spam votes.csv --kind left --percent 50 --out spammed.csv"),
    (simulate, "Draw votes with a known truth.", "simulate --items 40 --workers 30 --comparisons 5000 --out drawn"),
    (reproduce, "Run the paper's experiments again.", "reproduce synthetic --quick"),
)
for _command, _short, _example in _COMMANDS:
    app.command(
        _command.__name__.rstrip("_"),
        short_help=_short,
        epilog=f"Example: crowdsift {_example}" if _example else None,
        cls=_Command,
    )(_command)


def program() -> None:
    """Run the program as the main process."""
    with handle_signals(last=True):
        _run()


def main() -> None:
    """Run a command; our errors become one line and status 1, never a traceback."""
    with handle_signals():
        _run()


def _run() -> None:
    """Run the command; every error becomes a line on standard error and an exit status."""
    forget_written()
    shown = COMMAND_LINE.set(True)
    warnings.simplefilter("ignore")  # results contain the library's warnings, which are shown here
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # letters that the terminal cannot show become escapes
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        _fail("standard output is closed; send it to a file or to /dev/null")
    try:
        _prepare()
        with whole_writes():
            app()
    except Interrupted as error:
        _interrupted(error)
    except (Exception, SystemExit) as error:
        failed = isinstance(error, SystemExit) and error.code
        if (number := signal_seen()) is not None and not failed:  # a library swallowed it
            _interrupted(Interrupted(number))
        if isinstance(error, SystemExit):
            raise
        _explain(error)
    finally:
        COMMAND_LINE.reset(shown)


def _explain(error: Exception) -> None:
    """Print the error in one line, and exit with status 1."""
    if isinstance(error, CrowdsiftError):
        _fail(str(error))
    if isinstance(error, OSError):  # the output cannot be written; `head` closes the pipe early
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        if _is_shortage(error):
            _fail(_SHORTAGE)
        _fail(f"cannot write the output: {error.strerror or error}")
    if isinstance(error, MemoryError) or _is_shortage(error):
        _fail(_SHORTAGE)
    if os.environ.get("CROWDSIFT_DEBUG"):
        raise error
    first = (str(error).splitlines() or [""])[0][:300]
    _fail(
        f"internal error ({type(error).__name__}: {first}); this is a fault of "
        "crowdsift. Set CROWDSIFT_DEBUG=1 to see where it happened"
    )


def _is_shortage(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOMEM, errno.EAGAIN)
    causes = (
        "start new thread",
        "allocate memory",
        "failed to map segment",
        "bad_alloc",
        "resource temporarily unavailable",
    )
    return any(cause in str(error).lower() for cause in causes)


def _prepare() -> None:
    """Import DuckDB with signals deferred: an exception during its import would end the process."""
    # Python tests the folder of temporary files once, with a file that a signal could leave there.
    if not {"-h", "--help", "--version"} & set(sys.argv) and len(sys.argv) > 2:
        with defer_signals():
            import_module("duckdb")
            with suppress(OSError):  # an error follows when it is needed
                tempfile.gettempdir()


def _interrupted(error: Interrupted) -> None:
    ignore_signals()
    what = "interrupted" if error.number == signal.SIGINT else "ended by a signal"
    done = ", ".join(str(path) for path in written())
    say(f"crowdsift: {what}; " + (f"already written: {done}" if done else "nothing was written"))
    sys.exit(error.status)


def _fail(message: str) -> None:
    say(f"crowdsift: error: {message}")
    sys.exit(1)
