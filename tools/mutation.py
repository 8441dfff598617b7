"""Mutation testing: small faults are put into the code, and the tests must notice.

``python -m tools.mutation`` takes a sample of mutants, fixed by a seed, of the likelihoods, metrics, verdicts and
solvers, and runs for each the tests of its file. Cosmic Ray makes the mutants; each is tried in a forked process in
which the one module is loaded from the changed source, so that nothing is written and the libraries are loaded once.
Left out are mutants that die by their type (bits of floats) and say nothing of the tests. A mutant that survives is
printed with its line; those that no test can notice are listed with the reason in tools/mutants.toml.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import importlib.machinery
import json
import os
import random
import re
import select
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "crowdsift"
EXCUSED = ROOT / "tools" / "mutants.toml"

OPTIMUM = "tests/solvers/test_optimum.py"
EM_STEPS = "tests/solvers/test_em_steps.py"
ELIMINATION_STEPS = "tests/solvers/test_elimination_steps.py"
SLOPE_STEPS = "tests/solvers/test_slope_steps.py"
SCALE = "tests/solvers/test_scale.py"
CONTEXTS = "tests/solvers/test_contexts.py"
FEATURES = "tests/solvers/test_item_features.py"
GRID = "tests/engines/test_grid_passes.py"
GROUPS = "tests/solvers/test_group_prior.py"
TRIAL = "tests/solvers/test_context_trial.py"
SUMMARY = "tests/solvers/test_type_summary.py"
SIFT = "tests/models/test_sift.py"
VERDICTS = "tests/results/test_verdicts.py"
BALANCED = "tests/models/test_models.py::test_bora_em_of_balanced_votes_knows_no_names_of_workers"
# What is mutated, and the tests that must notice, the fastest first; its own doctests always belong to them. More tests
# would notice more: these are the ones that are about the file.
TARGETS: dict[str, tuple[str, ...]] = {
    "numeric/likelihoods.py": ("tests/numeric/test_likelihoods.py", OPTIMUM, "tests/engines/test_engines.py"),
    "numeric/metrics.py": ("tests/numeric/test_metrics.py",),
    "results/verdicts.py": (
        "tests/results/test_verdict_limits.py",
        f"{VERDICTS}::test_agreement_is_with_a_fit_of_the_others",
        f"{VERDICTS}::test_pairs_that_others_leave_open_do_not_count",
        f"{VERDICTS}::test_an_item_that_nobody_else_judged_is_open_in_large_components_too",
        f"{VERDICTS}::test_nobody_with_one_vote_is_called_anything",
        f"{VERDICTS}::test_weak_workers_are_not_random_and_are_paid",
    ),
    "solvers/convergence.py": ("tests/solvers/test_newton.py",),
    "solvers/elimination.py": (ELIMINATION_STEPS, OPTIMUM),
    "solvers/em.py": (EM_STEPS, OPTIMUM, BALANCED),
    "solvers/ep/terms/contexts.py": (
        "tests/solvers/test_context_sides.py",
        f"{TRIAL}::test_gains_of_sides_are_differences_of_evidence",
        f"{CONTEXTS}::test_types_by_enumeration",
        f"{CONTEXTS}::test_workers_of_one_context_need_no_tree",
        f"{CONTEXTS}::test_the_spread_is_where_the_evidence_is_largest",
        f"{CONTEXTS}::test_contexts_that_contradict_each_other_leave_no_type_without_a_prior",
        f"{CONTEXTS}::test_votes_that_say_nothing_leave_the_spread_at_its_prior",
        f"{CONTEXTS}::test_likelihoods_on_the_common_grid_keep_products_with_a_prior",
        f"{TRIAL}::test_gains_are_differences_of_evidence",
    ),
    "solvers/ep/terms/dependent.py": (
        f"{GROUPS}::test_nodes_integrated_out_block_by_block_are_those_of_dense_matrices",
        f"{GROUPS}::test_groups_of_one_pair_have_the_algebra_of_the_pair_effect",
        f"{GROUPS}::test_sites_without_a_proper_gaussian_are_said_to_be_improper",
        f"{GROUPS}::test_an_effect_of_groups_is_found_at_its_size_and_only_where_there_is_one",
    ),
    "solvers/ep/terms/features.py": (FEATURES, "tests/models/test_bora_map_features.py"),
    "solvers/ep/warm.py": ("tests/solvers/test_kept_sites.py",),
    "solvers/ep/summaries.py": (SUMMARY, GRID),
    "solvers/ep/items.py": (
        OPTIMUM,
        "tests/solvers/test_effect_step.py",
        f"{GRID}::test_belief_propagation_is_exact_on_a_tree_and_close_on_a_random_graph",
        f"{GRID}::test_variances_of_pairs_are_those_of_the_inverse",
        f"{GRID}::test_a_held_scale_is_in_the_system",
        "tests/engines/test_variances.py",
    ),
    "solvers/ep/workers.py": ("tests/solvers/test_worker_prior.py", "tests/solvers/test_side_prior.py", SUMMARY, SIFT),
    "solvers/feature_map.py": ("tests/models/test_bora_map_features.py",),
    "solvers/newton.py": ("tests/solvers/test_newton.py", OPTIMUM),
    "solvers/slopes.py": (
        SLOPE_STEPS,
        OPTIMUM,
        f"{SCALE}::test_curvature_along_the_scores",
        f"{SCALE}::test_best_scale_costs_least",
        f"{SCALE}::test_the_best_scale_of_workers_alike_is_the_least_cost_on_a_grid",
        f"{SCALE}::test_workers_without_votes_stay_at_the_prior_whatever_the_scale",
        f"{SCALE}::test_no_scale_where_the_votes_speak_against_the_prior",
        f"{SCALE}::test_scores_far_too_small_are_scaled_at_once",
    ),
}
# Replacements of one operator by another of the same kind.
_ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Mul_Add", "Add_Mul", "Pow_Mul")
_ORDER = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Lt_GtE", "GtE_Lt", "Gt_LtE", "LtE_Gt")
_EQUAL = ("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
OPERATORS = (
    *(f"core/ReplaceBinaryOperator_{name}" for name in _ARITHMETIC),
    *(f"core/ReplaceComparisonOperator_{name}" for name in (*_ORDER, *_EQUAL)),
    "core/ReplaceUnaryOperator_Delete_USub",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/ReplaceUnaryOperator_Delete_Invert",
    *("core/AddNot", "core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/NumberReplacer"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"),
    "core/ZeroIterationForLoop",
)


@dataclass(frozen=True)
class Mutant:
    """One fault in one file."""

    file: str
    operator: str
    occurrence: int
    source: str

    def change(self) -> tuple[int, str, str]:
        """Return the line, what stands there, and what stands there instead."""
        before = (PACKAGE / self.file).read_text(encoding="utf-8").splitlines()
        after = self.source.splitlines()
        for tag, one, end, two, last in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            if tag != "equal":
                return one + 1, " ".join(before[one:end]).strip(), " ".join(after[two:last]).strip()
        return 0, "", ""


def mutants(file: str, seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a file that can be compiled, in random order; each takes a pass over the file."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.mutating import MutationVisitor
    from cosmic_ray.plugins import get_operator

    before = (PACKAGE / file).read_text(encoding="utf-8")
    operators = {name: get_operator(name)() for name in OPERATORS}
    count = Counter(
        name for node in _nodes(get_ast(before)) for name in OPERATORS for _ in operators[name].mutation_positions(node)
    )
    places = [(name, occurrence) for name in OPERATORS for occurrence in range(count[name])]
    random.Random(seed).shuffle(places)
    for name, occurrence in places:
        after = MutationVisitor(occurrence, operators[name]).walk(get_ast(before)).get_code()
        if "not TYPE_CHECKING" in after:  # types only
            continue
        if "/," in after and "/," not in before:  # the star of a signature is no product
            continue
        with contextlib.suppress(SyntaxError):
            compile(after, file, "exec")
            yield Mutant(file, name.removeprefix("core/"), occurrence, after)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


class Mutated(importlib.machinery.SourceFileLoader):
    """Loads one module from the changed source."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> object:
        """Return the changed source, compiled; no cache is read or written."""
        return compile(self._source, self.get_filename(fullname), "exec")


class Finder:
    """Finds the one module that is changed, before the usual finders."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = "crowdsift." + mutant.file.removesuffix(".py").replace("/", ".")

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return a loader for that module, nothing for all others."""
        if name != self._name:
            return None
        file = str(PACKAGE / self._mutant.file)
        loader = Mutated(name, file, self._mutant.source)
        return importlib.machinery.ModuleSpec(name, loader, origin=file)


def run_tests(mutant: Mutant | None, file: str) -> int:
    """Return the exit status of the tests of a file, run in this process without output."""
    import pytest

    if mutant is not None:
        sys.meta_path.insert(0, Finder(mutant))  # type: ignore[arg-type]
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    tests = [str(PACKAGE / file), *(str(ROOT / test) for test in TARGETS[file])]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is loaded already
    return int(pytest.main([*options, "--rootdir", str(ROOT), *tests]))


def tried(mutant: Mutant | None, file: str, limit: float) -> tuple[str, float]:
    """killed, survived or timeout, and the seconds; the tests run in a process of their own."""
    started = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        status = 99
        with contextlib.suppress(BaseException):
            os.setsid()
            status = run_tests(mutant, file)
        os.write(write, json.dumps(status).encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], limit)
    answer = os.read(read, 100) if ready else b"timeout"
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    seconds = time.monotonic() - started
    word = "timeout" if answer == b"timeout" else "survived" if answer == b"0" else "killed"
    return word, seconds


class Kept:
    """What became of mutants in a run that was stopped.

    Those that lived count only as long as their tests stay as they are.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self._words = {name: (tests, word) for name, tests, word in map(json.loads, lines)}

    def word(self, mutant: Mutant) -> str | None:
        """How it ended, if that is known; the whole file is part of its name."""
        tests, word = self._words.get(_digest(mutant.file + mutant.source), ("", None))
        return None if word == "survived" and tests != _tests_of(mutant.file) else word

    def add(self, mutant: Mutant, word: str) -> None:
        """Keep how it ended."""
        if self._file is not None:
            entry = [_digest(mutant.file + mutant.source), _tests_of(mutant.file), word]
            with self._file.open("a") as file:
                file.write(json.dumps(entry) + "\n")


@cache
def _tests_of(file: str) -> str:
    """Return a digest of the tests of a file."""
    paths = dict.fromkeys(ROOT / test.split("::")[0] for test in TARGETS[file])
    return _digest("".join(path.read_text(encoding="utf-8") for path in paths))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def excused() -> dict[tuple[str, str, str | None], str]:
    """Return the mutants that no test can notice, by file, line before and line after, with the reason.

    Without a line after, any other number in that line. An entry that matches nothing ends the program.
    """
    entries = tomllib.loads(EXCUSED.read_text(encoding="utf-8"))["mutant"]
    stale = [f"{each['file']}: {each['before']}" for each in entries if not _occurs(each["before"], each["file"])]
    if stale:
        sys.exit(
            "tools/mutants.toml has lines that are no longer in the source; correct or remove them:\n"
            + "\n".join(stale)
        )
    return {(e["file"], e["before"], e.get("after")): e["reason"] for e in entries}


def _occurs(before: str, file: str) -> bool:
    """Return whether a line, or several joined by blanks as `Mutant.change` joins them, is in the file."""
    path = PACKAGE / file
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    return any(" ".join(lines[i : i + n]).strip() == before for n in (1, 2, 3, 4) for i in range(len(lines)))


def main() -> None:
    """Try the sample, print a line for every survivor and a table; exit 1 below the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=30, help="mutants of a file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="no mutant is begun after")
    parser.add_argument("--trust", action="store_true", help="do not run the tests unchanged first")
    parser.add_argument("--only", default="", help="a pattern of file names")
    parser.add_argument("--keep", type=Path, help="a file of what was tried, to go on from")
    parser.add_argument("--least", type=float, default=0.85, help="the share to be killed")
    options = parser.parse_args()
    import hypothesis  # noqa: F401, loaded once for all
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401

    os.chdir(ROOT)
    until = time.monotonic() + 60.0 * options.minutes
    known, limits, queues, kept = excused(), {}, [], Kept(options.keep)
    for file in TARGETS:
        if not re.search(options.only, file):
            continue
        if not options.trust:
            word, seconds = tried(None, file, 600.0)
            if word != "survived":
                sys.exit(f"{file}: its tests fail without a fault")
            limits[file] = 20.0 + 5.0 * seconds
        queues.append(islice(mutants(file, options.seed), options.each))
    found = []
    for mutant in filter(None, chain.from_iterable(zip_longest(*queues))):  # all files in turn
        line, before, after = mutant.change()
        ended = kept.word(mutant)
        if ended is None:
            if time.monotonic() > until:
                continue
            ended, _ = tried(mutant, mutant.file, limits.get(mutant.file, 200.0))
            kept.add(mutant, ended)
        reason = known.get((mutant.file, before, after))
        if reason is None and mutant.operator == "NumberReplacer":
            reason = known.get((mutant.file, before, None))
        found.append((mutant.file, ended, reason))
        if ended == "survived":
            print(f"  {mutant.file}:{line} [{mutant.operator}]\n    - {before}\n    + {after}")
            print(f"    {'no test can notice: ' + reason if reason else 'SURVIVED'}", flush=True)
    _table(found, options.least)


def _table(found: list[tuple[str, str, str | None]], least: float) -> None:
    """Print counts by file; exit with 1 if too few are killed. Excused mutants count as survivors."""
    print(f"{'file':28s}{'tried':>7s}{'killed':>8s}{'timeout':>9s}{'survived':>10s}{'excused':>9s}")
    names = [*dict.fromkeys(file for file, _, _ in found), ""]
    for name in names:
        mine = [entry for entry in found if name in ("", entry[0])]
        words = [word for _, word, _ in mine]
        counts = [words.count(word) for word in ("killed", "timeout", "survived")]
        reasons = sum(word == "survived" and reason is not None for _, word, reason in mine)
        print(f"{name or 'all':28s}{len(mine):7d}{counts[0]:8d}{counts[1]:9d}{counts[2]:10d}{reasons:9d}")
    share = sum(word != "survived" for _, word, _ in found) / max(len(found), 1)
    print(f"{share:.1%} killed, {least:.0%} asked")
    if share < least:
        sys.exit(1)


if __name__ == "__main__":
    main()
