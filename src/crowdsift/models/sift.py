"""sift: workers are integrated out, with a population of types learned from all votes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import PairPosteriors, WorkerPoints
from crowdsift.errors import RequestError
from crowdsift.models.base import Estimate, Model, Start, mirror
from crowdsift.models.coefficients import CovariateEstimate
from crowdsift.models.diagnostics import Diagnostic, Kind
from crowdsift.models.dimensions import DimensionEstimate
from crowdsift.models.feature_weights import with_feature_estimate
from crowdsift.models.sift_dimensions import left_out_dimensions, refuse_count, refuse_dimensions, with_dimensions
from crowdsift.models.sift_estimate import (
    MAX_GROUP_NUMBERS,
    covariate_estimate,
    refuse_large_covariates,
    run_estimate,
    vote_log_likelihood,
    with_board_estimate,
    with_covariate_estimate,
    with_group_estimate,
    with_trusted_estimate,
    worker_posteriors,
)
from crowdsift.numeric import Codes, Mask, Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.ep.search import propagate
from crowdsift.solvers.ep.state import Propagation, Settings, WarmStart, faint
from crowdsift.solvers.ep.terms import exclusion, refuse_combinations
from crowdsift.solvers.ep.terms.boards import MAX_BOARD_ITEMS, MAX_BOARD_NUMBERS, BoardPrior, Boards
from crowdsift.solvers.ep.terms.contexts import MAX_CONTEXT_NUMBERS
from crowdsift.solvers.ep.terms.dependent import DependentVotes, GroupPrior
from crowdsift.solvers.ep.warm import kept_sites, resume, resumed
from crowdsift.solvers.ep.workers import hints_at_sides, population_from, population_to, power_grid, worker_types
from crowdsift.votes.comparisons import Comparisons
from crowdsift.votes.contexts import shared_items
from crowdsift.votes.covariates import design
from crowdsift.votes.groups import GroupedVotes
from crowdsift.votes.item_features import ItemFeatures
from crowdsift.votes.outcomes import Outcomes, half_win, on_either_side
from crowdsift.votes.panels import PanelVotes

MAX_PANEL_ITEMS = 200  # most items of a trusted panel: covariances are dense matrices
_BYTES_OF_SIDES = 40  # bytes per comparison
_BYTES_A_TYPE = 90  # bytes per type of a worker in a context
POOLING = ("auto", "none", "complete")


@dataclass(frozen=True)
class Sift(Model):
    """P(w beats l | s) = σ(β_s (r_w - r_l)), r ~ N(0, 1), β_s from a distribution that is learned.

    A worker is a point on a symmetric grid of reliabilities; the distribution of workers over it is learned from the
    votes; items have a Gaussian posterior; the two exchange messages by expectation propagation. Where there are ties a
    worker also has a tie width, and where sides are known it may have a side bias, or votes that depend on sides alone.

    Parameters
    ----------
    grid_points
        Points of the grid of reliabilities, an odd number.
    refine
        Give an adaptive grid to workers whose posterior is narrower than a cell of the common grid.
    ties
        Whether a tie is a separate outcome, with a tie width for every worker; otherwise it is half a win and half a
        loss. Soft outcomes are always shares of a win and a loss.
    sides
        Whether workers may have a side bias, if sides are known, the votes hint at one, and the evidence rises by more
        than 3 nats.
    contexts
        Where votes have a context column, let reliability and side bias of a worker differ from context to context, if
        the evidence rises by more than 3 nats.
    pair_effect
        Where many votes repeat a pair, add an effect N(0, s) to the difference of every pair if the evidence rises by
        more than 3 nats: votes on the same pair agree beyond its scores.
    dimensions
        The number of dimensions, or "auto": one, unless more have more evidence and predict left-out votes better.
    pooling
        For votes with a context column whose contexts share items. "auto" lets the score of an item differ between
        contexts by as much as the votes imply; "none" fits every context alone; "complete" ignores contexts.
    starts
        Names of the starting points; the run with the largest evidence wins.
    tolerance
        Stop when the standardised scores move by at most this, root mean square.
    most_iterations
        The largest number of iterations; a fit that needs more ends unconverged. Trying contexts or a pair effect may
        take as many again.

    Examples
    --------
    >>> import crowdsift
    >>> votes = crowdsift.simulate(items=20, workers=50, comparisons=1000, seed=1).comparisons()
    >>> fit = crowdsift.fit(votes, method="sift")
    >>> fit.converged
    True
    """

    grid_points: int = 49
    refine: bool = True
    ties: bool = True
    sides: bool = True
    contexts: bool = True
    pair_effect: bool = True
    dimensions: int | str = "auto"
    pooling: str = "auto"
    starts: tuple[str, ...] = ("flat", "spectral")
    tolerance: float = 1e-5
    most_iterations: int = 500

    name: ClassVar[str] = "sift"
    rankings: ClassVar[str] = "reweighted"
    takes_gold: ClassVar[bool] = True
    takes_items: ClassVar[bool] = True
    takes_groups: ClassVar[bool] = True
    takes_covariates: ClassVar[bool] = True
    tuned: ClassVar[str] = ""  # nothing: the evidence decides
    needs: ClassVar[str] = "grid"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grid_points < 5 or self.grid_points % 2 == 0:
            raise RequestError(f"{self.name}: grid_points must be odd and at least 5, not {self.grid_points}")
        count = self.dimensions
        known = count == "auto" if isinstance(count, str) else type(count) is int and count >= 1
        if not known:
            raise RequestError(f"{self.name}: dimensions must be a whole number above 0 or 'auto', not {count!r}")
        if not isinstance(self.pooling, str) or self.pooling not in POOLING:
            raise RequestError(
                f"{self.name}: pooling must be {', '.join(POOLING[:-1])} or {POOLING[-1]}, not {self.pooling!r}"
            )
        known = isinstance(self.starts, tuple | list) and bool(self.starts)
        if not known or not all(start in ("flat", "spectral") for start in self.starts):
            raise RequestError(f"{self.name}: starts must be of 'flat' and 'spectral', not {self.starts}")

    def memory(self, comparisons: Comparisons) -> int:
        """Return the bytes of a fit: more if sides are known, and if workers may differ by context."""
        plain = super().memory(comparisons)
        if self.sides and comparisons.sides_known:  # votes have a second site, and there are four runs
            plain += _BYTES_OF_SIDES * len(comparisons)
        if not self.contexts or not comparisons.by:
            return plain
        contexts = int(comparisons.item_contexts.max(initial=0)) + 1
        apart = min(comparisons.n_workers * contexts, len(comparisons))
        shape = worker_types(
            ties=self.ties and comparisons.ties_are_outcomes, sides=self.sides and comparisons.sides_known
        )
        types = shape.n_types(power_grid(self.grid_points))
        return 2 * plain + _BYTES_A_TYPE * min(apart * types, MAX_CONTEXT_NUMBERS)

    def refuse_votes(self, votes: Comparisons, *, dependent: bool = False) -> None:
        """Raise an error for terms that cannot be combined; see the base class."""
        asked = {
            "features": votes.item_features is not None,
            "covariates": votes.features is not None,
            "contexts": bool(votes.by) and self.contexts,
            "dependent votes": dependent,
            "dimensions": self._asked > 1,
        }
        refuse_combinations(name for name, is_asked in asked.items() if is_asked)
        if votes.panels is not None:
            several = asked.pop("dimensions")
            for name in (name for name, is_asked in asked.items() if is_asked):
                raise RequestError(
                    f"sift takes trusted votes (--trusted) or {name}, not both at once yet; omit one of the two"
                )
            if votes.n_items > MAX_PANEL_ITEMS and not several:
                raise RequestError(
                    f"sift takes trusted votes on at most {MAX_PANEL_ITEMS} items, here are {votes.n_items:,}; fit the "
                    "trusted votes alone, or a part of the items"
                )
        refuse_count(self._asked, votes.n_items, votes.n_workers - votes.n_gold)

    def estimate(self, engine: Engine, progress: Progress | None = None, start: Start | None = None) -> Estimate:
        """Run expectation propagation from all starts; informative workers determine the sign."""
        if start is not None:
            return self.resume(engine, start, progress)
        refuse_dimensions(engine, self._asked)
        run = propagate(engine, power_grid(self.grid_points), self._settings(engine), progress)
        return self._with_dimensions(self._estimate(run, engine), engine)

    @property
    def _asked(self) -> int:
        """Return the number of dimensions requested; 0 lets the evidence decide."""
        return 0 if isinstance(self.dimensions, str) else self.dimensions

    def _with_dimensions(
        self, estimate: Estimate, engine: Engine, earlier: DimensionEstimate | None = None, trusted: Mask | None = None
    ) -> Estimate:
        found = with_dimensions(estimate, engine, self._asked, earlier, trusted)
        return found if found.dimensions is None or trusted is not None else self._signed(found, engine)

    def estimate_votes(self, engine: Engine, votes: Comparisons, progress: Progress | None = None) -> Estimate:
        """Fit the votes as the base class does; contexts learn from each other if they share items."""
        boards = self.boards(votes)
        if boards is None:
            found = super().estimate_votes(engine, votes, progress)
            notes = (*found.diagnostics, *self._not_pooled(votes))
            return replace(found, diagnostics=notes)
        run, boards = self._from_starts(engine, boards, progress)
        found = self._estimate(run, engine, boards=boards)
        return found if boards is not None else self._with_dimensions(found, engine)

    def _from_starts(
        self, engine: Engine, boards: Boards | None, progress: Progress | None
    ) -> tuple[Propagation, Boards | None]:
        """Return the best run from all starts, and its contexts that learn from each other."""
        levels = power_grid(self.grid_points)
        run = propagate(engine, levels, self._settings(engine, boards), progress)
        if boards is not None and run.faint and not boards.complete:  # the contexts may have nothing in common
            alone = propagate(engine, levels, self._settings(engine), progress)
            if alone.evidence[-1] > run.evidence[-1]:
                return alone, None
        return run, boards

    def estimate_trusted(
        self,
        engine: Engine,
        panels: PanelVotes,
        open_engine: Callable[[Comparisons], AbstractContextManager[Engine]],
        progress: Progress | None = None,
    ) -> Estimate:
        """Score the trusted panel: by panel and judge, or in the dimensions asked for."""
        levels = power_grid(self.grid_points)
        if self._asked > 1:
            refuse_dimensions(engine, self._asked)
            run = propagate(engine, levels, self._settings(engine), progress)
            return self._with_dimensions(self._estimate(run, engine), engine, trusted=panels.trusted)
        boards = Boards(panels.item, panels.board, engine.facts.n_items)
        with open_engine(panels.votes) as by_judge:
            settings = replace(self._settings(by_judge, boards), contexts=False, pair_effect=False)
            run = propagate(by_judge, levels, settings, progress)
            return self._estimate(run, by_judge, trusted=(panels, engine))

    def boards(self, votes: Comparisons) -> Boards | None:
        """Return the contexts as boards; None with features, without pooling, or if matrices would be too large."""
        boards = self._shared(votes)
        return None if boards is None or boards.too_large or self._asked > 1 else boards

    def _shared(self, votes: Comparisons) -> Boards | None:
        plain = votes.features is None and votes.item_features is None and bool(votes.by)
        found = shared_items(votes) if plain and self.pooling != "none" else None
        return None if found is None else Boards(*found, self.pooling == "complete")

    def _not_pooled(self, votes: Comparisons) -> Iterator[Diagnostic]:
        """Return the diagnostic that contexts share items but do not learn from each other."""
        boards = self._shared(votes)
        if boards is not None and self._asked > 1:
            yield Diagnostic(Kind.CONTEXTS, "with --dimensions every context is ranked from its votes alone")
        elif boards is not None and 2 * boards.n_items < votes.n_items + 1:
            yield Diagnostic(
                Kind.CONTEXTS,
                f"every context is ranked alone (--pooling none): {boards.n_items:,} items in "
                f"{int(boards.board.max()) + 1:,} contexts are too many to be pooled, at most "
                f"{MAX_BOARD_ITEMS:,} items and {MAX_BOARD_NUMBERS:,} pairs within contexts",
            )

    def estimate_with_items(self, engine: Engine, features: ItemFeatures, progress: Progress | None = None) -> Estimate:
        """Fit as `estimate`, with a prior of scores by features if the evidence clearly rises."""
        if self._asked > 1:  # named by the features
            return self.estimate(engine, progress)
        settings = replace(self._settings(engine), item_features=tuple(block.values for block in features.blocks))
        run = propagate(engine, power_grid(self.grid_points), settings, progress)
        found = self._estimate(run, engine, features)
        return found if found.features is not None else self._with_dimensions(found, engine)

    def estimate_with_covariates(
        self, engine: Engine, votes: Comparisons, progress: Progress | None = None
    ) -> Estimate:
        """Fit as `estimate`, with coefficients of every worker for covariates that the evidence supports."""
        if self._asked > 1:  # named by the covariates
            return self.estimate(engine, progress)
        refuse_large_covariates(engine, votes)
        settings = self._settings(engine)
        sides = settings.families[-1].sides
        given, nothing = design(votes, engine.facts.component, side=sides)
        settings = replace(settings, covariates=given)
        run = propagate(engine, power_grid(self.grid_points), settings, progress)
        about = covariate_estimate(run, engine, nothing)
        found = self._estimate(run, engine, covariates=about)
        return found if about[0].names else self._with_dimensions(found, engine)

    def resume(self, engine: Engine, start: Start, progress: Progress | None = None) -> Estimate:
        """Continue expectation propagation from the end of an earlier run."""
        # All starts are tried instead if ties are new, sides are no longer known, workers differed by context, or the
        # scores are almost 0 before or after: zero scores are another optimum, which a run seldom leaves.
        warm, boards, run = self._warm_start(engine, start), start.boards, None
        if warm is not None and not faint(warm.means):
            run = resumed(warm, engine, self._settings(engine, boards), progress)
        if run is None or run.faint:
            run, boards = self._from_starts(engine, boards, progress)
        found = self._estimate(run, engine, boards=boards)
        # Residuals are tested again only after the votes have grown by a tenth.
        tested, count = start.population.get("tested", 0.0), float(engine.facts.loads.sum())
        if start.dimensions is not None and (self._asked or count < 1.1 * tested):
            found = self._with_dimensions(found, engine, start.dimensions)
            return replace(found, population={**(found.population or {}), "tested": tested})
        if boards is not None or (warm and not self._asked and count < 1.1 * tested):
            known = {**(found.population or {}), "tested": tested}
            return replace(found, population=known) if tested else found
        return self._with_dimensions(found, engine)

    def rescore(self, engine: Engine, start: Start, *, decide: bool) -> tuple[Vector, Start] | None:
        """Return scores alone; without `decide` the side biases and pair effect found earlier are kept."""
        warm = self._warm_start(engine, start)
        if warm is None:
            return None
        run = (resumed if decide else resume)(warm, engine, self._settings(engine, start.boards))
        size = run.scale()
        known = population_to(run.prior, run.sides.prior, run.pair_effect, size)
        there = Start(run.means / size, run.variances / size**2, known, kept_sites(run.pair_sites), boards=start.boards)
        return (there.scores, there) if run.settled else None

    def _warm_start(self, engine: Engine, start: Start) -> WarmStart | None:
        """Return where to continue; None if the population of these votes is a different one."""
        known = start.population
        if not known or known.get("by_context") or known.get("dimensions"):
            return None
        prior, side, effect, scale = population_from(start.population)
        shape, ties = prior.types, self.ties and engine.facts.ties
        if shape.ties != ties or (shape.sides and not (self.sides and engine.facts.sides_known)):
            return None
        means, variances = start.scores * scale, start.variances * scale**2
        cut = bool(start.population.get("unfinished"))
        return WarmStart(means, variances, prior, side, effect, start.sites, cut)

    def estimate_in_groups(
        self, engine: Engine, groups: GroupedVotes, whole: Engine, before: Estimate, progress: Progress | None = None
    ) -> Estimate | None:
        """Fit items within groups, from the estimate without groups."""
        # Returns None if workers differ by context or features affect the scores.
        term, known, sd = DependentVotes(), before.population, before.score_sd
        kept = {
            "contexts": before.in_context,
            "features": before.features,
            "partial pooling": before.common,
            "dimensions": before.dimensions,
        }
        excluded = [name for name, found in kept.items() if found is not None]
        if any(exclusion(term.name, name) for name in excluded):
            return None
        if known is None or sd is None or before.evidence is None:
            return None
        if groups.numbers > MAX_GROUP_NUMBERS:
            return None
        prior, side, _, scale = population_from(known)
        start = WarmStart(before.scores * scale, (sd * scale) ** 2, prior, side)
        settings = replace(self._settings(whole), contexts=False, pair_effect=False)
        by_group = GroupPrior(groups.item, groups.group, whole.facts.n_items)
        run = term.attempt_in_groups(engine, by_group, start, before.evidence, settings, progress)
        return None if run is None else self._estimate(run, engine, None, (whole, before))

    def _settings(self, engine: Engine, boards: Boards | None = None) -> Settings:
        ties = self.ties and engine.facts.ties
        families = [worker_types(ties=ties, sides=False)]
        if self.sides and engine.facts.sides_known and hints_at_sides(engine):
            families.append(worker_types(ties=ties, sides=True))
        return Settings(
            tolerance=self.tolerance,
            most_iterations=self.most_iterations,
            starts=self.starts,
            refine=self.refine,
            contexts=self.contexts,
            pair_effect=self.pair_effect,
            dimensions=self._asked,
            families=tuple(families),
            boards=None if boards is None else partial(BoardPrior, boards),
        )

    def _estimate(
        self,
        run: Propagation,
        engine: Engine,
        features: ItemFeatures | None = None,
        ungrouped: tuple[Engine, Estimate] | None = None,
        covariates: tuple[CovariateEstimate, WorkerPoints | None] | None = None,
        boards: Boards | None = None,
        trusted: tuple[PanelVotes, Engine] | None = None,
    ) -> Estimate:
        """Return the estimate of a run, scaled to unit size, with the sign of the majority."""
        # `ungrouped` holds the engine and the estimate without groups of votes.
        prior = run.item_prior
        size = prior.scale if ungrouped and isinstance(prior, GroupPrior) else run.scale()
        learned = None if covariates is None or not covariates[0].names else covariates[0]
        sides = run.side_posteriors() if learned is None else learned.sides()
        workers, in_context = worker_posteriors(run, engine, sides, size)
        estimate = run_estimate(run, engine, workers, in_context, size, keep_sites=learned is None)
        if features is not None:
            estimate = with_feature_estimate(estimate, run, features, size)
        if ungrouped is not None:
            estimate = with_group_estimate(estimate, run, *ungrouped, size)
        if covariates is not None:
            estimate = with_covariate_estimate(estimate, *covariates)
        if boards is not None:
            estimate = with_board_estimate(estimate, run, engine, boards, size)
        if trusted is not None:
            return with_trusted_estimate(self, estimate, run, *trusted, size)
        return self._signed(estimate, engine)

    def _signed(self, estimate: Estimate, engine: Engine) -> Estimate:
        """Return the estimate with the sign that gold has, or that informative workers support."""
        sign = estimate.sign
        reversed_ = sign is not None and sign.log_odds < 0.0 and not engine.facts.n_gold
        return mirror(self, estimate) if reversed_ else estimate

    def mirrored(self, theta: Vector, level: float) -> Vector:
        """Return quantiles of -β, in rising order."""
        return np.ascontiguousarray(super().mirrored(theta, level)[:, ::-1])

    def left_out(self, engine: Engine, estimate: Estimate) -> float:
        """Return the log-likelihood of other votes, averaged over the posteriors of workers and items."""
        sd, points = estimate.score_sd, estimate.points
        if points is None or sd is None:
            raise RequestError("left-out votes need an estimate of sift")
        if estimate.dimensions is not None:
            return left_out_dimensions(engine, estimate)
        apart = None if estimate.in_context is None else engine.by_context()
        if apart is not None and estimate.in_context is not None:
            count = engine.facts.n_workers
            rows = estimate.in_context.rows(apart.worker, apart.context, count)
            rows = np.append(rows, np.arange(count - engine.facts.n_gold, count))
            below = estimate.in_context.below(points)
            engine, points = apart.engine, WorkerPoints(*(column[rows] for column in below))
        types = worker_types(ties=bool(points.width.any()), sides=False)
        sites = required(engine.grid).sites(types, 2.0)
        first, second = sites.pair_posteriors(estimate.scores)[:2]
        differences = estimate.scores[first] - estimate.scores[second]
        variances = sd[first] ** 2 + sd[second] ** 2 + (estimate.details["pair_effect"] or 0.0)
        if estimate.pairs is not None:
            known, place = _found(estimate.pairs, first, second, engine.facts.n_items)
            differences[known] = estimate.pairs.mean[place]
            variances[known] = estimate.pairs.variance[place]
        return sites.pair_likelihood(differences, variances, points)

    def left_out_votes(self, engine: Engine, votes: Comparisons, estimate: Estimate) -> float:
        if estimate.covariates is None or not estimate.covariates.names:
            return self.left_out(engine, estimate)
        ties = self.ties and estimate.workers.extra.get("tie_width") is not None
        found = vote_log_likelihood(votes, estimate, ties)
        return float(votes.weight.astype(np.float64) @ found)

    def probability(self, difference: Vector, reliability: Vector) -> Vector:
        return sigmoid(reliability * difference)

    @property
    def tie_column(self) -> str:
        """Return the column of tie widths, or None if a tie counts as half a win."""
        return "tie_width" if self.ties else "tie_rate"

    def outcome_probabilities(
        self,
        difference: Vector,
        reliability: Vector,
        tie: Vector,
        side: Vector | float = 0.0,
        side_variance: Vector | float = 0.0,
        offset: Vector | float = 0.0,
    ) -> Outcomes:
        """Return probabilities of Rao and Kupper for z = βd + offset ± γ, with each item on either side."""
        gamma, variance = np.asarray(side), np.asarray(side_variance)
        width = tie if self.ties else np.zeros(1)
        summary = on_either_side(reliability * difference + offset, width, gamma, variance)
        return summary if self.ties else half_win(summary.win, tie)


def _found(pairs: PairPosteriors, first: Codes, second: Codes, n_items: int) -> tuple[Mask, NDArray[np.intp]]:
    """Return which of the pairs are among the known ones, and where."""
    keys = pairs.first.astype(np.int64) * n_items + pairs.second
    wanted = first.astype(np.int64) * n_items + second
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    known = keys[place] == wanted
    return known, place[known]
