"""Check the summary of a saved fit: the type and the range of every value that is read later.

The checksum of `summary.json` finds damage. This finds values that no fit writes, as somebody who
edits the file by hand may leave them, before they become an error far from the file.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any

from crowdsift.models import MODELS, model
from crowdsift.results.scales import SCALES
from crowdsift.votes.labels import context_names

Check = Callable[[Any], bool]


def check_summary(record: dict[str, Any]) -> None:
    """Raise ValueError, with the name of the entry, for a value that no fit writes.

    Entries with unknown names are let through: a method may add its own.
    """
    for name in _NEEDED:
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
    if not _POPULATION(population):
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
    """Accept an object whose values, under any names, pass the check."""
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _object(_needed: str = "", **checks: Check) -> Check:
    """Accept an object with these entries, where present, and all those that are needed."""

    def check(value: Any) -> bool:
        return isinstance(value, dict) and all(
            checks[name](value[name]) if name in value else name not in _needed.split()
            for name in checks
        )

    return check


_COUNT, _SIZE, _ANY, _SHARE = _whole(), _number(0.0), _number(), _number(0.0, 1.0)
_LABELS, _PARAMETERS = _list(_text), _values(lambda _: True)
_NEEDED = (
    "method", "items", "workers", "votes", "components", "converged", "iterations", "level",
    "scale", "seed", "warnings", "parameters", "trace", "label_types", "kept", "warning_kinds",
)  # fmt: skip
_RANKING: dict[str, Check] = {
    "method": _text,
    "version": _text,
    "components": _whole(1),
    "converged": _truth,
    "level": lambda value: _number(0.5, 1.0)(value) and 0.5 < value < 1.0,
    "scale": _one_of(*SCALES),
    "scale_factor": _number(0.0),
    "anchor": _values(_ANY),
    "seed": _COUNT,
    "typical_reliability": _maybe(_ANY),
    "warnings": _list(_text),
}
_KINDS: dict[str, Check] = {
    **_RANKING,
    "parameters": _PARAMETERS,
    "trace": _list(_ANY),
    "label_types": _object(
        "items workers", items=_values(_list(_text)), workers=_object("worker", worker=_LABELS)
    ),
    "warning_kinds": _list(_text),
    "items": _whole(1),
    "workers": _COUNT,
    "comparisons": _COUNT,
    "votes": _SIZE,
    "by": _maybe(_either(_text, _list(_text))),
    "sides_known": _truth,
    "intake": _maybe(
        _object(
            format=_text, rows=_COUNT, used=_COUNT, empty=_COUNT, doubled=_COUNT,
            set_aside=_COUNT, left_out=_COUNT, votes=_COUNT, both_bad=_COUNT,
            reasons=_values(_COUNT), notes=_LABELS, known=_COUNT, repeated=_COUNT,
        )
    ),
    "measure": _text,
    "iterations": _COUNT,
    "passes": _SIZE,
    "seconds": _SIZE,
    "log_likelihood": _ANY,
    "mean_log_likelihood": _ANY,
    "evidence": _maybe(_ANY),
    "tie_rate": _maybe(_SHARE),
    "pair_effect": _maybe(_SIZE),
    "context_spread": _maybe(_SIZE),
    "context_side_sd": _maybe(_SIZE),
    "crowd_side": _maybe(_ANY),
    "crowd_side_lower": _maybe(_ANY),
    "crowd_side_upper": _maybe(_ANY),
    "separation_reliability": _maybe(_number(high=1.0)),
    "sign_margin": _maybe(_ANY),
    "sign_probability": _maybe(_SHARE),
    "sign_unsettled": _truth,
    "gold_needed": _maybe(_COUNT),
    "gold_agree": _maybe(_COUNT),
    "gold_disagree": _maybe(_COUNT),
    "engine": _text,
    "engine_reason": _text,
    "source": _maybe(_text),
    "dependent_by": _maybe(_text),
    "no_longer_dependent_by": _maybe(_text),
    "dependent_groups": _maybe(_COUNT),
    "design_effect": _maybe(_SIZE),
    "group_effect": _maybe(_SIZE),
    "workers_hidden": _maybe(_object("check", check=_text)),
    "drift": _maybe(_object("workers", crowd_change=_ANY, crowd_z=_ANY, workers=_LABELS)),
    "robustness": _maybe(
        _object(
            "text", leader=_text, challenger=_text, votes=_maybe(_SIZE), total_votes=_SIZE,
            workers=_maybe(_LABELS), total_workers=_COUNT, note=_text, text=_text,
            neighbours=_list(_object(above=_text, below=_text, votes=_maybe(_SIZE),
                                     workers=_maybe(_COUNT))),
        )
    ),
    "statistics": _maybe(
        _object(
            separation_index=_maybe(_ANY), separation_reliability=_maybe(_ANY),
            split_half_reliability=_maybe(_ANY), alpha=_maybe(_ANY),
            triads=_maybe(_values(_maybe(_ANY))), misfitting_workers=_LABELS,
            misfitting_items=_LABELS,
        )
    ),
    "history": _list(
        lambda entry: _object(
            "votes items ranks scores", votes=_SIZE, items=_LABELS, ranks=_list(_whole(1)),
            scores=_list(_ANY),
        )(entry) and len({len(entry[name]) for name in ("items", "ranks", "scores")}) == 1
    ),
    "overall": _maybe(
        _object(
            items=_COUNT, components=_COUNT, converged=_truth, iterations=_COUNT, seconds=_SIZE,
            log_likelihood=_ANY, mean_log_likelihood=_ANY, evidence=_maybe(_ANY),
        )
    ),
    "overall_ranking": _object(
        "summary parameters label_types", parameters=_PARAMETERS,
        label_types=_object("item", item=_LABELS),
        summary=_object("method level scale seed components converged warnings", **_RANKING),
    ),
    "item_features": _object(
        "used groups", used=_truth, own_share=_SHARE, explained=_ANY, evidence_gain=_ANY,
        groups=_list(_object("name", name=_text, features=_COUNT, share=_SHARE)),
    ),
    "covariates": _list(
        _object(
            "name used", name=_text, used=_truth, evidence_gain=_ANY, constant_for_items=_truth,
            crowd=_maybe(_ANY), lower=_maybe(_ANY), upper=_maybe(_ANY), spread=_maybe(_ANY),
        )
    ),
    "kept": _object(
        votes=_object("sides_known has_workers source", sides_known=_truth, has_workers=_truth,
                      source=_text, reading=_values(lambda _: True), row_ids=_truth),
        precision=_object("shift size", shift=_number(0.0, 1e100), size=_number(1e-100, 1e100)),
        taken=_LABELS,
    ),
}  # fmt: skip
_POPULATION = _object(
    "levels masses centre spread shares ties sides side_mean side_variance pair_effect scale",
    levels=_list(_SIZE), masses=_list(_SIZE), centre=_maybe(_ANY), spread=_SIZE,
    shares=lambda value: _list(_SHARE)(value) and len(value) == 3, ties=_truth, sides=_truth,
    side_mean=_ANY, side_variance=_SIZE, pair_effect=_SIZE, scale=_SIZE, by_context=_truth,
)  # fmt: skip
