"""Packages have one direction: none imports one above it, and no module is part of a cycle.

Imports are read from the source, those inside functions and for type checking included. Methods of `Fit` that check,
fit again or draw import what they need when called: `LAZY` lists these edges.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import crowdsift

PACKAGE = Path(crowdsift.__file__).parent
# From the ground up.
LAYERS = (
    "_version errors",
    "numeric",
    "votes",
    "io",
    "engines",
    "solvers",
    "models",
    "results",
    "fitting",
    "checks",
    "report",
    "active",
    "ask",
    "lab",
    "paper",
    "sklearn plots inspect",
    "__init__",
    "cli",
    "__main__",
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms.split()}
# Only these call the compiled core; solvers and models must run on any engine.
CORE = ("engines.cpu", "engines.covariates", "engines.dask", "votes.", "io.streamed", "results.verdicts")
# Imports that may point up, inside functions or for type checking only.
LAZY = {
    "results.fit": ("checks", "fitting", "report"),
    "fitting": ("checks",),  # intervals of dependent votes, and drift, are parts of a fit
}
# The command line uses the public API, the names that packages offer in their `__init__`, what prints, and these: the
# new votes of an update and the file of checkpoints (above `fitting`), the record of what was read, the server of
# studies, and the experiments of the paper.
COMMANDS = (
    "report.terminal",
    "report.progress",
    "fitting.refit",
    "fitting.start",
    "votes.intake",
    "ask.serve",
    "paper.",
)
# Edges that are forbidden although they point down: what describes a fit runs nothing.
FORBIDDEN = {
    "results": ("engines", "solvers"),
    "solvers": ("engines.cpu", "engines.torch", "engines.dask", "engines.out_of_core"),
}


def modules() -> dict[str, Path]:
    """Every module of the package by its name below `crowdsift`."""
    names = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] == "__init__" and len(parts) > 1:
            parts = parts[:-1]
        names[".".join(parts)] = path
    return names


MODULES = modules()


@cache
def tree(path: Path) -> ast.Module:
    """The source of a module, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(name: str, *, eager: bool = False) -> set[str]:
    """The modules of the package that a module imports; those of its top level only if `eager`."""
    top = tree(MODULES[name]).body
    found = set()
    for node in top if eager else ast.walk(tree(MODULES[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("crowdsift")}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: imports are written in full"
            base = node.module or ""
            if base.split(".")[0] == "crowdsift":
                found |= {_module(base, alias.name) for alias in node.names}
    return {_below(target) for target in found} - {name}


def _module(base: str, name: str) -> str:
    """`from base import name` is of the module `base.name` where there is one, else of `base`."""
    below = _below(f"{base}.{name}")
    return f"{base}.{name}" if below in MODULES or below == "_core" else base


def _below(target: str) -> str:
    return target.removeprefix("crowdsift").removeprefix(".") or "__init__"


def room(name: str) -> str:
    return name.split(".")[0]


def test_imports_point_down() -> None:
    homeless = [name for name in MODULES if room(name) not in LEVEL]
    assert not homeless, "in no room of the house"
    arrows = [(name, target) for name in MODULES for target in imports(name)]
    assert len(arrows) > len(MODULES)
    core = [name for name, target in arrows if target == "_core" and not name.startswith(CORE)]
    assert not core, "must not call the compiled core"
    upward = [
        f"{name} imports {target}"
        for name, target in arrows
        if target != "_core"
        and room(target) != room(name)
        and LEVEL[room(target)] >= LEVEL[room(name)]
        and (room(target) not in LAZY.get(name, ()) or target in imports(name, eager=True))
    ]
    assert not upward, "which is above"


ENGINES = ("cpu", "dask", "out_of_core", "sharded", "shards", "torch")


def test_solvers_know_no_engine() -> None:
    arrows = [(name, target) for name in MODULES for target in imports(name)]
    concrete = tuple(f"engines.{engine}" for engine in ENGINES)
    assert not [
        f"{name} imports {target}"
        for name, target in arrows
        if room(name) in ("solvers", "models") and target.startswith(concrete)
    ]


def test_forbidden_edges() -> None:
    edges = [
        f"{name} imports {target}"
        for name in MODULES
        for target in imports(name)
        for below in FORBIDDEN.get(room(name), ())
        if f"{target}.".startswith(f"{below}.")
    ]
    assert not edges


def test_commands_use_the_public_api() -> None:
    inner = [
        f"{name} imports {target}"
        for name in MODULES
        if room(name) == "cli"
        for target in imports(name)
        if "." in target and room(target) != "cli" and not target.startswith(COMMANDS)
    ]
    assert not inner


def test_one_function_estimates() -> None:
    """Votes become an estimate in `fitting.estimate` alone."""
    callers = {
        name
        for name, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("estimate_votes", "estimate_in_groups", "resume")
        and room(name) not in ("models", "solvers", "paper")
    }
    assert callers == {"fitting.estimate"}


def test_no_cycles() -> None:
    """Types may refer to each other within a package; what runs may not."""
    graph = {name: {t for t in imports(name, eager=True) if t in MODULES} for name in MODULES}
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def test_few_doors() -> None:
    entries = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    doors = {name for name in entries if name != "py.typed" and not name.startswith("_core")}
    assert len(doors) <= 22, sorted(doors)  # plots and inspect are imported by these names


def test_functions_are_short() -> None:
    long = {
        f"{name}.{node.name}": lines
        for name, path in MODULES.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and (lines := _body(name, node)) > 60
    }
    assert not long, "functions above 60 lines"


def _body(name: str, node: ast.FunctionDef) -> int:
    """Count the lines after signature and docstring, without those that pass on one argument to a long call.

    The formatter gives every argument of a long call or signature a line.
    """
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    start = (first.end_lineno or 0) if is_text else first.lineno - 1
    lines = MODULES[name].read_text(encoding="utf-8").splitlines()[start : node.end_lineno]
    return sum(not re.fullmatch(r"\s*(\w+=)?[\w.]+,", line) for line in lines)
