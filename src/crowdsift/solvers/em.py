"""Pólya-Gamma expectation maximisation by alternating closed forms."""

from dataclasses import dataclass

import numpy as np

from crowdsift.engines.base import EM, EStep
from crowdsift.engines.fused import FusedEStep
from crowdsift.numeric import Vector
from crowdsift.solvers.convergence import StoppingRule
from crowdsift.solvers.ep.items import arbitrary
from crowdsift.solvers.ep.workers import Anderson

# The linear solves are more accurate than the last outer step by this factor, within the bounds. A fixed relative
# tolerance would move the fixed point; this one vanishes with the step.
_SOLVE_FRACTION, _SOLVE_LOOSEST, _SOLVE_TIGHTEST = 1e-2, 1e-3, 1e-12

# Near the end the log-likelihood changes with the square of the scores' error: when it changes by 1e-9, scores may
# still be off by 1e-5. For finer tolerances than this the scores must converge, too.
_FINE = 1e-7

_ROUNDING = 1e-13  # relative to the sum of all weights: smaller sums of votes count as zero


@dataclass
class EMState:
    """The iterate: scores and slopes of workers, with the E-step at them."""

    scores: Vector
    slopes: Vector
    e_step: EStep
    solved: bool = True  # whether all linear solves reached their tolerance


def polya_gamma_em(
    em: EM,
    scores: Vector,
    slopes: Vector,
    *,
    total_weight: float,
    alternations: int,
    item_ridge: float,
    worker_ridge: float,
    rule: StoppingRule,
    depth: int = 5,
) -> tuple[EMState, list[float]]:
    """Maximise the likelihood of σ(slope·difference) by EM with unit root mean square scores."""
    # One iteration: the E-step replaces every logistic term by a Gaussian of precision E[ω]; the M-step alternates
    # ridge solves for scores and slopes; the scores are centred and scaled to RMS 1 and the slopes take up the scale.
    # The item ridge is `item_ridge` times the mean of E[ω]. The iteration is accelerated with that `depth`, which
    # leaves its fixed points where they are; 0 is the plain iteration. Stop when the mean log-likelihood moves by at
    # most the rule's tolerance; twice in a row if accelerated, since an accelerated step can be small by accident. With
    # a tolerance below 1e-7 every score must also be that near to the limit of the steps. Returns the last state and
    # the mean log-likelihood before the first and after every iteration. Scores of RMS below 1e-12 end the run at zero:
    # the votes hold no information. Where the start is symmetric, so that the slopes cancel votes that are balanced,
    # the run begins at scores without structure instead: rounding would decide whether it ever leaves zero.
    fine = rule.tolerance < _FINE
    state = EMState(scores, slopes, em.e_step(scores, slopes, resolution=rule.tolerance))
    largest = float(np.abs(slopes).max(initial=0.0)) * total_weight
    if largest > 0.0 and np.abs(state.e_step.system.rhs).max(initial=0.0) <= _ROUNDING * largest:
        state = _unsymmetric(em, state, worker_ridge, rule.tolerance)
    rule.iterate = lambda: {"scores": state.scores, "workers": state.slopes}
    trace = [state.e_step.log_likelihood / total_weight]
    acceleration, step, moved = Anderson(depth), 1.0, 0.0
    while True:
        shift = item_ridge * max(state.e_step.precision / total_weight, 1e-12)
        tolerance = min(max(_SOLVE_FRACTION * step, _SOLVE_TIGHTEST), _SOLVE_LOOSEST)
        point = np.concatenate([state.scores, state.slopes])
        scores, slopes, solved = alternate(state, alternations, shift=shift, ridge=worker_ridge, tolerance=tolerance)
        size = _root_mean_square(scores)
        if size < 1e-12:
            zero = np.zeros_like(scores), np.zeros_like(slopes)
            state = EMState(*zero, em.e_step(*zero))
            rule.stop(0.0)
            return state, [*trace, state.e_step.log_likelihood / total_weight]
        scores, slopes = scores / size, slopes * size
        last, step = step, _root_mean_square(scores - state.scores)
        if depth:
            scores, slopes = _accelerate(acceleration, point, scores, slopes)
        away = float(np.abs(scores - state.scores).max())
        if not depth:  # steps form a geometric series; an accelerated run reaches its limit by itself
            away /= 1.0 - min(step / last if last > 0.0 else 0.0, 0.999)
        del state  # its E-step holds arrays over votes, which the next one reuses
        state = EMState(scores, slopes, em.e_step(scores, slopes, resolution=rule.tolerance), solved)
        trace.append(state.e_step.log_likelihood / total_weight)
        before, moved = moved, abs(trace[-1] - trace[-2])
        measure = max(moved, before) if depth else moved
        if rule.stop(max(measure, away) if fine else measure):
            return state, trace


def _unsymmetric(em: EM, state: EMState, ridge: float, resolution: float) -> EMState:
    """Return a state at arbitrary scores without symmetry, with the best slopes for them."""
    scores = arbitrary(len(state.scores))
    scores = scores - scores.mean()
    scores = scores / max(_root_mean_square(scores), 1e-12)
    slopes = em.e_step(scores, state.slopes).regress(scores, ridge)[0]
    return EMState(scores, slopes, em.e_step(scores, slopes, resolution=resolution))


def _accelerate(acceleration: Anderson, point: Vector, scores: Vector, slopes: Vector) -> tuple[Vector, Vector]:
    """Return the next point, with its scores centred and scaled to unit size."""
    proposed = acceleration.propose(point, np.concatenate([scores, slopes]))
    ahead = proposed[: len(scores)] - proposed[: len(scores)].mean()
    size = _root_mean_square(ahead)
    if size <= 1e-12:
        return scores, slopes
    return ahead / size, proposed[len(scores) :] * size


def _root_mean_square(x: Vector) -> float:
    return float(np.sqrt(np.mean(x**2)))


def alternate(
    state: EMState, alternations: int, *, shift: float, ridge: float, tolerance: float
) -> tuple[Vector, Vector, bool]:
    """Return the M-step: alternate scores given slopes and slopes given scores."""
    # Each half maximises the expected complete log-likelihood Q = Σ n[(y - ½)η - ½E[ω]η²] - ½·shift·‖scores‖² -
    # ½·ridge·‖slopes‖² exactly.
    if isinstance(state.e_step, FusedEStep):
        found = state.e_step.alternate(state.scores, alternations, shift, ridge, tolerance)
        if found is not None:
            return found
    scores, given, solved = state.scores, (state.slopes, state.e_step.system), True
    for _ in range(alternations):
        system = given[1]
        solution = system.laplacian.solve(system.rhs, scores, shift=shift, tolerance=tolerance)
        solved = solved and solution.converged
        scores = solution.x - solution.x.mean()
        del given, system  # arrays over pairs, which the next step reuses
        given = state.e_step.regress(scores, ridge)
    return scores, given[0], solved
