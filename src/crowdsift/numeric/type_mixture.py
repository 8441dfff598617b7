"""The distribution π of worker types from their expected counts, and the mixture p0 behind it.

Over reliabilities p0 is ρ₊N(μ, τ²) + ρ₋N(-μ, τ²) + ρ₀δ₀ on a symmetric grid: reliable workers,
adversaries as able as they are, and workers who click at random. Every Gaussian on the grid is
density times cell width, normalised. Over tie widths p0 is their counts with five workers spread
evenly; side-only types together have the share (n_side + ½)/(M + 1) of it, split equally. With n
the counts, M their sum, π = (n + 50 p0)/(M + 50). Counts below a millionth of a worker are nothing.
A type of which less was left would come back where a worker fits it a little better than the rest,
by a factor close to 1 a step: a run would seem to be at rest until, after a number of steps that
rounding decides, it is not. One for which a worker clearly speaks comes back from what p0 holds.

A fit updates π some hundreds of times, so what is here is written for few calls of NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from crowdsift.numeric import Vector

__all__ = ["MIN_SPREAD", "SHARES", "TypeMixture"]

SHARES = (0.7, 0.1, 0.2)  # ρ₊, ρ₋ and ρ₀ before any vote
MIN_SPREAD = 0.05  # of τ
_PRIOR_WORKERS = 50.0  # how many workers p0 counts for in π
_SHARE_WORKERS = 5.0  # ... the prior of ρ, and a uniform distribution of tie widths
_SPREAD_WORKERS = 20.0  # ... a spread of μ/2
_TINY = 1e-300
_NOBODY = 1e-6  # of a worker, below which nobody is of a type


class TypeMixture:
    """Updates of (μ, log τ, ρ₊, ρ₋, ρ₀, π), held as one vector, from counts of types.

    Parameters
    ----------
    points
        The signed grid of reliabilities.
    n_widths
        How many tie widths there are; counts and π have as many rows of the grid, then one entry
        for every side-only type.
    """

    def __init__(self, points: Vector, n_widths: int) -> None:
        self._points, self._n_widths, self._zero = points, n_widths, len(points) // 2
        self._log_widths = np.log(np.gradient(points))
        # 1, β, β² in columns, for sums and moments; log widths, β, β² in rows, for exponents
        self._powers = np.stack([np.ones(len(points)), points, points**2], axis=1)
        self._terms = np.stack([self._log_widths, points, points**2])
        self._held = np.empty((2, len(points)))

    def start(self, counts: Vector) -> tuple[float, float]:
        """μ and τ from the first counts: their mean and standard deviation."""
        by_level = self._by_level(_without_nobody(counts))
        total = max(float(by_level.sum()), 1e-12)
        mean = float(self._points @ by_level) / total
        return mean, max((float((self._points - mean) ** 2 @ by_level) / total) ** 0.5, MIN_SPREAD)

    def update(self, state: Vector, counts: Vector) -> Vector:
        """One step of EM for p0, then π.

        With a the Gaussian of the majority, adversaries with their sign turned are counted with
        it: n'(β) = a(β)[ρ₊ n(β)/p0(β) + ρ₋ n(-β)/p0(-β)] has the sums of both.

        Examples
        --------
        >>> import numpy as np
        >>> from crowdsift.numeric.type_mixture import SHARES, TypeMixture
        >>> mixture = TypeMixture(np.array([-1.0, 0.0, 1.0]), 1)
        >>> counts = np.array([0.0, 10.0, 40.0])
        >>> mean, spread = mixture.start(counts)
        >>> state = np.array([mean, np.log(spread), *SHARES, 1 / 3, 1 / 3, 1 / 3])
        >>> mixture.update(state, counts)[5:].round(2)
        array([0.01, 0.18, 0.81])
        """
        counts = _without_nobody(counts)
        by_level = self._by_level(counts)
        centre, log_spread, plus, minus, none = state[:5].tolist()
        able, total = self._parts(centre, math.exp(log_spread), plus, minus, none)
        np.maximum(total, _TINY, out=total)
        ratio = np.divide(by_level, total, out=total)
        np.multiply(able, ratio, out=self._held[0])
        np.multiply(able, ratio[::-1], out=self._held[1])
        moments = (self._held @ self._powers).tolist()  # sum, mean and square times it, of each
        reliable, adversarial = plus * moments[0][0], minus * moments[1][0]
        both = max(reliable + adversarial, 1e-12)
        centre = (plus * moments[0][1] + minus * moments[1][1]) / both
        square = (plus * moments[0][2] + minus * moments[1][2]) / both
        if adversarial > reliable:  # + is the majority's side
            reliable, adversarial, centre = adversarial, reliable, -centre
        regular = max(float(by_level.sum()), 1e-12)
        held = (reliable, adversarial, regular - reliable - adversarial)
        shares = [
            (own + _SHARE_WORKERS * before) / (regular + _SHARE_WORKERS)
            for own, before in zip(held, SHARES, strict=True)
        ]
        squares = both * max(square - centre**2, 0.0) + _SPREAD_WORKERS * 0.25 * centre**2
        spread = max((squares / (both + _SPREAD_WORKERS)) ** 0.5, MIN_SPREAD)
        new = np.empty(len(state))
        new[:5] = centre, math.log(spread), *shares
        _, p0 = self._parts(centre, spread, *shares)
        self._smooth(counts, regular, p0, new[5:])
        return new

    def _smooth(self, counts: Vector, regular: float, p0: Vector, out: Vector) -> None:
        """π = (n + 50 p0)/(M + 50)."""
        n_regular = self._n_widths * len(self._points)
        n_sides = len(counts) - n_regular
        sides = float(counts[n_regular:].sum()) if n_sides else 0.0
        everyone = regular + sides
        share = (sides + 0.5) / (everyone + 1.0) if n_sides else 0.0
        p0 *= _PRIOR_WORKERS * (1.0 - share)
        if self._n_widths > 1:
            table = counts[:n_regular].reshape(self._n_widths, -1)
            widths = table.sum(axis=1) + _SHARE_WORKERS / self._n_widths
            widths /= regular + _SHARE_WORKERS
            np.multiply(widths[:, None], p0, out=out[:n_regular].reshape(self._n_widths, -1))
        else:
            out[:n_regular] = p0
        if n_sides:
            out[n_regular:] = _PRIOR_WORKERS * share / n_sides
        out += counts
        out /= everyone + _PRIOR_WORKERS

    def _parts(
        self, centre: float, spread: float, plus: float, minus: float, none: float
    ) -> tuple[Vector, Vector]:
        """N(μ, τ²) on the grid, that of -μ being its mirror image, and p0."""
        precision = 1.0 / spread**2
        able = np.array([1.0, centre * precision, -0.5 * precision]) @ self._terms
        able -= able.max()
        np.exp(able, out=able)
        able /= float(able.sum())
        total = plus * able
        total += minus * able[::-1]
        total[self._zero] += none
        return able, total

    def _by_level(self, counts: Vector) -> Vector:
        """Counts of reliabilities, whatever the tie width."""
        if self._n_widths == 1:
            return counts[: len(self._points)]
        n_regular = self._n_widths * len(self._points)
        return np.asarray(counts[:n_regular].reshape(self._n_widths, -1).sum(axis=0))


def _without_nobody(counts: Vector) -> Vector:
    """Counts, 0 where they are next to nothing; see above."""
    return np.where(counts < _NOBODY, 0.0, counts)
