"""Terms of sift: the rule that keeps them, what excludes what, and the table of the page."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from docs import term_table

import crowdsift
from crowdsift import RequestError
from crowdsift.engines import choose_engine
from crowdsift.engines.fused import FusedSites
from crowdsift.engines.grid import GridSites, PairSites, RunSites
from crowdsift.solvers.ep.items import loopy_bp
from crowdsift.solvers.ep.state import Settings
from crowdsift.solvers.ep.terms import TERMS, compatible, exclusion, refuse_combinations
from crowdsift.solvers.ep.terms.base import Term, keep_if_evidence, simpler_unless_worse
from crowdsift.solvers.ep.terms.contexts import ContextSites
from crowdsift.solvers.ep.terms.covariates import CovariateSites
from crowdsift.solvers.ep.workers import worker_types


class Run:
    """A run whose evidence is a list, and which ends with it."""

    def __init__(self, future, begun=(), *, settled=True, gold_margin=1.0):
        self.evidence, self._future, self.passes = list(begun), list(future), 0
        self.settled, self.gold_margin = settled, gold_margin
        self.engine = SimpleNamespace(facts=SimpleNamespace(n_gold=1))

    @property
    def done(self):
        return not self._future

    def iterate(self):
        self.passes += 1
        self.evidence.append(self._future.pop(0))

    def finish(self):
        pass

    complete = finish


class Patient(Term):
    patience = 4


def kept(run, term=None):
    return keep_if_evidence(run, 0.0, Patient() if term is None else term)


def test_a_term_is_kept_for_more_than_three_nats_at_rest_and_upright():
    assert kept(Run([1.0, 2.0, 3.01]))
    assert not kept(Run([1.0, 2.0, 3.0]))
    assert not kept(Run([1.0, 9.0], settled=False))
    assert not kept(Run([1.0, 9.0], gold_margin=-0.1))


def test_a_trial_is_given_up_when_ten_times_its_last_rise_would_not_do():
    slow = Run([-50.0, -49.9, -49.8, -49.7, 9.0])
    assert not kept(slow)
    assert slow.passes == 4  # not before its patience ends
    fast = Run([-50.0, -40.0, -30.0, -20.0, 9.0])
    assert kept(fast)
    begun = Run([-50.0, -49.9, -49.8, -49.7, 9.0], begun=[-80.0, -70.0])
    assert not kept(begun)
    assert begun.passes == 4  # what the run had before does not count

    class Vanishing(Patient):
        def hopeless(self, trial):
            return trial.passes == 2

    gone = Run([5.0, 5.0, 5.0])
    assert not kept(gone, Vanishing())
    assert gone.passes == 2


def test_a_simpler_run_is_taken_unless_it_has_clearly_less_evidence():
    run = Run([], begun=[0.0])
    for end, taken in ((-2.9, True), (-3.1, False)):
        simpler = Run([end - 0.2, end])
        assert (simpler_unless_worse(run, simpler) is simpler) == taken
    hopeless = Run([-90.0, -89.9, 0.0])
    assert simpler_unless_worse(run, hopeless) is run
    assert hopeless.passes == 2


def test_exclusions_name_terms_that_come_before_and_give_a_reason():
    names = [term.name for term in TERMS]
    assert len(set(names)) == len(names)
    for place, term in enumerate(TERMS):
        for found in term.excludes:
            assert found.term in names[:place]
            assert found.reason.endswith(".")
            assert found.reason.count(". ") == 0


@pytest.mark.parametrize("pair", list(combinations([term.name for term in TERMS], 2)), ids=str)
def test_refusals_are_those_of_the_table(pair):
    found = exclusion(*pair)
    assert found == exclusion(*reversed(pair))
    if found is None or not found.refused:
        refuse_combinations(pair)
        return
    with pytest.raises(RequestError, match="not both at once yet") as caught:
        refuse_combinations(name for name in reversed(pair))
    for term in TERMS:
        assert (term.subject in str(caught.value)) == (term.name in pair)
        assert term.name not in pair or term.option in str(caught.value)


def test_terms_that_are_given_switch_off_those_that_they_exclude():
    plain = Settings(contexts=True, pair_effect=True)
    assert compatible(plain) == plain
    featured = compatible(replace(plain, item_features=(np.zeros((2, 1)),)))
    assert (featured.contexts, featured.pair_effect) == (False, False)


def test_the_table_of_the_page_is_made_from_the_classes():
    assert term_table.written() == term_table.table(), "run python -m docs.term_table"


class Fused:
    """Sites of an engine that offers belief propagation in one call."""

    def __init__(self, sites, found):
        self._sites, self._found, self.calls = sites, found, 0

    def __getattr__(self, name):
        return getattr(self._sites, name)

    def loopy_bp(self, tolerance, sweeps, *, fresh):
        self.calls += 1
        return self._found

    def quantiles(self, points, masses, levels, atom):
        return None

    def summary(self, prior, levels):
        return None

    def class_masses(self, prior, zone):
        return None

    def idle_threads(self):
        return 3


def test_sites_of_contexts_offer_what_the_sites_below_them_offer():
    votes = crowdsift.simulate(6, 4, 200, seed=1).comparisons()
    types = worker_types(ties=False, sides=False)
    sites = choose_engine("cpu", votes, 1).grid.sites(types, 2.0)
    system = sites.system(sites.pair_sums())
    worker = np.arange(votes.n_workers)
    answer = SimpleNamespace(definite=True)
    below = Fused(sites, answer)
    for inner, expected in ((sites, None), (below, answer)):
        apart = ContextSites(inner, worker, 0 * worker, votes.n_workers, types)
        assert isinstance(apart, GridSites)
        assert isinstance(apart, FusedSites)
        found, _ = loopy_bp(apart, system.laplacian, None)
        assert (found is answer) == (expected is answer)
        assert apart.idle_threads() == (1 if expected is None else 3)
    assert below.calls == 1


def test_sites_of_covariates_are_those_of_a_run_without_pairs():
    for protocol, offered in ((RunSites, True), (PairSites, False)):
        names = [name for name in vars(protocol) if not name.startswith("_")]
        methods = [name for name in names if callable(getattr(protocol, name))]
        assert all(hasattr(CovariateSites, name) == offered for name in methods)
