"""What sift asks of an engine, pass by pass: see `engine_scenarios`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from grid_cases import SHAPES, SIDE
from marginals import check_marginals
from scenario_results import DOUBLE, EXACT, GRIDS, SINGLE, SITES, Named, Results, dense, operator, point

from crowdsift.engines.base import Engine
from crowdsift.engines.fused import FusedSites, SummedSites
from crowdsift.engines.grid import RELIABILITY_ONLY, SitePass, WorkerPoints, WorkerPriors
from crowdsift.solvers.ep.items import loopy_bp
from crowdsift.solvers.ep.summaries import quantiles
from crowdsift.solvers.ep.workers import WorkerPrior, power_grid


class Ground(NamedTuple):
    """A grid of types, a prior over it, and means of the items at two times."""

    levels: Any
    prior: Any
    means: Any
    types: Any


def _ground(engine: Engine, seed: int) -> Ground:
    rng = np.random.default_rng(seed)
    types = SHAPES[seed % len(SHAPES)]
    levels = power_grid(int(rng.choice([5, 11, 17, 41, 49, 51])))  # lanes full and not
    prior = rng.dirichlet(np.full(types.n_types(levels), 0.5)) + 1e-6
    return Ground(levels, prior / prior.sum(), rng.uniform(-2, 2, (2, engine.facts.n_items)), types)


def _own_priors(engine: Engine, ground: Ground, seed: int) -> WorkerPriors:
    rng = np.random.default_rng(seed)
    crowd = engine.facts.n_workers - engine.facts.n_gold
    masses = rng.dirichlet(np.full(len(ground.prior), 0.5), crowd) + 1e-6
    return WorkerPriors(masses, rng.normal(size=crowd), rng.uniform(0.1, 1.0, crowd))


def _started(engine: Engine, ground: Ground, clip: bool = True) -> Any:
    """Sites after one full update."""
    sites = engine.grid.sites(ground.types, 1.5)
    sites.update(SitePass(ground.levels, ground.prior, ground.means[0], damping=1.0, clip=clip, side=SIDE))
    return sites


def _exact_variances(engine: Engine, sites: Any, effect: float = 0.0) -> tuple[Any, Any, float]:
    """The system with variances from a factorisation set; those of items, log-determinant."""
    system = sites.system(sites.pair_sums(), effect)
    low, high, weight = system.laplacian.pairs()
    made = engine.grid.factoriser(low, high, engine.facts.n_items, 1e12)
    items, pairs, log_determinant, definite = made(weight)
    assert definite
    sites.set_pair_variances(pairs)
    return system, items, log_determinant


def by_pair(n: int, found: Any) -> Any:
    """Posteriors of pairs by the codes of their items, the lower first, whatever their order."""
    table = np.full((2, n, n), np.nan)
    back = found.first > found.second
    low, high = np.where(back, found.second, found.first), np.where(back, found.first, found.second)
    mean = np.where(back, -found.mean, found.mean)
    table[:, low, high] = mean, found.variance
    # what several shards have they have alike
    np.testing.assert_allclose(table[0][low, high], mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(table[1][low, high], found.variance, rtol=1e-5, atol=1e-5)
    return table


def by_vote(sites: Any) -> Results:
    """Sites of votes in the order of worker, winner, loser and kind."""
    found = sites.vote_sites()
    worker = np.repeat(np.arange(len(found.held)), found.held)
    order = np.lexsort((found.kind, found.loser, found.winner, worker))
    yield Named("sites.held", found.held, EXACT)
    for field in ("winner", "loser", "kind"):
        yield Named(f"sites.{field}", getattr(found, field)[order], EXACT)
    for field in ("tau", "nu", "side_tau", "side_nu"):
        yield Named(f"sites.{field}", getattr(found, field)[order], SITES)
    for field in ("low", "high"):
        yield Named(f"sites.{field}", getattr(found, field), GRIDS)


def _summary(engine: Engine, sites: Any, ground: Ground, own: Any = None) -> Results:
    """Everything that can be asked of sites after a pass."""
    n = engine.facts.n_items
    everyone = slice(engine.facts.n_workers)
    yield Named("type_counts", sites.type_counts(ground.prior[::-1].copy()), SITES)
    result = sites.posteriors(ground.prior, everyone, own)
    yield Named("points", result.points, GRIDS)
    yield Named("masses", result.masses, SITES)
    if isinstance(sites, SummedSites):
        check_marginals(sites, ground.prior, result, own)
    if isinstance(sites, FusedSites):
        levels, atom = np.array([0.05, 0.5, 0.95]), np.full(len(result.points), 0.1)
        masses = result.masses[:, : result.points.shape[1]]
        limits = sites.quantiles(result.points, masses, levels, atom)
        wanted = quantiles(result.points, masses, levels, atom)
        np.testing.assert_allclose(limits, wanted, rtol=1e-9, atol=1e-9)
        assert sites.idle_threads() >= 1
        whole, classes = sites.summary(ground.prior, levels), sites.class_masses(ground.prior, 0.5)
        if whole is not None and classes is not None and own is None:
            wanted = quantiles(result.points, result.masses, levels, np.zeros(len(result.points)))
            np.testing.assert_allclose(whole.quantiles, wanted, rtol=1e-9, atol=1e-9)
            mean = (result.points * result.masses).sum(axis=1)
            np.testing.assert_allclose(whole.mean, mean, rtol=1e-9, atol=1e-12)
            away = ((result.points - mean[:, None]) ** 2 * result.masses).sum(axis=1)
            np.testing.assert_allclose(whole.sd**2, away, rtol=1e-6, atol=1e-9)
            up, down = ((result.masses * (s * result.points > 0.5)).sum(axis=1) for s in (1, -1))
            np.testing.assert_allclose(classes, np.stack([down, 1.0 - up - down, up], axis=1), rtol=1e-9, atol=1e-9)
    some = slice(engine.facts.n_workers // 2, engine.facts.n_workers)
    assert np.array_equal(sites.posteriors(ground.prior, some, own).masses, result.masses[some])
    system = sites.system(sites.pair_sums())
    yield Named("rhs", system.rhs, SITES)
    yield from operator("laplacian", system.laplacian, n, definite=False, slack=SITES)
    pairs = sites.pair_posteriors(ground.means[1])
    yield Named("pairs", by_pair(n, pairs), SITES)
    yield Named("slope", np.array([pairs.slope, pairs.information]), SITES)
    yield from by_vote(sites)


def _weighed(engine: Engine, name: str, update: Any) -> Results:
    """An update; every vote adds its error to sums over votes."""
    votes = 1.0 + engine.facts.total_weight
    for field in ("log_messages", "log_sites", "gold_margin"):
        yield Named(f"{name}.{field}", getattr(update, field) / votes, SITES)
    for field in ("counts", "regular", "side_tau", "side_nu"):
        yield Named(f"{name}.{field}", getattr(update, field), SITES)


def site_updates(engine: Engine, seed: int) -> Results:
    """Two updates with exact variances between them, then all that sites can be asked."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    sites = engine.grid.sites(types, 1.5)
    for field in ("n_votes", "n_pairs"):
        yield Named(field, getattr(sites, field), EXACT)
    assert sites.pairs_held >= sites.n_pairs
    first = sites.update(SitePass(levels, prior, means[0], damping=1.0, clip=True, side=SIDE))
    yield from _weighed(engine, "first", first)
    system, items, log_determinant = _exact_variances(engine, sites)
    yield Named("system.rhs", system.rhs, SITES)
    yield from operator("system", system.laplacian, engine.facts.n_items, slack=SITES)
    yield Named("items", items, SITES)
    yield Named("log_determinant", log_determinant, SITES)
    clip = bool(seed % 2)
    second = sites.update(SitePass(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE))
    yield from _weighed(engine, "second", second)
    yield from _summary(engine, sites, ground)


def pair_effects(engine: Engine, seed: int) -> Results:
    """An effect of every pair, on a copy: what it adds, and that the sites stay as they are."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    n, votes = engine.facts.n_items, 1.0 + engine.facts.total_weight
    effect = [0.01, 0.3, 4.0][seed % 3]
    sites = _started(engine, ground)
    before = sites.system(sites.pair_sums())
    twin = sites.copy()
    system, items, log_determinant = _exact_variances(engine, twin, effect)
    yield Named("rhs", system.rhs, SITES)
    yield Named("log_pairs", system.log_pairs / votes, SITES)
    yield from operator("effect", system.laplacian, n, slack=SITES)
    yield Named("items", items, SITES)
    yield Named("log_determinant", log_determinant, SITES)
    found = twin.pair_posteriors(means[1])
    yield Named("pairs", by_pair(n, found), SITES)
    yield Named("slope", found.slope / votes**2, SITES)
    update = twin.update(SitePass(levels, prior, means[1], damping=0.5, clip=bool(seed % 2), side=SIDE))
    yield from _weighed(engine, "update", update)
    twin.transform(scale=1.25)
    rescaled = twin.system(twin.pair_sums(), effect / 1.25**2)
    yield Named("rescaled.rhs", rescaled.rhs, SITES)
    yield from operator("rescaled", rescaled.laplacian, n, definite=False, slack=SITES)
    after = sites.system(sites.pair_sums())
    np.testing.assert_array_equal(after.rhs, before.rhs)
    assert after.log_pairs == before.log_pairs == 0.0
    yield from _summary(engine, sites, ground)


def transforms(engine: Engine, seed: int) -> Results:
    """Sites in other units, of the other sign, without negative precisions, with their grids."""
    ground = _ground(engine, seed)
    n = engine.facts.n_items
    sites = _started(engine, ground, clip=False)
    _with_adaptive_grids(engine, sites, ground)
    for step in ({"scale": 1.25}, {"flip": True}, {"clip": True}, {"scale": 0.5, "grids": True}):
        sites.transform(**step)
        (name,) = list(step)[:1]
        system = sites.system(sites.pair_sums())
        yield Named(f"{name}.rhs", system.rhs, SITES)
        yield from operator(name, system.laplacian, n, definite=False, slack=SITES)
        yield Named(f"{name}.pairs", by_pair(n, sites.pair_posteriors(ground.means[1])), SITES)
        yield from by_vote(sites)
    assert (system.laplacian.diagonal() >= 0.0).all()


def _with_adaptive_grids(engine: Engine, sites: Any, ground: Ground) -> None:
    """The first worker has a grid of its own, unless it is gold."""
    m, crowd = engine.facts.n_workers, engine.facts.n_workers - engine.facts.n_gold
    own = np.arange(m) < min(1, crowd)
    low, high = (np.where(own, end, np.nan) for end in (0.5, 1.5))
    sites.set_vote_sites(sites.vote_sites()._replace(low=low, high=high), len(ground.levels))


def worker_priors(engine: Engine, seed: int) -> Results:
    """Priors of workers' own, with an adaptive grid; rows of the common prior are that prior."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    own = _own_priors(engine, ground, seed)
    sites = engine.grid.sites(types, 1.5)
    first = sites.update(SitePass(levels, prior, means[0], damping=1.0, clip=True, side=SIDE, own=own))
    yield from _weighed(engine, "first", first)
    _with_adaptive_grids(engine, sites, ground)
    clip = bool(seed % 2)
    second = sites.update(SitePass(levels, prior, means[1], damping=0.5, clip=clip, side=SIDE, own=own))
    yield from _weighed(engine, "second", second)
    yield from _summary(engine, sites, ground, own)
    crowd = len(own.masses)
    common = WorkerPriors(np.tile(prior, (crowd, 1)), np.full(crowd, SIDE.mean), np.full(crowd, SIDE.variance))
    third, again = (
        sites.update(SitePass(levels, prior, means[0], damping=0.0, clip=clip, side=SIDE, own=each))
        for each in (None, common)
    )
    for one, other in zip(third, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=SITES.relative, atol=SITES.absolute)
    yield Named("third", third.log_messages / (1.0 + engine.facts.total_weight), SITES)


def some_workers(engine: Engine, seed: int) -> Results:
    """An update of the sites of some workers alone."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    sites = _started(engine, ground, clip=False)
    chosen = np.random.default_rng(seed).random(engine.facts.n_workers) < 0.5
    before = sites.vote_sites()
    update = sites.update(SitePass(levels, prior, means[1], damping=1.0, clip=False, side=SIDE, workers=chosen))
    yield from _weighed(engine, "update", update)
    after = sites.vote_sites()
    still = ~chosen[np.repeat(np.arange(len(chosen)), after.held)]
    for field in ("tau", "nu", "side_tau", "side_nu"):
        np.testing.assert_array_equal(getattr(after, field)[still], getattr(before, field)[still])
    system = sites.system(sites.pair_sums())
    yield Named("rhs", system.rhs, SITES)
    yield from by_vote(sites)


def vote_sites(engine: Engine, seed: int) -> Results:
    """Sites and adaptive grids taken over by new sites go on alike."""
    ground = _ground(engine, seed)
    levels, prior, means, types = ground
    sites = _started(engine, ground)
    _with_adaptive_grids(engine, sites, ground)
    twin = engine.grid.sites(types, 1.5)
    twin.set_vote_sites(sites.vote_sites(), len(levels))
    for one, two in zip(sites.vote_sites(), twin.vote_sites(), strict=True):
        np.testing.assert_array_equal(one, two)
    twin.system(twin.pair_sums())
    update = twin.update(SitePass(levels, prior, means[1], damping=0.5, clip=True, side=SIDE))
    yield from _weighed(engine, "update", update)
    yield from _summary(engine, twin, ground)


def suspended(engine: Engine, seed: int) -> Results:
    """Sites that were suspended go on where they were, when their variances are found anew."""
    ground = _ground(engine, seed)
    levels, prior, means, _ = ground
    kept, sites = (_started(engine, ground) for _ in range(2))
    sites.suspend()
    _started(engine, ground)  # another run meanwhile
    updates = []
    for each in (kept, sites):
        _exact_variances(engine, each)
        updates.append(each.update(SitePass(levels, prior, means[1], damping=0.5, clip=True, side=SIDE)))
    for one, two in zip(*updates, strict=True):
        np.testing.assert_array_equal(one, two)
    yield from _weighed(engine, "update", updates[1])
    yield from _summary(engine, sites, ground)


def belief_propagation(engine: Engine, seed: int) -> Results:
    """Sweeps one by one, then to the end from no messages and from earlier ones."""
    ground = _ground(engine, seed)
    n = engine.facts.n_items
    sites = _started(engine, ground)
    laplacian = sites.system(sites.pair_sums()).laplacian
    D, messages = 1.0 + laplacian.diagonal(), np.zeros(n)
    for sweep in range(3):
        found = sites.propagate(D - messages, np.zeros(n), fresh=sweep == 0)
        messages = found.sums
        yield Named(f"sweep {sweep}", messages, SITES)
        yield Named("improper", found.improper, EXACT)
    variances, sums = loopy_bp(sites, laplacian, None)
    # 30 sweeps need not be enough on a small dense graph: what they reach is the same
    for field in ("items", "log_determinant", "definite"):
        yield Named(f"loopy.{field}", getattr(variances, field), SITES)
    if variances.definite:
        yield Named("loopy.pairs", by_pair(n, sites.pair_posteriors(ground.means[0])), SITES)
        again, _ = loopy_bp(sites, laplacian, sums)
        yield Named("again.items", again.items, SITES)
        if not len(sums):  # messages stayed where the votes are
            sums = sites.propagate(D, np.zeros(n), fresh=True).sums
        last = sites.propagate(D - sums, np.zeros(n), last=True)
        yield Named("degrees", last.degrees, EXACT)


def correlations(engine: Engine, seed: int) -> Results:
    found = engine.grid.correlations()
    x = np.random.default_rng(seed).normal(size=engine.facts.n_items)
    yield Named("multiply", found.multiply(x), SINGLE)
    yield Named("diagonal", found.diagonal(), SINGLE)


def predictions(engine: Engine, seed: int) -> Results:
    """The likelihood of votes given points of workers."""
    rng = np.random.default_rng(seed)
    types = SHAPES[seed % len(SHAPES)]
    m, n = engine.facts.n_workers, engine.facts.n_items
    points = WorkerPoints(
        rng.normal(size=(m, 7)),
        rng.choice(types.widths, (m, 7)),
        rng.normal(size=(m, 7)) * types.sides,
        rng.uniform(0, 1, (m, 7)) * types.sides,
    )
    scores = rng.uniform(-3, 3, n)
    sites = engine.grid.sites(types, 2.0)
    first, second = sites.pair_posteriors(np.zeros(n))[:2]
    variances = 0.1 + 0.2 * ((first + second) % 5)
    found = sites.pair_likelihood(scores[first] - scores[second], variances, points)
    yield Named("pair_likelihood", found, SINGLE)


def factorisations(engine: Engine, seed: int) -> Results:
    """Exact variances with weights of both signs, and of a matrix that is not definite."""
    n = engine.facts.n_items
    rng = np.random.default_rng(seed)
    compared = dense(n, engine.slopes.curvature(*point(engine, seed)).laplacian.pairs()) > 0.0
    low, high = (ends.astype(np.uint32) for ends in np.nonzero(compared))
    low, high = np.append(low, low[:1]), np.append(high, high[:1])  # one of them twice
    made = engine.grid.factoriser(low, high, n, 1e12)
    share = rng.uniform(-0.3, 2.0, len(low)) / (1.0 + np.max(np.bincount(np.append(low, high))))
    for name, weight in (("definite", share), ("indefinite", -1000.0 * np.abs(share))):
        items, pairs, log_determinant, definite = made(weight)
        yield Named(f"{name}.definite", definite, EXACT)
        if definite:
            yield Named(f"{name}.items", items, DOUBLE)
            yield Named(f"{name}.pairs", pairs, DOUBLE)
            yield Named(f"{name}.log_determinant", log_determinant, DOUBLE)


def adaptive_grids(engine: Engine, seed: int) -> Results:
    """Few workers with many votes, whose likelihoods are narrower than a cell of the grid."""
    levels = power_grid(25)
    prior = WorkerPrior.start(levels, 1.0, 0.5).masses
    means = np.linspace(-1, 1, engine.facts.n_items)
    sites = engine.grid.sites(RELIABILITY_ONLY, 2.0)
    for step in range(3):
        update = sites.update(SitePass(levels, prior, means, damping=0.5, clip=True, side=SIDE))
        yield Named(f"moved {step}", sites.refine(), EXACT)
    result = sites.posteriors(prior, slice(engine.facts.n_workers))
    yield Named("counts", update.counts, GRIDS)
    yield Named("log_messages", update.log_messages, GRIDS)
    yield Named("points", result.points, GRIDS)
    yield Named("masses", result.masses, GRIDS)
    yield Named("type_counts", sites.type_counts(prior), GRIDS)
    spread = np.ptp(result.points[:, len(levels) + 1 :], axis=1)
    assert (spread < 2.0).all()  # every worker has a grid of its own
    np.testing.assert_allclose(update.counts.sum(), engine.facts.n_workers, rtol=1e-5)
