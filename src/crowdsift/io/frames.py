"""Votes that are already in memory: data frames, Arrow tables, DuckDB relations."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.formats import Unfolded
from crowdsift.io.sql import Database, literal, meets, quoted, reason_of
from crowdsift.numeric import Codes, Indices, Mask, Vector
from crowdsift.votes.labels import MISSING, LabelError, as_column, factorize, is_empty
from crowdsift.votes.replies import prompt_label, reply_label
from crowdsift.votes.source import Added, ArraySource, Backend, Source, as_numbers, distinct_names


class MemorySource(ArraySource):
    """Columns given as arrays; a condition in SQL can select rows."""

    _kept: Mask | None = None

    def load(self, wanted: Sequence[str], *, condition: str = "", **cut: Any) -> int:
        if condition:
            self._kept = meets(dict(self._columns), condition)
        return super().load(wanted, **cut)

    def kept(self) -> Mask | None:
        return self._kept

    def write(self, path: str, kind: str, added: Added) -> None:
        columns = {name: column.tolist() for name, column in self._columns.items()}
        write_records(columns, path, kind, added)


def _half_empty(columns: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:
    """Return the columns of answers, named by workers, with at least half of their entries empty."""
    votes = list(zip(columns["worker"], columns.get("winner", columns["worker"]), strict=True))
    rows, empty = Counter(w for w, _ in votes), Counter(w for w, x in votes if is_empty(x))
    few = [f"{name} ({count:,})" for name, count in empty.items() if 2 * count >= rows[name]]
    if not few:
        return ()
    return (
        f"columns of answers that are empty in half of the {max(rows.values()):,} rows or more: "
        f"{', '.join(few[:6])}{', ...' if len(few) > 6 else ''}; empty cells are counted, not used",
    )


class FrameSource(Source):
    """A data frame of any library that narwhals supports."""

    _kept: Mask | None = None

    def __init__(self, frame: Any) -> None:
        self._given = self._frame = frame
        self._cut: dict[str, Callable[[Any], str | None]] = {}
        self.names = tuple(frame.collect_schema().names())
        kind = frame.implementation
        for backend in get_args(Backend):
            if getattr(kind, f"is_{backend}", bool)():
                self.backend = backend

    def load(
        self, wanted: Sequence[str], *, replies: Sequence[str] = (), prompts: Sequence[str] = (), condition: str = ""
    ) -> int:
        self._cut = {**dict.fromkeys(replies, reply_label), **dict.fromkeys(prompts, prompt_label)}
        if condition:
            if hasattr(self._given, "collect"):
                self._given = self._given.collect()
            self._kept = meets(self._given.to_native(), condition)
        self._frame = self._given.select(*dict.fromkeys([*wanted, *replies, *prompts]))
        if hasattr(self._frame, "collect"):
            self._frame = self._frame.collect()
        return len(self._frame)

    def kept(self) -> Mask | None:
        return self._kept

    def encode(self, name: str) -> tuple[list[Any], Codes]:
        import narwhals.stable.v1 as nw

        series = self._frame[name]
        if name in self._cut:
            return factorize(as_column(list(map(self._cut[name], series.to_list()))))
        _refuse_nanoseconds(series)
        if series.dtype in (nw.Categorical, nw.Enum):
            if self.backend != "polars":
                return _of_categories(*_categories(series.to_native()))
            series = series.cast(nw.String)  # as its categories are
        if series.dtype == nw.Object or series.dtype.is_nested():
            return factorize(as_column(series.to_list()))
        labels = series.drop_nulls().unique().alias("label").to_frame().with_row_index("code")
        rows = series.alias("label").to_frame().with_row_index("row")
        coded = rows.join(labels, on="label", how="inner")  # no library guarantees the order
        codes = np.full(len(series), MISSING, dtype=np.uint32)
        codes[coded["row"].to_numpy()] = coded["code"].to_numpy()
        return labels["label"].to_list(), codes

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        return zip(*(self._frame[name].to_list() for name in names), strict=True)

    def numbers(self, name: str) -> Vector | NDArray[np.float32]:
        return as_numbers(self._frame[name].to_numpy())

    def value(self, name: str, row: int) -> Any:
        value = self._frame[name][row]
        return value.item() if isinstance(value, np.generic) else value


def _categories(column: Any) -> tuple[list[Any], Indices]:
    """Return the categories of a pandas or Arrow column, and the code of each row; -1 for none."""
    if hasattr(column, "cat"):
        return column.cat.categories.tolist(), column.cat.codes.to_numpy().astype(np.int64)
    column = column.unify_dictionaries()
    codes = [
        each.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if each.null_count
        else each.indices.to_numpy().astype(np.int64)
        for each in column.chunks
    ]
    labels = column.chunks[0].dictionary.to_pylist() if codes else []
    return labels, np.concatenate(codes) if codes else np.zeros(0, np.int64)


def _of_categories(labels: list[Any], places: Indices) -> tuple[list[Any], Codes]:
    distinct, of_label = factorize(as_column(labels))
    none = places < 0
    codes = of_label[np.where(none, 0, places)] if labels else np.zeros(len(places), np.uint32)
    used = np.bincount(codes[~none], minlength=len(distinct)) > 0
    renamed = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
    found = [label for label, held in zip(distinct, used, strict=True) if held]
    if not found:
        return [], np.full(len(places), MISSING, np.uint32)
    return found, np.where(none, np.uint32(MISSING), renamed[codes]).astype(np.uint32)


def _refuse_nanoseconds(series: Any) -> None:
    """Raise an error for times finer than microseconds: rounding would make distinct labels equal."""
    import narwhals.stable.v1 as nw

    if not isinstance(series.dtype, nw.Datetime | nw.Duration) or series.dtype.time_unit != "ns":
        return
    entries = series.to_numpy()
    fine = entries.astype("int64") % 1000 != 0
    fine &= ~np.isnat(entries)
    if fine.any():
        row = int(np.argmax(fine))
        raise LabelError(row, f"the label {entries[row]!s} is finer than microseconds; write such labels as text")


def source_of(source: Any) -> Source:
    """Return a table for any object in memory that can contain votes."""
    of_datasets = type(source).__module__.startswith("datasets.")
    if of_datasets and isinstance(source, Mapping) and len(source) == 1:  # a DatasetDict with one split
        return source_of(next(iter(source.values())))
    if of_datasets and (isinstance(source, Mapping) or not hasattr(source, "__len__")):
        raise RequestError(
            f"votes cannot be read from a {type(source).__name__} of Hugging Face; give a Dataset: of a DatasetDict a "
            "split, such as votes['train'], of an IterableDataset datasets.Dataset.from_list(list(votes))"
        )
    if isinstance(source, Mapping):
        return MemorySource(source)
    if isinstance(source, np.ndarray) and source.dtype.names:
        return MemorySource({name: source[name] for name in source.dtype.names})
    if isinstance(source, np.ndarray) and source.ndim == 2:
        source = list(source.T)
    if isinstance(source, list | tuple):
        return _source_of_list(source)
    if type(source).__name__ == "DuckDBPyRelation":
        return _source_of_relation(source)
    if of_datasets and hasattr(source, "with_format"):
        found = source_of(source.with_format("arrow")[:])  # a Hugging Face dataset, with its selection of rows
        found.backend = "datasets"
        return found
    import narwhals.stable.v1 as nw

    frame = nw.from_native(_with_text_names(source), pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
            return _source_of_arrow(source)
        raise RequestError(
            f"votes cannot be read from an object of type {type(source).__name__}; give a path, '-', a pandas, polars "
            "or pyarrow frame, a data set of Hugging Face, a DuckDB relation, any object with an Arrow stream, or a "
            "dict of arrays"
        )
    return FrameSource(frame)


def _source_of_list(columns: Sequence[Any]) -> Source:
    """Return a table of two or three columns; raise an error for a list that may be rows instead."""
    for row in columns:
        if isinstance(row, tuple | Mapping):
            raise RequestError(
                f"a list of rows ({type(row).__name__}s) is not read; give columns, as in "
                "{'winner': [...], 'loser': [...], 'worker': [...]}, or a data frame. Rows become "
                "columns by dict(zip(('winner', 'loser', 'worker'), zip(*rows)))"
            )
    if len(columns) not in (2, 3) or not all(
        isinstance(each, list) or getattr(each, "ndim", hasattr(each, "__array__")) == 1 for each in columns
    ):
        kinds = " and ".join(dict.fromkeys(type(each).__name__ for each in columns)) or "nothing"
        raise RequestError(
            "a list of arrays is (winner, loser) or (winner, loser, worker), each an array or a list; this one holds "
            f"{len(columns)} of {kinds}; use a dict of column names for more"
        )
    return MemorySource(dict(zip(("winner", "loser", "worker"), columns, strict=False)))


def _source_of_relation(relation: Any) -> Source:
    """Return the columns of a relation; types that NumPy would round are read as text."""
    names = distinct_names(relation.columns)
    wide = {
        name: _WIDE[kind]
        for name, kind in zip(names, (str(kind).partition("(")[0] for kind in relation.types), strict=True)
        if kind in _WIDE
    }
    if wide:
        chosen = [f"{wide[n][0].format(quoted(n))} AS {quoted(n)}" if n in wide else quoted(n) for n in names]
        relation = relation.project(", ".join(chosen))
    columns = dict(zip(names, relation.fetchnumpy().values(), strict=True))
    for name, kind in zip(names, relation.types, strict=True):
        if name in wide:
            read = wide[name][1]
            entries = as_column(columns[name]).tolist()
            columns[name] = as_column([None if each is None else read(each) for each in entries])
        elif str(kind) == "DATE":  # NumPy would give it a time of day
            columns[name] = columns[name].astype("datetime64[D]")
    return MemorySource(columns)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# How to read columns of DuckDB without an exact NumPy type, and how to convert their text.
_WIDE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "HUGEINT": ("CAST({} AS VARCHAR)", int),
    "UHUGEINT": ("CAST({} AS VARCHAR)", int),
    "DECIMAL": ("CAST({} AS VARCHAR)", Decimal),
    "TIMESTAMP WITH TIME ZONE": (
        "CAST(epoch_us({}) AS VARCHAR)",
        lambda text: _EPOCH + timedelta(microseconds=int(text)),
    ),
}


def _source_of_arrow(source: Any) -> Source:
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            connection.register("given", source)
            return _source_of_relation(connection.sql("SELECT * FROM given"))
        except duckdb.Error as error:
            raise RequestError(
                f"the Arrow data of a {type(source).__name__} cannot be read: {reason_of(error)}"
            ) from None


def _with_text_names(source: Any) -> Any:
    """Return a frame with text as column names; pandas allows numbers and repeated names."""
    import narwhals.stable.v1.dependencies as known

    if known.is_pyarrow_table(source):
        distinct_names(source.column_names)
        return _without_views(source)
    if known.is_pandas_like_dataframe(source):
        names = distinct_names(source.columns)
        if not all(isinstance(name, str) for name in source.columns):
            return source.set_axis(list(names), axis=1)
    return source


def _without_views(table: Any) -> Any:
    """Return an Arrow table with plain strings, since Arrow's functions do not support string views."""
    import pyarrow as pa

    plain = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    fields = [each.with_type(plain.get(str(each.type), each.type)) for each in table.schema]
    schema = pa.schema(fields)
    return table if schema == table.schema else table.cast(schema)


def write_records(columns: Mapping[str, Sequence[Any]], path: str, kind: str, added: Added) -> None:
    r"""Write columns of Python values and further ones; see `crowdsift.io.duck.write_rows`."""
    records = _records(columns, added)
    if kind == "csv":
        with open(path, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(_names(columns, added))
            for record in records:
                cells = record.values()
                writer.writerow(json.dumps(x, ensure_ascii=False) if isinstance(x, dict | list) else x for x in cells)
        return
    if kind == "json":
        _write_lines(path, records)
        return
    with closing(TemporaryFolder()) as folder:
        draft, target = folder.file(".jsonl"), folder.file(".parquet")
        _write_lines(draft, records)
        rows = f"FROM read_json({literal(draft)}, sample_size = -1, map_inference_threshold = -1)"
        if not os.path.getsize(draft):  # no row was sure enough: write columns without rows
            empty = [f"NULL::VARCHAR AS {quoted(name)}" for name in _names(columns, added)]
            rows = f"SELECT {', '.join(empty)} WHERE false"
        with closing(Database(1, [draft], folder)) as database:
            database.execute(f"COPY ({rows}) TO {literal(target)} (FORMAT PARQUET, COMPRESSION ZSTD)")
        Path(path).write_bytes(Path(target).read_bytes())


def _write_lines(path: str, records: Iterator[dict[str, Any]]) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogatepass") as out:
        out.writelines(json.dumps(record, ensure_ascii=False, default=str) + "\n" for record in records)


def _names(columns: Mapping[str, Sequence[Any]], added: Added) -> list[str]:
    names = [added.renamed.get(name, name) for name in columns]
    names += [] if added.turned is None else added.turned[0]
    return list(dict.fromkeys([*names, *added.numbers, *added.labels]))


def _records(columns: Mapping[str, Sequence[Any]], added: Added) -> Iterator[dict[str, Any]]:
    height = len(next(iter(columns.values())))
    rows = np.arange(height) if added.rows is None else added.rows
    numbers = {name: values.tolist() for name, values in added.numbers.items()}
    labels = {name: (codes.tolist(), texts.tolist()) for name, (codes, texts) in added.labels.items()}
    for place, row in enumerate(rows.tolist()):
        own = {name: values[row] for name, values in columns.items()}
        record = {added.renamed.get(name, name): value for name, value in own.items()}
        if added.turned is not None:
            names, (one, two), turned = added.turned
            pair = (own[two], own[one]) if turned[place] else (own[one], own[two])
            record |= dict(zip(names, pair, strict=True))
        record |= {name: values[place] for name, values in numbers.items()}
        yield record | {name: texts[codes[place]] for name, (codes, texts) in labels.items()}


class UnfoldedSource(ArraySource):
    """The votes of nested records; errors name the source row of the record."""

    has_blanks = True

    def __init__(self, unfolded: Unfolded, origin: Source, kept_rows: Mask | None) -> None:
        super().__init__(unfolded.columns, source=origin.source)
        self.backend, self.notes = origin.backend, origin.notes
        self.by_column = all(w in origin.names for w in unfolded.columns.get("worker", (None,)))
        self.notes += _half_empty(unfolded.columns) if self.by_column else ()
        self._origin, self.unfolded, self.kept_rows = origin, unfolded, kept_rows
        self._texts, self._in_place = unfolded.texts, unfolded.in_place
        self._row = np.asarray(unfolded.row, np.int64)[np.asarray(unfolded.record, np.int64)]

    @property
    def files(self) -> tuple[str, ...]:
        return self._origin.files

    def kept(self) -> Mask | None:
        return None if self.kept_rows is None else self.kept_rows[self._row]

    def place(self, row: int) -> tuple[str, int]:
        return self._origin.place(int(self._row[row]))

    @property
    def written_names(self) -> tuple[str, ...]:
        """Return the columns of the source that `write` writes, without those that it adds."""
        return self._origin.names if self._in_place else self.names

    def write(self, path: str, kind: str, added: Added) -> None:
        """Write the votes and further columns; as rows of the source if each is one vote."""
        if self._in_place:
            if added.turned is not None:
                names, pair, turned = added.turned
                one, two = (self._in_place[name] for name in pair)
                added = replace(added, turned=(names, (one, two), turned))
            self._origin.write(path, kind, added)
            return
        columns = {name: self._written(name) for name in self.names}
        write_records(columns, path, kind, added)

    def _written(self, name: str) -> list[Any]:
        entries: list[Any] = self._columns[name].tolist()
        if not self._texts:
            return entries
        return [self._texts.get(each, each) if type(each) is str else each for each in entries]

    def close(self) -> None:
        self._origin.close()


def melted(origin: Source, answers: Sequence[str], condition: str) -> UnfoldedSource:
    """Return the rows of a source, repeated for every column of answers (winner and worker)."""
    carried = [name for name in origin.names if name not in (*answers, "winner", "worker")]
    origin.load([*carried, *answers], condition=condition)
    rows = [(place, entries) for place, entries in enumerate(origin.rows([*carried, *answers])) for _ in answers]
    columns = {name: [entries[place] for _, entries in rows] for place, name in enumerate(carried)}
    places = [len(carried) + number % len(answers) for number in range(len(rows))]
    columns["winner"] = [entries[place] for (_, entries), place in zip(rows, places, strict=True)]
    columns["worker"] = [answers[place - len(carried)] for place in places]
    found = Unfolded(columns, range(len(rows)), [row for row, _ in rows])
    return UnfoldedSource(found, origin, origin.kept())
