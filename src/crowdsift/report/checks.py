"""The checks of a report: every question has an answer, good or bad."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from crowdsift.errors import CrowdsiftError
from crowdsift.numeric import Indices
from crowdsift.numeric.distributions import SURE, half_width, median_size, settling_precision
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.report.facts import Facts
from crowdsift.results.dimensions import direction_sentence
from crowdsift.results.fit import Fit
from crowdsift.results.predict import difference_sd
from crowdsift.results.scales import level_text, slope_of
from crowdsift.results.tables import Table
from crowdsift.results.words import abbreviated, chance, count, item_label, label, many, percent, shortened

State = Literal["good", "care", "bad", "none"]
# The limits of the checks; docs/report.md explains them.
FEW_ITEM_VOTES = 10  # an item with fewer votes has a score that is mostly chance
FEW_WORKER_VOTES = 10  # a worker with fewer votes is judged by others more than by itself
SIGN = 0.75  # probability of the sign below which it counts as doubtful
FLAGGED_SHARE = (0.15, 0.4)
ONE_WORKER = (0.15, 0.35)
SIDE = (0.03, 0.1)  # share of decided votes for the left side beyond what the scores explain
ALWAYS_ONE_SIDE, DECIDED = 0.9, 20
QUICK = 1 / 3  # share of the usual time of an answer
CALIBRATION = (0.02, 0.05)
COIN = 0.693147
BADGES = ("", "clearly first", "may be first", "probably first")  # shown beside an item
CLEAR, OPEN, PROBABLE = 1, 2, 3
_NAMED_FIRST = 5  # items sharing first place that are named
SEPARATION = (0.8, 0.5)  # reliability of the scale: good from the first, bad below the second
FRAGILE = (2.0, 0.01)  # votes, and share of the votes, up to which the leader depends on few votes
CIRCLES = 3.0  # standard deviations
_NAMED, _LONGEST = 3, 24
# preference data have at least as many contexts, and at most as many votes per item
_MIN_PROMPTS, _MAX_REPLY_VOTES = 20, 10
_ABOUT_RANKING = ("first", "leader", "separation", "item-votes", "connected")  # keys of checks
_DEEDS = (
    ("random", "answer", "at random"),
    ("one-sided", "follow", "only the side"),
    ("adversarial", "answer", "the opposite"),
)
_MAX_MORE = 100_000  # votes above which two items count as too close


@dataclass(frozen=True)
class Check:
    """One question about a fit: its `key`, `title`, `state`, `finding` and `advice`.

    `state` is good, care, bad, or none if the question cannot be answered.
    """

    key: str
    title: str
    state: State
    finding: str
    advice: str = ""


class Answer(NamedTuple):
    """What a check found; `title` replaces the usual one of its question."""

    state: State
    finding: str
    advice: str = ""
    title: str = ""


def run_checks(facts: Facts) -> list[Check]:
    """Return all checks that can be made, in the order in which a reader needs them."""
    unasked = _ABOUT_RANKING if is_preferences(facts.fit) else ()
    found = []
    for key, title, ask in _QUESTIONS:
        if key not in unasked and (answer := ask(facts)) is not None:
            found.append(Check(key, answer.title or title, *answer[:3]))
    return found


def is_preferences(fit: Fit) -> bool:
    """Return whether votes are preference rows: many prompts, each with a few items and votes."""
    many_prompts = bool(fit.by) and _parts(fit) >= _MIN_PROMPTS
    return many_prompts and float(np.median(fit.item_table["comparisons"])) < _MAX_REPLY_VOTES


def _parts(fit: Fit) -> int:
    """Return how many parts votes connect: components, or contexts if only features put these on one scale."""
    parts = int(fit.summary.get("components", 1))
    return len({value for value, _ in fit.labels}) if fit.by and parts == 1 and _has_features(fit) else parts


def parts_of(fit: Fit) -> str:
    """Return the parts that votes connect, in words."""
    by = f" by {', '.join(map(label, fit.context_columns))}" if fit.by else ""
    return f"{count(_parts(fit))} components{by}"


def _has_features(fit: Fit) -> bool:
    return bool((fit.summary.get("item_features") or {}).get("used"))


def headline(fit: Fit, first: list[str] | None = None) -> list[str]:
    r"""Return up to three sentences for a quick reader: first place, workers, what would help."""
    # `first` are sentences on first place, if known; otherwise they follow from the ranks.
    if fit.overall_ranking is not None:
        return headline(fit.overall_ranking, first) + _crowd(fit)
    table, lines = fit.item_table, _crowd(fit)
    if fit.summary["components"] > 1 or is_preferences(fit):
        return [f"Items are compared within {parts_of(fit)}; there is no common ranking.", *lines]
    if table.height < 2 or not fit.summary.get("has_common", True):
        return lines
    if fit.summary.get("sign_unsettled"):
        sure = chance(float(fit.summary["sign_probability"] or 0.5))
        return [
            "It is not settled which end of the ranking is up (this one with probability "
            f"{sure}): pairs of known order (--gold) would settle it.",
            *lines,
        ]
    may = np.flatnonzero((table["rank_lower"] == 1) & (table["comparisons"] > 0))
    shown = [0, 1, *may[1:_NAMED]]  # the best, the second, and others that may be the best
    names = [f"“{shortened(item_label(fit.labels[i], fit.by), 60)}”" for i in shown]
    if not len(may) or may[0] != 0:
        return [f"{names[0]} has the highest score; {fit.method} gives no intervals here.", *lines]
    if first:
        return [*first, *lines, *_more_votes(fit, may[1:])]
    try:
        sure = chance(float(fit.better(fit.labels[0], fit.labels[1])))
    except CrowdsiftError:
        return lines
    if len(may) == 1:
        how = "clearly" if _leads(fit, np.flatnonzero(table["comparisons"] > 0)) else "probably"
        found = f"{names[0]} is {how} the best: better than {names[1]}, the second, with probability {sure}."
    else:
        more = [f"{count(len(may) - _NAMED)} more"] if len(may) > _NAMED else []
        listed = _series([names[0], *names[2:], *more])
        found = f"First place is open between {listed}; {names[0]} is better than {names[1]} with probability {sure}."
    return [found, *lines, *_more_votes(fit, may[1:])]


def _crowd(fit: Fit) -> list[str]:
    """Return a sentence on the workers; none if the method does not judge workers."""
    verdict = fit.worker_table["verdict"] if fit.worker_table.height else np.empty(0)
    if not (verdict != "").any():
        return []
    total = f"{count(len(verdict))} worker{'' if len(verdict) == 1 else 's'}"
    found = [(int((verdict == word).sum()), verb, how) for word, verb, how in _DEEDS]
    kinds = [f"{count(n)} {verb}{'s' if n == 1 else ''} {how}" for n, verb, how in found if n]
    distinct = int((verdict == "distinct").sum())
    if distinct:
        kinds = [f"{count(distinct)} consistently weigh{'s' if distinct == 1 else ''} something else", *kinds]
    if not kinds:
        unknown = int((verdict == "undecided").sum())
        rest = f"; {count(unknown)} of {total} {'is' if unknown == 1 else 'are'} undecided" if unknown else ""
        return [f"No worker was found who answers at random, follows only the side or answers the opposite{rest}."]
    return [f"Of {total}, {_series(kinds)}; the scores allow for it."]


def _series(parts: list[str]) -> str:
    """Return parts as in "a, b and c"."""
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def _more_votes(fit: Fit, rivals: Indices) -> list[str]:
    # By the rule of `crowdsift plan`, and as its median: half of the differences that the posterior allows are larger.
    # A vote of a typical worker on a pair adds b²σ'(bd) to the precision of its difference d.
    slope = slope_of(fit)
    if not len(rivals) or not slope > 0.0 or fit.panel_biases is not None:  # only trusted votes count
        return []
    score = fit.item_table["score"].astype(np.float64)
    error = difference_sd(fit, 0 * rivals, rivals)
    size = median_size(score[0] - score[rivals], error)
    p = sigmoid(slope * size)
    wanted = settling_precision(size) - error**-2
    votes = float(np.maximum(wanted / (slope**2 * p * (1.0 - p)), 1.0).sum())
    if not votes <= _MAX_MORE:
        return ["They are too close for more votes to separate them: treat them as equal."]
    pairs = "on that pair" if len(rivals) == 1 else f"on {count(len(rivals))} pairs with the first"
    about = "About" if votes <= fit.item_table["comparisons"].sum() / 2 else "Many more votes are needed: about"
    alike = ", which treats workers alike," if fit.worker_table.height > 1 else ""
    return [
        f"{about} {count(float(f'{votes:.2g}'))} more votes {pairs} have an even chance of settling "
        f"first place ({100 * SURE:.0f} % sure); crowdsift plan{alike} gives the range."
    ]


def overall(checks: list[Check]) -> tuple[State, str, str]:
    """Return the result of all checks together: a state, a heading and a sentence."""
    bad = [check.title for check in checks if check.state == "bad"]
    care = [check.title for check in checks if check.state == "care"]
    passed = sum(check.state == "good" for check in checks)
    open_ones = sum(check.state == "none" for check in checks)
    result = f"{passed} of {len(checks)} checks pass"
    if open_ones:
        result += f", {open_ones} could not be made"
    if bad:
        return "bad", "Not yet", f"{result}. Look first at: {_titles(bad + care)}."
    if care:
        return "care", "Mostly, with care", f"{result}. Look at: {_titles(care)}."
    if open_ones * 2 > len(checks):
        return "none", "Hard to say", f"{result}."
    return "good", "Yes", f"{result}; nothing found that speaks against the ranking."


def _titles(titles: list[str]) -> str:
    return ", ".join(title[0].lower() + title[1:] for title in titles)


def _first_place(facts: Facts) -> Answer | None:
    joint = facts.evidence.joint
    if not facts.fit.summary.get("has_common", True):
        advice = "Look at the preference map: workers with different tastes."
        return Answer("bad", direction_sentence(facts.fit), advice, "Common ranking")
    if joint is None or facts.fit.summary["components"] != 1 or joint.height < 2:
        return None
    badges, level = first_badges(facts.fit, joint), level_text(facts.fit.level)
    clear = int(CLEAR in badges)  # its lead over the second is not counted again
    apart, pairs = int(joint["above_next"][clear:].sum()), joint.height - 1 - clear
    neighbours = many(pairs, "other " * clear + "neighbouring pair")
    rest = f"of {neighbours} {count(apart)} are clearly apart, all at once."
    if clear:
        return Answer("good", f"One item is clearly the best ({level}){f'; {rest}' if pairs else '.'}")
    who = "One item is probably the best, but not clearly"
    if OPEN in badges:
        who = f"{many(int((badges > 0).sum()), 'item')} may be the best"
    return Answer("care", f"{who} ({level}); {rest}", "Name them together, or ask for votes on pairs of the first.")


def first_badges(fit: Fit, joint: Table) -> Indices:
    """Return the badge of every item for first place, as an index into `BADGES`."""
    # Within a component, the leader is clearly first if all figures beside it agree. Its interval of ranks is 1 to 1
    # and no other item's contains 1. The interval of its lead over every other item is above 0. No other item shares
    # first place in the statement about all items at once. Otherwise every item whose interval of ranks contains 1 may
    # be first; if the leader is the only one, it is probably first.
    table, badges = fit.item_table, np.zeros(joint.height, np.int64)
    may = (table["rank_lower"] == 1) & (table["comparisons"] > 0)
    for component in np.unique(table["component"]):
        rows = np.flatnonzero((table["component"] == component) & (table["comparisons"] > 0))
        if len(rows) < 2:
            continue
        open_to = rows[may[rows]]
        clear = len(open_to) == 1 and int(joint["shares_first"][rows].sum()) == 1 and _leads(fit, rows)
        badges[open_to] = CLEAR if clear else PROBABLE if len(open_to) == 1 else OPEN
    return badges


def _leads(fit: Fit, rows: Indices) -> bool:
    """Return whether the first of some rows can only have rank 1, and every interval of its lead is above 0."""
    leader, others = int(rows[0]), rows[1:]
    lead = fit.item_table["score"][leader] - fit.item_table["score"][others].astype(np.float64)
    error = difference_sd(fit, np.full(len(others), leader), others)
    return bool(fit.item_table["rank_upper"][leader] == 1 and (lead > half_width(fit.level) * error).all())


def top_sentences(facts: Facts) -> list[str]:
    """Return sentences on which items may be the best, and on what the intervals are based."""
    fit, result = facts.fit, first_place(facts)
    effect, own = fit.summary.get("design_effect"), fit.summary.get("group_effect")
    if effect:
        groups = f"{count(fit.summary['dependent_groups'])} values of {fit.summary['dependent_by']}"
        why = f"Intervals count the {groups} instead of the votes"
        if own:
            why = (
                f"Items are not equally good on all {groups} (standard deviation {own**0.5:.2f}, "
                "that of scores being about 1), and intervals allow for it"
            )
        result.append(f"{why}; variances are {effect:.1f} times those of independent votes.")
    return [*result, *fit.panel_sentences]


def first_place(facts: Facts) -> list[str]:
    """Return the check of first place, for one connected scale."""
    fit, table = facts.fit, facts.evidence.joint
    one_scale = fit.summary.get("components") == 1 and fit.summary.get("has_common", True)
    if table is None or not one_scale or is_preferences(fit):
        return []
    badges, level = first_badges(fit, table), level_text(fit.level)
    first = np.flatnonzero(badges)
    if not len(first):
        return []
    names = [shortened(item_label(fit.labels[i], fit.summary.get("by")), 60) for i in first]
    best = chance(float(table["p_best"][first].sum()))
    if badges[first[0]] == CLEAR:
        return [f"“{names[0]}” is clearly the best ({best})."]
    if badges[first[0]] == PROBABLE:
        return [
            f"“{names[0]}” is probably the best ({best}), but {level} intervals of "
            "ranks and differences leave that open."
        ]
    more = [f"{count(len(first) - _NAMED_FIRST)} more"] if len(first) > _NAMED_FIRST else []
    listed = _series([*(f"“{name}”" for name in names[:_NAMED_FIRST]), *more])
    return [
        f"First place is open between {listed}: one of them is the best with probability {best}, "
        f"“{names[0]}” with probability {chance(float(table['p_best'][first[0]]))}."
    ]


def _leader(facts: Facts) -> Answer | None:
    found = facts.fit.summary.get("robustness")
    if not found:
        return None
    votes, total = found["votes"], float(found["total_votes"])
    fragile = votes is not None and (votes <= FRAGILE[0] or votes < FRAGILE[1] * total)
    nothing = votes is None and bool(found.get("note"))  # to remove
    return Answer(
        "care" if fragile or nothing else "good",
        f"{found['text']}.",
        "A handful of votes decides who comes first." if fragile else "",
    )


def _separation(facts: Facts) -> Answer | None:
    share = facts.fit.summary.get("separation_reliability")
    if share is None:
        return None
    state: State = "good" if share >= SEPARATION[0] else "care" if share >= SEPARATION[1] else "bad"
    finding = f"Of the variance of the scores {percent(float(share))} is true, not error (scale "
    finding += "separation reliability)."
    halves = (facts.fit.summary.get("statistics") or {}).get("split_half_reliability")
    if halves is not None:
        finding += f" Two halves of the workers agree to {halves:.2f}, stepped up to all."
    advice = "More votes per item would separate the items." if state != "good" else ""
    return Answer(state, finding, advice)


def _misfit(facts: Facts) -> Answer | None:
    found = facts.evidence.statistics
    if found is None or not found.workers.height:
        return None
    wrong = found.workers["misfit"].astype(bool) & ~facts.population.flagged
    beside = " beside the flagged ones" if facts.population.flagged.any() else ""
    if not wrong.any():
        return Answer("good", f"No worker{beside} is noisier than chance explains (infit).")
    rows = np.flatnonzero(wrong)[np.argsort(-found.workers["infit"][wrong], kind="stable")]
    verb = "is" if len(rows) == 1 else "are"
    return Answer(
        "care",
        f"{count(len(rows))} of {many(found.workers.height, 'worker')}{beside} {verb} noisier than chance explains "
        f"(infit): {_listed(found.workers['worker'][rows].tolist())}.",
        "Look at their votes: they may be tired, answer another question or have another taste.",
    )


def _circles(facts: Facts) -> Answer | None:
    found = facts.evidence.statistics
    if found is None or found.triads is None or found.triads.sd is None:
        return None
    triads = found.triads
    wide = triads.intransitive > triads.expected + CIRCLES * max(float(triads.sd or 0.0), 1.0)
    finding = f"{count(triads.intransitive)} of {many(triads.triads, 'triad')} of items go round "
    finding += f"in a circle; {triads.expected:.0f} are expected."
    if found.agreement is not None:
        alpha, lower, upper = found.agreement
        finding += f" Votes on the same pair agree with Krippendorff's alpha {alpha:.2f} "
        finding += f"({level_text(facts.fit.level)} interval {lower:.2f} to {upper:.2f})."
    number = facts.fit.summary.get("dimensions", 1)
    title = "" if number == 1 else f"{count(number)} dimensions"
    scales = f"{title} do" if title else "One scale does"
    advice = f"{scales} not explain these votes: look for kinds of workers or of questions (--by)." if wide else ""
    return Answer("care" if wide else "good", finding, advice, title)


def _copies(facts: Facts) -> Answer | None:
    found = facts.evidence.copying
    if found is None:
        return None
    if not found.groups and not found.repeats.height:
        return Answer("good", "No two workers answer too much alike, and no worker only repeats earlier answers.")
    parts = [f"{_listed(group)} answer alike" for group in found.groups[:2]]
    if len(found.groups) > 2:
        parts.append(f"so do {many(len(found.groups) - 2, 'more group')}")
    if found.repeats.height:
        who = _listed(found.repeats["worker"].tolist())
        parts.append(f"on the same pair again {who} gave the same answer too often")
    text = "; ".join(parts)
    return Answer(
        "care",
        f"{text[0].upper()}{text[1:]}, beyond what scores explain.",
        "Votes that are not independent count too much: collapse or leave out the copies.",
    )


def _drift(facts: Facts) -> Answer | None:
    found = facts.fit.summary.get("drift")
    if not found:
        return None
    if not found["workers"]:
        return Answer("good", "No worker's reliability changes with time.")
    return Answer(
        "care", f"Reliability changes with time: {_listed(found['workers'])}.", "Compare early and late votes."
    )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    shown = abbreviated([label(name) for name in names[:_NAMED]], _LONGEST)
    more = f" and {count(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    return ", ".join(f"“{name}”" for name in shown) + more


def _repeated_rows(facts: Facts) -> Answer | None:
    intake = facts.fit.summary.get("intake")
    if not intake:
        return None
    repeated = int(intake.get("repeated", 0))
    if not repeated:
        return Answer("good", "No more rows equal each other than by chance.")
    return Answer(
        "bad" if 10 * repeated > intake["used"] else "care",
        f"{many(repeated, 'row')} of {count(intake['used'])} equal earlier rows, more than "
        "chance explains: they may have been uploaded twice.",
        "Remove them, or keep the first of equal rows with --unique COLUMNS.",
    )


def _item_votes(facts: Facts) -> Answer:
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
    return Answer(state, finding, advice)


def _graded(value: float, limits: tuple[float, float]) -> State:
    """Return "good" up to the first limit, "bad" above the second, "care" between."""
    return "good" if value <= limits[0] else "care" if value <= limits[1] else "bad"


def _worker_votes(facts: Facts) -> Answer:
    votes = facts.population.votes
    if not len(votes):
        return Answer(
            "none",
            "The votes do not say who gave them.",
            "Record a worker for every vote: then bad voters can be found.",
        )
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
    return Answer(state, finding, advice if state != "good" else "")


def _connected(facts: Facts) -> Answer:
    number = int(facts.fit.summary.get("components", 1))
    if number == 1:
        links = "Comparisons and features of items link" if _has_features(facts.fit) else "A chain of comparisons links"
        return Answer("good", f"{links} every item with every other.")
    by = ", ".join(map(label, facts.fit.context_columns))
    if by and number == len({value for value, _ in facts.fit.labels}):
        return Answer("good", f"One scale for each {by}, {count(number)} in all, as requested; each is connected.")
    sizes = np.sort(np.unique(facts.fit.item_table["component"], return_counts=True)[1])[::-1]
    shown = ", ".join(count(size) for size in sizes[:4]) + (", …" if number > 4 else "")
    return Answer(
        "care",
        f"The items fall into {count(number)} components ({shown} items) without a comparison "
        "between them. Ranks hold within a component only.",
        "If the components should be on one scale, ask for votes on pairs across them.",
    )


def _sign(facts: Facts) -> Answer:
    s = facts.fit.summary
    stated, agree = s.get("sign_probability"), s.get("gold_agree")
    if agree is not None:
        return _sign_by_gold(int(agree), int(s.get("gold_disagree") or 0))
    if s.get("gold_pairs"):
        return Answer("none", "Pairs with a known answer settle it; how many agree with the ranking was not checked.")
    if facts.fit.panel_biases is not None:
        return Answer("good", "The workers of the trusted panel settle it.")
    if stated is None:
        return Answer("none", f"{facts.fit.method} assumes that the majority is right about which end is up.")
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
    finding = f"The order is right, not reversed, with probability {chance(stated)}: {result}."
    return Answer(state, finding, advice if state != "good" else "")


def _sign_by_gold(agree: int, disagree: int) -> Answer:
    result = f"{count(agree)} of {many(agree + disagree, 'pair')} with a known answer agree"
    result += " with the ranking made without them."
    if agree > disagree:
        return Answer("good", result)
    return Answer("bad", f"Only {result}", "The votes contradict the known answers: look at both.")


def _converged(facts: Facts) -> Answer:
    s = facts.fit.summary
    how = f"{many(int(s['iterations']), 'iteration')}"
    if facts.fit.converged:
        return Answer("good", f"The calculation converged after {how}.")
    return Answer(
        "bad", f"The calculation had not converged after {how}.", "Allow more iterations: --set most_iterations=2000."
    )


def _flagged(facts: Facts) -> Answer:
    population = facts.population
    if not population.judged:
        advice = "Use the method sift to find bad voters." if len(population.votes) else ""
        return Answer("none", f"{facts.fit.method} judges no workers.", advice)
    number = int(population.flagged.sum())
    if not number:
        return Answer("good", "No worker is flagged as random, one-sided or adversarial.")
    state = _graded(population.flagged_share, FLAGGED_SHARE)
    kinds = ", ".join(
        f"{count(int((population.verdict == word).sum()))} {word}"
        for word in ("random", "one-sided", "adversarial")
        if (population.verdict == word).any()
    )
    finding = (
        f"{count(number)} of {count(len(population.votes))} workers are flagged ({kinds}); "
        f"they gave {percent(population.flagged_share)} of the votes."
    )
    advice = "Their votes are discounted in the scores; look at these workers before you pay them or ask them again."
    return Answer(state, finding, advice)


def _one_worker(facts: Facts) -> Answer | None:
    if facts.fit.panel_biases is not None:  # biases limit what the votes of other panels are worth
        return None
    population = facts.population
    if not len(population.votes):
        return Answer("none", "The votes do not say who gave them.")
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
    return Answer(state, finding, advice if state != "good" else "")


def _work_times(facts: Facts) -> Answer | None:
    """Return the check of workers who answer much faster than usual; times change no verdict."""
    table = facts.fit.worker_table
    if "median_seconds" not in table:
        return None
    seconds = table["median_seconds"].astype(float)
    known = np.isfinite(seconds)
    if not known.any():
        return None
    usual = float(np.median(seconds[known]))
    quick = known & (seconds < QUICK * usual)
    flagged = quick & facts.population.flagged if facts.population.judged else np.zeros_like(quick)
    finding = f"Half of the workers take {usual:.3g} seconds or more for an answer; "
    finding += (
        "no worker takes less than a third of that."
        if not quick.any()
        else f"{count(int(quick.sum()))} of {count(int(known.sum()))} take less than a third of "
        f"that, {count(int(flagged.sum()))} of them flagged by their votes."
    )
    others = int((quick & ~flagged).sum())
    advice = "Look at the quick workers whose votes are not flagged." if others else ""
    finding += " Times are shown only; verdicts come from the votes."
    return Answer("care" if others else "good", finding, advice)


def _sides(facts: Facts) -> Answer:
    if facts.side_excess is None:
        return Answer(
            "none",
            "The votes do not say which item stood on which side." if facts.votes is not None else "Needs the votes.",
            "Record left and right, and show items on a random side.",
        )
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
    advice = f"Show every pair in both orders{', and look at the one-sided workers' if always.any() else ''}."
    return Answer(state, finding, advice if state != "good" else "")


def _calibration(facts: Facts) -> Answer:
    found = facts.calibration
    if isinstance(found, str):
        return Answer("none", found)
    state = _graded(found.gap, CALIBRATION)
    finding = f"Fitted again without a fifth of the votes, it predicted {percent(found.accuracy)} of them"
    if found.log_loss >= COIN:
        return Answer(
            "bad",
            f"{finding}, no better than a coin.",
            "These votes contain little information: check how they were collected.",
        )
    finding += (
        " and was as sure as it had reason to be."
        if state == "good"
        else f"; its probabilities are off by {100 * found.gap:.1f} points on average."
    )
    advice = "Do not rely on probabilities near 0 or 1; the order may still be right."
    return Answer(state, finding, advice if state != "good" else "")


# Keys of the checks with their titles, in the order in which a reader needs them.
_QUESTIONS: tuple[tuple[str, str, Callable[[Facts], Answer | None]], ...] = (
    ("first", "First place", _first_place),
    ("leader", "Votes the leader depends on", _leader),
    ("separation", "Separation of the items", _separation),
    ("misfit", "Misfitting workers", _misfit),
    ("circles", "One dimension", _circles),
    ("copies", "Copied and repeated answers", _copies),
    ("drift", "Change over time", _drift),
    ("repeats", "Votes counted once", _repeated_rows),
    ("item-votes", "Votes per item", _item_votes),
    ("worker-votes", "Votes per worker", _worker_votes),
    ("connected", "One connected scale", _connected),
    ("sign", "Which end is up", _sign),
    ("converged", "Convergence", _converged),
    ("flagged", "Flagged workers", _flagged),
    ("one-worker", "One worker's weight", _one_worker),
    ("times", "Work times", _work_times),
    ("sides", "Side bias", _sides),
    ("calibration", "Predictions of left-out votes", _calibration),
)
