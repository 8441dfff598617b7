"""Save fits as folders of CSV, JSON and Parquet files, never pickled, and load them.

`summary.json` names the files that belong to it with size and checksum; only those are read. It
has a checksum of its own content, too, and every value in it is checked (`saved_summary`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import CrowdsiftError, InputError
from crowdsift.io.saved import (
    RecordedFolder,
    parquet_bytes,
    parquet_columns,
    require_own,
    write_recorded,
)
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.results.coefficients import COEFFICIENTS
from crowdsift.results.decisions import decisions, reason_texts
from crowdsift.results.feature_table import (
    FEATURE_WEIGHTS,
    FEATURES,
    features_bytes,
    read_features,
    weight_table,
)
from crowdsift.results.fit import Fit, ranking_of
from crowdsift.results.kept import KEPT, kept_files, kept_gold, kept_votes, posterior_of
from crowdsift.results.saved_summary import check_population, check_summary
from crowdsift.results.scales import own_scale, with_own_scale
from crowdsift.results.tables import Table
from crowdsift.solvers.ep.state import SavedSites
from crowdsift.votes.labels import context_names

if TYPE_CHECKING:
    from crowdsift.votes.comparisons import Comparisons

_SUMMARY, _ITEMS, _WORKERS = "summary.json", "items.csv", "workers.csv"
_POPULATION, _OVERALL, SITES = "population.json", "overall.csv", "sites.parquet"
_DECISIONS, _REASON = "decisions.csv", "reason"
_OURS = (
    _ITEMS, _WORKERS, _DECISIONS, _OVERALL, _POPULATION, SITES, FEATURES,
    FEATURE_WEIGHTS, COEFFICIENTS, *KEPT,
)  # fmt: skip
FILES = (_SUMMARY, *_OURS)  # all files that a folder of a fit may hold
_TRIES = 5  # to read a folder into which another run saves

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
_TEXT_COLUMNS = {"verdict", "flag", "covariate", _REASON}
_CELL = re.compile(r'(?:"([^"]*(?:""[^"]*)*)"|([^,\n"]*))(,|\n)')


def save(fit: Fit, directory: str | os.PathLike[str]) -> None:
    """Write a fit; see `Fit.save`."""
    names = (*fit.context_columns, "item")
    record = {
        **fit.summary,
        "warning_kinds": [each.kind.value for each in fit.diagnostics],
        "parameters": fit.parameters,
        "trace": list(fit.trace),
        "label_types": {
            "items": {name: _label_types(fit.item_table[name]) for name in names},
            "workers": {"worker": _label_types(fit.worker_table["worker"])},
        },
    }
    files = {
        _ITEMS: with_own_scale(fit).to_csv().encode(),
        _WORKERS: _with_reasons(fit).to_csv().encode(),
    }
    if fit.worker_table.height and (fit.worker_table["verdict"] != "").any():
        files[_DECISIONS] = decisions(fit).to_csv().encode()
    if fit.population is not None:  # a later fit starts there
        files[_POPULATION] = (json.dumps(fit.population, allow_nan=False) + "\n").encode()
        if fit.sites is not None:
            files[SITES] = sites_bytes(fit.sites)
    if fit.overall_ranking is not None:
        files[_OVERALL] = with_own_scale(fit.overall_ranking).to_csv().encode()
        record["overall_ranking"] = _record_of(fit.overall_ranking)
    if fit.features is not None:
        files[FEATURE_WEIGHTS] = weight_table(fit.features, fit.level).to_csv().encode()
        files[FEATURES] = features_bytes(fit.features)
    if fit.coefficients is not None:
        files[COEFFICIENTS] = fit.coefficients.to_csv().encode()
    kept, details = kept_files(fit)
    record["kept"] = {**details, "taken": list(taken_by(fit)) if "votes" in details else []}
    write_recorded(directory, _SUMMARY, record, {**files, **kept}, ours=_OURS)


def require_target(directory: str | os.PathLike[str]) -> None:
    """Refuse early a folder in which saving a fit would overwrite files of somebody else."""
    require_own(directory, _SUMMARY, _OURS)


def fingerprint(votes: Comparisons) -> str:
    """Return a text that is equal for equal votes, in any file and order.

    Examples
    --------
    >>> from crowdsift import Comparisons
    >>> from crowdsift.results.store import fingerprint
    >>> one, two = (Comparisons.from_arrays(x, y) for x, y in ((["a"], ["b"]), (["b"], ["a"])))
    >>> fingerprint(one) == fingerprint(one), fingerprint(one) == fingerprint(two)
    (True, False)
    """
    result = hashlib.sha256()
    for labels in (votes.items, votes.workers):
        result.update("\0".join(map(repr, labels.tolist())).encode("utf-8", "surrogatepass"))
    for column in (votes.first, votes.second, votes.outcome, votes.weight, votes.offsets):
        result.update(np.ascontiguousarray(column).data)
    return result.hexdigest()[:32]


def taken_by(fit: Fit) -> tuple[str, ...]:
    """Return fingerprints of the votes that a fit was made of, one per file or update."""
    return fit.taken or (() if fit.votes is None else (fingerprint(fit.votes),))


def load(directory: str | os.PathLike[str]) -> Fit:
    """The fields of a fit that was saved; see `crowdsift.load`."""
    for _ in range(_TRIES):
        saved = RecordedFolder(directory, _SUMMARY)
        try:
            return _loaded(saved)
        except InputError:
            if saved.is_current:
                raise
    return _loaded(RecordedFolder(directory, _SUMMARY))


def _loaded(saved: RecordedFolder) -> Fit:
    """Return the fields of a saved fit; raise an error if a file or a value is damaged."""
    record = dict(saved.record)
    try:
        check_summary(record)
        types, parameters, trace = (record.pop(k) for k in ("label_types", "parameters", "trace"))
        items, shown = own_scale(_table(saved.read(_ITEMS), types["items"]))
        workers = _without_reasons(_table(saved.read(_WORKERS), types["workers"]))
        _check_tables(record, items, workers)
        population = _population(saved)
        details, overall = record.pop("kept"), _overall(saved, record)
        fit = Fit(
            items,
            workers,
            summary=record,
            parameters=parameters,
            trace=tuple(trace),
            diagnostics=_diagnostics(record),
            population=population,
            sites=_sites(saved, population, items, workers),
            coefficients=_coefficients(saved, types["workers"]),
            features=read_features(saved.read(FEATURES)) if saved.has(FEATURES) else None,
            overall_ranking=overall,
            shown=shown,
            folder=str(saved.folder),
        )
        return _with_kept(saved, details, fit)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, ArithmeticError,
            RecursionError, CrowdsiftError) as error:  # fmt: skip
        if isinstance(error, InputError):
            raise
        why = str(error) if isinstance(error, ValueError | CrowdsiftError) else repr(error)
        raise InputError(
            f"the saved fit is damaged ({why:.200}); take a copy of it, or fit the votes again",
            source=str(saved.folder),
        ) from None


def _check_tables(summary: dict[str, Any], items: Table, workers: Table) -> None:
    """Raise an error if the tables lack columns or contradict the summary."""
    for table, count, numbers in (
        (items, "items", ("score", "lower", "upper", "rank", "comparisons", "component")),
        (workers, "workers", ("reliability", "lower", "upper", "comparisons", "agreement")),
    ):
        if table.height != summary[count] and not (count == "workers" and not summary[count]):
            raise ValueError(f"{table.height} {count} in the table, {summary[count]} in {_SUMMARY}")
        for name in numbers:
            if table[name].dtype.kind not in "if":
                raise ValueError(f"{name} in the table of {count} is not a column of numbers")
    component, rank = items["component"], items["rank"]
    if component.dtype.kind != "i" or {*component.tolist()} != {*range(1, component.max() + 1)}:
        raise ValueError("the components are not numbered from 1")
    if rank.dtype.kind != "i" or rank.min() < 1 or rank.max() > items.height:
        raise ValueError("a rank is not between 1 and the number of items")
    if not np.isfinite(items["score"]).all():
        raise ValueError("a score is not a number")
    _ = [items[name] for name in ("item", *context_names(summary.get("by")))]  # else a KeyError
    _ = workers["worker"], workers["verdict"]


def _record_of(ranking: Fit) -> dict[str, Any]:
    """What the summary keeps of a ranking beside its table."""
    types = {"item": _label_types(ranking.item_table["item"])}
    return {"summary": ranking.summary, "parameters": ranking.parameters, "label_types": types}


def _overall(saved: RecordedFolder, record: dict[str, Any]) -> Fit | None:
    """The ranking over all contexts, where it was saved."""
    about = record.pop("overall_ranking", None)
    if about is None or not saved.has(_OVERALL):
        return None
    items, shown = own_scale(_table(saved.read(_OVERALL), about["label_types"]))
    ranking = ranking_of(items, dict(about["summary"]), dict(about["parameters"]))
    return replace(ranking, shown=shown)


def _diagnostics(record: dict[str, Any]) -> tuple[Diagnostic, ...]:
    """Return the warnings with their kinds, which leave the record."""
    kinds = map(Kind, record.pop("warning_kinds"))
    return tuple(map(Diagnostic, kinds, record["warnings"]))


def _with_kept(saved: RecordedFolder, details: dict[str, Any], fit: Fit) -> Fit:
    """The fit with its votes and posterior, as far as they were kept and are still there."""

    def read(name: str) -> bytes | None:
        return saved.read(name) if saved.has(name) else None

    return replace(
        fit,
        posterior=posterior_of(read, details, fit),
        votes=kept_votes(read, details, fit),
        gold=kept_gold(read, fit),
        taken=tuple(map(str, details.get("taken", ()))),
    )


def _with_reasons(fit: Fit) -> Table:
    """The workers with the reason of every verdict after it."""
    columns: dict[str, NDArray[Any]] = {}
    for name in fit.worker_table:
        columns[name] = fit.worker_table[name]
        if name == "verdict":
            columns[_REASON] = reason_texts(fit)
    return Table(columns)


def _without_reasons(table: Table) -> Table:
    return Table({name: table[name] for name in table if name != _REASON})


def _population(saved: RecordedFolder) -> dict[str, Any] | None:
    if not saved.has(_POPULATION):
        return None
    found = json.loads(saved.read(_POPULATION))
    check_population(found)
    return dict(found)


_BY_WORKER = ("low", "high")  # the same for all votes of a worker
_SITE_COLUMNS = {name: np.dtype(kind) for name, kind in {
    "worker": "u4", "winner": "u4", "loser": "u4", "kind": "i1", "tau": "f4", "nu": "f4",
    "side_tau": "f4", "side_nu": "f4", "low": "f8", "high": "f8",
}.items()}  # fmt: skip


_WITHOUT_SITES = "Delete the file to go on from the scores alone"


def sites_bytes(sites: SavedSites) -> bytes:
    """Return the sites as the content of a Parquet file, one row per vote."""
    columns = sites._asdict()
    for name in _BY_WORKER:
        columns[name] = columns[name][sites.worker]
    return parquet_bytes(columns)


def _sites(
    saved: RecordedFolder, population: dict[str, Any] | None, items: Table, workers: Table
) -> SavedSites | None:
    """Return the sites of the votes, if they were kept and the file was not deleted since."""
    if population is None or not saved.has(SITES):
        return None
    content, n_workers = saved.read(SITES, _WITHOUT_SITES), workers.height + 1  # the last is gold
    return read_sites(content, str(saved.folder / SITES), items.height, n_workers)


def read_sites(content: bytes, source: str, n_items: int, n_workers: int) -> SavedSites:
    """Return the sites that `sites_bytes` wrote; the last worker is gold."""
    try:
        found = parquet_columns(content)
        if {name: values.dtype for name, values in found.items()} != _SITE_COLUMNS:
            raise ValueError(f"its columns are {', '.join(found)}")
        worker = found["worker"]
        most = max(int(found[name].max(initial=0)) for name in ("winner", "loser"))
        if most >= n_items or int(worker.max(initial=0)) >= n_workers:
            raise ValueError("it names items or workers that the fit does not have")
        if not all(np.isfinite(found[name]).all() for name in ("tau", "nu", "side_tau", "side_nu")):
            raise ValueError("a site is not a number")
    except ValueError as error:
        raise InputError(f"damaged: {error}. {_WITHOUT_SITES}", source=source) from None
    ends = np.full((2, n_workers), np.nan)
    for row, name in zip(ends, _BY_WORKER, strict=True):
        row[worker] = found[name]
    return SavedSites(*(found[name] for name in SavedSites._fields[:8]), *ends)


def _table(content: bytes, types: dict[str, list[str]]) -> Table:
    """A table from CSV, labels in the types that they had."""
    header, *rows = _rows(content.decode())
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


def _coefficients(saved: RecordedFolder, types: dict[str, list[str]]) -> Table | None:
    """The coefficients of workers; labels are those of the workers, each in several rows."""
    if not saved.has(COEFFICIENTS):
        return None
    content = saved.read(COEFFICIENTS)
    kinds, rows = types["worker"], len(_rows(content.decode())) - 1
    many = [kind for kind in kinds for _ in range(rows // len(kinds))] if len(kinds) > 1 else kinds
    return _table(content, {"worker": many})


def _rows(text: str) -> list[list[str]]:
    """The cells of CSV as `Table.to_csv` writes it.

    The reader of the standard library refuses cells above 131,072 characters, a limit that is
    one for the whole process.
    """
    if '"' not in text:
        return [line.split(",") for line in text.split("\n")[:-1]]
    rows: list[list[str]] = []
    row: list[str] = []
    place = 0
    while place < len(text):
        found = _CELL.match(text, place)
        if found is None:
            raise ValueError(f"not CSV after character {place}")
        quoted, plain, end = found.groups()
        row.append(plain if quoted is None else quoted.replace('""', '"'))
        if end == "\n":
            rows.append(row)
            row = []
        place = found.end()
    return rows


def _values(name: str, texts: list[str]) -> NDArray[Any]:
    """A column of text as a column of its own type."""
    if name in _TEXT_COLUMNS:
        return np.array(texts, dtype=object)
    if all(text.lstrip("-").isdigit() for text in texts):
        return np.array(texts, dtype=np.int64)
    return np.array([float(text) if text else np.nan for text in texts])


def _label_types(labels: NDArray[Any]) -> list[str]:
    """The type of every label, or one name where all are of one type."""
    names = [type(label).__name__ for label in labels]
    return names[:1] if len(set(names)) == 1 else names
