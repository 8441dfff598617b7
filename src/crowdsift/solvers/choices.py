"""The likelihood of rankings and best-worst answers in the scores: Plackett-Luce and max-diff."""

from __future__ import annotations

import numpy as np

from crowdsift.numeric import Codes, Vector
from crowdsift.solvers.newton import NewtonStep
from crowdsift.votes.choices import Choices

_ROWS = 4_096  # choices whose means are held in memory at once


class ChoiceObjective:
    """Convex objective of choices: -log-likelihood + ½λ‖r‖², with no parameters of workers.

    A choice with alternatives x_a, vectors of ±1 over items, has P(a) ∝ exp(x_a·r); its gradient is x_chosen - Σp_a x_a
    and its information the covariance of x_a under p.
    """

    def __init__(self, choices: Choices, n_items: int, penalty: float) -> None:
        self._choices, self._penalty, self._n = choices, penalty, n_items
        self._choice, self._weight = choices.choice, choices.weight[choices.choice]
        self._p = self._gradient = self._diagonal = np.zeros(0)

    def log_likelihood(self, x: Vector) -> float:
        """Return the log-likelihood of the choices."""
        return float(self._choices.weight @ self._choices.probabilities(x)[1])

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        self._p, logs = self._choices.probabilities(x)
        chosen = np.zeros(len(self._p))
        chosen[self._choices.offsets[:-1]] = 1.0
        self._gradient = self._penalty * x - self._to_items(self._weight * (chosen - self._p))
        spread = self._weight * self._p * (1.0 - self._p)
        ends = [self._choices.plus, self._choices.minus]
        self._diagonal = np.full(self._n, self._penalty)
        for end in ends:  # an upper bound if alternatives share an item
            self._diagonal += np.bincount(end[end >= 0], spread[end >= 0], self._n)
        value = -float(self._choices.weight @ logs) + 0.5 * self._penalty * float(x @ x)
        return value, self._gradient

    def step(self, radius: float, tolerance: float) -> NewtonStep:
        """Return a step by conjugate gradients."""
        return NewtonStep.solve(self._multiply, self._gradient, self._diagonal, radius, tolerance, shift=self._penalty)

    def workers(self) -> None:
        """Return None: workers have no parameters here."""

    def largest_step(self, gradient: Vector) -> float:
        """Return the largest Newton step of a single score, with the others fixed."""
        return float((np.abs(gradient) / self._diagonal).max(initial=0.0))

    def pairs(self, x: Vector) -> tuple[Codes, Codes, Vector]:
        """Return the information as a Laplacian, since its rows add up to 0."""
        self.evaluate(x)
        matrix, mass = np.zeros((self._n, self._n)), self._weight * self._p
        both = self._choices.minus >= 0
        ends = self._choices.plus[both], self._choices.minus[both]
        np.subtract.at(matrix, ends, mass[both])
        np.subtract.at(matrix, ends[::-1], mass[both])
        for start in range(0, len(self._choices), _ROWS):
            rows = slice(start, start + _ROWS)
            first, *_, last = self._choices.offsets[start : start + _ROWS + 1]
            part = slice(first, last)
            means = np.zeros((len(self._choices.weight[rows]), self._n + 1))
            row, p = self._choice[part] - start, self._p[part]
            np.add.at(means, (row, self._choices.plus[part]), p)
            np.subtract.at(means, (row, self._choices.minus[part]), p)  # index -1 is the spare column
            means = means[:, : self._n]
            matrix -= (means * self._choices.weight[rows, None]).T @ means
        low, high = np.nonzero(np.triu(matrix, 1))
        return low.astype(np.uint32), high.astype(np.uint32), -matrix[low, high]

    def _multiply(self, v: Vector) -> Vector:
        padded = np.append(v, 0.0)
        along = padded[self._choices.plus] - padded[self._choices.minus]
        mean = np.add.reduceat(self._p * along, self._choices.offsets[:-1])
        return self._to_items(self._weight * self._p * (along - mean[self._choice]))

    def _to_items(self, values: Vector) -> Vector:
        """Add the values of alternatives to their items: return Σ_a value_a x_a."""
        minus = self._choices.minus
        held = minus >= 0
        total = np.bincount(self._choices.plus, values, self._n)
        return np.asarray(total - np.bincount(minus[held], values[held], self._n))
