"""The record of a fit."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.files import write_folder
from crowdsift.models import model
from crowdsift.tables import Backend, Table

__all__ = ["FORMAT", "Fit", "load"]

# Number of the layout of a saved fit; a reader refuses another.
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Fit:
    """What was estimated from the votes, and how.

    Attributes
    ----------
    items, workers
        The tables of the result: item, score, lower, upper, rank, rank_lower, rank_upper,
        comparisons, component; and worker, reliability, lower, upper, side_bias, side_lower,
        side_upper, comparisons, agreement, verdict. Intervals are 90 %. Data frames of the kind
        that the votes came in, otherwise a `Table`.
    summary
        Method, version, counts, convergence, likelihood, seconds and warnings.
    parameters
        The hyper-parameters of the method.
    trace
        The mean over votes of what the method maximises (log-likelihood, with the penalty where
        there is one), before the first and after every iteration.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=10, workers=8, comparisons=800, seed=3).comparisons()
    >>> fit = crowdsift.fit(votes, method="bora-em")
    >>> fit
    Fit(bora-em: 10 items, 8 workers, 800 votes; converged in ... iterations)
    >>> fit.items["rank"].tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """

    item_table: Table
    worker_table: Table
    summary: dict[str, Any]
    parameters: dict[str, Any]
    trace: tuple[float, ...] = ()
    backend: Backend | None = None

    @property
    def items(self) -> Any:
        """The items, the best first."""
        return self._native(self.item_table)

    @property
    def workers(self) -> Any:
        """The workers, by label."""
        return self._native(self.worker_table)

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.summary["method"])

    @property
    def converged(self) -> bool:
        """Whether the method reached its tolerance."""
        return bool(self.summary["converged"])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look."""
        return tuple(self.summary["warnings"])

    def __repr__(self) -> str:
        s = self.summary
        how = "converged in" if self.converged else "NOT converged after"
        return (
            f"Fit({self.method}: {s['items']} items, {s['workers']} workers, {s['votes']:g} votes; "
            f"{how} {s['iterations']} iterations)"
        )

    def predict(self, first: Any, second: Any, worker: Any = None) -> float | NDArray[np.float64]:
        """Probability that a worker prefers `first` to `second`.

        Parameters
        ----------
        first, second
            A label each, or sequences of labels. An item without votes has the prior's score, 0.
        worker
            A label or a sequence; None, or a worker without votes, means one drawn from the
            crowd: the mean over all workers.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a", "a", "b"], ["b", "b", "a"])
        >>> fit = crowdsift.fit(votes, method="bt")
        >>> round(fit.predict("a", "b"), 3)
        0.666
        """
        single = not _is_sequence(first) and not _is_sequence(second)
        one, two = (_as_list(first), _as_list(second))
        n = max(len(one), len(two))
        who = _as_list(worker) if _is_sequence(worker) else [worker] * n
        score = dict(zip(self.item_table["item"], self.item_table["score"], strict=True))
        a, b = (np.array([score.get(label, 0.0) for label in side]) for side in (one, two))
        d = np.broadcast_to(a - b, (n,))
        if len(who) != n:
            raise RequestError(f"{n} pairs but {len(who)} workers")
        reliability = self.worker_table["reliability"].astype(np.float64)
        known = dict(zip(self.worker_table["worker"], reliability, strict=True))
        crowd = reliability if len(reliability) else np.array([np.nan])  # votes without workers
        rule = model(self.method, **self.parameters)
        result = np.empty(n)
        for i, label in enumerate(who):
            beta = np.array([known[label]]) if label in known else crowd
            result[i] = rule.probability(np.full(len(beta), d[i]), beta).mean()
        return float(result[0]) if single else result

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write items.csv, workers.csv and summary.json; all of them or none.

        Examples
        --------
        >>> import crowdsift, tempfile
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     crowdsift.fit(votes, method="bt").save(folder)
        ...     crowdsift.load(folder).method
        'bt'
        """
        record = {
            **self.summary,
            "format": FORMAT,
            "parameters": self.parameters,
            "trace": list(self.trace),
            "label_types": {
                "item": _label_types(self.item_table["item"]),
                "worker": _label_types(self.worker_table["worker"]),
            },
        }
        texts = {
            "items.csv": self.item_table.to_csv(),
            "workers.csv": self.worker_table.to_csv(),
            "summary.json": json.dumps(record, indent=2, allow_nan=False) + "\n",
        }
        write_folder(directory, texts)

    def to_json(self) -> dict[str, Any]:
        """Summary, items and workers as plain lists and dictionaries.

        Examples
        --------
        >>> import crowdsift
        >>> votes = crowdsift.Comparisons.from_arrays(["a"], ["b"], worker=["w"])
        >>> sorted(crowdsift.fit(votes, method="bt").to_json())
        ['items', 'summary', 'workers']
        """
        return {
            "summary": self.summary,
            "items": _json_labels(self.item_table.records(), "item"),
            "workers": _json_labels(self.worker_table.records(), "worker"),
        }

    def _native(self, table: Table) -> Any:
        return table if self.backend is None else table.to_frame(self.backend)


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
    import csv

    folder = Path(directory)
    try:
        record = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no summary.json here; give a folder written by --out or Fit.save",
                         source=str(folder)) from None  # fmt: skip
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a saved fit: {error}", source=str(folder / "summary.json")) from None
    if record.get("format") != FORMAT:
        raise InputError(
            f"saved in format {record.get('format')!r}, this version reads format {FORMAT}; "
            "fit the votes again",
            source=str(folder),
        )
    tables = []
    types = record.pop("label_types")
    for kind in ("item", "worker"):
        path = folder / f"{kind}s.csv"
        if not path.exists():
            raise InputError("the saved fit is incomplete: file missing", source=str(path))
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
        columns = dict(zip(header, map(list, cells), strict=True))
        tables.append(_parse(columns, kind, types[kind]))
    parameters, trace = record.pop("parameters"), tuple(record.pop("trace"))
    del record["format"]
    items, workers = tables
    return Fit(items, workers, summary=record, parameters=parameters, trace=trace)


_TEXT_COLUMNS = {"verdict"}


def _parse(columns: dict[str, list[str]], kind: str, types: list[str]) -> Table:
    """Columns of text as columns of their own types."""
    parsed: dict[str, NDArray[Any]] = {}
    for name, cells in columns.items():
        if name == kind:
            parsed[name] = np.empty(len(cells), dtype=object)
            parsed[name][:] = [
                _parse_label(cell, types[i] if len(types) > 1 else types[0])
                for i, cell in enumerate(cells)
            ]
        elif name in _TEXT_COLUMNS:
            parsed[name] = np.array(cells, dtype=object)
        elif all(cell.lstrip("-").isdigit() for cell in cells):
            parsed[name] = np.array(cells, dtype=np.int64)
        else:
            parsed[name] = np.array([float(cell) if cell else np.nan for cell in cells])
    return Table(parsed)


def _parse_label(text: str, kind: str) -> Any:
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "bool": lambda cell: cell == "True",
        "NoneType": lambda _: None,
    }
    return readers.get(kind, str)(text)


def _label_types(labels: NDArray[Any]) -> list[str]:
    """The type of every label, or one name where all are of one type."""
    names = [type(label).__name__ for label in labels]
    return names[:1] if len(set(names)) == 1 else names


def _json_labels(records: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Labels that JSON does not know (dates, tuples) as text."""
    for record in records:
        if not isinstance(record[kind], str | int | float | bool | None):
            record[kind] = str(record[kind])
    return records


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes | tuple)


def _as_list(value: Any) -> list[Any]:
    return list(value) if _is_sequence(value) else [value]
