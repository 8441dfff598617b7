"""A scikit-learn estimator for votes: it predicts probabilities, in pipelines and cross-validation.

The dependency is optional: ``pip install crowdsift[sklearn]``.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdsift.numeric import Indices, Vector

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("crowdsift.sklearn needs scikit-learn 1.6 or later: pip install 'crowdsift[sklearn]'") from error

from crowdsift.errors import RequestError
from crowdsift.fitting import fit
from crowdsift.models import model
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.labels import as_column

__all__ = ["PairwiseRanker"]


class PairwiseRanker(ClassifierMixin, BaseEstimator):
    """A classifier of the preferred item, from scores of items by pairwise votes.

    A row of ``X`` is a vote: the first item, the second and, in a third column, who voted. Items and workers are labels
    (text, numbers), not features. ``y`` is 1 where the first was preferred and 0 where the second was; 0.5 is a tie,
    and any share between 0 and 1 is allowed.

    Parameters
    ----------
    method
        The name of a method; "auto" is sift, or bt if ``X`` has no third column.
    parameters
        Hyper-parameters of the method, as ``{"tolerance": 1e-6}``.
    sides
        Whether the first item was shown on the left.
    unknown
        How to predict for items and workers without votes in `fit`. With "prior" an item has the prior's score and a
        worker counts as a random one, so whole workers can be left out in cross-validation. "error" raises an error
        that names them.
    threads
        How many threads; all cores by default.

    Attributes
    ----------
    fit_ : crowdsift.Fit
        The fit with its tables of items and workers.
    classes_ : ndarray
        0 and 1.
    items_, scores_ : ndarray
        The labels of the items, the best first, and their scores.
    n_features_in_ : int
        The columns of ``X``, 2 or 3.

    Examples
    --------
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> import crowdsift
    >>> from crowdsift.sklearn import PairwiseRanker
    >>> votes = crowdsift.simulate(items=12, workers=10, comparisons=1500, seed=1).comparisons()
    >>> one, two = votes.items[votes.first], votes.items[votes.second]
    >>> who = votes.workers[votes.worker_codes()]
    >>> X, y = [[*row] for row in zip(one, two, who)], votes.outcome
    >>> ranker = PairwiseRanker().fit(X, y, sample_weight=votes.weight)
    >>> ranker.predict_proba([[ranker.items_[0], ranker.items_[-1], who[0]]])[0, 1].round(1)
    np.float64(1.0)
    >>> by_worker = cross_val_score(PairwiseRanker(), X, y, groups=who, cv=GroupKFold(3))
    >>> bool(by_worker.mean() > 0.6)
    True
    """

    def __init__(
        self,
        method: str = "auto",
        parameters: Mapping[str, Any] | None = None,
        sides: bool = False,
        unknown: str = "prior",
        threads: int | None = None,
    ) -> None:
        self.method = method
        self.parameters = parameters
        self.sides = sides
        self.unknown = unknown
        self.threads = threads

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the votes; ``sample_weight`` is how often each counts."""
        votes = validate_data(self, X, dtype=None, reset=True)
        _require_columns(votes)
        outcome = _outcomes(y, len(votes))
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, votes, ensure_non_negative=True)
        columns = _labels(votes)
        comparisons = Comparisons.from_arrays(
            columns[0],
            columns[1],
            worker=columns[2],
            outcome=outcome,
            weight=weight,
            sides_known=bool(self.sides),
            threads=self.threads,
        )
        name = self.method
        if name == "auto":
            name = "sift" if columns[2] is not None else "bt"
        if self.unknown not in ("error", "prior"):
            raise RequestError(f"unknown must be 'error' or 'prior', not {self.unknown!r}")
        self.fit_ = fit(comparisons, model(name, **(self.parameters or {})), threads=self.threads)
        self.classes_ = np.array([0, 1])
        self.items_ = as_column(self.fit_.labels)
        self.scores_ = np.asarray(self.fit_.item_table["score"], np.float64)
        return self

    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities that the second, and that the first item is preferred, a row per pair.

        Probabilities are given that the vote is no tie; see `crowdsift.Fit.predict`.
        """
        check_is_fitted(self)
        one, two, who = _labels(validate_data(self, X, dtype=None, reset=False))
        first = np.asarray(self.fit_.predict(one, two, who, unknown=self.unknown), np.float64)
        return np.column_stack([1.0 - first, first])

    def predict(self, X: Any) -> Indices:
        """Return 1 if the first item is more probable, else 0."""
        return np.asarray(self.predict_proba(X)[:, 1] > 0.5, np.int64)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of decided votes that are predicted correctly; ties do not count."""
        outcome = _outcomes(y, len(X))
        weight = np.abs(2.0 * outcome - 1.0)
        if sample_weight is not None:
            weight = weight * np.asarray(sample_weight, np.float64)
        right = (self.predict(X) == 1) == (outcome > 0.5)
        return float(np.average(right, weights=weight)) if weight.any() else float("nan")

    def __sklearn_tags__(self) -> Any:
        """Declare labels in two or three columns, and two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _require_columns(votes: NDArray[Any]) -> None:
    if votes.shape[1] not in (2, 3):
        raise ValueError(
            f"X has the columns first item, second item and optionally worker, but n_features = {votes.shape[1]}"
        )


def _labels(votes: NDArray[Any]) -> tuple[list[Any], list[Any], list[Any] | None]:
    columns = [votes[:, place].tolist() for place in range(votes.shape[1])]
    return columns[0], columns[1], columns[2] if len(columns) > 2 else None


def _outcomes(y: Any, rows: int) -> Vector:
    if y is None:
        raise ValueError("PairwiseRanker requires y to be passed, but the target y is None")
    given = np.asarray(y)
    try:
        outcome = given.astype(np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ValueError(
            "y must be 1 (the first item was preferred), 0 (the second) or between (a tie is 0.5)"
        ) from None
    if len(outcome) != rows:
        raise ValueError(f"X has {rows} votes and y has {len(outcome)}")
    if not ((outcome >= 0.0) & (outcome <= 1.0)).all():
        raise ValueError("y must be 1 (the first item was preferred), 0 (the second) or between (a tie is 0.5)")
    return np.asarray(outcome)
