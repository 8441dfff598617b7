"""Files as public repositories hold them, drawn anew: every row is accounted for, without options."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError
from crowdsift.io.ingest import coded_votes

SEEDS = (1, 2, 3)
TEXT = "“quoted”, \\u00e9\n- list; 好"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, indent=2)
    path.write_text(text, encoding="utf-8")
    return path


def counts(votes: crowdsift.Comparisons) -> tuple[str, int, int, int, int]:
    intake = votes.intake
    assert intake is not None
    return intake.format, intake.rows, intake.used, intake.empty, intake.set_aside


def annotations(rng: random.Random, model: str, judge: str, soft: bool) -> list[dict[str, Any]]:
    """AlpacaEval: older files have no raw completion, later ones an object, a text or null."""
    rows = []
    for number in range(60):
        row = {"instruction": f"{number} {TEXT}", "output_1": TEXT * number, "generator_1": "gpt4_1106_preview"}
        row |= {"dataset": "helpful_base", "output_2": "", "generator_2": model, "annotator": judge}
        choices: tuple[Any, ...] = (1, 2, 1.0, 2.0, 1.5, 0, None, float("nan"))
        row["preference"] = 1 + rng.random() if soft and rng.random() < 0.9 else rng.choice(choices)
        row |= {"price_per_example": 0.01, "time_per_example": rng.choice((None, 0.5))}
        if soft:
            row["datasplit"] = "eval"
            row["raw_completion"] = rng.choice((None, "text", {"logprobs": {"content": [{"token": "m"}]}}))
        rows.append(row)
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_results_of_alpaca_eval(seed: int, tmp_path: Path) -> None:
    rng, rows = random.Random(seed), []
    for model in ("Yi-34B", "Qwen 1.5 72B", "Mistral-7B+RAHF"):
        for judge, soft in (("alpaca_eval_gpt4", False), ("weighted_alpaca_eval_gpt4_turbo", True)):
            own = annotations(rng, model, judge, soft)
            path = write(tmp_path / model / judge / "annotations.json", own)
            null = sum(row["preference"] is None or row["preference"] != row["preference"] for row in own)
            assert counts(crowdsift.read(path)) == ("alpaca-eval", 60, 60 - null, null, 0)
            rows += own
        write(tmp_path / model / "model_outputs.json", [{"instruction": "i", "output": "o", "generator": model}] * 2)
    votes = crowdsift.read(tmp_path)
    known = [row["preference"] for row in rows if row["preference"] is not None and row["preference"] > -1]
    assert counts(votes)[1:3] == (360, len(known))
    assert votes.workers.tolist() == ["alpaca_eval_gpt4", "weighted_alpaca_eval_gpt4_turbo"]
    second = sum(0.5 if each == 0 else each - 1 for each in known)  # points of the models
    baseline = np.where(votes.items[votes.first] == "gpt4_1106_preview", votes.outcome, 1 - votes.outcome)
    assert float((votes.weight * (1 - baseline)).sum()) == pytest.approx(second, rel=1e-4)
    assert votes.intake is not None
    assert "3 of 9 files have no columns of votes" in votes.intake.notes[0]
    assert "model_outputs.json (instruction, output, generator)" in votes.intake.notes[0]


def llmbar(rng: random.Random, data: list[dict[str, Any]], kind: str) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return rows as LLMBar nests them, and the last winner of either order."""
    rows, winners = [], []
    for each in data:
        stages: list[Any] = [["a list of metrics", "stop"]] if kind == "Metrics" else []
        for _ in range(rng.choice((1, 2)) if kind == "Swap" else 1):
            answers = {swap: rng.choice(("1", "2", None)) for swap in (False, True)}
            stage: dict[str, Any] = {"score_1": ["7", "stop"], "score_2": ["x", ""]} if kind == "Rating" else {}
            stage |= {f"swap = {swap}": {"completion": [TEXT, "stop"], "winner": x} for swap, x in answers.items()}
            stages.append(stage)
        winners += [(swap, each["output_1"], answer) for swap, answer in answers.items()]
        rows.append({**each, "results": stages})
    return rows, winners


@pytest.mark.parametrize("seed", SEEDS)
def test_evaluators_of_llmbar(seed: int, tmp_path: Path) -> None:
    rng, every = random.Random(seed), {}
    for part in ("Natural", "Adversarial/GPTInst"):
        data = [
            {"input": f"{part} {n} {TEXT}", "output_1": f"one {n}", "output_2": f"two {n}", "label": rng.choice((1, 2))}
            for n in range(20)
        ]
        write(tmp_path / part / "dataset.json", data)
        for kind in ("Vanilla", "Metrics", "Swap", "Rating"):
            rows, winners = llmbar(rng, data, kind)
            path = write(tmp_path / part / "evaluators" / "GPT-4" / kind / "result.json", rows)
            write(path.with_name("statistics.json"), {"equal": "46 / 54", "kappa_False": 0.2})
            empty = sum(winner is None for _, _, winner in winners)
            assert counts(crowdsift.read(path)) == ("verdicts", 40, 40 - empty, empty, 0)
            every[part, kind] = winners
    votes = crowdsift.read(tmp_path / "Natural", worker_from_path=True)
    assert votes.workers.tolist() == ["Metrics", "Rating", "Swap", "Vanilla"]
    for kind in votes.workers:  # with the second output on the left its win is a win for the left side
        own = votes.worker_codes() == votes.workers.tolist().index(kind)
        left = sum(winner == ("2" if swap else "1") for swap, _, winner in every["Natural", kind])
        assert votes.weight[own & (votes.outcome == 1)].sum() == left
    votes = crowdsift.read(tmp_path, worker_from_path="evaluators/{worker}/result.json")
    assert sorted(votes.workers) == [f"GPT-4/{kind}" for kind in ("Metrics", "Rating", "Swap", "Vanilla")]
    assert counts(votes)[1] == 320


SESSIONS = {
    "judge,candidate_chosen,candidate_not_chosen": "w+-",
    "Judge,Candidate.Chosen,Candidate.Not.Chosen,Time.Taken,Date.Created": "w+-cd",
    "judge,CandidateChosen,CandidateNotChosen": "w+-",
    "Judge ID;Candidate Chosen;Candidate Not Chosen;Time Taken;": "w+-s.",
    "judge,candidate_chosen,candidate_not_chosen,TimeTaken,Internal,DateCreated": "w+-sdd",
    "id,timeTaken,createdAt,judgeId,chosen,notChosen,task,person_chosen,person_not_chosen": "nmdw+-d+-",
    "study,dimension,JudgeID,Won,Lost,TimeTaken": "ddw+-s",
    "judge,won,lost": "w+-",
    "session,subject_code,winner,loser": "dw+-",
    "Subject_No,Stimulus_selected,Stimulus_not_selected": "w+-",
    "username,userchosen,usernotchosen": "w+-",
    '"",judge,candidate_chosen,candidate_not_chosen': "nw+-",
    "judge\tscript_a\tscript_b\twinner": "wab+",
    "judge,left,right,winner": "wab+",
    "Assessor,Comparison,Left representation,Right representation,Selected representation": "wnab+",
    "judge,item1,item2,choice": "wab+",
    "annotator,left,right,selected": "wabx",
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("header", SESSIONS)
def test_sessions_of_comparative_judgement(header: str, seed: int, tmp_path: Path) -> None:
    """Letters of SESSIONS: worker, chosen (+), not chosen (-), sides (a, b), seconds, clock, milliseconds."""
    rng = random.Random(seed)
    delimiter = next(each for each in "\t;," if each in header)
    lines, wins = [header], []
    for number in range(50):
        one, two = rng.sample([f"Script {letter} é" for letter in "ABCDEFG"], 2)
        better = rng.choice((one, two))
        cells = {"w": f"j{number % 3}", "+": better, "-": two if better == one else one, "a": one, "b": two}
        cells |= {"x": "left" if better == one else "right", "n": str(number), "d": "13/01/2015 15:13", ".": ""}
        cells |= {"s": "16", "c": "00:01:16", "m": "16000"}
        lines.append(delimiter.join(cells[letter] for letter in SESSIONS[header]))
        wins.append((better, cells["-"]))
    text = "\ufeff" * (seed % 2) + "\n".join(lines) + "\n" * seed
    votes = crowdsift.read(write(tmp_path / "session.csv", text))
    assert counts(votes) == ("comparative-judgement", 50, 50, 0, 0)
    assert votes.workers.tolist() == ["j0", "j1", "j2"]
    assert votes.sides_known == ("a" in SESSIONS[header])
    found = {
        (votes.items[a], votes.items[b]) if y == 1 else (votes.items[b], votes.items[a])
        for a, b, y in zip(votes.first, votes.second, votes.outcome, strict=True)
    }
    assert found == set(wins)
    assert votes.intake is not None
    timed = {"c": 76.0, "s": 16.0, "m": 16.0}
    known = [timed[letter] for letter in SESSIONS[header] if letter in timed]
    assert set(votes.intake.work_seconds.values()) == set(known)


def test_a_worker_is_not_pooled_because_of_its_name(tmp_path: Path) -> None:
    rows = {"left": ["a", "b"], "right": ["b", "c"], "winner": ["left", "tie"]}
    assert crowdsift.read({**rows, "judge": ["x", "y"]}).workers.tolist() == ["x", "y"]
    assert not crowdsift.read(rows).has_workers
    assert not crowdsift.read({**rows, "judge": ["x", "y"]}, workers=False).has_workers


# The header of a table of an unknown tool, its answers for the first item, the second and a tie, and the worker.
PAIRS = {
    "model1,model2,verdict,rater": ("model1", "model2", "tie"),
    "model_a,model_b,preferred,evaluator_id": ("A", "B", "both"),
    "player_x,player_y,vote,labeler": ("player_x", "player_y", "tie"),
    "question,response_1,response_2,preference,annotator": ("1", "2", "0"),
    "prompt,reply_0,reply_1,better_response_id,worker": ("0", "1", "tie"),
    "left_image,right_image,selection,worker": ("left", "right", "neither"),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("header", PAIRS)
def test_columns_of_an_unknown_tool(header: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    names = header.split(",")
    rows, planted = [header], []
    for number in range(60):
        one, two = rng.sample([f"thing {letter}" for letter in "PQRS"], 2)
        outcome = rng.choice((1.0, 0.0, 0.5))
        planted.append((one, two, outcome))
        answer = PAIRS[header][(1.0, 0.0, 0.5).index(outcome)]
        rows.append(",".join([*(["q"] if len(names) == 5 else []), one, two, answer, f"w{number % 3}"]))
    with coded_votes(write(tmp_path / "votes.csv", "\n".join(rows) + "\n")) as coded:
        assert coded.outcome is not None
        items = [label[1] if coded.by else label for label in coded.items.tolist()]
        found = zip(coded.first, coded.second, coded.outcome.tolist(), strict=True)
        assert [(items[a], items[b], y) for a, b, y in found] == planted
        assert (coded.intake.format, coded.workers.tolist(), coded.sides_known) == ("pairs", ["w0", "w1", "w2"], False)
        notes = " ".join(coded.intake.notes)
    first = sum(y == 1.0 for *_, y in planted)
    assert f"items are taken from {names[-4]!r} and {names[-3]!r}, answers from {names[-2]!r}" in notes
    assert f"is the first ({first})" in notes


@pytest.mark.parametrize(
    ("header", "answers"),
    [
        ("response_1,response_2,preference,annotator", "01"),  # 0 and 1: first and second, or no and yes
        ("response_0,response_1,preference,annotator", "012"),  # 2: the second of three, or a tie
        ("model_a,model_b,verdict,judge", ("A is better", "none of them is much worse")),
    ],
)
def test_answers_that_could_mean_either_side_are_refused(header: str, answers: Any, tmp_path: Path) -> None:
    text = header + "\n" + "".join(f"a,b,{answer},w\n" for answer in answers)
    path = write(tmp_path / "votes.csv", text)
    with pytest.raises(InputError, match="Answers that are neither"):
        crowdsift.read(path)
    votes = crowdsift.read(path, values=dict(zip(answers, ("left", "right", "tie"), strict=False)))
    assert counts(votes) == ("pairs", len(answers), len(answers), 0, 0)


def test_numbers_as_answers_are_explained(tmp_path: Path) -> None:
    path = write(tmp_path / "votes.csv", "left,right,winner,worker\na,b,0,w\nb,c,1,w\na,c,1,w\nb,a,2,w\n")
    notes = crowdsift.read(path).intake.notes  # type: ignore[union-attr]
    assert "0 is a tie (1), 1 is the first (2), 2 is the second (1)" in notes[0]
    assert crowdsift.read(path, values={"0": "tie", "1": "left", "2": "right"}).intake.notes == ()  # type: ignore[union-attr]


def test_three_columns_of_items_are_no_pair(tmp_path: Path) -> None:
    path = write(tmp_path / "votes.csv", "response_0,response_1,response_2,preference,judge\na,b,c,0,w\n")
    with pytest.raises(InputError, match="the columns of the votes were not found"):
        crowdsift.read(path)


def test_a_column_for_every_answer(tmp_path: Path) -> None:
    header = "id,model_a,model_b,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
    rows = ["1,x,y,r,s,1,0,0", "2,x,y,r,s,0,1,0", "3,y,x,r,s,0,0,1", "4,x,y,r,s,0,0,0"]
    path = write(tmp_path / "arena.csv", header + "\n".join(rows))
    assert counts(crowdsift.read(path)) == ("arena", 4, 3, 1, 0)
    with coded_votes(path) as coded:
        assert coded.outcome is not None
        assert coded.outcome.tolist() == [1.0, 0.0, 0.5]
    path = write(tmp_path / "arena.csv", header + "1,x,y,r,s,1,1,0\n")
    with pytest.raises(InputError, match="'left and right'"):
        crowdsift.read(path)


def test_lists_of_two_replies_and_the_place_of_the_better(tmp_path: Path) -> None:
    """The comparisons of summaries that OpenAI published."""
    row = {"info": {"id": "t3", "post": TEXT}, "worker": "w"}
    both = [{"text": "long " + TEXT * 9, "policy": "ref"}, {"text": "short", "policy": "sup"}]
    rows = [{**row, "summaries": both, "choice": place} for place in (0, 1, 1, None)]
    path = write(tmp_path / "batch.json", rows)
    votes = crowdsift.read(path)
    assert counts(votes) == ("verdicts", 4, 3, 1, 0)
    short = [label[1] for label in votes.items.tolist()].index("short")
    wins = np.where(votes.first == short, votes.outcome, 1 - votes.outcome)
    assert float((votes.weight * wins).sum()) == 2.0
    for wrong, match in (({"choice": 2}, "choice 2"), ({"summaries": both[:1]}, "are not two outputs")):
        with pytest.raises(InputError, match=match):
            crowdsift.read(write(tmp_path / "bad.json", [*rows, {**rows[0], **wrong}]))


def test_signed_preferences_say_what_they_were_taken_for(tmp_path: Path) -> None:
    """As HelpSteer has them: -3 says that the first reply is much better."""
    rows = [
        {"prompt": "q " + TEXT, "response_1": "one " + TEXT * 9, "response_2": "two", "preference_strength": strength}
        for strength in (-3, -1, 0, 2)
    ]
    path = write(tmp_path / "train.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with coded_votes(path) as coded:
        assert coded.outcome is not None
        assert coded.outcome.tolist() == [1.0, 1.0, 0.5, 0.0]
        assert coded.by == "prompt"
        assert max(len(str(label)) for label in coded.items[0]) < 80
    notes = " ".join(coded.intake.notes)
    assert "-3 says that response_1 is much better than response_2" in notes
