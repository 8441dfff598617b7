"""A pairwise scorer for Inspect; its metrics are a leaderboard and verdicts on judges.

The dependency is optional: ``pip install crowdsift[inspect]``; see docs/inspect.md.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

try:
    from inspect_ai.model import get_model
    from inspect_ai.scorer import SampleScore, Score, mean, metric, scorer
except ImportError as error:
    raise ImportError("crowdsift.inspect needs inspect-ai: pip install 'crowdsift[inspect]'") from error

from crowdsift.fitting import fit, without_warnings
from crowdsift.results.fit import Fit

__all__ = ["judge_verdicts", "leaderboard", "pairwise", "votes"]

PROMPT = """Which reply to the task is better? End with [[A]], [[B]], or [[C]] for a tie.

Task: {task}

Reply A: {a}

Reply B: {b}"""
_ANSWER = re.compile(r"\[\[([ABC])\]\]")
_COLUMNS = ("left", "right", "winner", "worker")


@metric
def leaderboard() -> Callable[[list[Any]], dict[str, float]]:
    """Return the score of every model, from the votes of all samples."""
    return _figures(lambda found: zip(found.labels, found.item_table["score"], strict=True))


@metric
def judge_verdicts() -> Callable[[list[Any]], dict[str, float]]:
    """Return the reliability of every judge, under a name with the verdict such as "gpt (reliable)"."""

    def named(found: Fit) -> Iterable[tuple[str, float]]:
        names = ("worker", "verdict", "reliability")
        rows = zip(*(found.worker_table[name].tolist() for name in names), strict=True)
        return ((f"{who} ({verdict})", beta) for who, verdict, beta in rows)

    return _figures(named)


def _figures(table: Callable[[Fit], Iterable[tuple[Any, Any]]]) -> Callable[[list[Any]], dict[str, float]]:
    """Return a metric that fits the votes of all samples and returns figures of a table by name."""

    def figures(scores: list[SampleScore]) -> dict[str, float]:
        rows = _rows((each.score.metadata or {}).get("votes", ()) for each in scores)
        if not rows["left"]:
            return {}
        with without_warnings():
            return {str(name): float(value) for name, value in table(fit(rows, "sift"))}

    return figures


def _rows(found: Iterable[Iterable[Sequence[str]]]) -> dict[str, list[str]]:
    every = [vote for each in found for vote in each]
    return {name: [vote[place] for vote in every] for place, name in enumerate(_COLUMNS)}


def votes(*logs: Any) -> dict[str, list[str]]:
    """Return the votes in Inspect logs as columns for `crowdsift.fit`."""
    scores = (score for log in logs for each in log.samples or () for score in (each.scores or {}).values())
    return _rows((score.metadata or {}).get("votes", ()) for score in scores)


@scorer(metrics=[mean(), leaderboard(), judge_verdicts()])
def pairwise(
    judges: Sequence[Any] | Mapping[str, Any], name: str | None = None, prompt: str = PROMPT
) -> Callable[[Any, Any], Any]:
    """Compare the evaluated model's reply with others by judges, in both orders."""
    # `name` is the name of the evaluated model in the ranking, by default its own.
    given = judges if hasattr(judges, "items") else {str(judge): judge for judge in judges}

    async def score(state: Any, target: Any) -> Any:
        replies = dict(state.metadata.get("replies") or {"target": target.text})
        own, reply = name or str(state.model), state.output.completion
        pairs = list(combinations(replies, 2)) if not reply else [(own, each) for each in replies]
        replies[own] = reply
        found, points = [], []
        for who, judge in given.items():
            for left, right in (order for pair in pairs for order in (pair, pair[::-1])):
                text = prompt.format(task=state.input_text, a=replies[left], b=replies[right])
                answers = _ANSWER.findall((await get_model(judge).generate(text)).completion)
                if answers:
                    winner = {"A": "left", "B": "right", "C": "tie"}[answers[-1]]
                    found.append((left, right, winner, who))
                    points.append(0.5 if winner == "tie" else float((winner == "left") == (left == own)))
        return Score(value=sum(points) / len(points) if points else 0.0, metadata={"votes": found})

    return score
