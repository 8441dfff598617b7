"""Fits on disk: a folder of CSV, JSON and Parquet files, versioned, never pickled."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError
from crowdsift.io.files import write_folder
from crowdsift.results.fit import Fit
from crowdsift.results.site_file import SITES, fingerprint, read_sites, sites_bytes
from crowdsift.results.tables import Table

__all__ = ["FORMAT", "load", "save"]

# Number of the layout of a saved fit; a reader refuses another.
FORMAT = 1

# How a label of each type is read back from text; labels of any other type come back as text.
_READERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "NoneType": lambda _: None,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "Timestamp": datetime.fromisoformat,
    "Decimal": Decimal,
}
_CROWD = "crowd.json"
_TEXT_COLUMNS = {"verdict", "flag"}


def save(fit: Fit, directory: str | os.PathLike[str]) -> None:
    """Write a fit; see `Fit.save`."""
    record = {
        **fit.summary,
        "format": FORMAT,
        "parameters": fit.parameters,
        "trace": list(fit.trace),
        "label_types": {
            "item": _label_types(fit.item_table["item"]),
            **_context_types(fit),
            "worker": _label_types(fit.worker_table["worker"]),
        },
    }
    write_folder(
        directory,
        {
            "items.csv": fit.item_table.to_csv(),
            "workers.csv": fit.worker_table.to_csv(),
            "summary.json": json.dumps(record, indent=2, allow_nan=False) + "\n",
            **_crowd_files(fit),
        },
    )


def load(directory: str | os.PathLike[str]) -> Fit:
    """A fit that was saved.

    Examples
    --------
    >>> import crowdsift, tempfile
    >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     crowdsift.fit(votes, method="bt").save(folder)
    ...     crowdsift.load(folder).items["item"].tolist()
    ['a', 'b']
    """
    folder = Path(directory)
    record = _record(folder)
    try:
        types, parameters, trace = (record.pop(k) for k in ("label_types", "parameters", "trace"))
        workers = _table(folder, "worker", {"worker": types["worker"]})
        items = _table(folder, "item", {k: v for k, v in types.items() if k != "worker"})
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"the saved fit is damaged ({error!r})", source=str(folder)) from None
    crowd, sites = _crowd(folder), None
    expected = None if crowd is None else crowd.pop("sites", None)
    if expected is not None and (folder / SITES).exists():
        people = len(workers["worker"]) + 1  # the last is gold
        sites = read_sites(folder / SITES, expected, len(items["item"]), people)
    return Fit(items, workers, summary=record, parameters=parameters, trace=tuple(trace),
               crowd=crowd, sites=sites)  # fmt: skip


def _crowd_files(fit: Fit) -> dict[str, str | Iterable[bytes]]:
    """What was learned of the crowd, where a method learns one: a later fit can start there.

    Beside it the sites of the votes, if they were kept; crowd.json tells which file it is, since
    one of an earlier fit may lie in the folder.
    """
    if fit.crowd is None:
        return {}
    content = None if fit.sites is None else sites_bytes(fit.sites)
    crowd = {**fit.crowd, "sites": None if content is None else fingerprint(content)}
    text = json.dumps(crowd, allow_nan=False) + "\n"
    return {_CROWD: text} if content is None else {_CROWD: text, SITES: [content]}


def _crowd(folder: Path) -> dict[str, Any] | None:
    path = folder / _CROWD
    if not path.exists():
        return None
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"not what a fit saved: {error}", source=str(path)) from None


def _record(folder: Path) -> dict[str, Any]:
    """What summary.json holds, if it is of this format."""
    path = folder / "summary.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(
            "no summary.json here; give a folder written by --out or Fit.save", source=str(folder)
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a saved fit: {error}", source=str(path)) from None
    found = record.pop("format", None) if isinstance(record, dict) else None
    if found != FORMAT:
        raise InputError(
            f"saved in format {found!r}, this version reads format {FORMAT}; fit the votes again",
            source=str(folder),
        )
    return dict(record)


def _table(folder: Path, kind: str, types: dict[str, list[str]]) -> Table:
    path = folder / f"{kind}s.csv"
    if not path.exists():
        raise InputError("the saved fit is incomplete: file missing", source=str(path))
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    columns = dict(zip(header, map(list, cells), strict=True))
    parsed: dict[str, NDArray[Any]] = {}
    for name, texts in columns.items():
        if name in types:
            kinds = types[name] if len(types[name]) > 1 else types[name] * len(texts)
            parsed[name] = np.empty(len(texts), dtype=object)
            parsed[name][:] = [
                _READERS.get(k, str)(text) for k, text in zip(kinds, texts, strict=True)
            ]
        else:
            parsed[name] = _values(name, texts)
    return Table(parsed)


def _values(name: str, texts: list[str]) -> NDArray[Any]:
    """A column of text as a column of its own type."""
    if name in _TEXT_COLUMNS:
        return np.array(texts, dtype=object)
    if all(text.lstrip("-").isdigit() for text in texts):
        return np.array(texts, dtype=np.int64)
    return np.array([float(text) if text else np.nan for text in texts])


def _context_types(fit: Fit) -> dict[str, list[str]]:
    """The types of the values of the context column, under its name."""
    context = fit.summary.get("by")
    return {context: _label_types(fit.item_table[context])} if context else {}


def _label_types(labels: NDArray[Any]) -> list[str]:
    """The type of every label, or one name where all are of one type."""
    names = [type(label).__name__ for label in labels]
    return names[:1] if len(set(names)) == 1 else names
