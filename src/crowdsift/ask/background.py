"""The process that fits while the server answers: requests on its input, replies on its output.

It reads the study file, never writes to it, and ends when the server does (its input is closed). Run as ``python -m
crowdsift.ask.background STUDY``.
"""

import json
import os
import sys
import warnings
from typing import Any

import numpy as np

from crowdsift.active.plan import plan
from crowdsift.active.select import Selector
from crowdsift.active.stopping import Goal, sentence
from crowdsift.ask.store import read_votes
from crowdsift.errors import CrowdsiftError
from crowdsift.fitting import Fit, fit
from crowdsift.results.words import item_label, shortened
from crowdsift.votes.comparisons import Comparisons

_RANKED = 400  # pairs sent to the server, the most valuable first
_SHOWN_ITEMS = 500
_PLAN_SECONDS = 2.0
_LEAST_RUNS = 19  # of which the least and the largest need are a 90 % interval
_OUTCOME = {"left": 1.0, "right": 0.0, "tie": 0.5}


def study_votes(path: str) -> Comparisons | None:
    """Return the votes of a study; None if there are none."""
    if not (rows := read_votes(path)):
        return None
    left, right, winner, worker, *_ = (list(column) for column in zip(*rows, strict=True))
    outcome = [_OUTCOME[answer] for answer in winner]
    return Comparisons.from_arrays(left, right, worker=worker, outcome=outcome, sides_known=True, threads=1)


def study_fit(path: str, request: dict[str, Any]) -> Fit | None:
    """Fit the votes of a study, with its gold; None if there are no votes."""
    votes = study_votes(path)
    if votes is None:
        return None
    known = set(votes.items.tolist())
    gold = [pair for pair in request["gold"] if known.issuperset(pair)]
    columns = {"winner": [a for a, _ in gold], "loser": [b for _, b in gold]} if gold else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit(votes, gold=columns, check_gold=False, threads=1)


def refresh(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Fit all votes; return the ranking, the judges, the state of the goal and the next questions."""
    items = request["items"]
    found = study_fit(path, request)
    workers = [] if found is not None else request["workers"] or ["nobody"]
    selector = Selector(found, items=items, workers=workers, goal=request["goal"], refit=0, threads=1)
    pairs = selector.choose(min(_RANKED, len(items) * (len(items) - 1) // 2, 40 + 4 * len(items)))
    code = {label: number for number, label in enumerate(items)}
    ranked = [(code[a], code[b]) for a, b in zip(pairs["first"], pairs["second"], strict=True)]
    if found is None:
        return {"pairs": ranked, "votes": 0}
    goal = Goal.of(request["goal"], len(items))
    return {"pairs": ranked, **_described(found, selector, goal, request["confidence"])}


def _described(found: Fit, selector: Selector, goal: Goal, confidence: float) -> dict[str, Any]:
    """Return the part of a fit that the study's page shows."""
    items, workers = found.item_table, found.worker_table
    names = ("score", "lower", "upper", "rank", "rank_lower", "rank_upper", "comparisons")
    ranking = [
        {"item": item_label(items["item"][i], ""), **{n: _number(items[n][i]) for n in names}}
        for i in range(min(items.height, _SHOWN_ITEMS))
    ]
    columns = (workers[name] for name in ("worker", "verdict", "agreement"))
    judges = {
        str(worker): {"verdict": str(verdict), "agreement": _number(agreement)}
        for worker, verdict, agreement in zip(*columns, strict=True)
    }
    state = selector.stopping(confidence=confidence)
    claim = [item_label(label, "") for label in selector.items[state.claim]]
    said = sentence(goal, state, [shortened(name, 60 if goal.top == 1 else 30) for name in claim], confidence)
    if len(set(selector.state.component.tolist())) > 1:
        said = "The votes do not connect all items yet. Until they do, ranks count within components."
    return {
        "votes": int(selector.votes_taken),
        "statement": said,
        "ranking": ranking,
        "judges": judges,
        "settled": state.settled,
        "claim": claim,
        **_expected(selector, goal, state.settled, confidence),
    }


def _expected(selector: Selector, goal: Goal, settled: bool, confidence: float) -> dict[str, Any]:
    """Return how many more votes the goal needs, or the next goal if this one is settled."""
    top = (3 if goal.top == 1 else 0) if settled else goal.top
    if (settled and not top) or top >= len(selector.items):
        return {}
    made = plan(selector, goal=Goal(top).text, confidence=confidence, seconds=_PLAN_SECONDS)
    if len(made.needs) < _LEAST_RUNS or not made.interval[2]:
        return {}
    low, middle, high = made.words
    if not settled:
        text = f"Of the studies simulated from these votes 90 % need {low} to {high} more votes."
        return {"more": middle, "expected": text}
    if made.interval[1] >= made.most:
        return {}
    return {"expected": f"About {middle} more votes would settle {Goal(top).words} ({low} to {high})."}


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def save_fit(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Save the fit of all votes into a folder, or write its report."""
    found = study_fit(path, request)
    if found is None:
        return {"error": "there are no votes yet"}
    if "report" in request:
        found.report(request["report"], title=request["title"])
    else:
        found.save(request["folder"])
    return {}


def main() -> None:
    """Answer requests, one line each, until the input is closed."""
    path = sys.argv[1]
    if sys.platform != "win32":
        os.nice(5)  # pages have priority
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            made = (refresh if "goal" in request else save_fit)(path, request)
        except CrowdsiftError as error:
            made = {"error": str(error)}
        except Exception as error:  # the study continues without this fit
            made = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(made) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
