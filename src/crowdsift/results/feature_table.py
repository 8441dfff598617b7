"""Effects of features of items and covariates of votes: weights, coefficients, predictions, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdsift.errors import InputError, RequestError
from crowdsift.io.items import block_values, read_features_table
from crowdsift.io.saved import read_safetensors, safetensors_bytes
from crowdsift.models.feature_weights import FeatureEstimate, WeightPosterior
from crowdsift.numeric import Labels, Vector
from crowdsift.numeric.distributions import half_width
from crowdsift.results.tables import Table
from crowdsift.votes.item_features import FeatureBlock, ItemFeatures

if TYPE_CHECKING:
    from crowdsift.models.coefficients import CovariateEstimate
    from crowdsift.results.build import FitBuilder

# A saved fit does not contain the features of items, so nothing can be fitted again from it.
WITHOUT_FEATURES = "the fit has features of items, which a saved fit does not keep; fit the votes with them again"
FEATURES, FEATURE_WEIGHTS = "item_features.safetensors", "feature_weights.csv"


def feature_summary(fitted: FitBuilder) -> dict[str, Any]:
    """Return `item_features` of the summary: the share that features explain, and their evidence."""
    found, given = fitted.estimate.features, fitted.votes.item_features
    if given is None:
        return {}
    blocks = [
        {
            "name": block.name,
            "features": len(block.names),
            "share": 0.0 if found is None else float(found.shares[number]),
        }
        for number, block in enumerate(given.blocks)
    ]
    return {
        "item_features": {
            "used": found is not None,
            "blocks": blocks,
            "own_share": 1.0 if found is None else found.own,
            "explained": 0.0 if found is None else found.explained,
            "evidence_gain": 0.0 if found is None else found.gain,
        }
    }


def feature_notes(fitted: FitBuilder) -> Iterator[str]:
    """Yield warnings about features."""
    if fitted.votes.item_features is None:
        return
    yield from fitted.votes.item_features.notes
    if fitted.estimate.features is None and fitted.model.takes_items and fitted.estimate.dimensions is None:
        yield ("the features of items say nothing of their scores that the votes support: they are not used")


def weight_table(found: FeatureEstimate, level: float) -> Table:
    """Return the weights of features with limits: the score is Σ weight·(x - mean)/scale."""
    # Weights of single n-grams are left out: they have no meaning one by one.
    weight, sd = found.head()
    half = half_width(level) * sd
    blocks = found.features.blocks
    shown = np.concatenate([np.full(len(g.names), g.kind != "ngrams") for g in blocks])
    names: dict[str, list[str]] = {
        "block": [block.name for block in blocks for _ in block.names],
        "feature": [name for block in blocks for name in block.names],
    }
    numbers = {
        "weight": weight,
        "lower": weight - half,
        "upper": weight + half,
        "mean": np.concatenate([block.centre for block in blocks]),
        "scale": np.concatenate([block.scale for block in blocks]),
    }
    texts = {name: np.array(values, dtype=object)[shown] for name, values in names.items()}
    return Table({**texts, **{name: values[shown] for name, values in numbers.items()}})


def score_items(found: FeatureEstimate | None, items: Any, level: float) -> Table:
    """Return scores of items from their features alone: item, score, lower, upper."""
    if found is None:
        raise RequestError(
            "this fit has no features of items that explain scores; fit "
            "with items= (--item-features) or item_text= (--item-text)"
        )
    labels, values = _values(found.features, items)
    score, sd = found.score(values)
    half = half_width(level) * sd
    return Table({"item": labels, "score": score, "lower": score - half, "upper": score + half})


def _values(features: ItemFeatures, items: Any) -> tuple[Labels, list[Vector]]:
    blocks = features.blocks
    if isinstance(items, np.ndarray) and items.ndim == 2 and len(blocks) == 1:
        labels = np.empty(len(items), dtype=object)
        labels[:] = list(range(len(items)))
        if items.shape[1] != len(blocks[0].names):
            raise InputError(f"{items.shape[1]} features where the fit has {len(blocks[0].names)}", source="items")
        return labels, [blocks[0].standardise(items)]
    table = read_features_table(blocks, items)
    return table.labels, [block_values(block, table) for block in blocks]


def head_bytes(found: FeatureEstimate) -> bytes:
    """Return the linear head in safetensors: score = Σ weight·(x - mean)/scale, with names."""
    weight, sd = found.head()
    blocks = found.features.blocks
    scale = np.concatenate([block.scale for block in blocks])
    tensors = {
        "weight": weight.astype(np.float32),
        "weight_sd": sd.astype(np.float32),
        "mean": np.concatenate([block.centre for block in blocks]).astype(np.float32),
        "scale": np.where(np.isinf(scale), 1.0, scale).astype(np.float32),
    }
    names = [name for block in blocks for name in block.names]
    about = {
        "names": json.dumps(names),
        "formula": "score = sum(weight * (x - mean) / scale)",
        "kinds": json.dumps([[g.name, g.kind, len(g.names)] for g in blocks]),
    }
    return safetensors_bytes(tensors, about)


def features_bytes(found: FeatureEstimate) -> bytes:
    """Return everything that scores of further items need, for the folder of a fit."""
    tensors: dict[str, NDArray[Any]] = {
        "shares": found.shares,
        "mean": found.weights.mean,
        "root": found.weights.root.astype(np.float32),
    }
    blocks = []
    for number, block in enumerate(found.features.blocks):
        blocks.append(
            {
                "name": block.name,
                "kind": block.kind,
                "columns": block.columns,
                "names": block.names,
                "factor": block.factor,
            }
        )
        tensors[f"centre{number}"], tensors[f"scale{number}"] = block.centre, block.scale
        if block.rarity is not None:
            tensors[f"rarity{number}"] = block.rarity
    about = {
        "blocks": blocks,
        "inverse": found.weights.inverse,
        "explained": found.explained,
        "n_items": found.n_items,
        "size": found.size,
        "gain": found.gain,
    }
    return safetensors_bytes(tensors, {"about": json.dumps(about)})


def read_features(content: bytes) -> FeatureEstimate:
    """Return the object that `features_bytes` wrote; raise ValueError or KeyError if it is damaged."""
    tensors, metadata = read_safetensors(content)
    about = json.loads(metadata["about"])
    blocks = tuple(
        FeatureBlock(
            each["name"],
            each["kind"],
            tuple(each["columns"]),
            tuple(each["names"]),
            tensors[f"centre{number}"],
            tensors[f"scale{number}"],
            float(each["factor"]),
            tensors.get(f"rarity{number}"),
        )
        for number, each in enumerate(about.get("blocks") or about["groups"])
    )
    root = tensors["root"].astype(np.float64)
    weights = WeightPosterior(tensors["mean"], root, bool(about["inverse"]))
    return replace(
        FeatureEstimate(ItemFeatures(blocks), tensors["shares"], 0.0, weights, 1, 1.0),
        explained=float(about["explained"]),
        n_items=int(about["n_items"]),
        size=float(about["size"]),
        gain=float(about["gain"]),
    )


COEFFICIENTS = "coefficients.csv"


def coefficient_table(fitted: FitBuilder) -> Table | None:
    """Return worker, covariate, coefficient and its limits; None for votes without covariates."""
    found = fitted.estimate.covariates
    if found is None:
        return None
    workers, count = fitted.votes.workers, len(found.names)
    half = half_width(fitted.level) * found.sd
    names = np.empty(len(workers) * count, dtype=object)
    names[:] = list(found.names) * len(workers)
    return Table(
        {
            "worker": np.repeat(workers, count),
            "covariate": names,
            "coefficient": found.mean.ravel(),
            "lower": (found.mean - half).ravel(),
            "upper": (found.mean + half).ravel(),
        }
    )


def covariate_summary(fitted: FitBuilder) -> dict[str, Any]:
    """Return `covariates` of the summary: use and evidence of each, and the coefficient of all workers."""
    found = fitted.estimate.covariates
    return {} if found is None else {"covariates": [_record(found, name, fitted.level) for name in found.gains]}


def _record(found: CovariateEstimate, name: str, level: float) -> dict[str, Any]:
    used = name in found.names
    record: dict[str, Any] = {
        "name": name,
        "used": used,
        "evidence_gain": found.gains[name],
        "constant_for_items": name in found.by_items,
        "crowd": None,
        "lower": None,
        "upper": None,
        "spread": None,
    }
    if used:
        place = found.names.index(name)
        record["spread"] = float(found.spread[place])
        if name not in found.by_items:
            centre, half = found.crowd[place], half_width(level) * found.crowd_sd[place]
            limits = {"crowd": centre, "lower": centre - half, "upper": centre + half}
            record.update({key: float(value) for key, value in limits.items()})
    return record


def covariate_notes(found: CovariateEstimate) -> Iterator[str]:
    """Yield warnings about covariates."""
    for name in found.nothing:
        yield f"the covariate {name} is 0 for every vote: it is not used"
    for name in found.by_items:
        yield (
            f"the covariate {name} is constant for an item: what the crowd makes of it cannot be separated from the "
            "scores, which include it; only how workers differ is estimated"
        )
    left = [name for name in found.gains if name not in found.names and name != "side"]
    if left:
        yield (f"the evidence does not support the covariate{'s' * (len(left) > 1)} {', '.join(left)}: not used")
