"""The scorer of Inspect with the real package and its mock model."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import crowdsift

inspect_ai = pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.model import ModelOutput, get_model  # noqa: E402
from inspect_ai.solver import generate  # noqa: E402

from crowdsift.inspect import pairwise, votes  # noqa: E402

# Warnings of the libraries that Inspect uses are not ours to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
QUALITY = {"weak": -1.5, "middle": 0.0, "strong": 1.5, "own": 0.7}


@pytest.fixture(autouse=True)
def _without_network(monkeypatch) -> None:
    """The mock model counts tokens by a vocabulary that would be downloaded."""
    count = "inspect_ai.model._model.count_text_tokens"
    monkeypatch.setattr(count, lambda text: len(text) // 4, raising=False)


def judge(kind: str, seed: int):
    """A model that answers by the quality named in the replies, by position or at random."""
    drawn = random.Random(seed)

    def answer(messages, *_):
        text = messages[-1].text
        a, b = (QUALITY[each] for each in re.findall(r"quality (\w+)", text))
        shown = {"careful": a + drawn.gauss(0, 0.8) > b, "first": True, "coin": drawn.random() < 0.5}
        return ModelOutput.from_content("mockllm/model", f"I think [[{'BA'[shown[kind]]}]]")

    return get_model("mockllm/model", custom_outputs=answer, memoize=False)


def evaluated(tmp_path: Path, samples: int = 60):
    replies = {name: f"quality {name}" for name in QUALITY if name != "own"}
    judges = {f"{kind}-{n}": judge(kind, n) for kind in ("careful", "first", "coin") for n in (1, 2)}
    task = inspect_ai.Task(
        dataset=[Sample(input=f"task {n}", metadata={"replies": replies}) for n in range(samples)],
        solver=generate(),
        scorer=pairwise(judges, name="own"),
    )
    own = get_model("mockllm/model", custom_outputs=lambda *_: ModelOutput.from_content("m", "quality own"))
    (log,) = inspect_ai.eval(task, model=own, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    return log


def test_a_task_ends_with_a_leaderboard_and_verdicts(tmp_path: Path) -> None:
    log = evaluated(tmp_path)
    metrics = {name: each.value for score in log.results.scores for name, each in score.metrics.items()}
    assert metrics["strong"] > metrics["own"] > metrics["middle"] > metrics["weak"]
    assert 0.3 < metrics["mean"] < 0.9
    verdicts = {name.split()[0]: name.partition("(")[2][:-1] for name in metrics if "(" in name}
    assert {verdicts[f"careful-{n}"] for n in (1, 2)} <= {"reliable", "weak"}
    assert {verdicts[f"first-{n}"] for n in (1, 2)} == {"one-sided"}
    rows = votes(log)
    assert len(rows["left"]) == 60 * 3 * 2 * 6  # samples, other replies, orders, judges
    found = crowdsift.fit(rows)
    assert found.labels[0] == "strong"
    assert metrics["strong"] == pytest.approx(float(found.item_table["score"][0]))


def test_the_page_needs_fewer_than_fifteen_lines(tmp_path: Path, monkeypatch) -> None:
    page = Path(__file__).parents[1] / "docs" / "inspect.md"
    if not page.is_file():
        pytest.skip("the documentation is not beside the tests")
    code = re.search(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)[1]
    assert len([line for line in code.splitlines() if line.strip()]) < 15
    monkeypatch.chdir(tmp_path)
    spoken = {"__name__": "task"}
    exec(compile(code, "task.py", "exec"), spoken)
    (log,) = inspect_ai.eval(
        spoken["capitals"](judges="mockllm/model"), model="mockllm/model", log_dir=str(tmp_path), display="none"
    )
    assert log.status == "success", log.error  # the mock model gives no verdict, which is no vote
    assert votes(log)["left"] == []
