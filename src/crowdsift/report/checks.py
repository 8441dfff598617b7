"""Can you trust this? Every check is stated, whichever way it went."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdsift.report.top_checks import top_checks
from crowdsift.report.verdict import Check, State
from crowdsift.results.words import chance, count, label, many, percent, shortened

if TYPE_CHECKING:
    from crowdsift.report.facts import Facts

__all__ = ["run_checks"]

# The limits of the checks; docs/report.md explains them.
FEW_ITEM_VOTES = 10  # an item with fewer has a score that is mostly guess
FEW_WORKER_VOTES = 10  # a worker with fewer is judged by others more than by itself
SIGN = 0.75  # probability of the sign: in danger below
FLAGGED_SHARE = (0.15, 0.4)
ONE_WORKER = (0.15, 0.35)
SIDE = (0.03, 0.1)  # share of decided votes that went left beyond what the scores explain
ALWAYS_ONE_SIDE, DECIDED = 0.9, 20
QUICK = 1 / 3  # of the usual time of an answer
CALIBRATION = (0.02, 0.05)
COIN = 0.693147


def run_checks(facts: Facts) -> list[Check]:
    """All checks, in the order in which a reader needs them."""
    return [
        *top_checks(facts),
        *_repeated_rows(facts),
        _item_votes(facts),
        _worker_votes(facts),
        _connected(facts),
        _sign(facts),
        _converged(facts),
        _flagged(facts),
        _one_worker(facts),
        *_work_times(facts),
        _sides(facts),
        _calibration(facts),
    ]


def _graded(value: float, limits: tuple[float, float]) -> State:
    """Good up to the first limit, bad above the second."""
    return "good" if value <= limits[0] else "care" if value <= limits[1] else "bad"


def _repeated_rows(facts: Facts) -> list[Check]:
    """Say whether rows were counted twice; nothing where the votes were not read from rows."""
    intake = facts.fit.summary.get("intake")
    if not intake:
        return []
    title, repeated = "Votes counted once", int(intake.get("repeated", 0))
    if not repeated:
        return [Check("repeats", title, "good", "No more rows equal each other than by chance.")]
    return [
        Check("repeats", title, "bad" if 10 * repeated > intake["used"] else "care",
              f"{many(repeated, 'row')} of {count(intake['used'])} equal earlier rows, more than "
              "chance explains: they may have been uploaded twice.",
              "Remove them, or keep the first of equal rows with --unique COLUMNS.")
    ]  # fmt: skip


def _item_votes(facts: Facts) -> Check:
    votes = facts.fit.item_table["comparisons"].astype(float)
    few = int((votes < FEW_ITEM_VOTES).sum())
    middle = float(np.median(votes))
    finding = f"Half of the items have {many(middle, 'vote')} or more; "
    finding += (
        f"every item has at least {FEW_ITEM_VOTES}."
        if not few
        else f"{count(few)} of {count(len(votes))} have fewer than {FEW_ITEM_VOTES}."
    )
    state: State = "good" if few <= 0.1 * len(votes) else "care"
    if middle < FEW_ITEM_VOTES / 2:
        state = "bad"
    advice = "Ask for more votes about the items with wide intervals." if state != "good" else ""
    return Check("item-votes", "Votes per item", state, finding, advice)


def _worker_votes(facts: Facts) -> Check:
    title, votes = "Votes per worker", facts.population.votes
    if not len(votes):
        return Check("worker-votes", title, "none", "The votes do not say who gave them.",
                     "Record a worker for every vote: then bad voters can be found.")  # fmt: skip
    thin = votes < FEW_WORKER_VOTES
    share = float(votes[thin].sum() / votes.sum())
    finding = f"Half of the workers gave {many(float(np.median(votes)), 'vote')} or more; "
    finding += (
        f"all gave at least {FEW_WORKER_VOTES}."
        if not thin.any()
        else f"{count(int(thin.sum()))} of {count(len(votes))} gave fewer than "
        f"{FEW_WORKER_VOTES}, together {percent(share)} of the votes."
    )
    state = _graded(share, (0.2, 0.6))
    advice = "Let each worker judge more pairs: a few votes imply little about who gave them."
    return Check("worker-votes", title, state, finding, advice if state != "good" else "")


def _connected(facts: Facts) -> Check:
    number = int(facts.fit.summary.get("components", 1))
    title = "One connected scale"
    if number == 1:
        return Check("connected", title, "good",
                     "A chain of comparisons links every item with every other.")  # fmt: skip
    by = ", ".join(map(label, facts.fit.context_columns))
    if by and number == len({value for value, _ in facts.fit.labels}):
        return Check("connected", title, "good",
                     f"One scale for each {by}, {count(number)} in all, as asked for; each "
                     "is connected.")  # fmt: skip
    sizes = np.sort(np.unique(facts.fit.item_table["component"], return_counts=True)[1])[::-1]
    shown = ", ".join(count(size) for size in sizes[:4]) + (", …" if number > 4 else "")
    return Check(
        "connected",
        title,
        "care",
        f"The items fall into {count(number)} groups ({shown} items) without a comparison "
        "between them. Ranks hold within a group only.",
        "If the groups should be on one scale, ask for votes on pairs across them.",
    )


def _sign(facts: Facts) -> Check:
    s, title = facts.fit.summary, "Which end is up"
    stated, agree = s.get("sign_probability"), s.get("gold_agree")
    if agree is not None:
        return _sign_by_gold(int(agree), int(s.get("gold_disagree") or 0), title)
    if s.get("gold_pairs"):
        return Check("sign", title, "none", "Pairs with a known answer settle it; how many agree "
                     "with the ranking was not checked.")  # fmt: skip
    if stated is None:
        return Check("sign", title, "none",
                     f"{facts.fit.method} takes the majority's word for which end is the "
                     "better one.")  # fmt: skip
    state: State = "bad" if stated < SIGN else "care" if s.get("sign_unsettled") else "good"
    result = {
        "good": "most informative workers vote with it",
        "care": "only somewhat more informative workers vote with it than against it",
        "bad": "about as many informative workers vote against it as with it",
    }[state]
    needed = s.get("gold_needed")
    advice = "The order itself is too uncertain for known answers to settle it: more votes first."
    if needed:
        advice = f"{many(int(needed), 'pair')} with a known answer would settle it: --gold FILE."
    return Check("sign", title, state,
                 f"The ranking is the right way up with {chance(stated)}: {result}.",
                 advice if state != "good" else "")  # fmt: skip


def _sign_by_gold(agree: int, disagree: int, title: str) -> Check:
    """The sign where pairs with a known answer were given."""
    result = f"{count(agree)} of {many(agree + disagree, 'pair')} with a known answer agree"
    result += " with the ranking made without them."
    if agree > disagree:
        return Check("sign", title, "good", result)
    return Check("sign", title, "bad", f"Only {result}",
                 "The votes contradict the known answers: look at both.")  # fmt: skip


def _converged(facts: Facts) -> Check:
    s = facts.fit.summary
    how = f"{many(int(s['iterations']), 'iteration')}"
    if facts.fit.converged:
        return Check("converged", "Convergence", "good",
                     f"The calculation settled after {how}.")  # fmt: skip
    return Check("converged", "Convergence", "bad",
                 f"The calculation had not settled after {how}.",
                 "Allow more iterations: --set most_iterations=2000.")  # fmt: skip


def _flagged(facts: Facts) -> Check:
    population, title = facts.population, "Flagged workers"
    if not population.judged:
        advice = "Use the method sift to find bad voters." if len(population.votes) else ""
        return Check("flagged", title, "none", f"{facts.fit.method} judges no workers.", advice)
    number = int(population.flagged.sum())
    if not number:
        return Check("flagged", title, "good", "No worker is flagged as random, one-sided or "
                     "adversarial.")  # fmt: skip
    state = _graded(population.flagged_share, FLAGGED_SHARE)
    kinds = ", ".join(
        f"{count(int((population.verdict == word).sum()))} {word}"
        for word in ("random", "one-sided", "adversarial")
        if (population.verdict == word).any()
    )
    finding = (
        f"{count(number)} of {count(len(population.votes))} workers are flagged ({kinds}); they "
        f"gave {percent(population.flagged_share)} of the votes."
    )
    advice = "Their votes are discounted in the scores; look at the workers before you pay or ask."
    return Check("flagged", title, state, finding, advice)


def _one_worker(facts: Facts) -> Check:
    population, title = facts.population, "One worker's weight"
    if not len(population.votes):
        return Check("one-worker", title, "none", "The votes do not say who gave them.")
    who = int(np.argmax(population.influence))
    most = float(population.votes.max() / population.votes.sum())
    influence = float(population.influence[who])
    name = shortened(label(facts.fit.worker_table["worker"][who]), 40)
    finding = (
        f"The busiest worker gave {percent(most)} of the votes; the most influential "
        f"(“{name}”) has {percent(influence)} of the influence on the scores."
    )
    state = _graded(max(most, influence), ONE_WORKER)
    advice = "One worker carries much of the ranking: let others judge the same pairs."
    return Check("one-worker", title, state, finding, advice if state != "good" else "")


def _work_times(facts: Facts) -> list[Check]:
    """Who answers in a fraction of the usual time; shown, and no evidence of the fit."""
    table = facts.fit.worker_table
    if "median_seconds" not in table:
        return []
    seconds = table["median_seconds"].astype(float)
    known = np.isfinite(seconds)
    if not known.any():
        return []
    usual = float(np.median(seconds[known]))
    quick = known & (seconds < QUICK * usual)
    flagged = quick & facts.population.flagged if facts.population.judged else np.zeros_like(quick)
    finding = f"Half of the workers take {usual:.3g} seconds or more for an answer; "
    finding += (
        "nobody takes less than a third of that."
        if not quick.any()
        else f"{count(int(quick.sum()))} of {count(int(known.sum()))} take less than a third of "
        f"that, {count(int(flagged.sum()))} of them flagged by their votes."
    )
    others = int((quick & ~flagged).sum())
    advice = "Look at the quick workers whose votes are not flagged." if others else ""
    finding += " Times are shown only; verdicts come from the votes."
    return [Check("times", "Work times", "care" if others else "good", finding, advice)]


def _sides(facts: Facts) -> Check:
    title = "Side bias"
    if facts.side_excess is None:
        return Check("sides", title, "none", "The votes do not say which item stood on which "
                     "side." if facts.votes is not None else "Needs the votes.",
                     "Record left and right, and show items on a random side.")  # fmt: skip
    excess, error, share = facts.side_excess
    side = "left" if excess > 0 else "right"
    clear = abs(excess) > 2.0 * error
    population = facts.population
    always = (population.decided >= DECIDED) & (
        np.abs(np.nan_to_num(population.left_share, nan=0.5) - 0.5) >= ALWAYS_ONE_SIDE - 0.5
    )
    one_sided = float(population.decided[always].sum() / max(population.decided.sum(), 1.0))
    state = _graded(max(abs(excess) if clear else 0.0, one_sided / 2.0), SIDE)
    modelled = bool(np.isfinite(facts.fit.worker_table["side_bias"].astype(float)).any())
    if modelled and state == "bad":
        state = "care"
    explained = (
        f"that is {100 * abs(excess):.1f} points more for the {side} than the scores explain"
        if clear
        else "no more for one side than the scores explain"
    )
    finding = f"{percent(share)} of the decided votes went to the left item; {explained}. "
    finding += (
        f"{many(int(always.sum()), 'worker')} nearly always chose one side."
        if always.any()
        else "No worker nearly always chose one side."
    )
    if modelled:
        finding += " The fit estimates a side bias of every worker and corrects the scores for it."
    advice = "Show every pair in both orders, and look at the one-sided workers."
    return Check("sides", title, state, finding, advice if state != "good" else "")


def _calibration(facts: Facts) -> Check:
    title, found = "Predictions of left-out votes", facts.calibration
    if isinstance(found, str):
        return Check("calibration", title, "none", found)
    state = _graded(found.gap, CALIBRATION)
    finding = (
        f"Fitted again without a fifth of the votes, it predicted {percent(found.accuracy)} of them"
    )
    if found.log_loss >= COIN:
        return Check("calibration", title, "bad", f"{finding}, no better than a coin.",
                     "These votes hold little that can be relied on: check how they were "
                     "collected.")  # fmt: skip
    finding += (
        " and was as sure as it had reason to be."
        if state == "good"
        else f"; its probabilities are off by {100 * found.gap:.1f} points on average."
    )
    advice = "Take probabilities near 0 or 1 with a grain of salt; the order may still be right."
    return Check("calibration", title, state, finding, advice if state != "good" else "")
