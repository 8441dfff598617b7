"""Dependent votes: scores that vary between groups of votes.

In group g (votes on one prompt, task or session) item j has the score u_jg = r_j + e_jg with r ~ N(0, I) and e ~ N(0, s
I). If all votes of a group are on one pair, this is an effect of pair and group with variance 2s. If they are on
several, the effect on an item is in all votes of the group. The engine treats an item in a group, a node, as an item,
and votes connect nodes of one group only. So the Laplacian L consists of blocks, and nodes are integrated out one block
at a time: with B = (I + sL_g)⁻¹

    items receive    Σ_g Z_gᵀ L_g B Z_g  and  Σ_g Z_gᵀ B b_g,
    nodes have       the mean B (r + s b_g)  and the covariance  sB + B Σ_r B,
    log|I + LC|      = Σ_g log|I + sL_g| + log|P|,

where Z_g maps nodes to their items, and P = I + Σ Z_gᵀ L_g B Z_g is the precision of r. With one pair per group this is
the algebra of the pair effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from crowdsift.engines.base import Engine, required
from crowdsift.engines.grid import PairVariances, SiteSystem
from crowdsift.numeric import Indices, Vector
from crowdsift.numeric.dense import inverse_of_root, inverse_root
from crowdsift.solvers.convergence import Progress
from crowdsift.solvers.ep.items import MIN_EFFECT, Factorisation, ItemPrior, ItemsState, scoring_step
from crowdsift.solvers.ep.state import Propagation, Settings, WarmStart
from crowdsift.solvers.ep.terms.base import Exclusion, Term, keep_if_evidence
from crowdsift.solvers.ep.workers import PopulationSide

_START_VARIANCE = 0.1  # initial s


class DependentVotes(Term):
    """Let the score of an item differ from group to group of votes: r_j + e_jg, e ~ N(0, s)."""

    name = "dependent votes"
    subject = "votes that depend on each other"
    option = "--dependent-by"
    adds = "r + e for every item in a group of votes, e ~ N(0, s)"
    variance = "s, by Fisher scoring, one step per pass"
    excludes = (
        Exclusion("features", "Groups need the plain prior of scores."),
        Exclusion("covariates", "Coefficients would be learned from votes that share an effect.", True),
        Exclusion("contexts", "An item in a group and a worker in a context need two engines."),
        Exclusion("pair effect", "An effect of groups replaces that of pairs if it explains more."),
        Exclusion("partial pooling", "Items differ by context already."),
    )
    patience = 5

    def applies(self, run: Propagation) -> bool:
        """Return whether the run is over items in groups."""
        return type(run.item_prior) is GroupPrior

    def hopeless(self, trial: Propagation) -> bool:
        """Return whether s fell to its smallest value."""
        return isinstance(trial.item_prior, GroupPrior) and trial.item_prior.variance <= MIN_EFFECT

    def attempt_in_groups(
        self,
        engine: Engine,
        prior: GroupPrior,
        start: WarmStart,
        evidence: float,
        settings: Settings,
        progress: Progress | None = None,
    ) -> Propagation | None:
        """Return the run with items in groups if it has clearly more evidence, otherwise None."""
        # `start` and `evidence` are the end of the run without groups: scores and variances of items, the learned
        # population of workers, and its evidence.
        sites = required(engine.grid).sites(start.prior.types, 2.0)
        means, variances = start.means[prior.item], start.variances[prior.item]
        trial = Propagation.of(
            "groups",
            engine,
            sites,
            start.prior,
            means,
            settings,
            progress,
            Factorisation(engine),
            variances=variances,
            sides=PopulationSide(start.side),
            item_prior=prior,
        )
        first, second = sites.pair_posteriors(means)[:2]
        sites.set_pair_variances(variances[first] + variances[second] + 2.0 * prior.variance)
        trial.iterate()
        trial.clip = settings.clip  # a run near its end may begin in stage 2
        return trial if keep_if_evidence(trial, evidence, self) else None


class _Batch(NamedTuple):
    """Groups of one size: their nodes and the items of these, a row per group."""

    groups: Indices
    nodes: Indices
    items: Indices


class _Blocks(NamedTuple):
    """The matrices of all groups: L, B and the covariance of nodes."""

    laplacian: Vector
    inverse: Vector
    covariance: Vector


class GroupPrior(ItemPrior):
    """The prior of items in groups; s is learned during the run.

    `common` is the variance of r, and `deviations` has the s of every group. After a solve `item_means`, `precision`
    and `covariance` are the posterior mean of r, P and P⁻¹, and `slopes` are the derivatives of the evidence in the s
    of every group with sites held fixed.
    """

    def __init__(self, item: Indices, group: Indices, count: int, variance: float = _START_VARIANCE) -> None:
        self.item, self.n_items, self.count, self.group = item, len(item), count, group
        self.common, self.deviations = 1.0, np.full(int(group.max(initial=-1)) + 1, variance)
        self._at: tuple[SiteSystem | None, bytes] = (None, b"")
        self._definite, self._log_determinant = True, 0.0
        self.item_means, self._means = np.zeros(count), np.zeros(len(item))
        self.precision, self.covariance = np.eye(count), np.eye(count)
        self.slopes, self.information = np.zeros((2, len(self.deviations)))
        self._explained_trace = 0.0
        sizes = np.bincount(group)
        order = np.argsort(group, kind="stable")
        starts = np.cumsum(sizes) - sizes
        self._batches: list[_Batch] = []
        self._blocks: list[_Blocks] = []
        self._batch, self._row, self._place = np.zeros((3, len(item)), np.int64)
        for size in np.unique(sizes[sizes > 0]).tolist():
            groups = np.flatnonzero(sizes == size)
            nodes = order[starts[groups][:, None] + np.arange(size)]
            self._batch[nodes] = len(self._batches)
            self._row[nodes], self._place[nodes] = (np.arange(len(nodes))[:, None], np.arange(size))
            self._batches.append(_Batch(groups, nodes, item[nodes]))

    @property
    def variance(self) -> float:
        """Return the mean of s over groups; all are equal unless a subclass learns them separately."""
        return float(self.deviations.mean())

    @variance.setter
    def variance(self, value: float) -> None:
        self.deviations = np.full(len(self.deviations), value)

    def solve(self, system: SiteSystem, start: Vector, tolerance: float) -> Vector:
        self._factorise(system)
        return self._means if self._definite else start

    def pair_variances(self, run: ItemsState) -> PairVariances:
        self._factorise(run.system)
        if not self._definite:
            return PairVariances(np.ones(self.n_items), 0.0, False)
        items, (low, high, _) = np.zeros(self.n_items), run.system.laplacian.pairs()
        pairs, batch = np.zeros(len(low)), self._batch[low]
        for number, (each, blocks) in enumerate(zip(self._batches, self._blocks, strict=True)):
            items[each.nodes] = np.einsum("gii->gi", blocks.covariance)
            at = batch == number
            row, one, two = self._row[low[at]], self._place[low[at]], self._place[high[at]]
            shared = blocks.covariance[row, one, two]
            pairs[at] = items[low[at]] + items[high[at]] - 2.0 * shared
        run.pair_sites.set_pair_variances(pairs)
        return PairVariances(items, self._log_determinant, bool((pairs > 0.0).all()))

    def learn(self, run: ItemsState) -> None:
        """Take a step of Fisher scoring in s, ignoring information shared by groups."""
        slope, information = float(self.slopes.sum()), float(self.information.sum())
        self.variance = scoring_step(slope, information, self.variance)

    def drift(self, run: ItemsState) -> float:
        """Return the scale of r: the same as without groups."""
        return self.scale

    def rescale(self, scale: float) -> None:
        """Rescale the variance s with the scores, so that it does not drift."""
        self.variance = self.variance / scale**2

    @property
    def scale(self) -> float:
        """Return the root mean square of the posterior of r."""
        total = float(self.item_means @ self.item_means) + float(np.trace(self.covariance))
        return float(np.sqrt(total / self.count))

    def block_covariances(self) -> Iterator[tuple[Indices, Vector]]:
        """Yield the nodes of every group and the covariance of their scores."""
        for batch, blocks in zip(self._batches, self._blocks, strict=True):
            yield from zip(batch.nodes, blocks.covariance, strict=True)

    def _explained(self, run: ItemsState) -> float:
        return self._explained_trace

    def _factorise(self, system: SiteSystem) -> None:
        """Compute everything that depends on the given sites and the present variances."""
        known = np.append(self.deviations, self.common).tobytes()
        if self._at[0] is system and self._at[1] == known:
            return
        self._at = (system, known)
        try:
            blocks = self._laplacians(system)
            inverses, log_blocks = self._inverses(blocks)
            self._reduce(system, blocks, inverses)
            root, log_items = inverse_root(self.precision.copy())
        except np.linalg.LinAlgError:
            self._definite = False
            return
        log_items += self.count * float(np.log(self.common))
        self._definite, self._log_determinant = True, log_blocks + log_items
        self.covariance = inverse_of_root(root)
        self.item_means = self.covariance @ self._rhs
        self._blocks, self._explained_trace, self._means = [], 0.0, np.zeros(self.n_items)
        self.slopes, self.information = np.zeros((2, len(self.deviations)))
        for batch, L, B in zip(self._batches, blocks, inverses, strict=True):
            s = self.deviations[batch.groups]
            at = self.item_means[batch.items] + s[:, None] * system.rhs[batch.nodes]
            means = np.einsum("gij,gj->gi", B, at)
            inner = self.covariance[batch.items[:, :, None], batch.items[:, None, :]]
            covariance = s[:, None, None] * B + B @ inner @ B
            self._means[batch.nodes] = means
            self._blocks.append(_Blocks(L, B, covariance))
            left = system.rhs[batch.nodes] - np.einsum("gij,gj->gi", L, means)
            unexplained = L - L @ covariance @ L
            trace = np.einsum("gii->g", unexplained)
            self.slopes[batch.groups] = 0.5 * ((left**2).sum(axis=1) - trace)
            self.information[batch.groups] = 0.5 * (unexplained**2).sum(axis=(1, 2))
            self._explained_trace += float(np.einsum("gij,gji->", L, covariance))

    def _laplacians(self, system: SiteSystem) -> list[Vector]:
        """Return the Laplacian L_g of every group."""
        low, high, weight = system.laplacian.pairs()
        batch, found = self._batch[low], []
        for number, each in enumerate(self._batches):
            groups, n = each.nodes.shape
            at = batch == number
            row, one, two = self._row[low[at]], self._place[low[at]], self._place[high[at]]
            sums = np.bincount((row * n + one) * n + two, weight[at], groups * n * n)
            half = sums.reshape(groups, n, n).astype(np.float64)
            W = half + half.transpose(0, 2, 1)
            L = np.eye(n) * W.sum(axis=2)[:, :, None] - W
            found.append(np.asarray(L, np.float64))
        return found

    def _inverses(self, blocks: list[Vector]) -> tuple[list[Vector], float]:
        """Return the matrices B of all groups, and Σ log|I + sL_g|; raise an error if one is not positive definite."""
        found, log_determinant = [], 0.0
        for batch, L in zip(self._batches, blocks, strict=True):
            s = self.deviations[batch.groups]
            matrix = np.eye(L.shape[1]) + s[:, None, None] * L
            factor = np.linalg.cholesky(matrix)
            log_determinant += 2.0 * float(np.log(np.einsum("gii->gi", factor)).sum())
            found.append(np.asarray(np.linalg.inv(matrix), np.float64))
        return found, log_determinant

    def _reduce(self, system: SiteSystem, blocks: list[Vector], inverses: list[Vector]) -> None:
        """Return the precision P of the common scores r, and their right-hand side."""
        k = self.count
        precision, self._rhs = np.zeros(k * k), np.zeros(k)
        for batch, L, B in zip(self._batches, blocks, inverses, strict=True):
            place = batch.items[:, :, None] * k + batch.items[:, None, :]
            precision += np.bincount(place.reshape(-1), (L @ B).reshape(-1), k * k)
            inner = np.einsum("gij,gj->gi", B, system.rhs[batch.nodes])
            self._rhs += np.bincount(batch.items.reshape(-1), inner.reshape(-1), k)
        matrix = precision.reshape(k, k)
        self.precision = 0.5 * (matrix + matrix.T) + np.eye(k) / self.common
