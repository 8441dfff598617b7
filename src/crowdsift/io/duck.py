"""Files of votes through DuckDB: CSV, TSV, JSON, JSONL and Parquet, gzip, globs, stdin.

Every column is read unchanged (text stays text) into one temporary table of DuckDB, which spills to disk if memory is
short. Labels become codes there, so no Python object is made per row. Text in Parquet, which is cheap to read twice,
becomes codes before it enters the table, a tenth of its size. `self._place` is the row number: the position in that
table, or a column of it if joins change the order.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError
from crowdsift.io.files import TemporaryFolder
from crowdsift.io.formats import known_formats
from crowdsift.io.options import ReadOptions
from crowdsift.io.parts import (
    Part,
    condition_columns,
    expanded,
    field_of,
    inspected,
    load_part,
    path_workers,
    refuse_copies,
    require_room,
    scan,
    scan_rows,
    settled,
    without_same,
)
from crowdsift.io.sql import Database, literal, numeric_columns, quoted, reason_of, wrong_condition
from crowdsift.io.text import EmptyFileError, explain_json
from crowdsift.numeric import Codes, Mask, Vector
from crowdsift.votes.labels import MISSING, LabelError, shown
from crowdsift.votes.replies import BEGINNING, HASH, MARK, one_line
from crowdsift.votes.source import Added, SortedCodes, Source, number_of

_FORMS = {"json": "JSON", "csv": "CSV, HEADER", "parquet": "PARQUET, COMPRESSION ZSTD"}
_FETCH = 1 << 22  # rows fetched at a time
_MAX_HASHED_BYTES = 256_000_000  # most bytes of files that are read a second time for `hashes`


class FileSource(Source):
    """The columns of one file, of all files of a glob, or of standard input.

    `options`: how votes are read; without them text files are UTF-8; `holds_votes`: whether a file of a folder is
    read, by the names of its columns.
    """

    def __init__(
        self,
        source: str,
        threads: int,
        options: ReadOptions | None = None,
        holds_votes: Callable[[Sequence[str]], bool] | None = None,
    ) -> None:
        options = options or ReadOptions(encoding="utf-8")
        worker_from_path = options.worker_from_path
        self.source = "standard input" if source == "-" else os.fsencode(source).decode("utf-8", "backslashreplace")
        self._starts = [0]
        self._place = "rowid"
        self._skip_bad, self._from_path = options.skip_bad is not False, bool(worker_from_path)
        self._column: dict[str, str] = {}
        self._reply: dict[str, str] = {}
        self._coded: set[str] = set()  # columns with codes into a table of labels
        self._condition = ""
        self._database: Database | None = None
        self._folder = TemporaryFolder()
        try:
            paths, self.notes = (["-"], ()) if source == "-" else without_same(expanded(source))
            named: dict[str, dict[str, str]] = {}
            if isinstance(worker_from_path, str):
                named = self._named(paths, worker_from_path)
                paths = [path for path in paths if path in named]
            paths, found = self._settled(paths, options)
            self._database = Database(threads, [part.path for part, _ in found], self._folder)
            self._parts = [inspected(part, self._run) for part, _ in found]
            if holds_votes is not None and os.path.isdir(os.path.expanduser(source)):
                kept = self._with_votes(holds_votes)
                paths, found = [paths[place] for place in kept], [found[place] for place in kept]
                self._parts = [part for part, _ in found]
            for part in self._parts:
                if part.kind == "json" and list(part.names) == ["json"]:  # not one object per row
                    raise explain_json(part.path, part.zipped, part.source, "it holds no rows")
            self.notes += tuple(note for _, note in found if note)
            if worker_from_path is True:
                named = self._named(paths, True)
            self._name_workers(paths, named)
        except BaseException:
            self.close()
            raise
        self.names = self._parts[0].names
        self.later_names = frozenset(name for part in self._parts for name in part.names).difference(self.names)

    def _settled(self, paths: list[str], options: ReadOptions) -> tuple[list[str], list[tuple[Part, str]]]:
        """Return the files that can be read again, with a note on each; of several, empty ones are left out."""
        found, empty = {}, []
        for path in paths:
            try:
                found[path] = settled(path, self._folder, options)
            except EmptyFileError:
                empty.append(path)
                if len(empty) == len(paths):
                    raise
        if empty:
            self.notes += (f"{len(empty):,} of {len(paths):,} files are empty and are not read, such as {empty[0]}",)
        return list(found), list(found.values())

    def _with_votes(self, holds_votes: Callable[[Sequence[str]], bool]) -> list[int]:
        """Return the indices of the files with columns of votes, and note the others; all if none has any."""
        kept = [place for place, part in enumerate(self._parts) if holds_votes(part.names)]
        if not kept or len(kept) == len(self._parts):
            return list(range(len(self._parts)))
        other = next(part for place, part in enumerate(self._parts) if place not in kept)
        shown = ", ".join(other.names[:6]) + (", ..." if len(other.names) > 6 else "")
        self.notes += (
            f"{len(self._parts) - len(kept):,} of {len(self._parts):,} files have no columns of votes and are not "
            f"read, such as {other.source} ({shown})",
        )
        return kept

    def _name_workers(self, paths: Sequence[str], named: dict[str, dict[str, str]]) -> None:
        """Give every file the columns of its path, under other names if the files have a column "worker"."""
        if any("worker" in (part.header.names if part.header else part.types or ()) for part in self._parts):
            self.worker_column = "worker of the path"
        for path, part in zip(paths, self._parts, strict=True):
            columns = named.get(path, {})
            part.constant |= {self.worker_column if name == "worker" else name: x for name, x in columns.items()}

    def _named(self, paths: Sequence[str], pattern: bool | str) -> dict[str, dict[str, str]]:
        if paths == ["-"]:
            raise InputError("it has no path that could name a worker", source=self.source)
        found = dict(zip(paths, path_workers(paths, pattern), strict=True))
        named = {path: columns for path, columns in found.items() if columns}
        if not named:
            raise InputError(
                f"--worker-from-path {pattern!r} (worker_from_path=) matches no path of {len(paths):,}: {paths[0]}"
                f"; {{worker}} stands for the worker, * for anything within a name",
                source=self.source,
            )
        longest = max((columns.get("worker", "") for columns in named.values()), key=lambda name: name.count("/"))
        if pattern is True and "/" in longest:
            self.notes += (
                f"several parts of a path name the worker, as {longest}; a pattern takes one of them, as "
                f"--worker-from-path '*/{{worker}}/{os.path.basename(paths[0])}' (worker_from_path=)",
            )
        if len(named) < len(paths):
            other = next(path for path in paths if path not in named)
            self.notes += (
                f"{len(paths) - len(named):,} of {len(paths):,} files, such as {other}, do not match "
                f"{pattern!r} and are not read",
            )
        return named

    def load(
        self, wanted: Sequence[str], *, replies: Sequence[str] = (), prompts: Sequence[str] = (), condition: str = ""
    ) -> int:
        names, cut = list(dict.fromkeys(wanted)), [*replies, *prompts]
        self._column = {name: f"c{place}" for place, name in enumerate(names)}
        self._reply = {name: f"r{place}" for place, name in enumerate(cut)}
        self._condition, self._starts = condition, [0]
        for part in self._parts:
            self._check_part(part, [*names, *cut])
        require_room(self._parts, self._run)
        if condition:
            for part in self._parts:
                if part.kind != "parquet":
                    rows = scan_rows(part, part.names)
                    columns = condition_columns(part)
                    part.numeric = numeric_columns(self._query, rows, columns, condition)
        simple = not cut and not condition
        if simple and all(part.kind == "parquet" for part in self._parts):
            self._coded = {name for name in names if self._codes_on_the_way(name)}
            for name in self._coded:
                self._collect_labels(name)
        if self._coded:
            self._place = "place"
        for number, part in enumerate(self._parts):
            into = "INSERT INTO votes" if number else "CREATE OR REPLACE TEMP TABLE votes AS"
            if self._coded:
                self._run(part, f"{into} {self._joined(part, names)}")
            else:
                load_part(
                    part,
                    names,
                    into,
                    self._run,
                    self._folder,
                    replies=replies,
                    prompts=prompts,
                    condition=condition,
                    skip_bad=self._skip_bad,
                )
            self._starts.append(self._query("SELECT count(*) FROM votes").fetchall()[0][0])
        return self._starts[-1]

    def _codes_on_the_way(self, name: str) -> bool:
        own = [part.names for part in self._parts]
        numbered = any(each.casefold() == "file_row_number" for names in own for each in names)
        return self._parts[0].type_of(name) == "VARCHAR" and not numbered

    def _collect_labels(self, name: str) -> None:
        """Assign a number to every distinct label of a column in all files."""
        column = quoted(name)
        scans = " UNION ALL ".join(f"SELECT {column} AS label FROM {scan(p)}" for p in self._parts)
        self._run(
            self._parts[0],
            f"CREATE TEMP TABLE labels_{self._column[name]} AS SELECT label, (row_number() OVER () - 1)::UINTEGER AS "
            f"code FROM (SELECT DISTINCT label FROM ({scans}) WHERE label IS NOT NULL)",
        )

    def _joined(self, part: Part, names: list[str]) -> str:
        """Return the SELECT of a Parquet file's columns, labels as codes, with the number of the row."""
        chosen, joins = [f"(file_row_number + {self._starts[-1]})::UINTEGER AS place"], ""
        for name in names:
            column, table = self._column[name], f"labels_{self._column[name]}"
            if name in self._coded:
                chosen.append(f"{table}.code AS {column}")
                joins += f" LEFT JOIN {table} ON part.{quoted(name)} = {table}.label"
            else:
                given = field_of(part, name)
                chosen.append(f"{'part.' if given.startswith(quoted(name)) else ''}{given} AS {column}")
        return f"SELECT {', '.join(chosen)} FROM {scan(part, numbered=True)} AS part{joins}"

    def _check_part(self, part: Part, names: list[str]) -> None:
        first = self._parts[0]
        for name in names:
            if name not in part.names:
                forms = [{f.name for f in known_formats() if f.fits(p.names, {})} for p in (first, part)]
                shown = ", ".join(part.names[:20])
                if (forms[0] or forms[1]) and not forms[0] & forms[1]:
                    one, two = (min(form, default="another") for form in forms)
                    shown += (
                        f". The files are of two formats ({one} and {two}); put the files "
                        "of each format into a separate folder and fit it alone"
                    )
                raise InputError(
                    f"no column {name!r}, which {first.source} has; the columns here are {shown}", source=part.source
                )
            types = [each.type_of(name) for each in (first, part)]
            if types[0] != types[1]:
                raise InputError(
                    f"the column is {types[1]} here and {types[0]} in {first.source}; "
                    "write both files with the same types",
                    source=part.source,
                    column=name,
                )

    def _run(self, part: Part, query: str) -> Any:
        """Run a query that reads a file; its errors become `InputError`."""
        import duckdb

        try:
            return self._query(query)
        except duckdb.Error as error:
            reason = reason_of(error)
            of_files = isinstance(error, duckdb.IOException) or "CSV Error" in str(error)
            if self._condition and not of_files and "JSON" not in reason:
                raise wrong_condition(self._condition, reason) from None
            if part.kind == "json":
                raise explain_json(part.path, part.zipped, part.source, reason) from None
            raise InputError(f"the file cannot be read as {part.kind.upper()}: {reason}", source=part.source) from None

    def _query(self, query: str) -> Any:
        assert self._database is not None
        return self._database.execute(query)

    def _fetch(self, expression: str, out: NDArray[Any]) -> NDArray[Any]:
        """Fill an array with an expression of the table, in the order of the rows."""
        # A few million rows at a time, so that the result is never in memory twice.
        for start in range(0, len(out), _FETCH):
            found = self._query(
                f"SELECT {self._place}::UINTEGER AS place, {expression} AS value FROM votes "
                f"WHERE rowid BETWEEN {start} AND {start + _FETCH - 1}"
            ).fetchnumpy()
            values = found["value"]
            if isinstance(values, np.ma.MaskedArray):
                values = values.filled(np.nan if out.dtype.kind == "f" else MISSING)
            out[found["place"]] = values
        return out

    def kept(self) -> Mask | None:
        return None if not self._condition else self._fetch("kept", np.zeros(self._starts[-1], bool))

    def broken(self) -> dict[int, str]:
        rows: dict[int, str] = {}
        for start, part in zip(self._starts, self._parts, strict=False):
            rows |= {start + row: reason for row, reason in part.broken.items()}
        return rows

    def encode(self, name: str) -> tuple[list[Any], Codes]:
        column = self._stored(name)
        codes = np.full(self._starts[-1], MISSING, dtype=np.uint32)
        if name in self._coded:
            rows = self._query(f"SELECT label FROM labels_{column} ORDER BY code").fetchall()
            return [label for (label,) in rows], self._fetch(column, codes)
        self._query(_label_sql([column], ordered=False))
        labels = _decoded(self._query, self._parts[0].type_of(name))
        codes = self._join_codes(column)
        if self._is_json(name):  # JSON text of a value: 7, "7", null
            try:
                labels = _parsed(labels)
            except LabelError as fault:
                row = int(np.argmax(codes == fault.row))
                raise LabelError(row, fault.message) from None
        elif name in self._reply:
            labels = [one_line(label) for label in labels]
        return labels, codes

    def sorted_codes(self, columns: Sequence[str]) -> SortedCodes | None:
        """See `Source.sorted_codes`: DuckDB sorts text by code points, as Python does."""
        replies = all(name in self._reply for name in columns)
        text = all(name not in self._reply for name in columns) and self._parts[0].kind == "csv"
        if not replies and not text:
            return None
        stored = [self._stored(name) for name in columns]
        self._query(_label_sql(stored, ordered=True, one_line=replies))
        found = self._query("SELECT shown FROM labels ORDER BY code").fetchnumpy()["shown"]
        labels = np.ma.getdata(found).astype(object, copy=False)
        # Most labels begin with a visible letter; Python examines only the others.
        query = "SELECT code FROM labels WHERE NOT regexp_matches(shown, '[!-~]')"
        unclear = [code for (code,) in self._query(query).fetchall()]
        return SortedCodes(labels, [self._join_codes(column) for column in stored], unclear)

    def _join_codes(self, column: str) -> Codes:
        codes = np.full(self._starts[-1], MISSING, dtype=np.uint32)
        coded = self._query(
            f"SELECT votes.{self._place}::UINTEGER AS place, code FROM votes "
            f"JOIN labels ON votes.{column} = labels.label"
        ).fetchnumpy()
        codes[coded["place"]] = coded["code"]  # joins do not keep the order
        return codes

    def _label_joins(self, coded: Iterable[str]) -> str:
        columns = [self._column[name] for name in coded]
        return "".join(f" LEFT JOIN labels_{column} ON votes.{column} = labels_{column}.code" for column in columns)

    def _stored(self, name: str) -> str:
        return self._reply.get(name) or self._column[name]

    def _is_json(self, name: str) -> bool:
        own = self._parts[0].kind == "json" and name in (self._parts[0].types or {})
        return own and name not in self._reply

    def numbers(self, name: str) -> Vector:
        import duckdb

        column, out = self._column[name], np.full(self._starts[-1], np.nan)
        if name in self._coded:
            labels, codes = self.encode(name)
            known = np.array([number_of(label) for label in labels] + [np.nan])
            return np.asarray(known[np.minimum(codes, len(labels))], dtype=np.float64)
        number = f"TRY_CAST({column} AS DOUBLE)"
        if self._parts[0].type_of(name) in ("text", "VARCHAR", "JSON"):  # DuckDB would accept 1_000
            number = f"CASE WHEN NOT contains({column}::VARCHAR, '_') THEN {number} END"
        try:
            return self._fetch(number, out)
        except duckdb.Error:  # a type without a cast, such as a list
            return out

    def value(self, name: str, row: int) -> Any:
        column, coded = self._stored(name), name in self._coded
        joins = self._label_joins([name]) if coded else ""
        query = f"SELECT {'label' if coded else column}::VARCHAR FROM votes{joins}"
        value = self._query(f"{query} WHERE votes.{self._place} = {row}").fetchone()[0]
        if value is not None and self._is_json(name):
            try:
                return _parsed([value])[0]
            except LabelError:
                return value
        return value

    def whole(self, name: str, row: int) -> Any:
        if name not in self._reply or name not in self._column:
            return self.value(name, row)
        query = f"SELECT {self._column[name]} FROM votes WHERE {self._place} = {row}"
        value = self._query(query).fetchall()[0][0]
        json = self._parts[0].kind == "json" and value is not None
        return _parsed([value])[0] if json else value

    def hashes(self, names: Sequence[str]) -> NDArray[np.uint64] | None:
        if sum(os.path.getsize(part.path) for part in self._parts) > _MAX_HASHED_BYTES:
            return None
        found = []
        for part in self._parts:
            columns = ", ".join(field_of(part, name) if name in part.names else "NULL" for name in names)
            reading = scan_rows(part, names, longest=1 << 28)
            query = f"SELECT hash({columns})::UBIGINT AS value FROM {reading}"
            found.append(np.ma.getdata(self._run(part, query).fetchnumpy()["value"]))
        return np.concatenate(found)

    def rows(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        stored = {name: self._stored(name) for name in names}
        columns = ", ".join(
            f"labels_{column}.label" if name in self._coded else f"votes.{column}" for name, column in stored.items()
        )
        joins = self._label_joins(name for name in names if name in self._coded)
        number = f"votes.{self._place}"
        json = [self._is_json(name) for name in names]
        for start in range(0, self._starts[-1], 10_000):
            found = self._query(
                f"SELECT {columns} FROM votes{joins} WHERE {number} BETWEEN {start} AND "
                f"{start + 9_999} ORDER BY {number}"
            ).fetchall()
            for place, row in enumerate(found):
                try:
                    yield tuple(
                        _parsed([value])[0] if is_json and value is not None else value
                        for value, is_json in zip(row, json, strict=True)
                    )
                except LabelError as fault:
                    raise self.fault(start + place, None, fault.message) from None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(part.source for part in self._parts)

    def refuse_copies(self) -> None:
        refuse_copies(self._parts, self._run)

    def hide(self, column: str, pseudonym: Callable[[Any], str]) -> None:
        """See `Source.hide`: a folder COLUMN=VALUE shows the pseudonym of its value."""
        values = {part.constant[column] for part in self._parts if column in part.constant}
        for value in values:
            folder, shown = f"{column}={value}/", f"{column}={pseudonym(value)}/"
            if self._from_path:
                folder, shown = value, pseudonym(value)
            self.source = self.source.replace(folder, shown)
            self.notes = tuple(note.replace(folder, shown) for note in self.notes)
            for part in self._parts:
                part.source = part.source.replace(folder, shown)

    def place(self, row: int) -> tuple[str, int]:
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[part].source, row - self._starts[part] + 1

    def write(self, path: str, kind: str, added: Added) -> None:
        import duckdb

        assert self._database is not None
        rows = f"SELECT {', '.join(self._written(kind, added))} FROM votes "
        rows += f"JOIN added ON added.row_number = votes.{self._place}"
        rows += self._label_joins(self._coded)
        for place in range(len(added.labels)):
            rows += f" LEFT JOIN texts{place} ON texts{place}.code = l{place}"
        rows += f" ORDER BY votes.{self._place}"  # joins do not keep the order
        draft = self._folder.file()  # the database may write nowhere else
        try:
            self._query(f"COPY ({rows}) TO {literal(draft)} (FORMAT {_FORMS[kind]})")
        except duckdb.Error as error:
            raise OSError(reason_of(error)) from None
        try:
            os.replace(draft, path)
        except OSError:  # on another file system
            shutil.copyfile(draft, path)

    def _written(self, kind: str, added: Added) -> list[str]:
        assert self._database is not None
        own = {name: self._cell(name, kind) for name in self._column}
        table = {f"n{place}": values for place, values in enumerate(added.numbers.values())}
        table |= {f"l{place}": codes for place, (codes, _) in enumerate(added.labels.values())}
        table["row_number"] = np.arange(self._starts[-1]) if added.rows is None else added.rows
        chosen = [f"{cell} AS {quoted(added.renamed.get(n, n))}" for n, cell in own.items()]
        if added.turned is not None:
            names, (one, two), table["turned"] = added.turned
            for name, straight, other in ((names[0], one, two), (names[1], two, one)):
                cell = f"CASE WHEN turned THEN {own[other]} ELSE {own[straight]} END"
                chosen.append(f"{cell} AS {quoted(name)}")
        chosen += [f"n{place} AS {quoted(name)}" for place, name in enumerate(added.numbers)]
        for place, (name, (_, texts)) in enumerate(added.labels.items()):
            code = np.arange(len(texts), dtype=np.uint32)
            self._database.register(f"texts{place}", {"code": code, "entry": texts})
            chosen.append(f"texts{place}.entry AS {quoted(name)}")
        self._database.register("added", table)
        return chosen

    def _cell(self, name: str, kind: str) -> str:
        column = self._column[name]
        if name in self._coded:
            return f"labels_{column}.label"
        if self._parts[0].kind != "json" or kind == "json":
            return f"votes.{column}"
        query = f"SELECT DISTINCT json_type({column}) FROM votes WHERE {column} IS NOT NULL"
        types = {name for (name,) in self._query(query).fetchall()} - {"NULL"}
        if types == {"VARCHAR"}:
            return f"votes.{column} ->> '$'"
        if types and types <= {"UBIGINT", "BIGINT"}:
            return f"TRY_CAST(votes.{column} AS BIGINT)"
        if types and types <= {"UBIGINT", "BIGINT", "DOUBLE"}:
            return f"TRY_CAST(votes.{column} AS DOUBLE)"
        return f"TRY_CAST(votes.{column} AS BOOLEAN)" if types == {"BOOLEAN"} else f"votes.{column}"

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        self._folder.close()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _label_sql(columns: Sequence[str], *, ordered: bool, one_line: bool = False) -> str:
    """Return the SQL of the table `labels`: each distinct entry, its displayed text, its code."""
    # With `ordered`, the codes follow the order of the displayed labels.
    shown_as = "label"
    if one_line:  # labels of long texts without line breaks; see crowdsift.votes.replies
        length = BEGINNING + len(MARK) + HASH
        shown_as = (
            f"CASE WHEN length(label) = {length} AND substring(label, {BEGINNING + 1}, {len(MARK)}) = '{MARK}' THEN "
            "translate(label, chr(9) || chr(10) || chr(13), '   ') ELSE label END"
        )
    order = "ORDER BY shown" if ordered else ""
    every = " UNION ALL ".join(f"SELECT {column} AS label FROM votes" for column in columns)
    return (
        "CREATE OR REPLACE TEMP TABLE labels AS SELECT label, shown, (row_number() OVER "
        f"({order}) - 1)::UINTEGER AS code FROM (SELECT label, {shown_as} AS shown FROM "
        f"(SELECT DISTINCT label FROM ({every}) WHERE label IS NOT NULL))"
    )


def _decoded(query: Callable[[str], Any], kind: str) -> list[Any]:
    """Return the labels by code, as values of Python; times with a zone are in UTC."""
    if kind == "TIMESTAMP WITH TIME ZONE":
        rows = query("SELECT epoch_us(label) FROM labels ORDER BY code").fetchall()
        return [_EPOCH + timedelta(microseconds=count) for (count,) in rows]
    if kind == "TIMESTAMP_NS":
        found = query("SELECT code FROM labels WHERE epoch_ns(label) % 1000 <> 0 LIMIT 1").fetchone()
        if found is not None:
            text = query(f"SELECT label::VARCHAR FROM labels WHERE code = {found[0]}").fetchone()[0]
            raise LabelError(0, f"the label {text} is finer than microseconds; write such labels as text")
    return [label for (label,) in query("SELECT label FROM labels ORDER BY code").fetchall()]


def _parsed(labels: Sequence[str]) -> list[Any]:
    """Return JSON values; an error names the first one that Python cannot represent."""
    values = []
    for place, label in enumerate(labels):
        try:
            values.append(json.loads(label))
        except (ValueError, RecursionError):  # 4,300 digits, or a thousand brackets
            raise LabelError(
                place, f"the value {shown(label)} is too long or too deeply nested for a label; write it as text"
            ) from None
    return values
