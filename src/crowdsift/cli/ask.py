"""The commands `crowdsift ask` and `crowdsift plan`."""

import math
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdsift.cli import options as opt
from crowdsift.cli.options import READS, Writes
from crowdsift.cli.reading import load_or_read, reads_votes
from crowdsift.cli.terminal import print_text, say, to_json
from crowdsift.errors import RequestError

if TYPE_CHECKING:
    from crowdsift.io import ReadOptions

STUDY = Path("study.sqlite")
ItemsFile = Annotated[
    str | None,
    READS,
    typer.Argument(
        metavar="[ITEMS]",
        help="A file with the column item. What judges see comes from the optional columns text, markdown or image (a "
        "file beside it); prompt says to what an item is a reply. Omit the file to continue a study.",
    ),
]
Study = Annotated[Path, Writes(), typer.Option(help="The file of the study.")]
Question = Annotated[str | None, typer.Option(help="What judges are asked.")]
Judges = Annotated[
    str | None,
    READS,
    typer.Option(
        help="Who may vote: a file with the column worker and optionally capacity (the most "
        "votes of each). Each gets a link. Without it one link serves all who give a name."
    ),
]
GoalText = Annotated[str | None, typer.Option(help="The goal: first, top-K (such as top-3) or ranking.")]
Confidence = Annotated[float | None, typer.Option(help="How sure the answer must be; 0.95 by default.")]
Budget = Annotated[float | None, typer.Option(help="The most votes in all; with --price the most money.")]
GoldPairs = Annotated[
    str | None, READS, typer.Option(help="Pairs of known order to check judges by: a file with winner and loser.")
]
GoldRate = Annotated[float | None, typer.Option(help="The share of questions that are gold; 0.1 by default.")]
Ties = Annotated[bool | None, typer.Option("--ties", help="Judges may call a tie.")]
Skip = Annotated[bool | None, typer.Option("--skip", help="Judges may skip a pair.")]
Repeat = Annotated[bool | None, typer.Option("--repeat", help="A judge may get the same pair again.")]
Consent = Annotated[
    str | None, READS, typer.Option(help="A text (Markdown) that judges must agree to before they vote.")
]
Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 takes any that is free.")]
Address = Annotated[
    str | None, typer.Option(help="What links begin with, if judges reach this machine by another name.")
]
NewLinks = Annotated[bool, typer.Option("--new-links", help="Make new links for all judges; old ones stop working.")]
Open = Annotated[bool, typer.Option("--open", help="Open the study's page.")]
Demo = Annotated[bool, typer.Option("--demo", help="Start a study with example items, to try it out.")]


def ask(
    items: ItemsFile = None,
    study: Study = STUDY,
    question: Question = None,
    workers: Judges = None,
    goal: GoalText = None,
    confidence: Confidence = None,
    budget: Budget = None,
    price: opt.Price = None,
    gold: GoldPairs = None,
    gold_rate: GoldRate = None,
    ties: Ties = None,
    skip: Skip = None,
    repeat: Repeat = None,
    consent: Consent = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    address: Address = None,
    new_links: NewLinks = False,
    open_: Open = False,
    demo: Demo = False,
) -> None:
    """Collect votes in the browser: ask the pairs worth most, stop when the answer is settled."""
    from crowdsift.ask import serve as server

    if demo:
        if items is not None:
            raise RequestError("--demo brings its own items; leave ITEMS out")
        items, goal = str(server.DEMO), goal or "first"
        question = question or "Which explanation of the blue sky would help a child more?"
        study = Path("demo.sqlite") if study == STUDY else study
    if budget is not None and not 0 < budget < math.inf:
        raise RequestError(f"--budget is above 0, not {budget!r}")
    prices = opt.prices(price, workers)
    given = {
        "question": question,
        "goal": goal,
        "confidence": confidence,
        "budget": budget,
        "prices": prices and {str(worker): each for worker, each in prices.items()},
        "gold_rate": gold_rate,
        "ties": ties,
        "skip": skip,
        "repeat": repeat,
        "consent": None if consent is None else _text(consent),
    }
    judges = None if workers is None else _judges(workers)
    with ExitStack() as failing:
        listening = server.bind(host, port)
        failing.callback(listening.close)
        store = server.open_study(study, items, given, gold)
        failing.callback(store.close)
        shown = f"[{host}]" if ":" in host else host
        base = (address or f"http://{shown}:{listening.getsockname()[1]}").rstrip("/")
        links = server.issue_links(store, base, judges, new_links)
        failing.pop_all()

    def started() -> None:
        print_text(_announcement(links, study))
        if open_:
            import webbrowser

            webbrowser.open(links.study)

    if host not in ("127.0.0.1", "::1", "localhost") and not base.startswith("https://"):
        say("crowdsift: links and votes travel unencrypted; put a proxy with HTTPS in front")
    server.serve(store, listening, started)
    say(f"crowdsift: stopped. To go on: crowdsift ask --study {study}")


def _judges(path: str) -> dict[str, int | None]:
    """Return who may vote, with the most votes of each or None."""
    from crowdsift.io import read_capacities

    found = read_capacities(path)
    most = found if isinstance(found, dict) else dict.fromkeys(found)
    return {str(name): each for name, each in most.items()}


def _announcement(links: Any, study: Path) -> str:
    lines = [f"Study page: {links.study}"]
    if links.everyone:
        lines.append(f"For judges: {links.everyone}")
    else:
        many = len(links.judges)
        lines.append(f"For judges: {many} link{'s' * (many != 1)}, in {links.file}")
    return "\n".join([*lines, f"The study is {study}. Stop with Ctrl-C.", ""])


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise RequestError(f"--consent {path}: cannot be read: {reason}") from None


Known = Annotated[
    str,
    READS,
    typer.Argument(
        metavar="DIR|VOTES|ITEMS",
        help="The folder of a saved fit, a study (whose goal and confidence then count), a file of votes, or a file "
        "with the column item to plan before any vote.",
    ),
]


@reads_votes()
def plan(
    known: Known,
    *,
    goal: GoalText = None,
    confidence: Confidence = None,
    most: Annotated[int, typer.Option(help="The most votes that you could get; studies end there.", min=50)] = 100_000,
    plot: Annotated[
        Path | None, Writes(), typer.Option(help="PNG, SVG or PDF file for a picture of the needs.")
    ] = None,
    reading: "ReadOptions",
    as_json: opt.AsJson = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
) -> None:
    """Say how many more votes a goal needs, by studies simulated from what is known."""
    import crowdsift
    from crowdsift.active import Goal, checked_confidence
    from crowdsift.ask.serve import read_goal
    from crowdsift.io import has_items, read_labels

    Goal.of(goal or "first", 10**6)
    checked_confidence(0.95 if confidence is None else confidence)
    if plot is not None:
        crowdsift.plots.require_ending(plot)
    has_votes = os.path.isdir(known) or known.endswith((".sqlite", ".db"))
    items, own_goal, own_confidence, has_votes = read_goal(known) or ([], "first", 0.95, has_votes)
    goal, confidence = goal or own_goal, own_confidence if confidence is None else confidence
    given: Any = None
    assumed = ""
    if not items and not has_votes and has_items(known):
        items = list(read_labels(known))
    if items:
        Goal.of(goal, len(items))
    if items and not has_votes:
        assumed = (
            f"Assumed before any vote: scores of the {len(items)} items are normal with standard "
            "deviation 1, and votes follow the odds exp(difference). Of two items drawn at random "
            "the better one gets about 73 % of the votes."
        )
    else:
        given = load_or_read(known, reading, quiet=quiet)
    made = crowdsift.plan(
        given, items=items, goal=goal, confidence=confidence, most=most, seed=seed, threads=reading.threads
    )
    if assumed:
        say(assumed)
    if plot is not None:
        made.plot(str(plot))
        say(f"Written: {plot}")
    low, middle, high = made.interval
    record = {"goal": goal, "confidence": confidence, "votes": made.votes, "needs": middle}
    record |= {"lower": low, "upper": high, "most": made.most}
    print_text(to_json(record) if as_json else f"{made.sentence}\n")
