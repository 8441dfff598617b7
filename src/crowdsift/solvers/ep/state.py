"""One run of expectation propagation: the iterate and its history.

Items have a Gaussian posterior N(m, (L + I)⁻¹), workers a posterior over a grid of types, and every vote a Gaussian
site between them. All sites move in parallel, damped.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import (
    RELIABILITY_ONLY,
    GridSites,
    PairVariances,
    RunSites,
    SidePrior,
    SitePass,
    SiteSystem,
    WorkerTypes,
)
from crowdsift.numeric import Codes, Indices, Vector
from crowdsift.solvers.convergence import Progress, StoppingRule
from crowdsift.solvers.ep.items import ItemPrior, VarianceMethod, learned_effect, loopy_bp, spectral_scores
from crowdsift.solvers.ep.workers import PopulationSide, WorkerPrior
from crowdsift.votes.covariates import Design

_STAGE_ONE = 1e-3  # change of standardised scores that ends stage 1; only in stage 2 may precisions be negative
# Steps of learning π within an iteration, and its tolerance as a share of the last change of scores. While scores still
# move, π need not be exact, but it must not lag for more than a few iterations.
_EARLY, _EARLY_LEARNING, _LEARNING = 8, (8, 0.1), (25, 0.01)
_SCALE_STEPS, _SCALE_SLACK, _NOISE = 3, 0.01, 1e-3
_USUAL = 10.0  # in a warm run the size of a step is at least this many times its root mean square
_NEARLY = 10.0  # multiples of the tolerance below which a warm run asks for exact variances
_WARM_CHANGE = 1e-3  # a warm run that begins with a smaller change learns π and solves for the items from the start
_EFFECT_CHANGE = 0.01  # change of scores for a unit change of the logarithm of a pair effect, roughly
_SAME_SCALE = 2.5e-3  # distance of the scale from 1 up to which messages at a held scale are accurate enough
_NOTHING = 0.01  # size below which scores carry no information
_FAINT = 0.5  # mean square of scores, 1 before any vote, below which the scores may be 0
_EXTRAPOLATED = 50  # iterations of stage 2 in which π is extrapolated; later that could make the run unstable
# iterations of stage 2 in which grids move; change below which the evidence is comparable
_REFINING, _SETTLED = 10, 1e-3
_LEAST_DAMPING, _MOST_DAMPING = 0.05, 1.0
_PATIENCE, _CALM_DAMPING = 40, 0.3  # iterations before the maximum damping falls, and the factor by which it falls


@dataclass(frozen=True)
class Settings:
    """Settings of a run: tolerances, starts, and the terms to try."""

    tolerance: float = 1e-5
    most_iterations: int = 500
    starts: tuple[str, ...] = ("flat", "spectral")
    refine: bool = True
    exact: bool = True  # end with a factorisation if the engine supports one
    solve_tolerance: float = 1e-4
    clip: bool = False  # stay in stage 1
    adaptive: bool = True
    contexts: bool = False  # try workers who differ between contexts; if so:
    pair_effect: bool = False  # try an effect of every pair at the end
    dimensions: int = 0  # number requested; 0 lets the evidence choose
    item_features: tuple[NDArray[np.floating], ...] = ()  # blocks of features, for a prior of scores
    covariates: Design | None = None  # of votes; workers may have coefficients for them
    boards: Callable[[], ItemPrior] | None = None  # makes the prior of items on boards
    # simplest first; a later family needs clearly more evidence
    families: tuple[WorkerTypes, ...] = (RELIABILITY_ONLY,)
    levels: Vector = field(default_factory=lambda: np.zeros(0))  # initial levels of reliability


@dataclass(frozen=True)
class WarmStart:
    """The end of an earlier run: scores, variances, the population of workers, and sites if they were kept."""

    means: Vector
    variances: Vector
    prior: WorkerPrior
    side: SidePrior
    pair_effect: float = 0.0
    sites: SavedSites | None = None
    unfinished: bool = False  # interrupted before contexts and pair effects were tried


class SavedSites(NamedTuple):
    """Sites of votes in any order, with the worker of each, and adaptive grids by worker."""

    worker: Codes
    winner: Codes
    loser: Codes
    kind: NDArray[np.int8]
    tau: NDArray[np.float32]
    nu: NDArray[np.float32]
    side_tau: NDArray[np.float32]
    side_nu: NDArray[np.float32]
    low: Vector
    high: Vector

    def recoded(self, item: Indices, worker: Indices, n_workers: int) -> SavedSites:
        """Return the sites under new codes; sites with the code -1 are left out."""
        to_item, to_worker = item.astype(np.int32), worker.astype(np.int32)
        codes = to_worker[self.worker], to_item[self.winner], to_item[self.loser]
        kept = np.logical_and.reduce([code >= 0 for code in codes])
        low, high = np.full((2, n_workers), np.nan)
        known = np.flatnonzero(worker[: len(self.low)] >= 0)
        low[worker[known]], high[worker[known]] = self.low[known], self.high[known]
        parts: list[NDArray[Any]] = [*(code.view(np.uint32) for code in codes), *self[3:8]]
        if not kept.all():
            parts = [part[kept] for part in parts]
        return SavedSites._make([*parts, low, high])


class KeptCovariates(NamedTuple):
    """The covariates that a run keeps, and the evidence of each, rejected ones included."""

    design: Design | None
    gains: dict[str, float]
    by_items: tuple[str, ...] = ()  # names of those that are constant for an item


@dataclass
class Propagation:
    """One run from one start: the iterate and its history.

    `system` is the system of items for the present sites, `means` solves (L + I) m = rhs of it, and `variances`
    is the diagonal of (L + I)⁻¹; `evidence` has one entry for every state that was passed over.
    """

    name: str
    engine: Engine
    sites: RunSites
    prior: WorkerPrior
    means: Vector
    settings: Settings
    rule: StoppingRule
    system: SiteSystem
    variances: Vector
    factorisation: VarianceMethod
    log_determinant: float = 0.0
    damping: float = 1.0
    clip: bool = True
    exact: bool = False  # a large factorisation is requested
    factorised: bool = False  # the last variances are exact
    indefinite: bool = False
    scale_steps: int = 0
    unclipped: int = 0  # iterations in stage 2
    flipped_at: int = 0  # iterations before the sign was reversed
    held_scale: float = 1.0  # scale removed in the last pass
    swings: int = 0  # consecutive steps that reversed the one before
    last_step: Vector | None = None
    evidence: list[float] = field(default_factory=list)
    done: bool = False
    warm: bool = False  # near its end from the start
    moved_grids: float = 0  # workers whose adaptive grids changed in the last pass
    pair_effect: float = 0.0  # its variance
    sides: PopulationSide = field(default_factory=PopulationSide)
    side_sums: tuple[Vector, Vector] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    gold_margin: float = 0.0
    messages: Vector | None = None  # of belief propagation, summed per item
    suspended: bool = False
    broken: bool = False  # sites are not finite, or give items no variances
    item_prior: ItemPrior | None = None  # of scores; None is N(0, I)
    feature_gain: float = 0.0  # nats above the run without features
    covariates: KeptCovariates | None = None  # None if there were none to try

    def __post_init__(self) -> None:
        # Cached: `isinstance` of a protocol costs as much as a pass over few votes.
        self._grid_sites = self.sites if isinstance(self.sites, GridSites) else None

    @staticmethod
    def begin(
        name: str,
        engine: Engine,
        levels: Vector,
        settings: Settings,
        types: WorkerTypes,
        progress: Progress | None,
        factorisation: VarianceMethod,
    ) -> Propagation | None:
        """Return a run from the start of that name; None if the votes do not allow this start."""
        grid, k = required(engine.grid), engine.facts.n_items
        if name == "flat":
            means, prior, variance = np.zeros(k), WorkerPrior.start(levels, 1.0, 0.5, types), 2.0
        else:
            found = spectral_scores(grid.correlations(), k)
            if found is None:
                return None
            means, prior, variance = found, WorkerPrior.start(levels, 0.0, 1.0, types), 0.5
        sites = grid.sites(types, variance)
        return Propagation.of(
            name, engine, sites, prior, means, settings, progress, factorisation, variances=np.ones(k)
        )

    @staticmethod
    def of(
        name: str,
        engine: Engine,
        sites: RunSites,
        prior: WorkerPrior,
        means: Vector,
        settings: Settings,
        progress: Progress | None,
        factorisation: VarianceMethod,
        *,
        variances: Vector,
        sides: PopulationSide | None = None,
        pair_effect: float = 0.0,
        item_prior: ItemPrior | None = None,
    ) -> Propagation:
        """Return a run that starts from these means, variances and types."""
        rule = StoppingRule("change of the standardised scores", settings.tolerance, settings.most_iterations, progress)
        if item_prior is None and settings.boards is not None:
            item_prior = settings.boards()
        return Propagation(
            name,
            engine,
            sites,
            prior,
            means,
            settings,
            rule,
            system=sites.system(sites.pair_sums(), pair_effect),
            variances=variances,
            factorisation=factorisation,
            sides=PopulationSide() if sides is None else sides,
            pair_effect=pair_effect,
            item_prior=item_prior,
        )

    def suspend(self) -> None:
        """Release what can be computed again."""
        self.sites.suspend()
        self.messages, self.suspended = None, True
        vars(self).pop("system", None)  # holds one weight per pair

    def resume(self) -> None:
        """Compute again what `suspend` released."""
        if self.suspended:
            self.suspended = False
            self.receive()
            if not self._variances():
                self.find_items()

    def receive(self) -> None:
        """Collect what items receive from the current sites."""
        vars(self).pop("system", None)  # releases its weights for reuse
        self.system = self.sites.system(self.sites.pair_sums(), self.pair_effect)

    def restart(self) -> None:
        """Compute the items for the current sites, and reset the convergence history."""
        self.receive()
        self.find_items()
        self.done, self.rule.converged = False, False
        self.damping, self.last_step, self.swings, self.unclipped = 0.75, None, 0, 0

    def flip(self) -> None:
        """Reverse the sign of scores and reliabilities, and continue as a run that has just begun."""
        # Where the scale drifts, its limit depends on the damping. The limit of a long run is smaller, and a run that
        # continued from this one would end elsewhere.
        self.flipped_at = len(self.rule.history)
        self.means, self.prior = -self.means, self.prior.flipped()
        self.sites.transform(flip=True)
        self.restart()

    def own_item_prior(self) -> ItemPrior | None:
        """Return a copy of the prior of scores, for another run to learn."""
        return None if self.item_prior is None else copy(self.item_prior)

    def simplified(self, types: WorkerTypes) -> Propagation:
        """Return a run over a part of the types, from this state, without sites of sides."""
        sites, known = required(self.engine.grid).sites(types, 2.0), self.pair_sites.vote_sites()
        none = np.zeros_like(known.side_tau)
        half = len(self.prior.levels)
        sites.set_vote_sites(known._replace(side_tau=none, side_nu=none), half)
        rule = replace(self.rule, history=[], converged=False)
        run = replace(
            self,
            name="simpler",
            sites=sites,
            prior=self.prior.without_sides(types),
            rule=rule,
            messages=None,
            evidence=[],
            sides=PopulationSide(),
            moved_grids=0,
            item_prior=self.own_item_prior(),
        )
        run.restart()
        return run

    def iterate(self) -> None:
        """Update the sites, then the workers' prior, then the items; return whether the run has ended."""
        before, effect = standardised(self.means), self.pair_effect
        hold = self.settings.refine and (self.rule.history or self.warm)
        self._pass_over(self.damping, self._drift() if hold else 1.0)
        last = self._last_change()
        early = last > _STAGE_ONE and len(self.rule.history) < _EARLY
        steps, share = _EARLY_LEARNING if early else _LEARNING
        self.prior = self.prior.learned(
            self.sites.type_counts, steps, share * last, extrapolate=self.unclipped <= _EXTRAPOLATED
        )
        self.unclipped += not self.clip
        if self.item_prior is not None and self.rule.history:
            self.item_prior.learn(self)
        if self.settings.refine:
            self.moved_grids = self.sites.refine() if self.unclipped <= _REFINING else 0
        self.receive()
        self.find_items()
        if self.broken:  # later steps cannot repair it
            self.evidence[-1] = -np.inf
            self.rule.stop(np.inf)
            self.done = True
            return
        step = standardised(self.means) - before
        residual = self._size(step) / self.damping  # change of an undamped step
        if effect:
            self.pair_effect = learned_effect(self.pair_sites.pair_posteriors(self.means), self.pair_effect)
            moved = abs(float(np.log(self.pair_effect / effect)))
            residual = max(residual, _EFFECT_CHANGE * moved)
        self._adapt(step)
        self._settle(residual)

    def complete(self) -> None:
        """Iterate to the end; if gold is then reversed, continue with the other sign."""
        for _ in range(2):
            while not self.done:
                self.iterate()
            self.finish()
            if not self.engine.facts.n_gold or self.gold_margin >= 0.0:
                return
            self.flip()
            self.rule.most += len(self.rule.history)
        while not self.done:
            self.iterate()
        self.finish()

    def branch(self) -> Propagation:
        """Return the same state with a copy of its sites and a fresh budget of iterations."""
        rule = replace(
            self.rule, history=list(self.rule.history), converged=False, most=len(self.rule.history) + self.rule.most
        )
        return replace(
            self,
            sites=self.sites.copy(),
            messages=None,
            rule=rule,
            evidence=self.evidence[:-1],
            item_prior=self.own_item_prior(),
        )

    @property
    def pair_sites(self) -> GridSites:
        """Return the sites; raise an error if no engine made them."""
        if self._grid_sites is None:
            raise TypeError(f"{type(self.sites).__name__} has no posteriors of pairs")
        return self._grid_sites

    def finish(self) -> None:
        """Compute messages and evidence of the last state, its sites left as they are."""
        # In a warm run the messages of the last pass suffice: they belong to the scores before its last step, which was
        # within the tolerance. They do not if adaptive grids have changed since, or if the pass was made at another
        # scale: the reliabilities would have that scale.
        rescaled = abs(self.held_scale - 1.0) > _SAME_SCALE
        if not self.warm or self.moved_grids or rescaled:
            self._pass_over(0.0)
        if self.broken:
            self.evidence[-1] = -np.inf

    @property
    def settled(self) -> bool:
        """Return whether the scores have stopped moving, even if not within the tolerance."""
        return bool(self.rule.history) and self.rule.history[-1] <= _SETTLED

    @property
    def faint(self) -> bool:
        """Return whether the scores may be 0."""
        return faint(self.means)

    def scale(self) -> float:
        """Return the size of the scores, √((mᵀm + tr Σ)/K); it is 1 if the posterior has the size of the prior."""
        return float(np.sqrt((self.means @ self.means + self.variances.sum()) / len(self.means)))

    def _drift(self) -> float:
        return self.scale() if self.item_prior is None else self.item_prior.drift(self)

    def _pass_over(self, damping: float, scale: float = 1.0) -> None:
        """Update all sites, and record the evidence of the state before."""
        # With a scale other than 1, the drift of the scale is removed first, on the present grid. Votes depend only on
        # β·r. If a worker has far more votes than there are items, EP lets the scale of r creep to 0 while that of β
        # grows, with the same probabilities, and never converges. π is not rescaled: this pass learns it again at the
        # scale held. If the drift were removed after the pass, scale and π would each react to the other's last step
        # and oscillate.
        items = self._items_evidence(scale)
        self.held_scale = scale
        if scale != 1.0:
            self.sites.transform(scale=scale)
            self.means = self.means / scale
            self.pair_effect = self.pair_effect / scale**2
            if self.item_prior is not None:
                self.item_prior.rescale(scale)
        update = self.sites.update(
            SitePass(self.prior.levels, self.prior.masses, self.means, self.sides.prior, damping, self.clip)
        )
        self.gold_margin, self.side_sums = update.gold_margin, (update.side_tau, update.side_nu)
        if damping and self.prior.types.sides:
            self.sides = self.sides.learned(update)
        evidence = update.log_messages - update.log_sites + items + self.system.log_pairs
        self.evidence.append(evidence if np.isfinite(evidence) else -np.inf)

    def side_posteriors(self) -> tuple[Vector, Vector]:
        """Return mean and variance of every worker's side bias after the last pass."""
        tau, nu = self.side_sums
        return self.sides.posteriors(nu, tau)

    def _items_evidence(self, scale: float) -> float:
        """Return the items' part of the evidence, ½bᵀm - ½log|L + I|, for scores divided by the scale."""
        # Scaled sites are f²L and fb. At m/f, which differs from their solution by the order of f - 1, fbᵀx - ½xᵀ(f²L +
        # I)x is ½bᵀm + ½|m|²(1 - 1/f²), and log|f²L + I| is log|L + I| + K log f² + (1/f² - 1) tr (L + I)⁻¹. Both omit
        # only terms of order (f - 1)². With the prior covariance C instead of I, |m|² is mᵀC⁻¹m and the trace is that
        # of C⁻¹(L + C⁻¹)⁻¹.
        m, excess = self.means, 1.0 / scale**2 - 1.0
        inner, trace = float(m @ m), float(self.variances.sum())
        if self.item_prior is not None:
            inner, trace = self.item_prior.forms(self)
        linear = float(self.system.rhs @ m) - excess * inner
        wider = 2.0 * len(m) * float(np.log(scale)) + excess * trace
        return 0.5 * (linear - self.log_determinant - wider)

    def _last_change(self) -> float:
        """Return the size of the last step; before the first step of a warm run, a small number."""
        if self.warm:
            return min([_WARM_CHANGE, *self.rule.history])
        return self.rule.history[-1] if self.rule.history else 1.0

    def _size(self, step: Vector) -> float:
        """Return the root mean square of a step; in a warm run the largest change counts as well."""
        usual = float(np.sqrt(np.mean(step**2)))
        return max(float(np.abs(step).max()), _USUAL * usual) if self.warm else usual

    def find_items(self) -> None:
        """Compute means and variances; if impossible, do so without negative precisions of sites."""
        # If even these have none, for instance because sums of votes exceed the floating-point range, the run is
        # broken: it keeps its means, and all pairs get the prior's variances.
        before = self.means
        self._solve()
        if not self._variances():
            self.indefinite = self.clip = True
            self.sites.transform(clip=True)
            self.receive()
            self._solve()
            if not self._variances():
                self.means, self.broken = before, True
                if self._grid_sites is not None:
                    self._grid_sites.set_pair_variances(np.full(int(self.sites.n_pairs), 2.0))

    def _solve(self) -> None:
        tolerance = self.settings.solve_tolerance
        if self.rule.history or self.warm:  # the error of the solve must vanish with the step
            tolerance = min(tolerance, max(1e-3 * self._last_change(), 1e-12))
        at, system = self.means, self.system
        if self.item_prior is None:
            solve = system.laplacian.solve
            found = solve(system.rhs, at, shift=1.0, tolerance=tolerance, most=2_000).x
        else:
            found = self.item_prior.solve(system, at, tolerance)
        self.broken = not np.isfinite(found).all()
        self.means = at if self.broken else found

    def _variances(self) -> bool:
        found = self._pair_variances()
        if not found.definite and self._may_be_exact():
            self.exact = True
            found = self._pair_variances()
        if found.definite:
            self.variances, self.log_determinant = found.items, found.log_determinant
        return found.definite

    def _pair_variances(self) -> PairVariances:
        if self.item_prior is not None:
            return self.item_prior.pair_variances(self)
        laplacian, change = self.system.laplacian, self._last_change()
        found = self.factorisation.variances(self._grid_sites, laplacian, exact=self.exact)
        self.factorised = found is not None
        if found is None:
            pairs, before = self.pair_sites, self.messages
            found, self.messages = loopy_bp(pairs, laplacian, before, change=change)
        return found

    def _may_be_exact(self) -> bool:
        """Return whether to ask for a large factorisation, which only the last iterations need."""
        return self.settings.exact and not self.exact and not self.factorised

    def _adapt(self, step: Vector) -> None:
        """Set the damping: ½ after the first step, less if steps reverse, else more."""
        if not (self.rule.history or self.warm) or not self.settings.adaptive:
            self.damping = 0.5
        elif self.last_step is not None:
            now, before = (float(np.linalg.norm(x)) for x in (step, self.last_step))
            turn = float(step @ self.last_step) / max(now * before, 1e-300)
            # Small steps may reverse at random: then only growth or repetition counts.
            swings = turn < -0.2 and now > 0.8 * before
            self.swings = self.swings + 1 if swings else 0
            small = now < _NOISE * np.sqrt(len(step))
            if swings and (not small or now > 3.0 * before or self.swings >= 4):
                self.damping = max(0.7 * self.damping, _LEAST_DAMPING)
            elif not swings and (turn > 0.2 or now < 0.8 * before):
                self.damping = 1.15 * self.damping
            # A run that takes long moves in circles: its steps shrink with time once the shares have converged.
            passes = max(len(self.rule.history) - self.flipped_at, 1)
            most = min(_MOST_DAMPING, max(_PATIENCE / passes, _CALM_DAMPING))
            creeps = turn > 0.5 and self.item_prior is not None and not self.item_prior.at_rest
            self.damping = min(self.damping, 1.0 if creeps else most)
        self.last_step = step

    def _settle(self, change: float) -> None:
        """End stage 1 when scores settle, and stage 2 when they have converged at unit scale."""
        staged = self.clip and not self.indefinite and not self.settings.clip
        if staged and change <= max(_STAGE_ONE, self.rule.tolerance):
            self.clip = False
            self.rule.stop(max(change, np.nextafter(self.rule.tolerance, np.inf)))
            self.done = len(self.rule.history) >= self.rule.most
            return
        free = not staged and not self.settings.refine and self.scale_steps < _SCALE_STEPS
        if free and change <= self.rule.tolerance:
            factor = self.scale()
            if abs(factor - 1.0) > _SCALE_SLACK and self.means.any():
                self.scale_steps += 1
                self._rescale(factor)
                change = max(change, float(np.nextafter(self.rule.tolerance, np.inf)))
        near = _NEARLY if self.warm else 1.0  # a warm run is a few passes from its end
        if change <= near * self.rule.tolerance and self._may_be_exact():
            self.exact = True
            if self.factorisation.possible(self._grid_sites, self.system.laplacian):
                self._variances()  # the next pass must start from them, or it would change nothing
                change = max(change, float(np.nextafter(self.rule.tolerance, np.inf)))
        self.done = self.rule.stop(change)

    def _rescale(self, factor: float) -> None:
        self.prior = self.prior.rescaled(factor)
        self.sites.transform(scale=factor, grids=True)
        self.means = self.means / factor
        self.variances = self.variances / factor**2
        self.pair_effect = self.pair_effect / factor**2
        self.receive()
        self.damping = 0.5


def faint(scores: Vector) -> bool:
    """Return whether scores are so small that zero scores may be the better answer."""
    return float(np.mean(scores**2)) < _FAINT


def standardised(means: Vector) -> Vector:
    """Return means scaled to root mean square 1, unless they are tiny beside their prior sd of 1."""
    return means / max(float(np.sqrt(np.mean(means**2))), _NOTHING)
