"""Finished settings, saved in a folder so that an interrupted run can continue.

``run.json`` describes the folder; ``finished.jsonl`` has one line per method and setting, added when it is done. A line
that was cut off when the run was killed is dropped. All tables are made from these two, in the order of the settings
and not of their completion.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from crowdsift._version import __version__
from crowdsift.errors import RequestError
from crowdsift.io.files import require_folder, write_folder
from crowdsift.paper.base import Experiment, Options, Record, Setting

_RUN = "run.json"
_FINISHED = "finished.jsonl"


class Store:
    """The finished records of one experiment in one folder."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder
        self.experiment = experiment
        self._records: dict[str, Record] = {}

    @contextlib.contextmanager
    def opened(self, redo: Collection[str] = ()) -> Iterator[Store]:
        """Open the folder for this run: check that it matches, read it, drop the methods to redo."""
        require_folder(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / ".lock", self.folder):
            self._claim("all" in redo)
            self._read()
            if redo:
                self._forget(redo)
            yield self

    def add(self, records: list[Record]) -> None:
        """Save the records of a finished setting."""
        lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        with (self.folder / _FINISHED).open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        for record in records:
            self._records[_key(record["setting"], record["method"])] = record

    def missing(self, setting: Setting) -> tuple[str, ...]:
        """Return the methods that are not done yet on a setting."""
        methods = self.experiment.methods(setting)
        return tuple(name for name in methods if _key(setting, name) not in self._records)

    def records(self) -> list[Record]:
        """Return the finished part of the request, in the order of the settings and methods."""
        keys = [
            _key(setting, method)
            for setting in self.experiment.settings()
            for method in self.experiment.methods(setting)
        ]
        return [self._records[key] for key in keys if key in self._records]

    def hold(self, records: list[Record]) -> None:
        """Replace all records by these."""
        self._records = {_key(record["setting"], record["method"]): record for record in records}
        lines = [json.dumps(record, ensure_ascii=False) for record in self._records.values()]
        write_folder(self.folder, {_FINISHED: "".join(line + "\n" for line in lines)})

    def _claim(self, anew: bool) -> None:
        """Raise an error for a folder with other content; otherwise write the description of this run."""
        wanted = self._identity()
        path = self.folder / _RUN
        found = _read_json(path) if path.exists() else None
        if found is None and any(entry.name != ".lock" for entry in self.folder.iterdir()):
            raise RequestError(
                f"{self.folder} has files but no {_RUN}, so it is no folder of "
                "results; give a new or empty folder with --out"
            )
        if found is not None:
            self._compare(found, wanted, anew)
        if anew:
            (self.folder / _FINISHED).unlink(missing_ok=True)
        write_folder(self.folder, {_RUN: json.dumps(wanted, indent=2) + "\n"})

    def _compare(self, found: dict[str, Any], wanted: dict[str, Any], anew: bool) -> None:
        different = [name for name in wanted if found.get(name) != wanted[name]]
        there = found.get("seeds", 0)
        if not isinstance(there, int) or wanted["seeds"] >= there:  # a run with more seeds continues from these
            different = [name for name in different if name != "seeds"]
        if anew and "experiment" not in different:
            return
        if different:
            result = "; ".join(
                f"{name} {_shown(found.get(name))} there, {_shown(wanted[name])} now" for name in different
            )
            anyway = "" if anew else ", or start again with --redo all"
            raise RequestError(
                f"{self.folder} holds results that cannot be mixed with these: {result}. Give another folder with "
                f"--out, use the same version and options{anyway}"
            )

    def _identity(self) -> dict[str, Any]:
        experiment, options = self.experiment, self.experiment.options
        return {
            "experiment": experiment.name,
            "version": __version__,
            "quick": options.quick,
            "tune": options.tune,
            "seeds": len(experiment.seeds),
            "inputs": {path.name: _digest(path) for path in experiment.inputs()},
        }

    def _read(self) -> None:
        path = self.folder / _FINISHED
        self._records = {}
        if not path.exists():
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # the run was killed while it wrote this line
            with path.open("r+b") as file:
                file.truncate(len(whole))
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            try:
                record = _checked(json.loads(line.decode()))
                self._records[_key(record["setting"], record["method"])] = record
            except (ValueError, KeyError, TypeError, RecursionError):
                raise RequestError(f"{path}, line {number}: damaged; remove that line, and it is done again") from None

    def _forget(self, methods: Collection[str]) -> None:
        """Drop the records of some methods, so that only they run again."""
        self.hold([each for each in self._records.values() if each["method"] not in methods])


def made_with(folder: Path, data: Path | None = None, fetch: bool = False) -> Options:
    """Return the options with which a folder was made."""
    path = folder / _RUN
    found = _read_json(path)
    try:
        return Options(bool(found["quick"]), int(found["seeds"]), bool(found["tune"]), data, fetch)
    except (KeyError, TypeError, ValueError):
        raise RequestError(f"{path} is damaged; run that experiment in another folder") from None


def _key(setting: Setting, method: str) -> str:
    return json.dumps([dict(setting), method], sort_keys=True)


def _checked(record: Any) -> Record:
    """Return a record with all fields that tables need; raise TypeError or KeyError for others."""
    kinds: dict[str, type | tuple[type, ...]] = {
        "setting": dict,
        "method": str,
        "figures": dict,
        "seconds": (int, float),
        "note": str,
    }
    for name, kind in kinds.items():
        if not isinstance(record[name], kind):
            raise TypeError(name)
    for value in record["figures"].values():
        if value is not None and not isinstance(value, (int, float)):
            raise TypeError("figures")
    found: Record = record
    return found


def _shown(value: Any) -> str:
    return "absent" if value is None else json.dumps(value)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise RequestError(f"{path} is damaged; give another folder with --out")
    return found


@contextlib.contextmanager
def _locked(path: Path, folder: Path) -> Iterator[None]:
    with path.open("w") as file:
        if sys.platform == "win32":  # this system has no such locks
            yield
            return
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RequestError(f"another run is writing to {folder}; wait for it") from None
        yield
