"""Verdicts of LLM judges and of panels: AlpacaEval, Arena-Hard, PandaLM, verdict files, CJ."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crowdsift.errors import InputError
from crowdsift.io.formats import PEOPLE, Format, Unfolded, filter_names
from crowdsift.votes.labels import is_empty
from crowdsift.votes.replies import label_of, prompt_label, reply_text
from crowdsift.votes.source import Source

# A preference of 1 means the first generator, 2 the second; 0 was a draw in early versions.
ALPACA_EVAL = Format(
    name="alpaca-eval",
    title="annotations of AlpacaEval",
    columns={
        "first": ("generator_1", "generator"),
        "second": ("generator_2",),
        "outcome": ("preference",),
        "worker": ("annotator", "annotator_index"),
    },
    needs=("first", "second", "outcome"),
    span=(1.0, 2.0, "preference"),
    draws=(0.0,),
    pooled=True,
    sets_aside=True,
)

_VOTE = ("left", "right", "winner", "worker")
_BASELINE = "gpt-4-0314"  # baseline of Arena-Hard 0.1, whose rows do not name it
_NO_ANSWER = ("", "error", "none", "null", "n/a")


def unfolded_votes(
    table: Source,
    names: Sequence[str],
    condition: str,
    votes: Callable[[Mapping[str, Any]], Iterable[Sequence[Any]]],
    carried: Sequence[str] = (),
    context: str = "",
) -> Unfolded:
    """Return the votes that `votes` yields for each row of the table: left, right, winner, worker."""
    carried = [name for name in carried if name in table.names]
    wanted = list(dict.fromkeys([*(name for name in names if name in table.names), *carried]))
    columns: dict[str, list[Any]] = {name: [] for name in (*_VOTE, *carried)}
    row: list[int] = []
    table.load(wanted, condition=condition)
    for number, entries in enumerate(table.rows(wanted)):
        given = dict(zip(wanted, entries, strict=True))
        for vote in votes(given):
            for name, entry in zip(columns, (*vote, *map(given.get, carried)), strict=True):
                columns[name].append(entry)
            row.append(number)
    if all(worker is None for worker in columns["worker"]):
        del columns["worker"]
    return Unfolded(columns, range(len(row)), row, context=context)


def _games(pair: tuple[Any, Any], games: Any, key: str) -> Iterator[tuple[Any, Any, str | None]]:
    """Yield a vote of every game, two empty ones if there is none; every second game swaps the pair."""
    for number, game in enumerate(games if isinstance(games, list) else [None, None]):
        score = game.get(key) if isinstance(game, dict) else game
        answer = "" if score is None else "".join(str(score).split()).strip("[]")
        yield *(pair[::-1] if number % 2 else pair), None if answer.casefold() in _NO_ANSWER else answer


def two_games(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Make two votes of a row: A is the baseline in the first game, and the model in the second."""
    names = [roles[role] for role in ("model", "games", "baseline", "worker") if role in roles]

    def votes(row: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        pair = row.get(roles.get("baseline", "")) or _BASELINE, row[roles["model"]]
        for vote in _games(pair, row[roles["games"]], "score"):
            yield *vote, row.get(roles.get("worker", ""))

    return unfolded_votes(table, names, condition, votes, ("uid", "question_id", "category"))


ARENA_HARD = Format(
    name="arena-hard",
    title="judgments of Arena-Hard",
    columns={**{name: (name,) for name in ("model", "games", "baseline")}, "worker": ("judge", "judge_model")},
    needs=("model", "games"),
    pooled=True,
    sets_aside=True,
    unfold=two_games,
)


def annotators(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Make a vote from every annotator's column; cmp_key names the models."""
    people = filter_names(table.names, "annotator*")
    table.load(["cmp_key"])
    models = _split_keys([key for (key,) in table.rows(["cmp_key"])])

    def votes(row: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        return ((*models.get(row["cmp_key"], (None, None)), row[name], name) for name in people)

    carried = ("idx", "instruction", "motivation_app")
    return unfolded_votes(table, ("cmp_key", *people), condition, votes, carried)


def _split_keys(keys: Iterable[Any]) -> dict[Any, tuple[str, str]]:
    """Return the two names in keys such as llama-7b_opt-7b; if ambiguous, the most common ones."""
    splits: dict[Any, list[tuple[str, str]]] = {}
    for key in {key for key in keys if isinstance(key, str)}:
        parts = key.split("_")
        ways = [("_".join(parts[:i]), "_".join(parts[i:])) for i in range(1, len(parts))]
        splits[key] = [way for way in ways if all(way)]
    often = Counter(name for ways in splits.values() for way in ways for name in way)
    return {
        key: max(ways, key=lambda way: (min(often[way[0]], often[way[1]]), way)) for key, ways in splits.items() if ways
    }


PANDALM = Format(
    name="pandalm",
    title="annotations of PandaLM, one column an annotator",
    marks=("cmp_key", "response1", "response2", "annotator*"),
    values={"1": "left", "2": "right", "0": "tie"},
    sets_aside=True,
    unfold=annotators,
)

_BOTH = ("output_1", "output_2")
_VERDICTS_OF = ("worker", "judge", "annotator", "evaluator", "judge_model")  # a `judge_name` is a prompt in JudgeBench


def shown_outputs(table: Source, roles: Mapping[str, str], condition: str = "") -> Unfolded:
    """Make a vote from every verdict; `winner` names the output, and `swap` which was shown first."""
    context = roles.get("task", "")
    whole: dict[str, str] = {}

    def output(value: Any) -> str | None:
        text = reply_text(value.get("text") if isinstance(value, dict) else value)
        return None if text is None else label_of(text, whole)

    def votes(row: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        given = {role: row[name] for role, name in roles.items()}
        both = given["outputs"] if "outputs" in given else [given[name] for name in _BOTH]
        if not isinstance(both, list) or len(both) != 2:
            raise InputError(f"{both!r:.60} are not two outputs", source=table.source, column=roles["outputs"])
        one, two = map(output, both)
        if "choice" in given:  # the place of the better one in the list
            choice = {0: "left", 1: "right"}.get(given["choice"], given["choice"] and f"choice {given['choice']}")
            yield one, two, choice, given.get("worker")
            return
        if "games" in given:  # whose answers name the place
            for vote in _games((one, two), given["games"], "decision"):
                yield *vote, given.get("worker")
            return
        found = _final(given["results"]) if "results" in given else [(given["swap"], given["winner"])]
        for swap, winner in found:
            swapped = str(swap).strip().casefold() in ("true", "1", "1.0", "yes")
            answer = "" if is_empty(winner) else str(winner).strip()
            if number := re.fullmatch(r"(?:(?:output|model|response)[ _]?)?([12])(?:\.0)?", answer.casefold()):
                answer = "left" if (number[1] == "2") == swapped else "right"  # the output, in either order
            elif swapped and re.fullmatch(r"\W*(?:\w+\W+)?[ab]\W*", answer.casefold()):
                answer = f"{answer} swapped"  # may mean the output or the place: only the user can decide
            yield *((two, one) if swapped else (one, two)), answer, given.get("worker")

    found = unfolded_votes(table, list(roles.values()), condition, votes, [context] if context else [], context)
    if context:
        labels = [label_of(x, whole) if isinstance(x, str) else prompt_label(x) for x in found.columns[context]]
        found = replace(found, columns={**found.columns, context: labels})
    return replace(found, texts=whole)


def _final(results: Any) -> Iterator[tuple[bool, Any]]:
    """Yield order and winner of the last stage that has both; without an answer if none has."""
    stages = results if isinstance(results, list) else [results]
    for stage in reversed(stages):
        orders = [(swap, stage.get(f"swap = {swap}") or {}) for swap in (False, True) if isinstance(stage, dict)]
        known = [(swap, each["winner"]) for swap, each in orders if "winner" in each]
        if known:
            yield from known
            return
    yield False, None


_VERDICTS: tuple[dict[str, tuple[str, ...]], ...] = (
    {name: (name,) for name in (*_BOTH, "winner", "swap")},
    {name: (name,) for name in (*_BOTH, "results")},
    {"output_1": ("response_A",), "output_2": ("response_B",), "games": ("judgments",)},  # of JudgeBench
    {"outputs": ("summaries", "responses", "outputs", "completions"), "choice": ("choice",)},  # of OpenAI
)
VERDICTS = tuple(
    Format(
        name="verdicts",
        title="verdicts on two outputs",
        columns={
            **columns,
            "task": ("id", "input", "instruction", "prompt", "question", "info"),
            "worker": _VERDICTS_OF,
        },
        needs=tuple(columns),
        values={"0": "tie", **dict.fromkeys(_NO_ANSWER, "")},
        pooled=True,
        sets_aside=True,
        unfold=shown_outputs,
    )
    for columns in _VERDICTS
)

_SCRIPTS = ("candidate", "script", "item", "option", "object", "representation", "stimulus", "text")
_CHOICES = ("winner", "selected", "choice", "decision", "chosen", "won")
_SIDES: dict[str, tuple[str, ...]] = {
    "left": ("left",),
    "right": ("right",),
    "winner": (*_CHOICES, *(f"{word}_{script}" for word in ("selected", "chosen") for script in _SCRIPTS)),
}
# The chosen script and the other one, always in one pair of columns; or a script for each side, and the chosen one.
_CHOSEN = (
    *(("candidate_chosen", "candidate_not_chosen"), ("chosen", "not_chosen"), ("userchosen", "usernotchosen")),
    *(("person_chosen", "person_not_chosen"), ("item_chosen", "item_not_chosen"), ("won", "lost")),
    *(("winner", "loser"), ("stimulus_selected", "stimulus_not_selected"), ("selected", "not_selected")),
    *(("winner_id", "loser_id"), ("better", "worse")),
)
_DECISIONS: list[dict[str, tuple[str, ...]]] = [{"winner": (one,), "loser": (two,)} for one, two in _CHOSEN]
COMPARATIVE_JUDGEMENT = tuple(
    Format(
        name="comparative-judgement",
        title="decisions of comparative judgement",
        columns={**columns, "worker": PEOPLE},
        needs=("left", "right", "winner", "worker") if columns is _SIDES else tuple(columns),
        nouns=_SCRIPTS if columns is _SIDES else (),
        pooled=True,
        sets_aside=True,
        seconds="time_taken",
    )
    for columns in (*_DECISIONS, _SIDES)
)
