"""Workers: the distribution of their types and side biases, learned from all workers.

π = (n + 50 p0)/(M + 50) with n the expected counts of types. For regular types p0 is a mixture over reliabilities
(`TypeMixture`) times a distribution of tie widths. Side-only types share the rest. All of p0 is fitted to the counts.
With few workers π is close to p0, with many to the counts.

γ of a regular worker is N(g0, t²). A worker's sites of γ add up to exp(-τγ²/2 + νγ), and where EP is at rest the
derivative of its evidence in g0 and t² is that at fixed sites, weighted with the probability ω of being regular. So g0
and t² are those of `crowdsift.numeric.random_effects`, where the derivation is: priors g0 ~ N(0, 1) and t half normal
of scale 1, and t² may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crowdsift.engines.base import Engine
from crowdsift.engines.grid import RELIABILITY_ONLY, SidePrior, SiteUpdate, WorkerTypes, mirrored
from crowdsift.errors import RequestError
from crowdsift.numeric import Vector
from crowdsift.numeric.random_effects import RandomEffects, mean_at, within_reach


class Anderson:
    """Proposes the next point of x = G(x) from the last few points and their images.

    With residuals f = G(x) - x the step is that combination of the last images whose residual is smallest if G is
    linear (Anderson 1965). Fixed points are those of G, since the step is G(x) where the residual is 0. Where the
    residual did not fall, the history is cleared and the plain step G(x) is taken: near a saddle, or far from the
    end, G is not linear.

    `depth`: how many differences are remembered; 0 takes plain steps only; `most`: how far it may go beyond the plain
    step, in lengths of that step.
    """

    def __init__(self, depth: int = 5, wait: int = 3, most: float = np.inf) -> None:
        self._depth, self._wait, self._most = depth, wait, most
        self._images: list[Vector] = []  # differences of successive images
        self._residuals: list[Vector] = []  # differences of their residuals
        self._last: tuple[Vector, Vector] | None = None
        self._size = np.inf

    def propose(self, x: Vector, image: Vector) -> Vector:
        """Return the next point, given a point and its image."""
        residual = image - x
        size = math.sqrt(residual @ residual)
        if size > self._size:
            self._images.clear()
            self._residuals.clear()
        elif self._last is not None and self._depth:
            self._images.append(image - self._last[0])
            self._residuals.append(residual - self._last[1])
            del self._images[: -self._depth], self._residuals[: -self._depth]
        self._last, self._size = (image, residual), size
        self._wait -= 1
        if not self._images or self._wait >= 0:
            return image
        share = np.linalg.lstsq(np.array(self._residuals).T, residual, rcond=1e-8)[0]
        ahead = share @ np.array(self._images)
        longest, length = self._most * size, math.sqrt(ahead @ ahead)
        return np.asarray(image - (ahead * (longest / length) if length > longest else ahead))


SHARES = (0.7, 0.1, 0.2)  # prior shares ρ₊, ρ₋ and ρ₀
MIN_SPREAD = 0.05  # smallest ζ, the spread of reliabilities
_PRIOR_WORKERS = 50.0  # number of workers that p0 counts as in π
_SHARE_WORKERS = 5.0  # the same for the prior of ρ, and for a uniform distribution of tie widths
_SPREAD_WORKERS = 20.0  # the same for a spread of μ/2
_TINY = 1e-300
_NEGLIGIBLE = 1e-6  # in workers: a type with a smaller count is treated as extinct
# Tie widths from almost no ties to almost only ties.
TIE_WIDTHS = (0.02, 0.06, 0.12, 0.2, 0.3, 0.42, 0.56, 0.75, 1.0, 1.3, 1.7, 2.3, 3.2, 4.5)
_SIDE_ONLY = (-4.0, -2.0, -1.0, 1.0, 2.0, 4.0)  # log-odds with which side-only types answer "first"
_FAR = 6.0
# Differences that the extrapolation of π keeps, and its longest step in multiples of a plain step. If there are fewer
# workers than p0 counts as, they hardly determine π: then plain steps keep it near its start.
_DEPTH, _AHEAD, _FEW = 5, 12.0, 50.0
_PI = 5  # index of π in the vector of (μ, log ζ, ρ, π)
_START = SidePrior()
# Standard deviations of chance, far below those at which the evidence of a bias exceeds 3 nats.
_CROWD, _DISPERSION = 2.0, 1.5


class TypeMixture:
    """Updates of (μ, log ζ, ρ₊, ρ₋, ρ₀, π), held as one vector, from counts of types.

    `n_widths`: how many tie widths there are; counts and π have as many rows of the grid, then one entry for every
    side-only type.
    """

    def __init__(self, points: Vector, n_widths: int) -> None:
        self._points, self._n_widths, self._zero = points, n_widths, len(points) // 2
        self._log_widths = np.log(np.gradient(points))
        # columns 1, β, β² for sums and moments; rows log width, β, β² for exponents
        self._powers = np.stack([np.ones(len(points)), points, points**2], axis=1)
        self._terms = np.stack([self._log_widths, points, points**2])
        self._held = np.empty((2, len(points)))

    def start(self, counts: Vector) -> tuple[float, float]:
        """Return μ and ζ from the first counts: their mean and standard deviation."""
        by_level = self._by_level(_without_negligible(counts))
        total = max(float(by_level.sum()), 1e-12)
        mean = float(self._points @ by_level) / total
        return mean, max((float((self._points - mean) ** 2 @ by_level) / total) ** 0.5, MIN_SPREAD)

    def update(self, state: Vector, counts: Vector) -> Vector:
        """Return the state after a step of EM for p0, then for π."""
        # Let a be the Gaussian of the majority. Adversaries are counted with it, with their sign reversed: n'(β) =
        # a(β)[ρ₊ n(β)/p0(β) + ρ₋ n(-β)/p0(-β)] has the sums of both.
        counts = _without_negligible(counts)
        by_level = self._by_level(counts)
        centre, log_spread, plus, minus, none = state[:5].tolist()
        able, total = self._parts(centre, math.exp(log_spread), plus, minus, none)
        np.maximum(total, _TINY, out=total)
        ratio = np.divide(by_level, total, out=total)
        np.multiply(able, ratio, out=self._held[0])
        np.multiply(able, ratio[::-1], out=self._held[1])
        moments = (self._held @ self._powers).tolist()  # sum, first and second moment of each
        reliable, adversarial = plus * moments[0][0], minus * moments[1][0]
        both = max(reliable + adversarial, 1e-12)
        centre = (plus * moments[0][1] + minus * moments[1][1]) / both
        square = (plus * moments[0][2] + minus * moments[1][2]) / both
        if adversarial > reliable:  # + is the sign of the majority
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
        """Return the distribution of types π = (n + 50 p0)/(M + 50), from counts n smoothed by the mixture p0."""
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

    def _parts(self, centre: float, spread: float, plus: float, minus: float, none: float) -> tuple[Vector, Vector]:
        """Return N(μ, ζ²) on the grid, and p0; the mirror image of the first is N(-μ, ζ²)."""
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
        if self._n_widths == 1:
            return counts[: len(self._points)]
        n_regular = self._n_widths * len(self._points)
        return np.asarray(counts[:n_regular].reshape(self._n_widths, -1).sum(axis=0))


def _without_negligible(counts: Vector) -> Vector:
    return np.where(counts < _NEGLIGIBLE, 0.0, counts)


def power_grid(points: int) -> Vector:
    """Return the positive levels of the symmetric grid 6(k/h)^1.5, with h of them for 2h + 1 points."""
    half = (points - 1) // 2
    return np.asarray(_FAR * (np.arange(1, half + 1) / half) ** 1.5, dtype=np.float64)


def worker_types(*, ties: bool, sides: bool) -> WorkerTypes:
    """Return the worker types with tie widths, or with side-only types at every second width, or both."""
    if not ties and not sides:
        return RELIABILITY_ONLY
    widths = np.array(TIE_WIDTHS) if ties else np.zeros(1)
    some = widths[::2] if sides else widths[:0]
    side_only = np.tile(_SIDE_ONLY, len(some))
    return WorkerTypes(widths, side_only, np.repeat(some, len(_SIDE_ONLY)), sides)


def gaussian_on(points: Vector, mean: float, sd: float) -> Vector:
    """Return the density times cell width (central differences), normalised."""
    z = (points - mean) / sd
    masses = np.exp(-0.5 * (z**2 - np.min(z**2))) * np.gradient(points)
    return np.asarray(masses / masses.sum(), dtype=np.float64)


@dataclass(frozen=True)
class WorkerPrior:
    """The grid of types, their distribution π, and the mixture p0 behind it.

    `centre` and `spread` are μ and ζ, or None before the first counts; `shares` are ρ₊, ρ₋ and ρ₀.
    """

    levels: Vector
    masses: Vector
    centre: float | None = None
    spread: float = 1.0
    shares: Vector = field(default_factory=lambda: np.array(SHARES))
    types: WorkerTypes = RELIABILITY_ONLY

    @staticmethod
    def start(levels: Vector, mean: float, sd: float, types: WorkerTypes = RELIABILITY_ONLY) -> WorkerPrior:
        """Return N(mean, sd²) at every tie width, mixed with 3 % of uniform over all types."""
        points, widths = mirrored(levels), len(types.widths)
        n_types = types.n_types(levels)
        masses = np.full(n_types, 0.03 / n_types)
        regular = np.tile(gaussian_on(points, mean, sd) / widths, widths)
        masses[: len(regular)] += 0.97 * regular
        return WorkerPrior(levels, masses, types=types)

    def learned(
        self, counts: Callable[[Vector], Vector], steps: int, tolerance: float, *, extrapolate: bool
    ) -> WorkerPrior:
        """Return π after repeated steps of learning from the counts, until it converges or `steps` are made."""
        # It has converged if a step moves at most `tolerance` of its mass and of p0. Plain steps move slowly in
        # directions about which the votes contain little information, and EP would move as slowly: with `extrapolate`,
        # steps are extrapolated in the square roots of all masses.
        mixture = TypeMixture(mirrored(self.levels), len(self.types.widths))
        found = counts(self.masses)
        depth = _DEPTH if extrapolate and found.sum() >= _FEW else 0
        x, method = self._vector(mixture, found), Anderson(depth, 2, _AHEAD)
        for step in range(steps):
            image = mixture.update(x, counts(x[_PI:]) if step else found)
            if float(np.abs(image - x).sum()) <= tolerance or step == steps - 1:
                return self._with(image)
            if x[0] * image[0] < 0.0:  # the majority changed its sign
                x, method = image, Anderson(depth, 2, _AHEAD)
            else:
                x = _proper(method.propose(_roots(x), _roots(image)), image)
        return self._with(x)

    def updated(self, counts: Vector) -> WorkerPrior:
        """Return π after learning from the counts, with one step of EM for p0."""
        mixture = TypeMixture(mirrored(self.levels), len(self.types.widths))
        return self._with(mixture.update(self._vector(mixture, counts), counts))

    def _vector(self, mixture: TypeMixture, counts: Vector) -> Vector:
        """Return (μ, log ζ, ρ, π); μ and ζ come from the counts if they have no values yet."""
        known = self.centre is not None
        centre, spread = (self.centre, self.spread) if known else mixture.start(counts)
        return np.concatenate([[centre or 0.0, np.log(spread)], self.shares, self.masses])

    def _with(self, vector: Vector) -> WorkerPrior:
        centre, spread = float(vector[0]), float(np.exp(vector[1]))
        shares, masses = vector[2:_PI].copy(), vector[_PI:].copy()
        return replace(self, masses=masses, centre=centre, spread=spread, shares=shares)

    def by_width(self, masses: Vector) -> Vector:
        """Return the masses of regular types: tie widths in rows, reliabilities in columns."""
        points = 2 * len(self.levels) + 1
        return masses[: len(self.types.widths) * points].reshape(-1, points)

    def without_sides(self, types: WorkerTypes) -> WorkerPrior:
        """Return the distribution of regular workers over types without side biases."""
        regular = self.by_width(self.masses).ravel()
        return replace(self, masses=regular / regular.sum(), types=types)

    def flipped(self) -> WorkerPrior:
        """Return the distribution for reversed reliabilities -β."""
        regular = self.by_width(self.masses)
        masses = np.concatenate([regular[:, ::-1].ravel(), self.masses[regular.size :]])
        centre = None if self.centre is None else -self.centre
        return replace(self, masses=masses, centre=centre)

    def rescaled(self, factor: float) -> WorkerPrior:
        """Return the distribution of β·factor, on the grid times the factor."""
        centre = None if self.centre is None else self.centre * factor
        return replace(self, levels=self.levels * factor, centre=centre, spread=self.spread * factor)


def _roots(state: Vector) -> Vector:
    return np.concatenate([state[:2], np.sqrt(state[2:])])


def _proper(roots: Vector, near: Vector) -> Vector:
    """Return the state with these square roots; its distributions keep the support of `near`."""
    x = np.concatenate([roots[:2], np.maximum(roots[2:], 0.0) ** 2])
    x[1] = min(max(x[1], np.log(MIN_SPREAD)), 3.0)
    np.maximum(x[2:], 0.1 * near[2:], out=x[2:])
    for part in (x[2:_PI], x[_PI:]):
        part /= part.sum()
    return x


def learn_sides(nu: Vector, tau: Vector, regular: Vector, prior: SidePrior) -> PopulationSide:
    """Return mean and variance of the side bias of regular workers, by maximum evidence."""
    # The maximum is the one uphill from the previous values, and t² changes by at most a factor of 4 in one pass. If t²
    # fell to 0 at once, a biased but good worker would be taken for a side-only type before the scores show that it is
    # good.
    if not (regular @ tau) > 0.0:  # no information yet
        return PopulationSide(prior)
    found = RandomEffects.of_messages(nu, tau, regular, prior.variance)
    variance = within_reach(found.variance, prior.variance)
    mean, information = mean_at(nu, tau, regular, variance)
    return PopulationSide(SidePrior(mean, variance), 1.0 / (1.0 + information))


@dataclass(frozen=True)
class PopulationSide:
    """g0 and t² of the population, and the posterior variance of g0."""

    prior: SidePrior = _START
    mean_variance: float = 1.0

    def learned(self, update: SiteUpdate) -> PopulationSide:
        """Return the values learned from a pass."""
        return learn_sides(update.side_nu, update.side_tau, update.regular, self.prior)

    def posteriors(self, nu: Vector, tau: Vector) -> tuple[Vector, Vector]:
        """Return mean and variance of γ of every worker."""
        # With D = 1 + t²τ, γ given g0 has the mean (g0 + t²ν)/D and the variance t²/D, and g0 is itself uncertain. If
        # t² is 0, the side bias of every worker is g0, with the same uncertainty.
        mean, variance = self.prior
        D = 1.0 + variance * tau
        return (mean + variance * nu) / D, variance / D + self.mean_variance / D**2


def population_to(
    prior: WorkerPrior, side: SidePrior, pair_effect: float, scale: float, by_context: bool = False
) -> dict[str, Any]:
    """Return types, side biases and the variance of a pair effect as JSON can hold them."""
    # All values are in the run's units, in which the scores are `scale` times those of the fit: a run that continues
    # must find the same grid. `by_context` says that workers differed between contexts; no run can continue from that.
    return {
        "levels": prior.levels.tolist(),
        "masses": prior.masses.tolist(),
        "centre": prior.centre,
        "spread": prior.spread,
        "shares": prior.shares.tolist(),
        "ties": prior.types.ties,
        "sides": prior.types.sides,
        "side_mean": side.mean,
        "side_variance": side.variance,
        "pair_effect": pair_effect,
        "scale": scale,
        "by_context": by_context,
    }


def population_from(population: dict[str, Any]) -> tuple[WorkerPrior, SidePrior, float, float]:
    """Return the objects from which `population_to` made this."""
    try:
        types = worker_types(ties=bool(population["ties"]), sides=bool(population["sides"]))
        levels, masses = (np.array(population[name], np.float64) for name in ("levels", "masses"))
        if len(masses) != types.n_types(levels):
            raise ValueError(f"{len(masses)} masses for {types.n_types(levels)} types")
        centre = None if population["centre"] is None else float(population["centre"])
        shares = np.array(population["shares"], np.float64)
        prior = WorkerPrior(levels, masses, centre, float(population["spread"]), shares, types)
        side = SidePrior(float(population["side_mean"]), float(population["side_variance"]))
        return prior, side, float(population["pair_effect"]), float(population["scale"])
    except (KeyError, TypeError, ValueError) as error:
        raise RequestError(f"the population of the earlier fit is damaged ({error})") from None


def mirrored_population(population: dict[str, Any]) -> dict[str, Any]:
    """Return the population for scores and reliabilities of the other sign."""
    prior, side, pair_effect, scale = population_from(population)
    by_context = bool(population.get("by_context"))
    return {**population, **population_to(prior.flipped(), side, pair_effect, scale, by_context)}


def hints_at_sides(engine: Engine) -> bool:
    """Return whether to fit side biases: whether the crowd leans to a side, or single workers to different sides."""
    # Let S be the answers for the first item less those for the second, among n decided votes of a worker. Without
    # biases and with random sides, S has mean 0 and variance n. If sides were not random, S varies more, and the fit
    # decides.
    counted = engine.counts.tally(np.zeros(engine.facts.n_items))
    workers = slice(engine.facts.n_workers - engine.facts.n_gold)
    crowd, dispersion = side_scores(counted.decided[workers], counted.leaning[workers])
    return abs(crowd) > _CROWD or dispersion > _DISPERSION


def side_scores(decided: Vector, leaning: Vector) -> tuple[float, float]:
    """Return two scores of leaning S among n votes: ΣS/√Σn, and Σ(S²/n - 1) over its deviation √Σ(2 - 2/n)."""
    n, s = decided[decided > 0], leaning[decided > 0]
    if not len(n):
        return 0.0, 0.0
    spread = float(np.sum(2.0 - 2.0 / np.maximum(n, 1.0)))
    dispersion = float(np.sum(s**2 / n - 1.0) / np.sqrt(spread)) if spread > 0 else 0.0
    return float(s.sum() / np.sqrt(n.sum())), dispersion
