"""Compare methods with a known truth, or by their predictions of left-out votes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from crowdsift.checks.leftout import predicted_probability
from crowdsift.errors import CrowdsiftError, InputError, RequestError
from crowdsift.fitting import fit, without_warnings
from crowdsift.fitting.estimate import Resources, estimate_votes
from crowdsift.fitting.holdout import tuned
from crowdsift.io.ingest import read_votes
from crowdsift.io.items import match_items, read_item_values, with_classes, with_item_features
from crowdsift.io.options import ReadOptions
from crowdsift.models import MODELS, Model, Sift, as_model
from crowdsift.numeric import Mask, Vector
from crowdsift.numeric.metrics import Metrics, measure, measure_up_to_sign
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.graph import folds, pair_keys

Parts = Iterator[tuple[Comparisons, Comparisons]]


def evaluate(
    votes: Any,
    truth: Any = None,
    methods: str | Sequence[str | Model] = "all",
    *,
    columns: Mapping[str, str] | None = None,
    workers: bool = True,
    sides: bool | None = None,
    covariates: Sequence[str] = (),
    classes: Any = None,
    items: Any = None,
    item_text: Any = None,
    item_features_missing: str = "error",
    tune: bool = False,
    dimensions: int | str | None = None,
    engine: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Fit methods to the same votes and compare each with the truth, or with left-out votes.

    A method that needs more than the votes contain runs in a reduced form, or not at all; its note says so.

    Parameters
    ----------
    votes
        Anything that `crowdsift.read` takes.
    truth
        A file or frame with the columns item and score, or a mapping from items to scores. Without one votes are left
        out and predicted; see `crowdsift.lab.evaluation.cross_validate`.
    methods
        "all", names separated by commas, or a sequence of names and models.
    columns, workers, sides, covariates
        As in `crowdsift.read`.
    classes, items, item_text, item_features_missing, tune, engine, threads, seed
        As in `crowdsift.fit`.
    dimensions
        As in `crowdsift.fit`, for sift, which must be one of the methods.
    progress
        Called with the name of every method before it runs.

    Returns
    -------
    list of dict
        One record per method: method, accuracy, weighted_accuracy, kendall_tau, the same three with _up_to_sign (for
        the better of the two signs of the scores), seconds, note. Missing figures are None. Without a truth: one record
        per method and kind of left-out part (votes, workers, pairs), with log_loss, brier, calibration, accuracy and
        behind.

    Examples
    --------
    >>> import crowdsift
    >>> drawn = crowdsift.simulate(items=20, workers=10, comparisons=4000, seed=1)
    >>> truth = dict(zip(drawn.items, drawn.scores))
    >>> for row in crowdsift.evaluate(drawn.comparisons(), truth, "bt,bora-em"):
    ...     print(row["method"], row["accuracy"] > 0.9)
    bt True
    bora-em True
    """
    models = chosen_models(methods, dimensions)
    options = ReadOptions(
        columns=columns or {}, workers=workers, sides=sides, covariates=tuple(covariates), threads=threads
    )
    comparisons = with_classes(read_votes(votes, options), classes)
    comparisons = with_item_features(comparisons, items, item_text, item_features_missing)
    if dimensions is not None:
        for chosen in models:
            chosen.refuse_votes(comparisons)
    if truth is None:
        return cross_validate(
            comparisons, models, tune=tune, engine=engine, threads=threads, seed=seed, progress=progress
        )
    known, target = _truth(comparisons, truth)
    records = []
    for chosen in models:
        if progress is not None:
            progress(chosen.name)
        relaxed, note = chosen.relax(comparisons)
        notes = [note] if note else []
        if not known.all():
            notes.append(f"{int((~known).sum())} items without truth left aside")
        if relaxed.uses_workers and not comparisons.has_workers:
            records.append(_record(chosen.name, None, None, None, ["not run: needs workers"]))
            continue
        with without_warnings():  # the note contains the warnings
            result = fit(comparisons, relaxed, tune=tune, engine=engine, threads=threads, seed=seed)
        if tune and relaxed.tuned:
            notes.append(f"{relaxed.tuned} {result.parameters[relaxed.tuned]:.3g}")
        notes.extend(result.warnings)
        scores = result.scores_of(comparisons.items)[known]
        records.append(_record(chosen.name, scores, target, result.summary["seconds"], notes))
    return records


def chosen_models(methods: str | Sequence[str | Model], dimensions: int | str | None = None) -> list[Model]:
    """Return the models for "all", for names separated by commas, or for a sequence."""
    # `dimensions` is for sift among them.
    if isinstance(methods, str):
        methods = list(MODELS) if methods == "all" else [m.strip() for m in methods.split(",")]
    if not isinstance(methods, Sequence) or not methods:
        raise RequestError(f"no method given; the methods are {', '.join(MODELS)}")
    models = [as_model(entry) for entry in methods]
    several = [each for each in models if isinstance(each, Sift)] or models  # other methods raise an error
    return [as_model(each, dimensions if each in several else None) for each in models]


def _record(
    method: str, scores: Vector | None, target: Vector | None, seconds: float | None, notes: list[str]
) -> dict[str, Any]:
    nothing = float("nan")
    plain = either = Metrics(nothing, nothing, nothing)
    if scores is not None and target is not None:
        plain, either = measure(scores, target), measure_up_to_sign(scores, target)
    figures = {**asdict(plain), **{f"{name}_up_to_sign": value for name, value in asdict(either).items()}}
    return {
        "method": method,
        **{name: None if isnan(value) else value for name, value in figures.items()},
        "seconds": seconds,
        "note": "; ".join(notes),
    }


def _truth(votes: Comparisons, truth: Any) -> tuple[Mask, Vector]:
    if isinstance(truth, Mapping) and set(truth) != {"item", "score"}:
        labels = np.empty(len(truth), dtype=object)
        labels[:] = list(truth)
        try:
            values = np.array(list(truth.values()), dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("the scores of the truth are not numbers") from None
    else:
        labels, values = read_item_values(truth)
    place = match_items(votes, labels)
    known = place >= 0
    if known.sum() < 2:
        raise InputError(
            f"only {int(known.sum())} of the {votes.n_items} items of the votes are in the truth (for example "
            f"{votes.items[0]!r} is not like {labels[0] if len(labels) else 'nothing'!r}); use the same names"
        )
    return known, values[place[known]]


SCHEMES = ("votes", "workers", "pairs")
_LEAST = 1e-12  # least probability of an actual vote
_BINS = 10  # bins of the predicted probability of the favourite
FIGURES = ("log_loss", "log_loss_se", "brier", "calibration", "accuracy", "behind", "behind_se")


class LeftOut(NamedTuple):
    """Predictions of left-out votes: probability, outcome and weight of each."""

    p: Vector
    outcome: Vector
    weight: Vector

    @property
    def losses(self) -> Vector:
        """Return -log of the probability of the actual votes; a tie is half of each."""
        won, lost = (np.log(np.maximum(q, _LEAST)) for q in (self.p, 1.0 - self.p))
        return np.asarray(-(self.outcome * won + (1.0 - self.outcome) * lost))


def cross_validate(
    votes: Comparisons,
    models: Sequence[Model],
    *,
    schemes: Sequence[str] = SCHEMES,
    count: int = 5,
    tune: bool = False,
    engine: str = "auto",
    threads: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Leave votes out, fit the others, and compare predictions with the actual votes."""
    # `schemes`: the parts left out: random "votes", all votes of some "workers" (who are then new to the fit), or all
    # votes on some "pairs" of items. `tune`, `engine`, `threads`, `seed` are those of `crowdsift.fit`; the penalty is
    # chosen within the votes that are kept.
    records = []
    for scheme in schemes:
        try:
            parts = list(parts_of(votes, scheme, count, seed))
        except RequestError as error:
            if len(schemes) == 1:
                raise
            records += [_left_out_record(model, scheme, None, None, f"not run: {error}") for model in models]
            continue
        found: list[tuple[Model, LeftOut | None, float, str]] = []
        for model in models:
            if progress is not None:
                progress(f"{model.name} without some {scheme}")
            started = time.perf_counter()
            left, note = _predicted(parts, model, votes, tune, engine, threads, seed)
            found.append((model, left, time.perf_counter() - started, note))
        best = _best([left for _, left, _, _ in found])
        for model, left, seconds, note in found:
            records.append({**_left_out_record(model, scheme, left, best, note), "seconds": seconds})
    return records


def parts_of(votes: Comparisons, scheme: str, count: int = 5, seed: int = 0) -> Parts:
    """Yield kept and left-out votes, part by part, with unchanged codes."""
    if scheme not in SCHEMES:
        raise RequestError(f"what is left out must be one of {', '.join(SCHEMES)}, not {scheme!r}")
    if scheme == "votes":
        yield from folds(votes, count, seed)
        return
    if scheme == "workers":
        if not votes.has_workers:
            raise RequestError("the votes have no workers to leave out")
        unit = votes.worker_codes().astype(np.int64)
    else:
        unit = pair_keys(votes.first, votes.second, votes.n_items)
    unit = np.unique(unit, return_inverse=True)[1].reshape(-1)
    number = int(unit.max()) + 1
    if number < count:
        raise RequestError(f"{count} parts of {number} {scheme} cannot be left out")
    rng = np.random.Generator(np.random.PCG64(seed))
    part = rng.permutation(np.arange(number) % count)[unit]
    for each in range(count):
        yield votes.select(part != each), votes.select(part == each)


def _predicted(
    parts: list[tuple[Comparisons, Comparisons]],
    model: Model,
    votes: Comparisons,
    tune: bool,
    engine: str,
    threads: int | None,
    seed: int,
) -> tuple[LeftOut | None, str]:
    relaxed, note = model.relax(votes)
    uses_features = votes.features is not None and not relaxed.takes_covariates
    if uses_features and relaxed.prepare(votes).features is not None:
        return None, "not run: its predictions also depend on features of the votes"
    if relaxed.uses_workers and not votes.has_workers:
        return None, "not run: needs workers"
    found, resources = [], Resources(engine, None, threads)
    with without_warnings():
        for kept, left_out in parts:
            try:
                fitted = tuned(kept, relaxed, resources, seed=seed).model if tune and relaxed.tuned else relaxed
                estimate = estimate_votes(fitted, kept, resources)
                p = predicted_probability(left_out, fitted, estimate)
            except CrowdsiftError as error:
                return None, f"not run: {error}"
            found.append((p, left_out.outcome, left_out.weight))
    columns = (np.concatenate(column).astype(np.float64) for column in zip(*found, strict=True))
    return LeftOut(*columns), note


def _best(found: list[LeftOut | None]) -> LeftOut | None:
    run = [left for left in found if left is not None]
    return min(run, key=lambda left: float(left.weight @ left.losses)) if run else None


def _left_out_record(
    model: Model, scheme: str, left: LeftOut | None, best: LeftOut | None, note: str
) -> dict[str, Any]:
    figures: dict[str, float | None] = dict.fromkeys(FIGURES)
    if left is not None and best is not None:
        total = float(left.weight.sum())
        losses, behind = left.losses, left.losses - best.losses
        follows = np.where(left.p > 0.5, left.outcome, np.where(left.p < 0.5, 1.0 - left.outcome, 0.5))
        figures = {
            "log_loss": float(left.weight @ losses / total),
            "log_loss_se": _error(losses, left.weight),
            "brier": float(left.weight @ (left.outcome - left.p) ** 2 / total),
            "calibration": _calibration(left, follows),
            "accuracy": float(left.weight @ follows / total),
            "behind": float(left.weight @ behind / total),
            "behind_se": _error(behind, left.weight),
        }
    return {"method": model.name, "left_out": scheme, **figures, "seconds": None, "note": note}


def _error(values: Vector, weight: Vector) -> float:
    total = float(weight.sum())
    mean = float(weight @ values) / total
    return float(np.sqrt(weight @ (values - mean) ** 2) / total)


def _calibration(left: LeftOut, follows: Vector) -> float:
    """Return the mean distance between predicted and observed shares of the favourite, by bins."""
    surer = np.maximum(left.p, 1.0 - left.p)
    place = np.minimum(((surer - 0.5) * 2 * _BINS).astype(np.int64), _BINS - 1)
    gap = np.bincount(place, left.weight * (surer - follows), _BINS)
    return float(np.abs(gap).sum() / left.weight.sum())
