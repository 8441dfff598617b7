"""Writes rows that are in memory with further columns: those of nested formats and saved fits."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdsift.io.database import Database, literal, quoted
from crowdsift.io.temporary import TemporaryFolder

if TYPE_CHECKING:
    from crowdsift.io.duck_write import Added

__all__ = ["write_records"]


def write_records(columns: Mapping[str, Sequence[Any]], path: str, kind: str, added: Added) -> None:
    r"""Write columns of Python values and further ones; see `crowdsift.io.duck_write.write_rows`.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> from crowdsift.io.duck_write import Added
    >>> from crowdsift.io.record_write import write_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "out.jsonl")
    ...     write_records({"a": ["x", "y"]}, str(path), "json",
    ...                   Added({"n": np.array([0.5])}, rows=np.array([1])))
    ...     path.read_text()
    '{"a": "y", "n": 0.5}\n'
    """
    records = _records(columns, added)
    if kind == "csv":
        with open(path, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(_names(columns, added))
            writer.writerows(map(_cell, record.values()) for record in records)
        return
    if kind == "json":
        _write_lines(path, records)
        return
    folder = TemporaryFolder()
    try:
        draft = folder.file(".jsonl")
        _write_lines(draft, records)
        database = Database(1, [draft], folder)
        try:
            target = folder.file(".parquet")
            rows = (
                f"FROM read_json({literal(draft)}, sample_size = -1, map_inference_threshold = -1)"
            )
            if not os.path.getsize(draft):  # nothing was sure enough: columns without rows
                empty = [f"NULL::VARCHAR AS {quoted(name)}" for name in _names(columns, added)]
                rows = f"SELECT {', '.join(empty)} WHERE false"
            database.execute(
                f"COPY ({rows}) TO {literal(target)} (FORMAT PARQUET, COMPRESSION ZSTD)"
            )
            Path(path).write_bytes(Path(target).read_bytes())
        finally:
            database.close()
    finally:
        folder.close()


def _write_lines(path: str, records: Iterator[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as out:
        out.writelines(
            json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in records
        )


def _names(columns: Mapping[str, Sequence[Any]], added: Added) -> list[str]:
    """The columns that are written, in their order."""
    names = [added.renamed.get(name, name) for name in columns]
    names += [] if added.turned is None else added.turned[0]
    return list(dict.fromkeys([*names, *added.numbers, *added.labels]))


def _records(columns: Mapping[str, Sequence[Any]], added: Added) -> Iterator[dict[str, Any]]:
    """The rows that are written, one dictionary each."""
    height = len(next(iter(columns.values())))
    rows = np.arange(height) if added.rows is None else added.rows
    numbers = {name: values.tolist() for name, values in added.numbers.items()}
    labels = {
        name: (codes.tolist(), texts.tolist()) for name, (codes, texts) in added.labels.items()
    }
    for place, row in enumerate(rows.tolist()):
        own = {name: values[row] for name, values in columns.items()}
        record = {added.renamed.get(name, name): value for name, value in own.items()}
        if added.turned is not None:
            names, (one, two), turned = added.turned
            pair = (own[two], own[one]) if turned[place] else (own[one], own[two])
            record |= dict(zip(names, pair, strict=True))
        record |= {name: values[place] for name, values in numbers.items()}
        yield record | {name: texts[codes[place]] for name, (codes, texts) in labels.items()}


def _cell(value: Any) -> Any:
    """A value as a field of CSV."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
