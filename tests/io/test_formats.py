"""Votes as the tools of the field write them, against what the generator planted."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import crowdsift
from crowdsift import InputError, RequestError
from crowdsift.io.formats import known_formats, side_columns
from crowdsift.io.options import ReadOptions
from crowdsift.votes.replies import cut


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def turk_rows(seed: int = 1) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Rows of a batch with empty answers, rejected and duplicate assignments, and their counts."""
    draw = random.Random(seed)
    rows = []
    for number in range(200):
        one, two = draw.sample([f"https://x/{i}.jpg" for i in range(9)], 2)
        answer = draw.choice(["A", "B", "b", "tie", ""])
        rows.append(
            {
                "HITId": f"h{number // 3}",
                "AssignmentId": f"a{number}",
                "WorkerId": f"W{number % 12}",
                "AssignmentStatus": draw.choice(["Approved", "Rejected"]),
                "Input.image_a": one,
                "Input.image_b": two,
                "Answer.choice": answer,
            }
        )
    doubles = draw.sample(rows, 7)
    count = Counter(
        empty=sum(not row["Answer.choice"] for row in rows),
        rejected=sum(bool(row["Answer.choice"]) and row["AssignmentStatus"] == "Rejected" for row in rows),
        a=sum(row["Answer.choice"] == "A" for row in rows),
    )
    rows = rows + doubles
    draw.shuffle(rows)
    return rows, count


def test_mturk_counts_every_row(tmp_path: Path) -> None:
    rows, count = turk_rows()
    votes = crowdsift.read(table(tmp_path / "batch.csv", rows))
    intake = votes.intake
    assert intake is not None
    assert (intake.format, intake.rows, intake.duplicates, intake.empty, intake.set_aside) == (
        "mturk",
        207,
        7,
        count["empty"],
        0,
    )
    assert intake.used == 200 - count["empty"] == votes.total_weight
    assert f"{count['rejected']} of the rows used are of rejected assignments" in intake.notes[0]
    assert votes.sides_known
    assert votes.weight[votes.outcome == 1].sum() == count["a"]
    kept = crowdsift.read(tmp_path / "batch.csv", where="AssignmentStatus != 'Rejected'")
    rejected = sum(row["AssignmentStatus"] == "Rejected" for row in rows)
    assert kept.intake is not None
    assert kept.intake.left_out == rejected
    assert kept.total_weight == intake.used - count["rejected"]


def test_mturk_of_a_frame_is_that_of_the_file(tmp_path: Path) -> None:
    rows, _ = turk_rows(5)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    file = crowdsift.read(table(tmp_path / "batch.csv", rows))
    frame = crowdsift.read(columns)
    assert frame.intake == file.intake
    assert (frame.first == file.first).all()
    assert (frame.outcome == file.outcome).all()


def test_answers_that_are_neither_side_are_all_listed(tmp_path: Path) -> None:
    rows = [row for row in turk_rows()[0] if row["Answer.choice"] in ("A", "B")]
    rows = list({row["AssignmentId"]: row for row in rows}.values())
    for number, row in enumerate(rows):
        row["Answer.choice"] = "C" if number < 20 else "dunno" if number < 24 else "A"
    path = table(tmp_path / "batch.csv", rows)
    with pytest.raises(InputError, match=r"row 1, column 'Answer.choice'") as caught:
        crowdsift.read(path)
    assert "'C' (20 rows), 'dunno' (4 rows)" in str(caught.value)
    assert '--values "C=...,dunno=..."' in str(caught.value)
    votes = crowdsift.read(path, values={"c": "tie", "dunno": "empty"})
    assert votes.intake is not None
    assert (votes.intake.empty, votes.intake.used) == (4, len(rows) - 4)
    assert votes.weight[votes.outcome == 0.5].sum() == 20
    with pytest.raises(RequestError, match="an answer means left, right, tie, both_bad or empty"):
        crowdsift.read(path, values={"C": "maybe"})


def arena_rows() -> list[dict[str, Any]]:
    answers = ["model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "model_a"]
    return [
        {
            "model_a": f"m{i % 4}",
            "model_b": f"m{(i + 1) % 4}",
            "winner": answer,
            "judge": f"j{i % 3}",
            "turn": 1 + i % 2,
            "language": "English",
            "tstamp": i,
        }
        for i, answer in enumerate(answers * 5)
    ]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv"])
def test_arena_counts_both_bad_as_ties(tmp_path: Path, suffix: str) -> None:
    rows = arena_rows()
    path = tmp_path / f"arena.{suffix}"
    if suffix == "csv":
        table(path, rows)
    elif suffix == "json":
        path.write_text(json.dumps(rows))
    else:
        lines(path, rows)
    votes = crowdsift.read(path)
    assert votes.intake is not None
    assert (votes.intake.format, votes.intake.used, votes.intake.both_bad) == ("arena", 30, 10)
    assert votes.weight[votes.outcome == 0.5].sum() == 15
    assert votes.weight[votes.outcome == 1].sum() == 10
    assert votes.sides_known
    only = crowdsift.read(path, where="turn = 1 AND language = 'English'")
    assert only.intake is not None
    assert (only.intake.used, only.intake.left_out) == (15, 15)


def test_arena_without_judges_is_pooled() -> None:
    rows = arena_rows()
    columns = {name: [row[name] for row in rows] for name in ("model_a", "model_b", "winner")}
    votes = crowdsift.read(columns)
    assert votes.intake is not None
    assert votes.intake.format == "arena-rank"
    assert not votes.has_workers
    pairs = crowdsift.read({"left": ["a", "b"], "right": ["b", "c"], "winner": ["left", "tie"]})
    assert pairs.intake is not None
    assert pairs.intake.format == "evalica"


def test_mtbench_judgments() -> None:
    human = {
        "question_id": [81, 82],
        "model_a": ["x", "y"],
        "model_b": ["y", "z"],
        "winner": ["model_a", "tie (inconsistent)"],
        "judge": ["author_0", "expert_1"],
        "turn": [1, 2],
    }
    votes = crowdsift.read(human)
    assert votes.intake is not None
    assert votes.intake.format == "mtbench"
    assert sorted(votes.outcome.tolist()) == [0.5, 1.0]


def test_both_orders_of_an_llm_judge(tmp_path: Path) -> None:
    rows = [
        {
            "question_id": 81,
            "model_1": "x",
            "model_2": "y",
            "g1_winner": "model_1",
            "g2_winner": "model_2",
            "judge": ["gpt-4", "pair-v2"],
        },
        {
            "question_id": 82,
            "model_1": "x",
            "model_2": "z",
            "g1_winner": "tie",
            "g2_winner": "error",
            "judge": ["gpt-4", "pair-v2"],
        },
    ]
    votes = crowdsift.read(lines(tmp_path / "gpt-4_pair.jsonl", rows))
    assert votes.intake is not None
    assert (votes.intake.format, votes.intake.rows, votes.intake.used, votes.intake.empty) == ("mtbench-pairs", 4, 3, 1)
    assert votes.workers.tolist() == ["gpt-4 pair-v2"]
    shown = {
        (votes.items[i], votes.items[j], float(y))
        for i, j, y in zip(votes.first, votes.second, votes.outcome, strict=True)
    }
    # The second game has model_2 on the left, and it won.
    assert shown == {("x", "y", 1.0), ("y", "x", 1.0), ("x", "z", 0.5)}


REFUSAL = "I am sorry, but I cannot help with that."


def preferences() -> list[dict[str, Any]]:
    long = "a word " * 30
    return [
        {
            "prompt": f"P{i // 2}",
            "chosen": REFUSAL if i % 2 else f"{long}{i} \n 答え",
            "rejected": f"[{i}] {long}\nend",
            "annotator_id": f"ann{i % 3}",
        }
        for i in range(12)
    ]


def as_chat(row: dict[str, Any], *, prompt: bool) -> dict[str, Any]:
    user = {"role": "user", "content": row["prompt"]}
    chat = {name: [user, {"role": "assistant", "content": row[name]}] for name in ("chosen", "rejected")}
    kept = dict(row) if prompt else {"annotator_id": row["annotator_id"]}
    return {**kept, **chat}


def test_equal_replies_to_two_prompts_are_two_items(tmp_path: Path) -> None:
    rows = preferences()
    votes = crowdsift.read(lines(tmp_path / "trl.jsonl", rows))
    assert votes.intake is not None
    assert (votes.intake.format, votes.by, votes.intake.used) == ("trl", "prompt", 12)
    expected = {(row["prompt"], cut(row[side])) for row in rows for side in ("chosen", "rejected")}
    assert set(votes.items.tolist()) == expected
    assert sum(item == REFUSAL for _, item in votes.items) == 6
    assert max(len(item) for _, item in votes.items) <= 69
    assert "\n" not in "".join(item for _, item in votes.items)


def test_chats_frames_and_files_give_the_same_votes(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = preferences()
    chats = [as_chat(row, prompt=True) for row in rows]
    expected = crowdsift.read(lines(tmp_path / "trl.jsonl", rows))
    pq.write_table(pa.Table.from_pylist(chats), tmp_path / "chat.parquet")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "text.parquet")
    for source in (
        lines(tmp_path / "chat.jsonl", chats),
        table(tmp_path / "trl.csv", rows),
        tmp_path / "chat.parquet",
        tmp_path / "text.parquet",
        pa.Table.from_pylist(chats),
        pa.Table.from_pylist(rows).to_pandas(),
        {name: [row[name] for row in chats] for name in chats[0]},
    ):
        votes = crowdsift.read(source)
        assert votes.items.tolist() == expected.items.tolist()
        assert votes.by == "prompt"
        for name in ("first", "second", "weight", "offsets"):
            assert (getattr(votes, name) == getattr(expected, name)).all()


def test_data_sets_of_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    rows = preferences()
    expected = crowdsift.read(lines(tmp_path / "trl.jsonl", rows))
    given = datasets.Dataset.from_list([as_chat(row, prompt=True) for row in rows])
    votes = crowdsift.read(given.shuffle(seed=1))
    assert votes.items.tolist() == expected.items.tolist()
    assert (votes.first == expected.first).all()
    assert crowdsift.read(given.select(range(4))).rows == 4
    assert crowdsift.read(datasets.DatasetDict({"train": given})).rows == crowdsift.read(given).rows
    for several in (datasets.DatasetDict({"train": given, "test": given}), given.to_iterable_dataset()):
        with pytest.raises(RequestError, match=f"a {type(several).__name__} of Hugging Face; give a Dataset"):
            crowdsift.read(several)


def test_implicit_prompts(tmp_path: Path) -> None:
    rows = preferences()
    chats = [as_chat(row, prompt=False) for row in rows]
    votes = crowdsift.read(lines(tmp_path / "implicit.jsonl", chats))
    assert votes.by == "prompt"
    assert len(set(votes.item_contexts.tolist())) == 6
    assert sum(item == REFUSAL for _, item in votes.items) == 6
    talks = [
        {
            "chosen": f"\n\nHuman: {r['prompt']}\n\nAssistant: {r['chosen']}",
            "rejected": f"\n\nHuman: {r['prompt']}\n\nAssistant: {r['rejected']}",
            "annotator_id": r["annotator_id"],
        }
        for r in rows
    ]
    votes = crowdsift.read(lines(tmp_path / "hh.jsonl", talks))
    assert len(set(votes.item_contexts.tolist())) == 6
    assert sum(item == REFUSAL for _, item in votes.items) == 6


def test_columns_named_by_hand_keep_the_prompts(tmp_path: Path) -> None:
    path = lines(tmp_path / "trl.jsonl", preferences())
    columns = {"winner": "chosen", "loser": "rejected", "worker": "annotator_id"}
    assert crowdsift.read(path, columns=columns).by == "prompt"
    assert crowdsift.read(path, columns=columns, format="plain").by == ""
    assert crowdsift.read(path, by="prompt").by == "prompt"
    with pytest.raises(RequestError, match="whose contexts are the prompts"):
        crowdsift.read(path, by="annotator_id", columns={"worker": "prompt"})


def test_a_chat_without_an_assistant_is_refused(tmp_path: Path) -> None:
    rows = [as_chat(row, prompt=True) for row in preferences()]
    rows[4]["chosen"] = rows[4]["chosen"][:1]
    rows[7]["rejected"] = []
    path = lines(tmp_path / "chat.jsonl", rows)
    with pytest.raises(InputError, match=r"row 5, column 'chosen': empty reply .*the assistant's"):
        crowdsift.read(path)
    votes = crowdsift.read(path, skip_bad=True)
    assert votes.intake is not None
    assert (votes.intake.used, votes.intake.set_aside) == (10, 2)


def tasks() -> list[dict[str, Any]]:
    return [
        {
            "id": t,
            "data": {"image_a": f"x{t}", "image_b": f"x{t + 1}", "title": "which?"},
            "annotations": [
                {
                    "id": 10 * t + w,
                    "completed_by": {"id": w, "email": f"w{w}@x"} if t else w,
                    "was_cancelled": (t, w) == (2, 1),
                    "result": []
                    if (t, w) == (3, 0)
                    else [{"type": "pairwise", "value": {"selected": "left" if w else "right"}}],
                }
                for w in range(3)
            ],
        }
        for t in range(5)
    ]


def test_label_studio(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(tasks()))
    votes = crowdsift.read(path)
    assert votes.intake is not None
    assert str(votes.intake) == (
        "label-studio: 15 rows read, 13 used, 1 empty, 0 duplicates, 1 set aside (1 cancelled)"
    )
    assert set(votes.workers.tolist()) == {0, 1, 2, "w0@x", "w1@x", "w2@x"}
    assert votes.weight[votes.outcome == 1].sum() == 9
    path.write_text(json.dumps([*tasks(), tasks()[1]]))  # a task that was exported twice
    again = crowdsift.read(path)
    assert again.intake is not None
    assert (again.intake.duplicates, again.intake.used) == (3, 13)


def test_argilla_rankings_in_every_form(tmp_path: Path) -> None:
    fields = {"prompt": "Why?", "r1": "because", "r2": "so", "r3": "who knows"}
    ranks = [{"rank": 1, "value": "r2"}, {"rank": 2, "value": "r1"}, {"rank": 2, "value": "r3"}]
    order = ["r2", "r1", "r3"]
    records = [
        {
            "id": 1,
            "fields": fields,
            "responses": {
                "ranking": [
                    {"value": ranks, "user_id": "u1"},
                    {"value": None, "user_id": "u2"},
                    {"value": ranks, "user_id": "u3", "status": "discarded"},
                ]
            },
        }
    ]
    older = [
        {
            **fields,
            "ranking": [{"user_id": "u1", "value": ranks, "status": "submitted"}],
            "ranking-suggestion": None,
            "external_id": None,
            "metadata": "{}",
        }
    ]
    columns = [
        {
            **fields,
            "id": "1",
            "ranking.responses": [order],
            "ranking.responses.users": ["u1"],
            "ranking.responses.status": ["submitted"],
        }
    ]
    for name, rows in (("records", records), ("older", older), ("columns", columns)):
        votes = crowdsift.read(lines(tmp_path / f"{name}.jsonl", rows))
        assert votes.intake is not None
        assert votes.intake.format == "argilla"
        assert votes.intake.votes == 3
        assert votes.total_weight == pytest.approx(2)  # a ranking of three counts as two votes
        assert votes.by == "prompt"
        assert {context for context, _ in votes.items} == {"Why?"}
        ties = (votes.outcome == 0.5).sum()
        assert ties == (0 if name == "columns" else 1)
    votes = crowdsift.read(tmp_path / "records.jsonl")
    assert votes.intake is not None
    assert (votes.intake.rows, votes.intake.used, votes.intake.empty) == (3, 1, 1)
    assert votes.intake.reasons == (("discarded", 1),)


def test_rankings_with_ties_and_gaps() -> None:
    rows = {
        "worker": ["u"] * 4 + ["v"] * 2 + ["w"],
        "task": [1] * 4 + [2] * 2 + [3],
        "item": list("abcd") + list("ab") + ["a"],
        "rank": [1, 7, 7, 90, 2, 1, 1],
    }
    votes = crowdsift.read(rows)
    assert votes.intake is not None
    assert (votes.intake.format, votes.intake.rows, votes.intake.used) == ("rankings", 3, 2)
    assert votes.intake.reasons == (("rankings of one item", 1),)
    assert votes.intake.votes == 7
    assert votes.total_weight == pytest.approx(3 + 1)
    assert (votes.outcome == 0.5).sum() == 1
    with pytest.raises(InputError, match=r"row 3, column 'rank': 'x' is not a number"):
        crowdsift.read({**rows, "rank": [1, 2, "x", 4, 1, 2, 1]})
    twice = {"worker": ["u"] * 3, "task": [1] * 3, "item": ["a", "b", "a"], "rank": [1, 2, 3]}
    with pytest.raises(InputError, match=r"row 3, column 'item': the item 'a' is in row 1, too"):
        crowdsift.read(twice)


def test_toloka_and_crowd_kit() -> None:
    rows = {
        "INPUT:image_left": ["a", "b"],
        "INPUT:image_right": ["b", "c"],
        "OUTPUT:result": ["left", "right"],
        "ASSIGNMENT:worker_id": ["u", "v"],
        "ASSIGNMENT:assignment_id": ["1", "2"],
        "ASSIGNMENT:status": ["REJECTED", "APPROVED"],
    }
    votes = crowdsift.read(rows)
    assert votes.intake is not None
    assert votes.intake.format == "toloka"
    assert votes.intake.notes[0].startswith("1 of the rows used are of rejected assignments")
    kit = {"worker": [1, 2], "left": ["a", "b"], "right": ["b", "c"], "label": ["b", "b"]}
    votes = crowdsift.read(kit)
    assert votes.intake is not None
    assert votes.intake.format == "crowd-kit"
    assert sorted(votes.outcome.tolist()) == [0.0, 1.0]


def test_half_a_format_says_what_is_missing() -> None:
    with pytest.raises(InputError, match=r"nearly the format arena .*winner is missing"):
        crowdsift.read({"model_a": ["x"], "model_b": ["y"], "judge": ["u"]})
    with pytest.raises(InputError, match=r"not in the format mturk .*AssignmentId (is|are) missing"):
        crowdsift.read({"WorkerId": ["x"], "Input.a": ["1"], "Input.b": ["2"], "Answer.q": ["A"]}, format="mturk")
    with pytest.raises(RequestError, match="unknown format 'excel'; the formats are auto, plain"):
        crowdsift.read({"winner": ["a"], "loser": ["b"]}, format="excel")


def test_the_sides_of_columns() -> None:
    assert side_columns(["Input.left_img", "Input.right_img", "Input.id"]) == [("Input.left_img", "Input.right_img")]
    assert side_columns(["answer1", "answer2"]) == [("answer1", "answer2")]
    assert side_columns(["ResponseA", "ResponseB"]) == [("ResponseA", "ResponseB")]
    assert side_columns(["text", "label"]) == []


def test_every_format_has_a_name_and_a_title() -> None:
    for form in known_formats():
        assert form.title
        assert form.name == form.name.lower()
        assert ReadOptions(format=form.name).format == form.name
