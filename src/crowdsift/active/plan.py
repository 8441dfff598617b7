"""The number of further votes that a goal needs, from studies simulated under the present belief.

The need of the real study and those of simulated ones are exchangeable if the belief is right. So the interval between
the k-th smallest and the k-th largest of n needs contains the real one with the probability 1 - 2k/(n + 1), for any
number of simulations.
"""

import time
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdsift.active.batches import BatchSelection, State
from crowdsift.active.beliefs import Joint
from crowdsift.active.select import Selector
from crowdsift.active.stopping import Goal, checked_confidence, stopping
from crowdsift.errors import RequestError
from crowdsift.numeric import Vector
from crowdsift.numeric.likelihoods import sigmoid
from crowdsift.results.words import count

MAX_VOTES = 100_000  # most votes of a simulated study
RUNS = 59  # simulated studies: the 3rd and the 57th of their needs are the ends of a 90 % interval
_STEP = 16  # votes so far for each vote of the next step
_PAIRS = 8  # most pairs that are chosen for a step; each may get several of its votes
_NONE_SEEN = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Plan:
    """How many more votes a goal needs.

    `goal` and `confidence` are the goal and its confidence, `votes` is the number of votes so far. `needs` are the
    further votes of every simulated study, sorted; studies end at `most` votes, settled or not.
    """

    goal: Goal
    confidence: float
    votes: int
    needs: Vector
    most: int

    @property
    def interval(self) -> tuple[int, int, int]:
        """Return lower end, median and upper end; 90 % of studies need a number in between."""
        if len(self.needs) < 19:
            raise RequestError("too few studies were simulated for a 90 % interval")
        k = max(1, (len(self.needs) + 1) // 20)
        middle = int(np.median(self.needs))
        return int(self.needs[k - 1]), middle, int(self.needs[-k])

    @property
    def words(self) -> list[str]:
        """Return the interval and its median as text; simulated studies end at `most`."""
        return [f"more than {count(each)}" if each >= self.most else count(each) for each in self.interval]

    @property
    def sentence(self) -> str:
        """Return the need as a sentence."""
        low, middle, high = self.interval
        what = f"to settle {self.goal.words} with {100 * self.confidence:.4g} % confidence"
        if high == 0:
            return f"No more votes are needed {what}."
        more = "more " if self.votes else ""
        about = "" if middle >= self.most else "about "
        within = "" if low >= self.most else f"; 90 % of such studies need {self.words[0]} to {self.words[2]}"
        return f"{about}{self.words[1]} {more}votes are expected {what}{within}.".capitalize()

    def plot(self, path: str) -> None:
        """Draw how many of the simulated studies are settled after how many votes."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise RequestError("--plot needs matplotlib; pip install 'crowdsift[plots]'") from None
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.subplots()
        done = self.needs[self.needs < self.most]
        share = 100.0 * np.arange(1, len(done) + 1) / len(self.needs)
        axes.step(done, share, where="post", color="#1f66b5")
        axes.axvspan(self.interval[0], self.interval[2], color="#cddcf1", label="90 % interval")
        axes.set(xlabel="further votes", ylabel="studies settled, %", ylim=(0, 100), xscale="log")
        axes.set_title(f"Votes to settle {self.goal.words} with {100 * self.confidence:.4g} % confidence")
        axes.legend(frameon=False)
        figure.savefig(path)


def plan(
    votes: Any = None,
    *,
    items: Any = (),
    goal: str = "first",
    confidence: float = 0.95,
    runs: int = RUNS,
    most: int = MAX_VOTES,
    seconds: float | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Plan:
    """Return the votes needed: simulate studies from the present belief until their goal is settled.

    Parameters
    ----------
    votes
        Votes, a `Fit` or a `Selector`; None to plan before any vote, with `items` given.
    items
        Items that may have no votes.
    goal, confidence
        The goal, "first", "top-3" or "ranking", and its confidence.
    runs, most, seconds
        The number of studies and the most votes of each; after `seconds` no further one begins.
    seed, threads
        The seed of the draws, and the number of threads of fits.

    Examples
    --------
    >>> import crowdsift
    >>> made = plan(items=["a", "b", "c"], runs=19, most=500)
    >>> low, middle, high = made.interval
    >>> low <= middle <= high
    True
    """
    selector, source = votes, getattr(votes, "votes", votes)  # from a fit, or votes themselves
    if getattr(source, "by", "") and len({each[0] for each in source.items}) > 1:
        raise RequestError(
            "a plan is made within one context, and these votes have several by "
            f"{source.by!r}; give the votes of one, such as VOTES --where COLUMN=VALUE"
        )
    if not isinstance(votes, Selector):
        selector = Selector(votes, items=items, workers=(), goal=goal, refit=0, threads=threads)
    pool = selector.pooled()
    wanted, belief = Goal.of(goal, len(pool.items)), pool.belief
    checked_confidence(confidence)
    if not isinstance(belief, Joint):
        raise RequestError("a plan is made for up to about a thousand items")
    root = np.linalg.cholesky(belief.covariance + 1e-9 * np.eye(len(belief.mean)))
    needs: list[int] = []
    begin = time.perf_counter()
    while len(needs) < runs and (not seconds or time.perf_counter() - begin < seconds):
        # Every study has its own draws, so that `most` only cuts it short.
        random = np.random.Generator(np.random.PCG64([seed, len(needs)]))
        truth = belief.mean + root @ random.standard_normal(len(belief.mean))
        end = begin + seconds if seconds else np.inf
        needs.append(_need(deepcopy(pool.state), truth, wanted, confidence, most, random, end))
    needs = [each for each in needs if each >= 0]
    kept = len(needs) - (len(needs) + 1) % 20 if len(needs) > 19 else len(needs)
    so_far = int(pool.votes_taken)
    return Plan(wanted, confidence, so_far, np.sort(needs[:kept]), most)


def _need(
    state: State, truth: Vector, goal: Goal, confidence: float, most: int, random: np.random.Generator, end: float
) -> int:
    """Return how many votes settle the goal if this is the truth; -1 if time runs out."""
    a, b = np.triu_indices(len(truth), 1)
    made = 0
    while made < most and not stopping(state.belief, goal, confidence).settled:
        if time.perf_counter() > end:
            return -1
        size = min(1 + made // _STEP, most - made)
        pairs = min(size, _PAIRS)
        batch = BatchSelection(state, a, b, lambda _: _NONE_SEEN, pairs, False, goal.top)
        for place, pair in enumerate(batch.choose(pairs, None)):
            votes = (size + place) // pairs
            won = random.binomial(votes, sigmoid(truth[pair.a] - truth[pair.b]))
            state.absorb_all(pair.a, pair.b, int(won), votes)
        made += size
    return made
