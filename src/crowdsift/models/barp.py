"""BARP: workers with a bias for classes of items."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdsift.errors import RequestError
from crowdsift.models.base import Model, WorkerEstimate
from crowdsift.models.likelihood import LikelihoodModel
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.votes.comparisons import Comparisons


@dataclass(frozen=True)
class BARP(LikelihoodModel):
    """P(w beats l | s) = σ(d + Σ_c θ_sc (δ_wc - δ_lc)), δ the class of an item (Ferrara et al.).

    A worker has one bias for every class except the first (in sorted order), which is the reference. With two classes
    that is the single θ_s of the paper. All workers have the same reliability.

    Parameters
    ----------
    penalty, tolerance, most_iterations
        As in every likelihood method: λ of the prior, and when to stop.
    reduced
        Allow votes without classes of items: all are then of one class, which is `bt`.

    Examples
    --------
    >>> import crowdsift
    >>> drawn = crowdsift.simulate(20, 10, 2000, model="barp", seed=1)
    >>> votes = drawn.comparisons().with_classes(drawn.item_parameters["class"])
    >>> crowdsift.fit(votes, "barp").converged
    True
    """

    reduced: bool = False

    name: ClassVar[str] = "barp"
    by_worker: ClassVar[bool] = False  # classes are features of votes
    free_sign: ClassVar[bool] = False
    likelihood: ClassVar[str] = "shifted-logit"

    def prepare(self, comparisons: Comparisons) -> Comparisons:
        """Return the comparisons with the difference of classes as features."""
        codes = comparisons.item_class
        if codes is None:
            if not self.reduced:
                raise RequestError("barp needs the class of every item: give --classes ITEMS.csv:COLUMN")
            return comparisons.with_features(np.zeros((len(comparisons), 0), np.float32))
        names = comparisons.class_names[1:]
        member = np.zeros((comparisons.n_items, len(names)), np.float32)
        for column in range(len(names)):
            member[codes == column + 1, column] = 1.0
        difference = member[comparisons.first] - member[comparisons.second]
        return comparisons.with_features(difference, tuple(f"class_{name}" for name in names))

    def relax(self, comparisons: Comparisons) -> tuple[Model, str]:
        """Return the model for votes without classes: all items are of one class."""
        if comparisons.item_class is not None:
            return self, ""
        return replace(self, reduced=True), "reduced: no classes of items, the same as bt"

    def start(self, n_features: int) -> Vector:
        return np.zeros(n_features)

    def workers(self, theta: Vector, sd: Vector) -> WorkerEstimate:
        columns = {f"class_bias_{c + 1}": theta[:, c].copy() for c in range(theta.shape[1])}
        return WorkerEstimate(extra=columns)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        """Return σ(d), as for two items of one class."""
        return sigmoid(difference)
