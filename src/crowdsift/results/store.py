"""Save fits as folders of CSV, JSON and Parquet files, never pickled, and load them.

`summary.json` names its files with size and checksum, and only those are read; it also has a checksum of itself.
`check_summary` finds values that no fit writes, before they cause an error elsewhere. With the votes and the posterior,
which are saved up to 2 million rows each, a loaded fit gives the same answers as the one in memory. Codes refer to the
sorted labels.
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
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import CrowdsiftError, InputError
from crowdsift.io.items import GoldLabels
from crowdsift.io.options import ReadOptions
from crowdsift.io.saved import RecordedFolder, parquet_bytes, parquet_columns, require_own, write_recorded
from crowdsift.models import MODELS, model
from crowdsift.models.base import ContextPoints, SavedSites, WorkerPoints
from crowdsift.models.covariance import ComponentCovariance
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.models.dimensions import DimensionEstimate, Trial
from crowdsift.numeric import Labels, Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.results.feature_table import (
    COEFFICIENTS,
    FEATURE_WEIGHTS,
    FEATURES,
    features_bytes,
    read_features,
    weight_table,
)
from crowdsift.results.fit import Fit, Posterior, ranking_of
from crowdsift.results.reasons import decisions, with_reasons
from crowdsift.results.scales import SCALES, own_scale, with_own_scale
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons, Grades
from crowdsift.votes.intake import Intake
from crowdsift.votes.labels import as_column, context_codes, context_names, factorize, match_labels, merge

if TYPE_CHECKING:
    from crowdsift.votes.choices import Choices
    from crowdsift.votes.panels import Panels

_SUMMARY, _ITEMS, _WORKERS = "summary.json", "items.csv", "workers.csv"
_POPULATION, _OVERALL, SITES = "population.json", "overall.csv", "sites.parquet"
VOTES, PAIRS, RELIABILITIES = "votes.parquet", "precision.parquet", "reliabilities.parquet"
GOLD, ROW_IDS, CHOICES, GRADES = "gold.parquet", "row_ids.parquet", "choices.parquet", "grades.parquet"
CONTEXTS = "context_reliabilities.parquet"
POSITIONS, WEIGHTS = "positions.parquet", "weights.parquet"  # in several dimensions
KEPT = (VOTES, PAIRS, RELIABILITIES, CONTEXTS, POSITIONS, WEIGHTS, GOLD, ROW_IDS, CHOICES)
PANEL_BIAS = "panel_bias.csv"
MOST_VOTES = 2_000_000  # most distinct rows, pairs or workers of a file; larger ones are not written
_CROWD = ("mean", "mean_covariance", "covariance")  # of the weights, in the record
_QUANTILES = "quantile"  # prefix of the columns of `Posterior.quantiles`
_DECISIONS, _REASON = "decisions.csv", "reason"
_OURS = (
    *(_ITEMS, _WORKERS, _DECISIONS, _OVERALL, _POPULATION, SITES),
    *(FEATURES, FEATURE_WEIGHTS, COEFFICIENTS, PANEL_BIAS, *KEPT),
)
FIT_FILES = (_SUMMARY, *_OURS)  # all files that a folder of a fit may contain
_OF_DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, CrowdsiftError)
_TRIES = 5  # attempts to read a folder into which another run is saving

# How to read labels of each type from text; labels of other types are read as text.
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
_TEXT_COLUMNS = {"panel", "verdict", "suggestion", "flag", "covariate", _REASON}
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
    files = {_ITEMS: with_own_scale(fit).to_csv().encode(), _WORKERS: with_reasons(fit).to_csv().encode()}
    if fit.worker_table.height and (fit.worker_table["verdict"] != "").any():
        files[_DECISIONS] = decisions(fit).to_csv().encode()
    if fit.population is not None:  # a later fit starts there
        files[_POPULATION] = (json.dumps(fit.population, allow_nan=False) + "\n").encode()
        if fit.sites is not None:
            files[SITES] = sites_bytes(fit.sites)
    if (ranking := fit.overall_ranking) is not None:
        files[_OVERALL] = with_own_scale(ranking).to_csv().encode()
        types = {"item": _label_types(ranking.item_table["item"])}
        about = {"summary": ranking.summary, "parameters": ranking.parameters, "label_types": types}
        record["overall_ranking"] = about
    if fit.features is not None:
        files[FEATURE_WEIGHTS] = weight_table(fit.features, fit.level).to_csv().encode()
        files[FEATURES] = features_bytes(fit.features)
    if fit.coefficient_table is not None:
        files[COEFFICIENTS] = fit.coefficient_table.to_csv().encode()
    if fit.panel_biases is not None:
        files[PANEL_BIAS] = fit.panel_biases.to_csv().encode()
    kept, details = kept_files(fit)
    record["kept"] = {**details, "taken": list(taken_by(fit)) if "votes" in details else []}
    write_recorded(directory, _SUMMARY, record, {**files, **kept}, ours=_OURS)


def require_target(directory: str | os.PathLike[str]) -> None:
    """Raise an error early if saving a fit in the folder would overwrite other files."""
    require_own(directory, _SUMMARY, _OURS)


def fingerprint(votes: Comparisons) -> str:
    """Return a text that is equal for equal votes, in any file and order."""
    result = hashlib.sha256()
    for labels in (votes.items, votes.workers):
        result.update("\0".join(map(repr, labels.tolist())).encode("utf-8", "surrogatepass"))
    for column in (votes.first, votes.second, votes.outcome, votes.weight, votes.offsets):
        result.update(np.ascontiguousarray(column).data)
    return result.hexdigest()[:32]


def taken_by(fit: Fit) -> tuple[str, ...]:
    """Return fingerprints of the votes of a fit, one per file or update."""
    return fit.taken or (() if fit.votes is None else (fingerprint(fit.votes),))


def load(directory: str | os.PathLike[str]) -> Fit:
    """Load a saved fit; see `crowdsift.load`."""
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
    features = record.get("item_features")
    if isinstance(features, dict) and "groups" in features:  # their earlier name
        record["item_features"] = {"blocks": features["groups"], **features}
    try:
        check_summary(record)
        types, parameters, trace = (record.pop(k) for k in ("label_types", "parameters", "trace"))
        if saved.format == 3 and record["method"] == "sift":
            parameters = {"dimensions": 1, **parameters}
        items, shown = own_scale(_table(saved.read(_ITEMS), types["items"]))
        workers = _table(saved.read(_WORKERS), types["workers"])
        workers = Table({name: column for name, column in workers.items() if name != _REASON})
        _check_tables(record, items, workers)
        population = _population(saved)
        details, overall = record.pop("kept"), _overall(saved, record)
        fit = Fit(
            items,
            workers,
            summary=record,
            parameters=parameters,
            trace=tuple(trace),
            diagnostics=tuple(map(Diagnostic, map(Kind, record.pop("warning_kinds")), record["warnings"])),
            population=population,
            sites=_sites(saved, population, items, workers),
            coefficient_table=_repeated(saved, COEFFICIENTS, "worker", types["workers"]),
            panel_biases=_repeated(saved, PANEL_BIAS, "item", types["items"]),
            features=read_features(saved.read(FEATURES)) if saved.has(FEATURES) else None,
            overall_ranking=overall,
            shown=shown,
            folder=str(saved.folder),
        )

        def read(name: str) -> bytes | None:
            return saved.read(name) if saved.has(name) else None

        return replace(
            fit,
            posterior=posterior_of(read, details, fit),
            votes=kept_votes(read, details, fit),
            gold=kept_gold(read, fit),
            taken=tuple(map(str, details.get("taken", ()))),
        )
    except _OF_DAMAGE as error:
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
    _ = [items[name] for name in ("item", *context_names(summary.get("by")))]  # raises a KeyError for a missing column
    _ = workers["worker"], workers["verdict"]


def _overall(saved: RecordedFolder, record: dict[str, Any]) -> Fit | None:
    about = record.pop("overall_ranking", None)
    if about is None or not saved.has(_OVERALL):
        return None
    items, shown = own_scale(_table(saved.read(_OVERALL), about["label_types"]))
    ranking = ranking_of(items, dict(about["summary"]), dict(about["parameters"]))
    return replace(ranking, shown=shown)


def _population(saved: RecordedFolder) -> dict[str, Any] | None:
    if not saved.has(_POPULATION):
        return None
    found = json.loads(saved.read(_POPULATION))
    check_population(found)
    return dict(found)


_BY_WORKER = ("low", "high")  # the same for all votes of a worker
_SITE_COLUMNS = {
    **dict.fromkeys(("worker", "winner", "loser"), np.dtype("u4")),
    "kind": np.dtype("i1"),
    **dict.fromkeys(("tau", "nu", "side_tau", "side_nu"), np.dtype("f4")),
    **dict.fromkeys(_BY_WORKER, np.dtype("f8")),
}
_WITHOUT_SITES = "Delete the file to go on from the scores alone"


def sites_bytes(sites: SavedSites) -> bytes:
    """Return the sites as the content of a Parquet file, one row per vote."""
    columns = sites._asdict()
    for name in _BY_WORKER:
        columns[name] = columns[name][sites.worker]
    return parquet_bytes(columns)


def _sites(saved: RecordedFolder, population: dict[str, Any] | None, items: Table, workers: Table) -> SavedSites | None:
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
    """Return a table from CSV, with labels of the original types."""
    header, *rows = _rows(content.decode())
    cells = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    columns = dict(zip(header, map(list, cells), strict=True))
    parsed: dict[str, NDArray[Any]] = {}
    for name, texts in columns.items():
        if name in types:
            kinds = types[name] if len(types[name]) > 1 else types[name] * len(texts)
            parsed[name] = np.empty(len(texts), dtype=object)
            parsed[name][:] = [_READERS.get(k, str)(text) for k, text in zip(kinds, texts, strict=True)]
        else:
            parsed[name] = _parsed(name, texts)
    return Table(parsed)


def _repeated(saved: RecordedFolder, name: str, role: str, types: dict[str, list[str]]) -> Table | None:
    """Return a table with several rows for every worker (grouped) or item (panel by panel)."""
    if not saved.has(name):
        return None
    content, kinds = saved.read(name), types[role]
    times = (len(_rows(content.decode())) - 1) // len(kinds)
    many = np.repeat(kinds, times) if role == "worker" else np.tile(kinds, times)
    return _table(content, {role: many.tolist() if len(kinds) > 1 else kinds})


def _rows(text: str) -> list[list[str]]:
    """Return CSV split into cells of any length; Python's reader refuses more than 131,072 characters."""
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


def _parsed(name: str, texts: list[str]) -> NDArray[Any]:
    if name in _TEXT_COLUMNS:
        return np.array(texts, dtype=object)
    if all(text.lstrip("-").isdigit() for text in texts):
        return np.array(texts, dtype=np.int64)
    return np.array([float(text) if text else np.nan for text in texts])


def _label_types(labels: NDArray[Any]) -> list[str]:
    """Return the type of every label, or one name if all have the same type."""
    names = [type(label).__name__ for label in labels]
    return names[:1] if len(set(names)) == 1 else names


Check = Callable[[Any], bool]


def check_summary(record: dict[str, Any]) -> None:
    """Raise ValueError with the entry's name for a known entry with a value that no fit writes."""
    for name in _NEEDED.split():
        if name not in record:
            raise ValueError(f"{name} is missing")
    for name, value in record.items():
        if name in _KINDS and not _KINDS[name](value):
            raise ValueError(f"{name} cannot be {value!r:.80}")
    if len(record["warning_kinds"]) != len(record["warnings"]):
        raise ValueError("warning_kinds and warnings have different lengths")
    if {*record["label_types"]["items"]} != {*context_names(record.get("by")), "item"}:
        raise ValueError("by and label_types name different columns")
    if record["method"] in MODELS:
        model(record["method"], **record["parameters"])


def check_population(population: Any) -> None:
    """Raise ValueError for a worker population that no fit writes."""
    if not _IS_POPULATION(population):
        raise ValueError(f"the worker population cannot be {population!r:.80}")


def _number(low: float = -inf, high: float = inf) -> Check:
    def check(value: Any) -> bool:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return known and isfinite(value) and low <= value <= high

    return check


def _whole(low: int = 0, high: float = 2**63) -> Check:
    return lambda value: type(value) is int and low <= value < high


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _one_of(*allowed: str) -> Check:
    return lambda value: isinstance(value, str) and value in allowed


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _values(check: Check) -> Check:
    """Return a check for an object whose values, under any names, pass the given check."""
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _object(_needed: str = "", /, **checks: Check) -> Check:
    """Return a check for an object with these entries, if present, and all those in `_needed`."""

    def check(value: Any) -> bool:
        return isinstance(value, dict) and all(
            checks[name](value[name]) if name in value else name not in _needed.split() for name in checks
        )

    return check


def _same(check: Check, names: str) -> dict[str, Check]:
    """Return the check for each of these names."""
    return dict.fromkeys(names.split(), check)


_COUNT, _SIZE, _ANY, _SHARE, _LEVEL = _whole(), _number(0.0), _number(), _number(0.0, 1.0), _number(0.5, 1.0)
_LABELS, _PARAMETERS, _NUMBER = _list(_text), _values(lambda _: True), _maybe(_ANY)
_NEEDED = (
    "method items workers votes components converged iterations level scale seed warnings parameters trace label_types "
    "kept warning_kinds"
)
_RANKING: dict[str, Check] = {
    **_same(_text, "method version"),
    "components": _whole(1),
    "converged": _truth,
    "level": lambda value: _LEVEL(value) and 0.5 < value < 1.0,
    "scale": _one_of(*SCALES),
    "scale_factor": _SIZE,
    "anchor": _values(_ANY),
    "seed": _COUNT,
    "typical_reliability": _NUMBER,
    "warnings": _LABELS,
}
_KINDS: dict[str, Check] = {
    **_RANKING,
    **_same(_text, "measure engine engine_reason"),
    **_same(_maybe(_text), "source dependent_by no_longer_dependent_by"),
    **_same(_truth, "sides_known has_common sign_unsettled"),
    **_same(_COUNT, "workers comparisons iterations"),
    **_same(_maybe(_COUNT), "gold_needed gold_to_check gold_agree gold_disagree dependent_groups"),
    **_same(_SIZE, "votes passes seconds"),
    **_same(_maybe(_SIZE), "pair_effect context_spread context_side_sd context_deviation design_effect group_effect"),
    **_same(_ANY, "log_likelihood mean_log_likelihood"),
    **_same(_NUMBER, "evidence crowd_side crowd_side_lower crowd_side_upper sign_margin"),
    **_same(_maybe(_SHARE), "tie_rate sign_probability"),
    **_same(_whole(1), "items dimensions"),
    "parameters": _PARAMETERS,
    "trace": _list(_ANY),
    "label_types": _object("items workers", items=_values(_LABELS), workers=_object("worker", worker=_LABELS)),
    "warning_kinds": _LABELS,
    "by": _maybe(_either(_text, _LABELS)),
    "intake": _maybe(
        _object(
            format=_text,
            reasons=_values(_COUNT),
            notes=_LABELS,
            **_same(_COUNT, "rows used empty duplicates set_aside left_out votes both_bad known repeated"),
        )
    ),
    "direction": _one_of("common", "gold", "trusted"),
    "dimension_names": _list(_maybe(_text)),
    "trials": _list(_object("dimensions", dimensions=_whole(1), **_same(_NUMBER, "evidence left_out_loss"))),
    "separation_reliability": _maybe(_number(high=1.0)),
    "workers_hidden": _maybe(_object("check", check=_text)),
    "drift": _maybe(_object("workers", crowd_change=_ANY, crowd_z=_ANY, workers=_LABELS)),
    "robustness": _maybe(
        _object(
            "text",
            **_same(_text, "leader challenger note text"),
            votes=_maybe(_SIZE),
            total_votes=_SIZE,
            workers=_maybe(_LABELS),
            total_workers=_COUNT,
            neighbours=_list(_object(above=_text, below=_text, votes=_maybe(_SIZE), workers=_maybe(_COUNT))),
        )
    ),
    "statistics": _maybe(
        _object(
            **_same(_NUMBER, "separation_index separation_reliability scale_separation_reliability"),
            **_same(_NUMBER, "split_half_reliability alpha"),
            triads=_maybe(_values(_NUMBER)),
            **_same(_LABELS, "misfitting_workers misfitting_items"),
        )
    ),
    "history": _list(
        lambda entry: (
            _object("votes items ranks scores", votes=_SIZE, items=_LABELS, ranks=_list(_whole(1)), scores=_list(_ANY))(
                entry
            )
            and len({len(entry[name]) for name in ("items", "ranks", "scores")}) == 1
        )
    ),
    "trusted": _maybe(
        _object(
            "column values panels",
            column=_text,
            values=_LABELS,
            **_same(_SIZE, "votes worth"),
            to_settle=_maybe(_SIZE),
            panels=_list(_object("panel items", panel=_text, items=_LABELS, **_same(_SIZE, "deviation lower upper"))),
        )
    ),
    "overall": _maybe(
        _object(
            converged=_truth,
            **_same(_COUNT, "items components iterations"),
            seconds=_SIZE,
            **_same(_ANY, "log_likelihood mean_log_likelihood"),
            evidence=_NUMBER,
        )
    ),
    "overall_ranking": _object(
        "summary parameters label_types",
        parameters=_PARAMETERS,
        label_types=_object("item", item=_LABELS),
        summary=_object("method level scale seed components converged warnings", **_RANKING),
    ),
    "item_features": _object(
        "used blocks",
        used=_truth,
        own_share=_SHARE,
        **_same(_ANY, "explained evidence_gain"),
        blocks=_list(_object("name", name=_text, features=_COUNT, share=_SHARE)),
    ),
    "covariates": _list(
        _object(
            "name used",
            name=_text,
            **_same(_truth, "used constant_for_items"),
            evidence_gain=_ANY,
            **_same(_NUMBER, "crowd lower upper spread"),
        )
    ),
    "kept": _object(
        votes=_object(
            "sides_known has_workers source",
            **_same(_truth, "sides_known has_workers row_ids choices grades"),
            source=_text,
            reading=_PARAMETERS,
        ),
        dimensions=_values(_list(_either(_ANY, _list(_ANY)))),
        precision=_object("shift size", shift=_number(0.0, 1e100), size=_number(1e-100, 1e100)),
        taken=_LABELS,
    ),
}
_IS_POPULATION = _object(
    "levels masses centre spread shares ties sides side_mean side_variance pair_effect scale",
    **_same(_list(_SIZE), "levels masses"),
    centre=_NUMBER,
    shares=lambda value: _list(_SHARE)(value) and len(value) == 3,
    side_mean=_ANY,
    **_same(_SIZE, "spread side_variance pair_effect scale"),
    **_same(_truth, "ties sides by_context"),
)


def kept_files(fit: Fit) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files by name, and their entry in the record."""
    files: dict[str, bytes] = {}
    details: dict[str, Any] = {}
    votes, posterior = fit.votes, fit.posterior
    plain = votes is not None and votes.features is None and votes.item_class is None
    if votes is not None and plain and len(votes) <= MOST_VOTES:
        rows = dict(zip(("first", "second", "outcome", "weight"), votes.columns, strict=True))
        files[VOTES] = parquet_bytes({"worker": votes.worker_codes().astype(np.uint32), **rows})
        details["votes"] = {
            "sides_known": votes.sides_known,
            "has_workers": votes.has_workers,
            "source": votes.source,
            "reading": dict(votes.reading),
            "row_ids": votes.row_ids is not None,
        }
        if votes.row_ids is not None:
            files[ROW_IDS] = parquet_bytes({"id": votes.row_ids})
        if votes.choices is not None:
            files[CHOICES] = votes_choices(votes.choices)
            details["votes"]["choices"] = True
        if votes.grades is not None:
            files[GRADES] = parquet_bytes(votes.grades._asdict())
            details["votes"]["grades"] = True
    if fit.gold is not None:
        known = _in_order(fit)[0].tolist()
        places = (match_labels(labels.tolist(), known) for labels in fit.gold)
        files[GOLD] = parquet_bytes(dict(zip(("winner", "loser"), places, strict=True)))
    if posterior is None:
        return files, details
    covariances, quantiles, points = posterior.covariances, posterior.quantiles, posterior.points
    if covariances is not None and len(covariances.pairs[0]) <= MOST_VOTES:
        names = ("low", "high", "weight")
        files[PAIRS] = parquet_bytes(dict(zip(names, covariances.pairs, strict=True)))
        details["precision"] = {"shift": covariances.shift, "size": covariances.scale}
    columns = {} if quantiles is None else _split(_QUANTILES, quantiles)
    if points is not None:
        columns |= _point_columns(points)
    if columns and len(next(iter(columns.values()))) <= MOST_VOTES:
        files[RELIABILITIES] = parquet_bytes(columns)
        if (apart := posterior.in_context) is not None:
            who = {"worker": apart.worker, "context": apart.context}
            files[CONTEXTS] = parquet_bytes({**who, **_point_columns(apart.points)})
    if posterior.dimensions is not None:
        found, details["dimensions"] = _dimension_files(posterior.dimensions)
        files |= found
    return files, details


def _dimension_files(found: DimensionEstimate) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files of positions and weights, and the population's entry in the record."""
    square = (-1, found.count**2)
    flat = (
        ("position", found.positions),
        ("covariance", found.position_covariance.reshape(square)),
        ("weight", found.weights),
        ("covariance", found.weight_covariance.reshape(square)),
    )
    columns = [{f"{name}{i:03d}": each for i, each in enumerate(rows.T)} for name, rows in flat]
    places = {**columns[0], **columns[1], "component_size": found.component_size}
    weights = {**columns[2], **columns[3], "distinct": found.distinct}
    crowd = {name: getattr(found, name).tolist() for name in _CROWD}
    return {POSITIONS: parquet_bytes(places), WEIGHTS: parquet_bytes(weights)}, crowd


def _dimensions_of(read: Callable[[str], bytes | None], details: dict[str, Any], fit: Fit) -> DimensionEstimate | None:
    """Return the dimensions of a loaded fit; None if it has one, or if a file was deleted."""
    files = [read(POSITIONS), read(WEIGHTS)]
    if None in files or "dimensions" not in details:
        return None
    s, D = fit.summary, int(fit.summary["dimensions"])
    items, workers = (parquet_columns(content) for content in files if content is not None)
    kinds = (("position", items, fit.item_table), ("weight", workers, fit.worker_table))
    parts: list[Any] = []
    for name, columns, table in kinds:
        for kind, shape in ((name, (-1, D)), ("covariance", (-1, D, D))):
            found = _joined(columns, kind, table.height)
            if found is None:
                raise ValueError(f"the columns {kind} are missing")
            parts.append(found.reshape(shape))
    crowd = [np.array(details["dimensions"][name], np.float64) for name in _CROWD]
    if [each.shape for each in crowd] != [(D,), (D, D), (D, D)]:
        raise ValueError("the crowd has another number of dimensions")
    trials = (
        Trial(
            each["dimensions"],
            *(np.nan if each[name] is None else each[name] for name in ("evidence", "left_out_loss")),
        )
        for each in s["trials"]
    )
    parts += [*crowd, s["direction"], s["has_common"], tuple(trials), workers["distinct"], items["component_size"]]
    return DimensionEstimate(*parts)


def kept_votes(read: Callable[[str], bytes | None], details: dict[str, Any], fit: Fit) -> Comparisons | None:
    """Return the votes of a loaded fit, if they were kept."""
    content = read(VOTES)
    if content is None or "votes" not in details:
        return None
    columns, about = parquet_columns(content), details["votes"]
    ids = read(ROW_IDS) if about.get("row_ids") else b""
    if ids is None:  # the file was deleted: repeated rows could not be recognised
        return None
    chosen = read(CHOICES) if about.get("choices") else b""
    graded = read(GRADES) if about.get("grades") else b""
    if chosen is None or graded is None:  # the file was deleted: the pairs alone are different votes
        return None
    named = bool(about["has_workers"])
    workers = fit.worker_table["worker"] if named else np.array([None], dtype=object)
    votes = Comparisons.from_codes(
        columns["first"],
        columns["second"],
        worker=columns["worker"] if named else None,
        outcome=columns["outcome"],
        weight=columns["weight"],
        items=_in_order(fit)[0],
        workers=workers,
        sides_known=bool(about["sides_known"]),
        by=fit.by,
        source=str(about["source"]),
        summed=True,
    )
    reading = ReadOptions.of(about.get("reading") or {}, None).remembered()
    intake = fit.summary.get("intake")
    return replace(
        votes,
        intake=None if intake is None else Intake.from_json(intake),
        reading=reading,
        row_ids=parquet_columns(ids)["id"] if ids else None,
        choices=_read_choices(chosen, votes) if chosen else None,
        grades=_read_grades(graded, votes) if graded else None,
        panels=_panels(fit),
    )


def _panels(fit: Fit) -> Panels | None:
    about = fit.summary.get("trusted")
    if not about:
        return None
    from crowdsift.votes.panels import Panels

    of = dict(zip(fit.worker_table["worker"], fit.worker_table["panel"], strict=True))
    return Panels(about["column"], tuple(about["values"]), of)


def votes_choices(choices: Choices) -> bytes:
    """Return choices as the content of a Parquet file, one row per alternative."""
    choice = choices.choice
    return parquet_bytes(
        {
            "choice": choice,
            "plus": choices.plus,
            "minus": choices.minus,
            "tied": choices.tied.astype(np.uint8),
            "worker": choices.worker[choice],
            "weight": choices.weight[choice],
        }
    )


def _read_grades(content: bytes, votes: Comparisons) -> Grades:
    columns = parquet_columns(content)
    found = Grades(*(columns[name] for name in Grades._fields))
    limits = zip(
        ("first", "second", "worker", "level"), (votes.n_items, votes.n_items, votes.n_workers, 4), strict=True
    )
    sound = all(len(columns[name]) and columns[name].min() >= 0 and columns[name].max() < most for name, most in limits)
    if not (sound and found.level.min() and np.isin(found.outcome, (0.0, 1.0)).all() and (found.weight > 0.0).all()):
        raise ValueError(f"{GRADES} names votes that the fit does not have")
    return found


def _read_choices(content: bytes, votes: Comparisons) -> Choices:
    """Return the choices that `votes_choices` wrote; raise an error if they do not fit the votes."""
    from crowdsift.votes.choices import Choices

    columns = parquet_columns(content)
    choice, plus, minus = (columns[name].astype(np.int64) for name in ("choice", "plus", "minus"))
    worker, weight = columns["worker"].astype(np.int64), columns["weight"].astype(np.float64)
    starts = np.flatnonzero(np.diff(choice, prepend=-1))
    steps, limits = np.diff(choice, prepend=-1), (votes.n_items, votes.n_items, votes.n_workers)
    sound = len(choice) and ((steps == 0) | (steps == 1)).all() and steps[0] == 1
    for codes, lowest, limit in zip((plus, minus, worker), (0, -1, 0), limits, strict=True):
        sound = sound and codes.min() >= lowest and codes.max() < limit
    if not (sound and (np.isfinite(weight) & (weight > 0.0)).all()):
        raise ValueError(f"{CHOICES} names choices that the votes do not have")
    tied = columns["tied"].astype(bool)
    return Choices(plus, minus, tied, np.append(starts, len(choice)), worker[starts], weight[starts])


def kept_gold(read: Callable[[str], bytes | None], fit: Fit) -> GoldLabels | None:
    """Return the gold pairs of a loaded fit; None if it had none."""
    content = read(GOLD)
    if content is None:
        return None
    columns, labels = parquet_columns(content), _in_order(fit)[0]
    return GoldLabels(labels[columns["winner"]], labels[columns["loser"]])


def posterior_of(read: Callable[[str], bytes | None], details: dict[str, Any], fit: Fit) -> Posterior | None:
    """Return the posterior of a loaded fit; None if none was saved."""
    pairs, reliabilities, contexts = read(PAIRS), read(RELIABILITIES), read(CONTEXTS)
    if pairs is None and reliabilities is None:
        return None
    labels, code = _in_order(fit)
    component, sd = np.empty(len(code), np.int64), np.empty(len(code))
    component[code] = fit.item_table["component"] - 1
    table: Table = fit.item_table
    sd[code] = 0.5 * (table["upper"] - table["lower"]) / half_width(fit.level)
    covariances = quantiles = points = apart = None
    if pairs is not None:
        found, about = parquet_columns(pairs), details["precision"]
        covariances = ComponentCovariance(
            component, found["low"], found["high"], found["weight"], float(about["shift"]), float(about["size"])
        )
    if reliabilities is not None:
        columns, height = parquet_columns(reliabilities), max(fit.worker_table.height, 1)
        quantiles, points = _joined(columns, _QUANTILES, height), _points_of(columns, height)
    if contexts is not None and points is not None:
        apart = _context_points(parquet_columns(contexts), fit, len(context_codes(labels)))
    known_sd = sd if np.isfinite(sd).any() else None
    dimensions = _dimensions_of(read, details, fit)
    return Posterior(labels, known_sd, covariances, quantiles, points, apart, dimensions)


def _context_points(columns: dict[str, NDArray[Any]], fit: Fit, n_contexts: int) -> ContextPoints:
    worker, context = (columns[name].astype(np.int64) for name in ("worker", "context"))
    points = _points_of(columns, len(worker))
    for code, end in ((worker, fit.worker_table.height), (context, n_contexts)):
        if points is None or code.min(initial=0) < 0 or code.max(initial=0) >= end:
            raise ValueError(f"{CONTEXTS} is of other workers or contexts")
    assert points is not None
    return ContextPoints(worker, context, points)


def _split(name: str, rows: Vector) -> dict[str, NDArray[np.float32]]:
    """Return the columns of a matrix under numbered names, in single precision."""
    return {f"{name}{i:02d}": column for i, column in enumerate(rows.T.astype(np.float32))}


def _joined(columns: dict[str, NDArray[Any]], name: str, height: int) -> Vector | None:
    names = sorted(each for each in columns if each.rstrip("0123456789") == name)
    if not names:
        return None
    found = np.stack([columns[each] for each in names], axis=1).astype(np.float64)
    if len(found) != height or not np.isfinite(found).all():
        raise ValueError(f"{name} has {len(found)} rows for {height} workers, or no numbers")
    return found


def _point_columns(points: WorkerPoints) -> dict[str, NDArray[np.float32]]:
    return {key: column for name, rows in points._asdict().items() for key, column in _split(name, rows).items()}


def _points_of(columns: dict[str, NDArray[Any]], height: int) -> WorkerPoints | None:
    """Return the points of the posterior of every worker; None if they were not saved."""
    found = [_joined(columns, name, height) for name in WorkerPoints._fields]
    known = [each for each in found if each is not None]
    if known and len(known) < len(found):
        raise ValueError("some of the columns of the points are missing")
    return WorkerPoints(*known) if known else None


def _in_order(fit: Fit) -> tuple[Labels, NDArray[np.intp]]:
    items = merge([factorize(as_column(fit.item_table["item"].tolist()))])[1][0].astype(np.int64)
    keys = [items]
    for by in reversed(fit.context_columns):
        keys.append(merge([factorize(as_column(fit.item_table[by].tolist()))])[1][0].astype(int))
    order = np.lexsort(keys)
    labels = np.empty(len(order), dtype=object)
    labels[:] = fit.labels
    return labels[order], np.argsort(order)
