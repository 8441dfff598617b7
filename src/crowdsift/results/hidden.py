"""A fit with pseudonyms in place of the labels of workers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import RequestError
from crowdsift.io.formats import known_formats
from crowdsift.io.sql import identifiers
from crowdsift.models.base import WorkerPoints
from crowdsift.numeric import Codes, Labels
from crowdsift.results.fit import Fit, Posterior
from crowdsift.results.tables import Table
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.pseudonyms import Hiding

_NAMED = {"robustness": "workers", "statistics": "misfitting_workers", "drift": "workers"}


def hidden_fields(fit: Fit, key: Any = None) -> dict[str, Any]:
    """Return the fields of a fit that change when its workers are hidden."""
    # Workers are sorted by pseudonym everywhere, because the order of their labels would identify them. Nothing changes
    # if the workers of the fit are already hidden.
    hiding, before = Hiding.of(key or True), Hiding.of(fit.summary.get("workers_hidden"))
    assert hiding is not None
    if before is not None:
        if key is not None:
            before.or_same(hiding)
        return {}
    labels = fit.worker_table["worker"]
    _refuse_condition({} if fit.votes is None else fit.votes.reading)
    names, code = hiding.pseudonyms(labels)
    if len(names) < len(labels):
        raise RequestError("two workers have the same pseudonym; hide them with a key")
    if not set(fit.worker_table.get("panel", ())).isdisjoint(map(str, labels)):
        raise RequestError("the trusted panels of this fit have labels of workers: fit again with --hide-workers")
    known = {str(label): str(names[place]) for label, place in zip(labels, code, strict=True)}
    order = np.argsort(code)
    table = {name: fit.worker_table[name][order] for name in fit.worker_table}
    fields: dict[str, Any] = {
        "worker_table": Table({**table, "worker": names}),
        "summary": _summary(fit.summary, known, hiding),
    }
    if fit.votes is not None and fit.votes.has_workers:
        fields["votes"] = _votes(fit.votes, names, code, hiding)
    if fit.posterior is not None and len(labels):
        fields["posterior"] = _posterior(fit.posterior, order, code)
    if fit.sites is not None and len(labels):
        gold = len(labels)  # the code after the last worker
        worker = np.append(code.astype(np.int64), gold)
        fields["sites"] = fit.sites.recoded(np.arange(fit.item_table.height), worker, gold + 1)
    if fit.coefficient_table is not None:
        rows = fit.coefficient_table
        own = np.array([known[str(label)] for label in rows["worker"]], dtype=object)
        place = np.argsort(own, kind="stable")
        hidden = {**{name: rows[name][place] for name in rows}, "worker": own[place]}
        fields["coefficient_table"] = Table(hidden)
    return fields


def _refuse_condition(reading: Mapping[str, Any]) -> None:
    """Raise an error if the fit's condition names a column of workers, under any name that formats use."""
    known = {name for each in known_formats() for name in each.columns.get("worker", ())}
    known |= {"worker", reading.get("columns", {}).get("worker", "worker")}
    if not identifiers(reading.get("where", "")).isdisjoint(map(str.casefold, known)):
        raise RequestError(
            "the condition of this fit (--where, where=) names the column of workers and would be kept beside the "
            "pseudonyms: hide the workers of a fit without it"
        )


def _summary(summary: dict[str, Any], known: dict[str, str], hiding: Hiding) -> dict[str, Any]:
    result = {**summary, "workers_hidden": hiding.to_json()}
    for name, key in _NAMED.items():
        if result.get(name) and result[name].get(key):
            found = [known.get(label, "worker-unknown") for label in result[name][key]]
            result[name] = {**result[name], key: found}
    if result.get("intake"):
        result["intake"] = {**result["intake"], "notes": _notes(result["intake"]["notes"], known)}
    return result


def _notes(notes: Any, labels: Iterable[Any]) -> list[str]:
    folders = [f"={label}/" for label in labels]
    return [note for note in notes if not note.startswith("the workers ") and not any(each in note for each in folders)]


def hidden_votes(votes: Comparisons, hiding: Hiding) -> Comparisons:
    """Return the votes with workers replaced by pseudonyms, and sorted by them."""
    return _votes(votes, *hiding.pseudonyms(votes.workers), hiding) if votes.has_workers else votes


def _votes(votes: Comparisons, names: Labels, code: Codes, hiding: Hiding) -> Comparisons:
    worker = code[votes.worker_codes()]
    order, intake = np.argsort(worker, kind="stable"), votes.intake
    columns = {name: getattr(votes, name)[order] for name in ("first", "second", "outcome", "weight")}
    counts = np.bincount(worker, minlength=len(names))
    if intake is not None:
        seconds = {
            names[place]: intake.work_seconds[label]
            for label, place in zip(votes.workers, code, strict=True)
            if label in intake.work_seconds
        }
        intake = replace(intake, notes=tuple(_notes(intake.notes, votes.workers)), work_seconds=seconds)
    return replace(
        votes,
        **columns,
        workers=names,
        offsets=np.append(0, np.cumsum(counts)).astype(np.int64),
        features=None if votes.features is None else votes.features[order],
        intake=intake,
        reading={**votes.reading, "hide_workers": hiding.to_json()},
        choices=None if votes.choices is None else votes.choices.recoded(workers=code),
        grades=None if votes.grades is None else votes.grades.recoded(workers=code),
        panels=votes.panels and votes.panels.renamed(votes.workers, names[code]),
    )


def _posterior(posterior: Posterior, order: NDArray[np.intp], code: Codes) -> Posterior:
    quantiles, points, apart = posterior.quantiles, posterior.points, posterior.in_context
    found = posterior.dimensions
    return replace(
        posterior,
        quantiles=None if quantiles is None else quantiles[order],
        points=None if points is None else WorkerPoints(*(rows[order] for rows in points)),
        in_context=None if apart is None else apart._replace(worker=code[apart.worker].astype(int)),
        dimensions=None if found is None else found.by_worker(order),
    )
