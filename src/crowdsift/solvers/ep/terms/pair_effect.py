"""Pair effect: votes on the same pair share an effect beyond the scores of its items."""

from dataclasses import replace

import numpy as np

from crowdsift.numeric import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.items import MAX_EFFECT, MIN_EFFECT
from crowdsift.solvers.ep.state import Propagation, Settings
from crowdsift.solvers.ep.terms.base import Exclusion, Term

_MIN_REPEATS = 0.1  # least share of votes that repeat a pair


class PairEffect(Term):
    """Add u ~ N(0, s) to the difference of every pair; s is learned beside the sites."""

    name = "pair effect"
    subject = "an effect of every pair"
    adds = "d + u for every compared pair, u ~ N(0, s)"
    variance = "s, by Fisher scoring, one step per pass"
    excludes = (
        Exclusion("features", "The prior by features has no place for an effect of pairs yet."),
        Exclusion("covariates", "The joint Gaussian with coefficients has no effect of pairs yet."),
    )
    patience = 2

    def switched_off(self, settings: Settings) -> Settings:
        return replace(settings, pair_effect=False)

    def applies(self, run: Propagation) -> bool:
        """Return whether enough votes repeat a pair, in a run that has settled."""
        votes = run.engine.facts.total_weight
        repeated = votes - run.sites.n_pairs > _MIN_REPEATS * votes
        return run.settings.pair_effect and run.settled and repeated

    def begin(self, run: Propagation) -> Propagation | None:
        """Return a branch of the run, with s from a scoring step from 0."""
        # The slope of the evidence in s usually falls with s. The gain is then less than the slope at 0 times the
        # largest s, and a trial that cannot gain enough is not begun.
        found = run.pair_sites.pair_posteriors(run.means)
        if found.slope * MAX_EFFECT <= MIN_LOG_BAYES_FACTOR:
            return None
        trial = run.branch()
        trial.pair_effect = float(np.clip(found.slope / found.information, MIN_EFFECT, 1.0))
        trial.restart()
        return trial

    def hopeless(self, trial: Propagation) -> bool:
        """Return whether s fell to its smallest value."""
        return trial.pair_effect <= MIN_EFFECT
