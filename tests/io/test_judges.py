"""Files of LLM judges and panels: every row is accounted for, and means what was planted."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdsift
from crowdsift import InputError, RequestError
from crowdsift.io.ingest import coded_votes
from crowdsift.report.terminal import _worker_table

SEEDS = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module", params=SEEDS)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    return _made("judges.py", request.param, tmp_path_factory, data_dir)


def _made(name: str, seed: int, temporary: pytest.TempPathFactory, data_dir: Path, *more: str) -> Path:
    script = data_dir.parent / "samples" / name
    if not script.is_file():
        pytest.skip(f"the generator of samples is not at {script}")
    folder = temporary.mktemp("samples")
    subprocess.run([sys.executable, script, folder, "--seed", str(seed), *more], check=True)
    return folder


def rows_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text()
    if path.suffix == ".csv":
        return list(csv.DictReader(text.splitlines()))
    return json.loads(text) if path.suffix == ".json" else [json.loads(x) for x in text.splitlines()]


def line(votes: crowdsift.Comparisons) -> tuple[str, int, int, int, int]:
    intake = votes.intake
    assert intake is not None
    return intake.format, intake.rows, intake.used, intake.empty, intake.set_aside


def outcomes(votes: Any) -> list[float]:
    """The outcome of every vote for its first item, in the order of the rows."""
    with coded_votes(votes) as coded:
        return [] if coded.outcome is None else coded.outcome.tolist()


def test_alpaca_eval(judged: Path) -> None:
    rows = [row for path in judged.glob("alpaca_eval/*/*.json") for row in rows_of(path)]
    votes = crowdsift.read(judged / "alpaca_eval")
    null = sum(row["preference"] is None for row in rows)
    assert line(votes) == ("alpaca-eval", len(rows), len(rows) - null, null, 0)
    assert not votes.sides_known  # where an output was shown is not in the file
    known = [row for row in rows if row["preference"] is not None]
    first = sum(2.0 - row["preference"] for row in known)  # 1: the first generator, 2: the second
    baseline = np.where(votes.items[votes.first] == "model-a", votes.outcome, 1 - votes.outcome)
    assert float((votes.weight * baseline).sum()) == pytest.approx(first, rel=1e-5)
    assert votes.workers.tolist() == ["strong-0", "weak-0"]


def test_arena_hard(judged: Path) -> None:
    paths = list(judged.glob("arena_hard/*/*.jsonl"))
    rows = [row for path in paths for row in rows_of(path)]
    votes = crowdsift.read(judged / "arena_hard")
    assert line(votes) == ("arena-hard", 2 * len(rows), 2 * len(rows), 0, 0)
    assert votes.sides_known
    position = votes.workers.tolist().index("position-0")
    own = votes.worker_codes() == position
    scores = [g["score"] for r in rows if r["judge"] == "position-0" for g in r["games"]]
    left = sum(score in ("A>B", "A>>B") for score in scores)
    assert votes.weight[own & (votes.outcome == 1)].sum() == left
    assert votes.intake is not None
    assert any("much better" in note for note in votes.intake.notes)
    fit = crowdsift.fit(votes)
    verdict = dict(zip(fit.worker_table["worker"], fit.worker_table["verdict"], strict=True))
    assert verdict["position-0"] == "one-sided"


def test_grades_stay_in_the_rows(judged: Path) -> None:
    path = judged / "arena_hard" / "strong-1" / "model-b.jsonl"
    scores = [game["score"] for row in rows_of(path) for game in row["games"]]
    with coded_votes(path) as coded:
        assert coded.grade is not None
        assert coded.grade.tolist() == [score.count(">") for score in scores]


def test_pandalm(judged: Path) -> None:
    rows = rows_of(judged / "pandalm.json")
    votes = crowdsift.read(judged / "pandalm.json")
    assert line(votes) == ("pandalm", 3 * len(rows), 3 * len(rows), 0, 0)
    assert votes.workers.tolist() == ["annotator1", "annotator2", "annotator3"]
    assert votes.n_items == 5
    for answer, outcome in ((1, 1.0), (2, 0.0), (0, 0.5)):
        planted = sum(row[f"annotator{k}"] == answer for row in rows for k in (1, 2, 3))
        assert votes.weight[votes.outcome == outcome].sum() == planted


def test_verdicts(judged: Path) -> None:
    kinds = {row["judge"]: row["kind"] for row in rows_of(judged / "judges.csv")}
    fit = crowdsift.fit(judged / "verdicts", worker_from_path=True)
    votes = fit.votes
    assert votes is not None
    assert line(votes) == ("verdicts", 400 * len(kinds), 400 * len(kinds), 0, 0)
    assert sorted(votes.workers) == sorted(kinds)
    judge = "position-1"
    rows = rows_of(judged / "verdicts" / judge / "result.json")
    first = sum((row["winner"] == "1") != row["swap"] for row in rows)  # that shown first won
    own = votes.worker_codes() == votes.workers.tolist().index(judge)
    assert votes.weight[own & (votes.outcome == 1)].sum() == first
    verdict = dict(zip(fit.worker_table["worker"], fit.worker_table["verdict"], strict=True))
    assert {verdict[name] for name, kind in kinds.items() if kind == "position"} == {"one-sided"}


def test_other_files(judged: Path) -> None:
    for name, known in {
        "cj.csv": "comparative-judgement",
        "panel.csv": "plain",
        "tastes.csv": "plain",
        "arena140k.jsonl": "arena-rank",
    }.items():
        rows = rows_of(judged / name)
        votes = crowdsift.read(judged / name)
        assert line(votes) == (known, len(rows), len(rows), 0, 0)
    bad = sum(row["winner"] == "both_bad" for row in rows)
    assert votes.intake is not None
    assert votes.intake.both_bad == bad
    assert any("--dependent-by evaluation_session_id" in note for note in votes.intake.notes)
    seconds = crowdsift.read(judged / "cj.csv").intake.work_seconds  # type: ignore[union-attr]
    assert len(seconds) == 30


@pytest.mark.parametrize("judged", SEEDS[:2], indirect=True)
def test_style_control(judged: Path) -> None:
    """The truth has a coefficient of 0.35 for the log ratio of tokens, and none for Markdown."""
    fit = crowdsift.fit(judged / "arena140k.jsonl", style_control=True)
    found = dict(zip(fit.coefficients["covariate"], fit.coefficients["coefficient"], strict=True))
    assert set(found) - {"side"} == {"tokens"}
    assert abs(float(found["tokens"]) - 0.35) < 0.15
    truth = {row["model"]: float(row["quality"]) for row in rows_of(judged / "models.csv")}
    assert np.corrcoef(fit.scores_of(list(truth)), list(truth.values()))[0, 1] > 0.98
    with pytest.raises(InputError, match="no column 'conv_metadata'"):
        crowdsift.read(judged / "panel.csv", style_control=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_files_of_make(seed: int, tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> None:
    folder = _made("make.py", seed, tmp_path_factory, data_dir, "--scale", "0.1")
    for name, known in {
        "arena.jsonl": "arena",
        "trl.jsonl": "trl",
        "trl_chat.jsonl": "trl",
        "pairs_only.jsonl": "trl",
    }.items():
        rows = rows_of(folder / name)
        assert line(crowdsift.read(folder / name)) == (known, len(rows), len(rows), 0, 0)
    rows = rows_of(folder / "mturk.csv")
    first = {row["AssignmentId"]: row for row in rows}
    empty = sum(not row["Answer.choice"] for row in first.values())
    votes = crowdsift.read(folder / "mturk.csv")
    assert line(votes) == ("mturk", len(rows), len(first) - empty, empty, 0)
    notes = [note for task in rows_of(folder / "label_studio.json") for note in task["annotations"]]
    void = sum(note["was_cancelled"] for note in notes)
    votes = crowdsift.read(folder / "label_studio.json")
    assert line(votes) == ("label-studio", len(notes), len(notes) - void, 0, void)


def write(path: Path, rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    return path


def alpaca(preference: Any, model: str = "m", **more: Any) -> dict[str, Any]:
    row = {"generator_1": "base", "generator_2": model, "annotator": "gpt", "output_1": "o"}
    return {**row, "preference": preference, "instruction": "i", "output_2": "p", **more}


def test_what_real_annotations_hold(tmp_path: Path) -> None:
    rows = [alpaca(each) for each in (1, 2.0, "1.25", None, float("nan"))]
    rows += [alpaca(0, "n"), alpaca(1.5, "base"), alpaca(1, annotator=None)]
    rows.append(alpaca(2, "n", raw_completion={"text": "m"}))
    votes = crowdsift.read(write(tmp_path / "annotations.json", rows))
    assert line(votes) == ("alpaca-eval", 9, 5, 2, 2)
    assert outcomes(tmp_path / "annotations.json") == [1, 0, 0.75, 0.5, 0]
    assert votes.intake is not None
    reasons = dict(votes.intake.reasons)
    assert reasons == {"an item compared with itself": 1, "empty worker label": 1}
    for row in rows:
        del row["annotator"]
    assert not crowdsift.read(write(tmp_path / "annotations.json", rows)).has_workers
    for bad in (2.7, -1, "good"):
        path = write(tmp_path / "annotations.json", [alpaca(1), alpaca(bad)])
        with pytest.raises(InputError, match=f"row 2, column 'preference'.*{bad}.*between 1 and 2"):
            crowdsift.read(path)
        assert line(crowdsift.read(path, skip_bad=True))[2:] == (1, 0, 1)


def test_what_real_games_hold(tmp_path: Path) -> None:
    games: list[Any] = [
        [{"score": "A>>B"}, {"score": "[[B>A]]"}],
        None,
        [None, {"score": None}],
        [{"score": "A=B", "judgment": "x"}, {"score": "error"}],
        [{"score": "B>>A"}],
    ]
    rows = [{"question_id": n, "model": "m", "judge": "j", "games": g} for n, g in enumerate(games)]
    text = "\n".join(map(json.dumps, [*rows, {**rows[0], "model": "gpt-4-0314"}])) + "\n\n"
    votes = crowdsift.read(write(tmp_path / "m.jsonl", text))
    assert line(votes) == ("arena-hard", 11, 4, 5, 2)
    assert votes.items.tolist() == ["gpt-4-0314", "m"]  # the baseline of 0.1 is not in the rows
    assert sorted(votes.outcome.tolist()) == [0, 0, 0.5, 1]


def test_llmbar_nests_both_orders(tmp_path: Path) -> None:
    """Of several stages the last counts; winner names the output in either order."""
    early = {f"swap = {swap}": {"winner": "1"} for swap in (False, True)}
    late = {"swap = False": {"winner": "1"}, "swap = True": {"winner": None}}
    rows = [
        {"input": f"task {n}", "output_1": f"one {n}", "output_2": f"two {n}", "label": 1, "results": results}
        for n, results in enumerate(([early], [early, late], {"swap = True": {"winner": 2}}))
    ]
    for judge in ("GPT-4/Vanilla", "PaLM2/CoT"):
        write(tmp_path / "evaluators" / judge / "result.json", rows)
        write(tmp_path / "evaluators" / judge / "statistics.json", {"accuracy": 1})
    votes = crowdsift.read(tmp_path, worker_from_path="evaluators/{worker}/result.json")
    assert votes.workers.tolist() == ["GPT-4/Vanilla", "PaLM2/CoT"]
    assert line(votes) == ("verdicts", 10, 8, 2, 0)
    assert votes.intake is not None
    assert "2 of 4 files" in votes.intake.notes[0]
    first = {(votes.items[i][1][:3], y) for i, y in zip(votes.first, votes.outcome, strict=True)}
    assert first == {("one", 1.0), ("two", 0.0), ("two", 1.0)}
    with pytest.raises(InputError, match="matches no path of 4"):
        crowdsift.read(tmp_path, worker_from_path="judges/{worker}.json")
    with pytest.raises(RequestError, match=r"needs \{worker\} once"):
        crowdsift.read(tmp_path, worker_from_path="judges")


def test_paths_of_workers(tmp_path: Path) -> None:
    rows = [{"left": "a", "right": "b", "winner": "left"}, {"left": "b", "right": "c", "winner": "tie"}]
    for name in ("x/ann.json", "x/bob.json"):
        write(tmp_path / name, rows)
    votes = crowdsift.read(tmp_path / "x", worker_from_path=True)
    assert votes.workers.tolist() == ["ann", "bob"]
    assert crowdsift.read(tmp_path / "x" / "ann.json", worker_from_path=True).workers[0] == "ann"
    own = [{**row, "worker": "someone"} for row in rows]
    for name in ("x/ann.json", "x/bob.json"):
        write(tmp_path / name, own)
    assert crowdsift.read(tmp_path / "x").workers.tolist() == ["someone"]
    assert crowdsift.read(tmp_path / "x", worker_from_path=True).workers.tolist() == ["ann", "bob"]
    hidden = crowdsift.read(tmp_path / "x", worker_from_path=True, hide_workers=True)
    assert not {"ann", "bob"} & set(hidden.workers.tolist())
    with pytest.raises(RequestError, match="named once"):
        crowdsift.read(tmp_path / "x", worker_from_path=True, columns={"worker": "worker"})
    with pytest.raises(RequestError, match="is for files"):
        crowdsift.read({"left": ["a"]}, worker_from_path=True)


def test_verdict_files_are_updated(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for judge in ("ann", "bob", "cyd", "dan", "eve"):
        rows = [
            {
                "id": f"p{task}",
                "output_1": f"{task} one",
                "output_2": f"{task} two",
                "swap": swap,
                "winner": "12"[(task + int(rng.random() < 0.15)) % 2],
            }
            for task in range(40)
            for swap in (False, True)
        ]
        for part in (tmp_path / "all", tmp_path / ("new" if judge == "cyd" else "old")):
            write(part / judge / "result.json", rows)
    crowdsift.fit(tmp_path / "old", worker_from_path=True).save(tmp_path / "fit")
    whole = crowdsift.fit(tmp_path / "all", worker_from_path=True)
    for options in ({}, {"worker_from_path": True}):
        found = crowdsift.load(tmp_path / "fit").update(tmp_path / "new", **options)
        assert found.labels == whole.labels
        assert found.worker_table["worker"].tolist() == whole.worker_table["worker"].tolist()
        assert float(np.abs(whole.item_table["score"]).max()) > 0.5
        np.testing.assert_allclose(found.item_table["score"], whole.item_table["score"], atol=1e-3)
        assert found.votes is not None
        assert whole.votes is not None
        for name in ("first", "second", "outcome", "weight"):
            assert getattr(found.votes, name).tolist() == getattr(whole.votes, name).tolist()
    game = {"model": "m", "games": [{"score": "A>B"}, {"score": "B>A"}]}
    games = [{**game, "category": "maths"}, {**game, "model": "n", "category": "code"}]
    assert crowdsift.read(write(tmp_path / "hard.json", games), by="category").by == "category"


def test_which_worker_counts(tmp_path: Path) -> None:
    plain = [{"left": "a", "right": "b", "winner": "left", "worker": "someone"}]
    for rows, name in ((plain, "worker"), ([alpaca(1), alpaca(2, "n")], "annotator")):
        path = write(tmp_path / "x" / "ann.json", rows)
        votes = crowdsift.read(path, worker_from_path=True)
        assert votes.workers.tolist() == ["ann"]
        assert votes.intake is not None
        assert any(f"column {name} is not used" in note for note in votes.intake.notes)
        own = crowdsift.read(path).intake
        assert own is not None
        assert not any("is not used" in note for note in own.notes)


def test_files_of_two_formats(tmp_path: Path) -> None:
    panda = {"cmp_key": "a_b", "response1": "x", "response2": "y", "annotator1": 1}
    write(tmp_path / "x" / "b.json", [alpaca(1), alpaca(2, "n")])
    for name in ("a.json", "c.json"):  # before the other file and after it
        path = write(tmp_path / "x" / name, [panda])
        with pytest.raises(InputError, match=r"of two formats .*pandalm.* separate folder"):
            crowdsift.read(tmp_path / "x")
        path.unlink()
    write(tmp_path / "x" / "c.json", [{"left": "a", "right": "b", "winner": "left", "worker": "w"}])
    with pytest.raises(InputError, match="of two formats"):
        crowdsift.read(tmp_path / "x")


def graded_rows(seed: int, count: int, much: bool = True) -> dict[str, list[str]]:
    rng = np.random.default_rng(seed)
    pairs = [rng.permutation(6)[:2] for _ in range(count)]
    sides = [(a > b) != (rng.random() < 0.2) for a, b in pairs]
    far = [much and abs(int(a) - int(b)) > 2 for a, b in pairs]
    return {
        "left": [f"i{a}" for a, _ in pairs],
        "right": [f"i{b}" for _, b in pairs],
        "winner": [
            ("A>>B" if f else "A>B") if s else ("B>>A" if f else "B>A") for s, f in zip(sides, far, strict=True)
        ],
        "worker": [f"w{k % 5}" for k in range(count)],
    }


@pytest.mark.parametrize("much", [True, False])
def test_updates_of_graded_fits_equal_the_fit_of_all_votes(tmp_path: Path, much: bool) -> None:
    one, two = graded_rows(2, 300), graded_rows(3, 300, much)
    whole = {name: one[name] + two[name] for name in one}
    for method, close in (("sift", 2e-3), ("bt", 1e-6)):
        crowdsift.fit(one, method).save(tmp_path / method)
        saved = crowdsift.load(tmp_path / method)
        assert saved.votes is not None
        assert saved.votes.grades is not None
        all_at_once, updated = crowdsift.fit(whole, method), saved.update(two)
        assert updated.items["item"].tolist() == all_at_once.items["item"].tolist()
        assert updated.items["score"] == pytest.approx(all_at_once.items["score"], abs=close)
        if method == "sift":
            cuts = [fit.summary["cut_point_2"] for fit in (updated, all_at_once)]
            assert cuts[0] == pytest.approx(cuts[1], abs=0.01)
        assert any("has grades" in text for text in updated.warnings) != much
        assert crowdsift.next_pairs(saved, 3, items=["new"]).height == 3
        assert crowdsift.export_votes(tmp_path / method, tmp_path / "out.csv").rows > 0
        assert saved.report(tmp_path / "report.html") is None or (tmp_path / "report.html").exists()
    (tmp_path / "sift" / "model" / "grades.parquet").unlink(missing_ok=True)


def test_columns_of_annotators_are_named(tmp_path: Path) -> None:
    row = {"cmp_key": "a_b", "response1": "x", "response2": "y", "annotator1": 1}
    rows = [{**row, "annotator2": 2}, {**row, "annotator2": None}, {**row, "annotator2": ""}]
    intake = crowdsift.read(write(tmp_path / "panda.json", rows)).intake
    assert intake is not None
    assert any("3 rows or more: annotator2 (2);" in note for note in intake.notes)
    bad = write(tmp_path / "panda.json", [rows[0], {**rows[0], "annotator2": 7}])
    with pytest.raises(InputError, match="column 'annotator2'"):
        crowdsift.read(bad)
    wide = {"left": ["a", "b"], "right": ["b", "c"], "ann": ["left", "left"], "bob": ["tie", "?!"]}
    with pytest.raises(InputError, match="column 'bob'"):
        crowdsift.read(wide, worker_columns=["ann", "bob"])


def test_columns_of_workers(tmp_path: Path) -> None:
    text = "reply1,reply2,topic,r_ann,r_bob\nx,y,t,1,2\ny,z,t,0,\nx,z,u,2,\n"
    path = write(tmp_path / "wide.csv", text)
    for columns in ("r_ann,r_bob", "r_", ["r_ann", "r_bob"]):
        votes = crowdsift.read(path, worker_columns=columns, by="topic")
        assert votes.workers.tolist() == ["r_ann", "r_bob"]
        assert line(votes) == ("plain", 6, 4, 2, 0)
        assert sorted(votes.outcome.tolist()) == [0, 0, 0.5, 1]
    assert votes.intake is not None
    assert "r_bob (2)" in votes.intake.notes[0]
    assert line(crowdsift.read(path, worker_columns="r_", where="topic = 't'"))[:3] == ("plain", 6, 3)
    with pytest.raises(InputError, match="no column 'rater' for the answers of a worker"):
        crowdsift.read(path, worker_columns="rater")


@pytest.mark.parametrize(
    "answers", ["A B equal", "1 2 0", "1.0 2.0 0.0", "first second tie", "A>B B>>A A=B", "resp_a resp_b tie"]
)
def test_answers_that_cannot_be_misread(answers: str) -> None:
    for each in (answers.split(), ["Image A", "Image B", "same"]):
        rows = {"left": ["x"] * 3, "right": ["y"] * 3, "winner": each, "worker": ["w"] * 3}
        assert outcomes(rows) == [1, 0, 0.5]
        batch = {"Input.a": ["x"] * 3, "Input.b": ["y"] * 3, "Answer.x": each}
        assert outcomes(batch | {"WorkerId": list("uvw"), "AssignmentId": [1, 2, 3]}) == [1, 0, 0.5]


@pytest.mark.parametrize("answers", [("0", "1"), ("-1", "0", "1"), ("A", "B", "C"), ("A", "what")])
def test_answers_that_could_be_misread_are_refused(answers: tuple[str, ...]) -> None:
    rows = {
        "left": ["x"] * len(answers),
        "right": ["y"] * len(answers),
        "winner": list(answers),
        "worker": ["w"] * len(answers),
    }
    with pytest.raises(InputError, match="neither side"):
        crowdsift.read(rows)


def test_labels_of_items_go_before_words() -> None:
    rows = {"left": ["B", "A"], "right": ["A", "C"], "winner": ["A", "C"], "worker": ["w", "w"]}
    assert crowdsift.read(rows).outcome.tolist() == [0, 0]


@pytest.mark.parametrize(("given", "meant"), [((1, 2, 2), (1, 0, 0)), ((-1, 0, 1), (0, 0.5, 1))])
def test_outcomes_of_other_ranges(given: tuple[int, ...], meant: tuple[float, ...]) -> None:
    rows = {"first": list("abc"), "second": list("xyz"), "outcome": list(given), "worker": list("uvw")}
    assert outcomes(rows) == list(meant)


def test_two_formats_at_once(tmp_path: Path) -> None:
    arena = {"model_a": "x", "model_b": "y", "winner": "model_a", "judge": "j"}
    path = write(tmp_path / "both.jsonl", "\n".join(map(json.dumps, [arena, alpaca(1)])))
    with pytest.raises(InputError, match=r"the columns of two formats, alpaca-eval .* and arena"):
        crowdsift.read(path)
    one, two = (write(tmp_path / "x" / "a.json", [arena]), write(tmp_path / "x" / "b.json", [alpaca(1)]))
    with pytest.raises(InputError, match=f"{two}: no column 'model_a', which {one} has"):
        crowdsift.read(tmp_path / "x")


def test_comparative_judgement_as_files_have_it(tmp_path: Path) -> None:
    text = "\ufeffJudge;Candidate_Chosen;Candidate_Not_Chosen;time_taken;DateCreated\n"
    text += "7;a;b;NA;16/02/2017 16:51\n7;b;c;3,5;x\n\n8;a;a;2;y\n;a;c;2;z\n8;c;a;4;y\n"
    votes = crowdsift.read(write(tmp_path / "cj.csv", text))
    assert line(votes) == ("comparative-judgement", 5, 3, 0, 2)
    assert votes.workers.tolist() == ["7", "8"]
    for renamed in ("username,userchosen,usernotchosen", "email,better,worse", "judgeId,winnerId,loserId"):
        votes = crowdsift.read(write(tmp_path / "cj.csv", f"{renamed}\nu,a,b\nv,b,a\n"))
        assert (line(votes)[:3], votes.n_workers) == (("comparative-judgement", 2, 2), 2)


@pytest.mark.parametrize("judged", SEEDS[:2], indirect=True)
def test_gold_pairs_rank_judges(judged: Path) -> None:
    """Strong judges see quality, weak ones appeal, which opposes it, random ones nothing."""
    kinds = {row["judge"]: row["kind"] for row in rows_of(judged / "judges.csv")}
    gold = rows_of(judged / "verdicts_gold.csv")[::10]
    pairs = {name: [row[name] for row in gold] for name in gold[0]}
    fit = crowdsift.fit(judged / "verdicts", worker_from_path=True, gold=pairs)
    table = fit.worker_table
    found = {
        kind: {
            name: np.array([x for who, x in zip(table["worker"], table[name], strict=True) if kinds[who] == kind])
            for name in ("weight_length", "reliability")
        }
        for kind in ("strong", "weak", "random")
    }
    for better, worse in (("strong", "weak"), ("weak", "random")):
        assert found[better]["weight_length"].min() > found[worse]["weight_length"].max()
    others = np.concatenate([found["weak"]["reliability"], found["random"]["reliability"]])
    assert found["strong"]["reliability"].min() > others.max()
    columns = {column.header: list(column.cells) for column in _worker_table(fit, 120)[1].columns}
    lengths = [
        float(str(x))
        for x, verdict in zip(*map(columns.get, ("all weights", "verdict")), strict=True)
        if str(verdict) == "distinct"
    ]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == pytest.approx(found["weak"]["weight_length"].max(), abs=0.01)


def test_both_columns_of_a_decision_have_names_of_one_pair(tmp_path: Path) -> None:
    """Exports of No More Marking name scripts by chosen and notChosen, and their authors by person_chosen, too."""
    header = "id,timeTaken,createdAt,judgeId,chosen,notChosen,task,person_chosen,person_not_chosen\n"
    text = header + "1,9120,2020-01-26,j,HS,MR,t,p1,p2\n2,2500,2020-01-26,k,MR,ZX,t,p2,p3\n"
    path = write(tmp_path / "decisions.csv", text)
    votes = crowdsift.read(path)
    assert votes.items.tolist() == ["HS", "MR", "ZX"]
    assert votes.intake is not None
    assert votes.intake.work_seconds == {"j": 9.12, "k": 2.5}
    assert "person_chosen and person_not_chosen are not used" in votes.intake.notes[0]
    people = crowdsift.read(path, columns={"winner": "person_chosen", "loser": "person_not_chosen"})
    assert people.items.tolist() == ["p1", "p2", "p3"]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("judge,candidate_left,candidate_right,choice", "j,a,b,right"),
        ("Judge,Left Item,Right Item,Chosen Item,Judgement Time", "j,a,b,b,12"),
        ("Judge Name,Item A,Item B,Winner", "j,a,b,b"),
        ("assessor,representation_a,representation_b,selected_representation", "j,a,b,b"),
        ("Email;Left;Right;Decision", "j@x;a;b;right"),
    ],
)
def test_sides_of_decisions(tmp_path: Path, header: str, row: str) -> None:
    votes = crowdsift.read(write(tmp_path / "cj.csv", f"{header}\n{row}\n"))
    assert line(votes) == ("comparative-judgement", 1, 1, 0, 0)
    assert (votes.items[votes.first[0]], float(votes.outcome[0]), votes.sides_known) == ("a", 0.0, True)


@pytest.mark.parametrize(("given", "seconds"), [("00:01:23", 83), ("1:23", 83), ("02:00:00", 7200), ("9120", 9.12)])
def test_times_of_decisions(tmp_path: Path, given: str, seconds: float) -> None:
    path = write(tmp_path / "cj.csv", f"judge,chosen,not_chosen,time_taken\nj,a,b,{given}\nj,b,c,{given}\n")
    intake = crowdsift.read(path).intake
    assert intake is not None
    assert intake.work_seconds == {"j": seconds}


def test_cells_that_may_be_empty_are_noted(tmp_path: Path) -> None:
    path = write(tmp_path / "cj.csv", "judge,chosen,not_chosen\nj,a,NA\nn/a,-,a\nk,b,a\n")
    intake = crowdsift.read(path).intake
    assert intake is not None
    assert [note.partition(";")[0] for note in intake.notes] == [
        "cells with '-' and 'NA' count as items",
        "cells with 'n/a' count as workers",
    ]
    assert crowdsift.read(path, where="not_chosen != 'NA'").intake.rows == 3  # type: ignore[union-attr]


def verdict(winner: Any, swap: Any, **more: Any) -> dict[str, Any]:
    return {"id": "t", "output_1": "one", "output_2": "two", "winner": winner, "swap": swap, **more}


@pytest.mark.parametrize("name", ["2", 2, "output_2", "Output 2", "model_2"])
def test_winners_are_outputs_in_either_order(tmp_path: Path, name: Any) -> None:
    rows = [verdict(name, False), verdict(name, True)]
    path = write(tmp_path / "result.json", rows)
    with coded_votes(path) as coded:
        assert [coded.items[code][1] for code in coded.first] == ["one", "two"]
        assert coded.outcome is not None
        assert coded.outcome.tolist() == [0, 1]


@pytest.mark.parametrize("letter", ["B", "[[B]]", "Output (b)"])
def test_letters_of_swapped_verdicts_could_be_misread(tmp_path: Path, letter: str) -> None:
    path = write(tmp_path / "result.json", [verdict(letter, False), verdict(letter, True)])
    with pytest.raises(InputError, match=r"swapped.{1,2} .1 row"):
        crowdsift.read(path)
    values = {letter: "right", f"{letter} swapped": "left"}
    assert crowdsift.read(path, values=values).outcome.tolist() == [0, 1]
    alone = write(tmp_path / "result.json", [verdict("B", False), verdict("A", False, id="u")])
    assert sorted(outcomes(alone)) == [0, 1]


def test_verdicts_without_an_answer_are_counted(tmp_path: Path) -> None:
    task = {"output_1": "one", "output_2": "two"}
    found = {"swap = False": {"winner": "1"}, "swap = True": {"winner": "None"}}
    results = [[found], [], None, {"swap = False": {"completion": "?"}}]
    rows = [{"input": f"t{n}", **task, "results": each} for n, each in enumerate(results)]
    assert line(crowdsift.read(write(tmp_path / "result.json", rows))) == ("verdicts", 5, 1, 4, 0)
    flat = [verdict(each, False) for each in ("1", "error", None, "", "tie")]
    assert line(crowdsift.read(write(tmp_path / "result.json", flat))) == ("verdicts", 5, 2, 3, 0)


def test_preferences_that_could_be_misread(tmp_path: Path) -> None:
    path = write(tmp_path / "annotations.json", [alpaca(True), alpaca(False)])
    with pytest.raises(InputError, match="preference True is not between 1 and 2"):
        crowdsift.read(path)
    intake = crowdsift.read(write(path, [alpaca(1), alpaca(0)])).intake
    assert intake is not None
    assert "every preference is 0 or 1" in intake.notes[0]
    assert not crowdsift.read(write(path, [alpaca(1), alpaca(0), alpaca(2)])).intake.notes  # type: ignore[union-attr]
    people = [{**alpaca(1), "annotator_index": n} for n in (3, 4)]
    for row in people:
        del row["annotator"]
    assert crowdsift.read(write(path, people)).n_workers == 2


def test_files_of_another_shape_say_where_the_votes_are(tmp_path: Path) -> None:
    path = tmp_path / "annotations.json"
    for rows in ({"judge": "j", "results": [alpaca(1)]}, {"p0": alpaca(1), "p1": alpaca(2)}):
        with pytest.raises(InputError, match="are the votes in a list inside of it"):
            crowdsift.read(write(path, rows))
    by_column = {name: {"0": value} for name, value in alpaca(1).items()}
    with pytest.raises(InputError, match="1 a list or record as the item label"):
        crowdsift.read(write(path, by_column))


def test_verdicts_of_judgebench_name_places(tmp_path: Path) -> None:
    """The second judgment saw the replies in the other order; the judge is in the name of the file."""
    replies = {"question": "q", "response_A": "one", "response_B": "two", "label": "A>B", "judge_name": "vanilla"}
    decisions: list[Any] = [["A>B", "A>B"], ["B>A", None], [None, "B>A"]]
    for judge, offset in (("gpt", 0), ("opus", 1)):
        rows = [
            {
                **replies,
                "question": f"q{n}",
                "judgments": [each and {"judgment": {}, "decision": each} for each in both],
            }
            for n, both in enumerate(decisions[offset:])
        ]
        write(tmp_path / f"judge_name=vanilla,judge_model={judge}.jsonl", "\n".join(map(json.dumps, rows)))
    votes = crowdsift.read(tmp_path, worker_from_path="*,judge_model={worker}.jsonl")
    assert line(votes) == ("verdicts", 10, 6, 4, 0)
    assert votes.workers.tolist() == ["gpt", "opus"]
    assert votes.sides_known
    with coded_votes(tmp_path / "judge_name=vanilla,judge_model=gpt.jsonl") as coded:
        assert [coded.items[code][1] for code in coded.first] == ["one", "two", "one", "two"]
        assert coded.outcome is not None
        assert coded.outcome.tolist() == [1, 1, 0, 0]


def test_names_of_columns_in_any_case(tmp_path: Path) -> None:
    rows = [{name.upper(): value for name, value in verdict("2", swap).items()} for swap in (False, True)]
    assert outcomes(write(tmp_path / "result.json", rows)) == [0, 1]
    game = {"Model": "m", "Baseline": "b", "Judge": "j", "Games": [{"score": "A > B"}, {"score": "b>>a"}]}
    votes = crowdsift.read(write(tmp_path / "m.json", [game]))
    assert (votes.workers.tolist(), votes.items.tolist()) == (["j"], ["b", "m"])
    assert sorted(votes.outcome.tolist()) == [0, 1]


def test_files_without_rows_are_left_out_of_several(tmp_path: Path) -> None:
    for name, rows in {"m": [alpaca(1)], "n": [alpaca(2, "n")], "o": [], "p": "", "models": ["m", "n"]}.items():
        write(tmp_path / "a" / name / "annotations.json", rows)
    votes = crowdsift.read(tmp_path / "a")
    assert line(votes) == ("alpaca-eval", 2, 2, 0, 0)
    assert votes.intake is not None
    assert votes.intake.notes[0].startswith("2 of 5 files are empty and are not read, such as ")
    assert votes.intake.notes[1].startswith("1 of 3 files have no columns of votes")
    with pytest.raises(InputError, match="the file is empty"):
        crowdsift.read(tmp_path / "a" / "p" / "annotations.json")
    with pytest.raises(InputError, match="it holds no rows"):
        crowdsift.read(tmp_path / "a" / "o" / "annotations.json")


def test_preferences_are_rounded_into_their_range(tmp_path: Path) -> None:
    rows = [alpaca(each) for each in (2.0000000001, 0.99999999)]
    assert outcomes(write(tmp_path / "annotations.json", rows)) == [0, 1]
    with pytest.raises(InputError, match="between 1 and 2"):
        crowdsift.read(write(tmp_path / "annotations.json", [alpaca(2.001)]))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_files_of_judges_as_frames(tmp_path: Path, kind: str) -> None:
    library = pytest.importorskip(kind)
    panda = {"cmp_key": "m_n", "response1": "a", "response2": "b", "annotator1": 1, "annotator2": 2, "idx": 0}
    games = {"model": "m", "judge": "j", "games": [{"score": "A>B"}, {"score": "B>>A"}]}
    for rows in ([panda, {**panda, "annotator1": 0}], [games, games], [verdict("1", True), verdict("2", False)]):
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        frame = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}[kind]
        votes = crowdsift.read(getattr(library, frame)(columns))
        expected = crowdsift.read(write(tmp_path / "votes.json", rows))
        assert line(votes) == line(expected)
        for name in ("first", "second", "outcome", "weight"):
            assert getattr(votes, name).tolist() == getattr(expected, name).tolist()


def test_preferences_in_a_column_of_outcomes() -> None:
    votes = {"first": ["a", "b", "c"], "second": ["b", "c", "a"], "outcome": [1, 1.5, 2], "worker": ["x", "y", "z"]}
    assert outcomes(votes) == [1, 0.5, 0]


def test_exports_of_verdicts_have_whole_texts(tmp_path: Path) -> None:
    """From the files, and from the folder of a fit, which reads them again as they were read."""
    long = {name: f"{name} " + "word " * 30 for name in ("output_1", "output_2", "id")}
    for judge in ("ann", "bob"):
        rows = [verdict("12"[n % 3 > 0], n % 2 == 0, **long) for n in range(12)]
        write(tmp_path / "verdicts" / judge / "result.json", rows)
    crowdsift.fit(tmp_path / "verdicts", worker_from_path=True).save(tmp_path / "fit")
    crowdsift.export_votes(tmp_path / "verdicts", tmp_path / "a.jsonl", to="trl", worker_from_path=True)
    crowdsift.export_votes(tmp_path / "fit", tmp_path / "b.jsonl", to="trl")
    for name in ("a.jsonl", "b.jsonl"):
        found = rows_of(tmp_path / name)
        assert len(found) == 24
        assert {row["chosen"] for row in found} <= {long["output_1"], long["output_2"]}
        assert {row["id"] for row in found} == {long["id"]}
        assert {row["worker"] for row in found} == {"ann", "bob"}


def test_annotations_name_the_first_model_generator(tmp_path: Path) -> None:
    """Files whose references had no name of a model of their own have `generator` for `generator_1`."""
    rows = [alpaca(1, generator="base"), alpaca(2, generator="base")]
    for row in rows:
        del row["generator_1"]
    votes = crowdsift.read(write(tmp_path / "annotations.json", rows))
    assert votes.items.tolist() == ["base", "m"]
    for row in rows:
        del row["generator_2"], row["output_2"]
    with pytest.raises(InputError, match=r"nearly the format alpaca-eval .* generator_2 is missing"):
        crowdsift.read(write(tmp_path / "annotations.json", rows))


def test_files_of_which_some_name_the_judge(tmp_path: Path) -> None:
    """Whichever file comes first, votes without a judge are not pooled with those of named judges."""
    unnamed = alpaca(1, "n")
    del unnamed["annotator"]
    for first, second in (([unnamed], [alpaca(2)]), ([alpaca(2)], [unnamed])):
        write(tmp_path / "x" / "a.json", first)
        write(tmp_path / "x" / "b.json", second)
        with pytest.raises(InputError, match="no column 'annotator'"):
            crowdsift.read(tmp_path / "x")
        assert crowdsift.read(tmp_path / "x", worker_from_path=True).workers.tolist() == ["a", "b"]
    assert not crowdsift.read(tmp_path / "x", workers=False).has_workers


def test_names_of_judges_that_are_records(tmp_path: Path) -> None:
    game = {"model": "m", "judge": {"name": "gpt"}, "games": [{"score": "A>B"}, {"score": "B>A"}]}
    with pytest.raises(InputError, match=r"row 1, column 'worker': the label .*gpt.* is not a text"):
        crowdsift.read(write(tmp_path / "m.json", [game]))
    with pytest.raises(InputError, match=r"row 1, column 'annotator': the label .*gpt"):
        crowdsift.read({name: [value] for name, value in alpaca(1, annotator={"name": "gpt"}).items()})


def test_stages_of_llmbar_that_are_texts(tmp_path: Path) -> None:
    """Judges that write a metric or a reference first keep it as a stage [text, reason to stop]."""
    verdicts = {f"swap = {swap}": {"completion": ["x", "stop"], "winner": "1"} for swap in (False, True)}
    rows = [
        {"input": f"t{n}", "output_1": f"{n} one", "output_2": f"{n} two", "results": [["metric", "stop"], last]}
        for n, last in enumerate((verdicts, {}))
    ]
    assert line(crowdsift.read(write(tmp_path / "result.json", rows))) == ("verdicts", 3, 2, 1, 0)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "datasets"])
def test_counts_of_style_may_be_empty(tmp_path: Path, kind: str) -> None:
    """In Parquet a kind of header that a reply has not is null; it counts as 0."""
    sides = {
        f"{name}_{side}": value
        for side, headers in (("a", {"h1": 3, "h2": None}), ("b", {"h1": None, "h2": 1}))
        for name, value in (("header_count", headers), ("list_count", {"ordered": None}), ("bold_count", {"**": 1}))
    }
    tokens = {f"sum_assistant_{side}_tokens": 100 for side in "ab"}
    row = {"model_a": "m", "model_b": "n", "winner": "model_a", "conv_metadata": {**sides, **tokens}}
    rows = [row, {**row, "winner": "both_bad"}]
    votes: Any = write(tmp_path / "arena.jsonl", "\n".join(map(json.dumps, rows)))
    if kind != "jsonl":
        arrow = pytest.importorskip("pyarrow")
        table = arrow.Table.from_pylist(rows)
        votes = tmp_path / "arena.parquet"
        pytest.importorskip("pyarrow.parquet").write_table(table, votes)
        votes = pytest.importorskip("datasets").Dataset(table) if kind == "datasets" else votes
    found = crowdsift.read(votes, style_control=True)
    assert found.feature_names == ("tokens", "headers", "lists", "bold")
    assert found.features is not None
    np.testing.assert_allclose(found.features[0], [0, np.log(3), 0, 0], rtol=1e-6)


def test_equal_rows_of_wide_files_get_no_columns_suggested(tmp_path: Path) -> None:
    """Models, preference and annotator do not name a row: as `--unique` they would drop most votes."""
    rows = [alpaca(1, instruction=f"i{n}", dataset="d", time=n) for n in range(30)]
    intake = crowdsift.read(write(tmp_path / "annotations.json", rows + rows)).intake
    assert intake is not None
    assert "--unique COLUMNS" in intake.notes[0]
    assert crowdsift.read(tmp_path / "annotations.json", unique="instruction").intake.used == 30  # type: ignore[union-attr]


def test_gold_names_long_replies_by_their_whole_texts(tmp_path: Path) -> None:
    """Verdicts and preference rows: labels are cut, and the known answers are those of the data set."""
    tasks = [{name: f"{name} {n}\n" + "word " * 30 for name in ("output_1", "output_2", "input")} for n in range(8)]
    for judge in ("ann", "bob", "cyd"):
        verdicts = {f"swap = {swap}": {"winner": "1"} for swap in (False, True)}
        write(tmp_path / "x" / f"{judge}.json", [{**task, "results": verdicts} for task in tasks])
    gold = {"input": tasks[0]["input"], "winner": tasks[0]["output_1"], "loser": tasks[0]["output_2"]}
    fit = crowdsift.fit(tmp_path / "x", worker_from_path=True, gold=write(tmp_path / "gold.json", [gold]))
    assert fit.worker_table["gold_votes"].tolist() == [2, 2, 2]
    assert fit.worker_table["gold_agreement"].tolist() == [1.0, 1.0, 1.0]
    rows = {"prompt": ["p"] * 3, "chosen": ["a" * 70, "b" * 70, "c" * 70], "rejected": ["b" * 70, "c" * 70, "d" * 70]}
    chat = json.dumps([{"role": "user", "content": "p"}, {"role": "assistant", "content": "a" * 70}])
    answers = {"prompt": ["p"], "winner": [chat], "loser": ["d" * 70]}
    votes = {**rows, "annotator": ["x", "y", "z"]}
    assert len(crowdsift.fit(votes, gold=answers).gold.winner) == 1  # type: ignore[union-attr]
    with pytest.raises(InputError, match="is not among the items"):
        crowdsift.fit(votes, gold={**answers, "winner": ["e" * 70]})
