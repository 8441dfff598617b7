"""Answers inside cells of JSON, the short export of Label Studio, and times of work."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError
from crowdsift.report.checks import run_checks
from crowdsift.report.facts import gather


def batch(path: Path, answers: list[str], seconds: list[int] | None = None) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["AssignmentId", "WorkerId", "WorkTimeInSeconds", "Input.image_a", "Input.image_b", "Answer.taskAnswers"]
        )
        for i, answer in enumerate(answers):
            time = 10 if seconds is None else seconds[i % len(seconds)]
            writer.writerow([i, f"w{i % 4}", time, f"i{i % 5}", f"i{(i + 1 + i % 3) % 5}", answer])
    return path


def test_answers_of_mturk_in_json(tmp_path: Path) -> None:
    forms = {
        '[{"choice":{"A":true,"B":false}}]': 1.0,
        '[{"choice":{"A":false,"B":true}}]': 0.0,
        '[{"nicer":"A"}]': 1.0,
        '[{"category":{"label":"B"}}]': 0.0,
        '[{"q":{"tie":true,"A":false}}]': 0.5,
    }
    path = batch(tmp_path / "batch.csv", [*forms, '[{"choice":{"A":false,"B":false}}]', "[]"])
    votes = crowdsift.read(path)
    assert str(votes.intake) == "mturk: 7 rows read, 5 used, 2 empty, 0 duplicates, 0 set aside"
    assert sorted(votes.outcome.tolist()) == sorted(forms.values())
    two = '[{"q1":"A","q2":"B"}]'
    with pytest.raises(InputError, match="neither side") as fault:
        crowdsift.read(batch(tmp_path / "two.csv", [two, '[{"q1":"A"}]']))
    assert "(1 row)" in str(fault.value)
    meant = crowdsift.read(tmp_path / "two.csv", values={two: "tie"})
    assert sorted(meant.outcome.tolist()) == [0.5, 1.0]


def test_the_short_export_of_label_studio(tmp_path: Path) -> None:
    rows = [
        {
            "image_a": f"i{i % 5}",
            "image_b": f"i{(i + 1) % 5}",
            "id": i,
            "annotator": 1 + i % 3,
            "annotation_id": i // 2 * 2,
            "lead_time": 3.5,
            "created_at": "x",
            "updated_at": "x",
            "comparison": [{"selected": "left" if i % 3 else "right"}],
        }
        for i in range(10)
    ]
    path = tmp_path / "min.json"
    path.write_text(json.dumps(rows))
    votes = crowdsift.read(path)
    assert str(votes.intake) == ("label-studio: 10 rows read, 5 used, 0 empty, 5 duplicates, 0 set aside")
    assert votes.n_workers == 3
    assert votes.sides_known
    for row in rows:
        row["annotation_id"] = row["id"]
        row["comparison"] = row["comparison"][0]["selected"] if row["id"] != 4 else None
    path.write_text(json.dumps(rows))
    plain = crowdsift.read(path)
    assert plain.intake is not None
    assert (plain.intake.used, plain.intake.empty) == (9, 1)
    won = sum(row["comparison"] == "left" for row in rows)
    assert plain.weight[plain.outcome == 1].sum() == won


def test_times_of_work_are_a_check_and_no_evidence() -> None:
    votes = crowdsift.simulate(10, 9, 900, reliability=(1.5, 2.5), seed=3).comparisons()
    fit = crowdsift.fit(votes)
    assert not [each for each in run_checks(gather(fit, votes)) if each.key == "times"]
    who = fit.worker_table["worker"].tolist()
    timed = fit.with_seconds({name: 2.0 if name == who[0] else 30.0 for name in who})
    (check,) = (each for each in run_checks(gather(timed, votes)) if each.key == "times")
    assert "take 30 seconds or more" in check.finding
    assert "1 of 9 take less than a third of that, 0 of them flagged" in check.finding
    assert check.state == "care"
    for name in ("reliability", "lower", "upper"):
        np.testing.assert_array_equal(timed.worker_table[name], fit.worker_table[name])
    assert timed.worker_table["verdict"].tolist() == fit.worker_table["verdict"].tolist()
