"""What a term of the model is, and the rule by which it is kept.

A term adds something to the model of a vote, or gives the prior of items or workers a structure, with a variance that
is learned. A run with the term is a trial. It starts from the run without the term and is kept only if its evidence is
clearly larger.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from crowdsift.numeric import MIN_LOG_BAYES_FACTOR
from crowdsift.solvers.ep.state import Propagation, Settings

# A trial is stopped if repeating its last rise this many times would not reach the evidence required.
_LOOK_AHEAD = 10.0
# Nats below the other run at which a simpler run is stopped.
_FAR_BEHIND = 5.0
_SAME = 0.995  # correlation of scores above which two runs count as one


class Exclusion(NamedTuple):
    """A term that cannot be combined with this one, and the reason in one sentence.

    If both are requested, `refused` says whether that is an error. Otherwise the term later in the list is not tried.
    """

    term: str
    reason: str
    refused: bool = False


class Term:
    """A term that is kept only for evidence.

    `name` is the name in tables, `subject` the noun phrase in messages. `option` is how a user requests the term; it is
    empty for terms that are tried on their own. `adds` and `variance` tell the documentation what it adds to the model,
    and how which variance is learned. `excludes` are the earlier terms with which it cannot be combined, and `patience`
    is the number of passes before a trial may be given up.
    """

    name: ClassVar[str]
    subject: ClassVar[str]
    option: ClassVar[str] = ""
    way_out: ClassVar[str] = ""  # alternative that a message may offer besides omitting the option
    adds: ClassVar[str]
    variance: ClassVar[str]
    excludes: ClassVar[tuple[Exclusion, ...]] = ()
    patience: ClassVar[int] = 6

    def given(self, settings: Settings) -> bool:
        """Return whether the user gave the data of the term; such terms precede those that are tried unasked."""
        return False

    def switched_off(self, settings: Settings) -> Settings:
        """Return the settings of a run that does not try the term."""
        return settings

    def applies(self, run: Propagation) -> bool:
        """Return whether the votes of a run contain information about the term."""
        raise NotImplementedError

    def begin(self, run: Propagation) -> Propagation | None:
        """Return the trial before its first pass; None if a cheap test finds nothing in favour."""
        raise NotImplementedError

    def hopeless(self, trial: Propagation) -> bool:
        """Return whether the learned variance has vanished."""
        return False

    def attempt(self, run: Propagation) -> Propagation:
        """Return the trial if it has clearly more evidence, otherwise the run."""
        trial = self.begin(run) if self.applies(run) else None
        if trial is None or not keep_if_evidence(trial, run.evidence[-1], self):
            return run
        return trial


def keep_if_evidence(trial: Propagation, evidence: float, term: Term) -> bool:
    """Run a trial to its end and return whether it has clearly more than this evidence."""
    # It is stopped if the variance of the term vanishes, or if the evidence still rises too slowly after some passes. A
    # trial that has not converged or that reverses gold is not kept.
    wanted = evidence + MIN_LOG_BAYES_FACTOR
    if not _advance(trial, wanted, term.patience, term.hopeless):
        return False
    trial.finish()
    return clearly_better(trial, evidence)


def clearly_better(trial: Propagation, evidence: float) -> bool:
    """Return whether a completed trial has clearly more than this evidence."""
    reversed_gold = bool(trial.engine.facts.n_gold) and trial.gold_margin < 0.0
    more = trial.evidence[-1] > evidence + MIN_LOG_BAYES_FACTOR
    return trial.settled and not reversed_gold and more


def simpler_unless_worse(run: Propagation, simpler: Propagation) -> Propagation:
    """Complete a simpler run and return it, unless it has clearly less evidence than the run."""
    if not _advance(simpler, run.evidence[-1] - _FAR_BEHIND, patience=1):
        return run
    simpler.complete()
    worse = run.evidence[-1] > simpler.evidence[-1] + MIN_LOG_BAYES_FACTOR
    return run if worse else simpler


def far_behind(run: Propagation, other: Propagation) -> bool:
    """Return whether a run has less evidence than another by more than it may still gain."""
    gain = max(run.evidence[-1] - run.evidence[-2], 0.0) if len(run.evidence) > 1 else 0.0
    return other.evidence[-1] - run.evidence[-1] > _FAR_BEHIND + _LOOK_AHEAD * gain


def alike(run: Propagation, other: Propagation) -> bool:
    """Return whether two runs have the same scores up to scale and sign."""
    sizes = float(np.linalg.norm(run.means) * np.linalg.norm(other.means))
    return sizes > 0.0 and abs(float(run.means @ other.means)) > _SAME * sizes


def _advance(
    trial: Propagation, wanted: float, patience: int, hopeless: Callable[[Propagation], bool] = lambda _: False
) -> bool:
    """Iterate until the trial is done; return False as soon as it will not reach the evidence."""
    begun = len(trial.evidence)
    while not trial.done:
        trial.iterate()
        passes = len(trial.evidence) - begun
        rise = trial.evidence[-1] - trial.evidence[-2] if len(trial.evidence) > 1 else np.inf
        behind = trial.evidence[-1] + _LOOK_AHEAD * max(rise, 0.0) < wanted
        if hopeless(trial) or (passes >= patience and behind):
            return False
    return True
