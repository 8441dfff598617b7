"""What experiments tell: arithmetic, tables and figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

from crowdsift.paper import Options, experiment
from crowdsift.paper.figures import Figure, Line, Panel
from crowdsift.paper.output import beside, comma_separated, described, markdown_table
from crowdsift.paper.summary import Cell, Published, cells, like_published, standing

# --- arithmetic, text, figures ---------------------------------------------------------------


def test_means_deviations_and_standard_errors_are_those_of_numpy():
    values = [0.61, 0.7, 0.655, 0.9]
    cell = Cell({"accuracy": values, "one": [0.5]})
    assert cell.mean("accuracy") == pytest.approx(np.mean(values))
    assert cell.sd("accuracy") == pytest.approx(np.std(values, ddof=1))
    assert cell.standard_error("accuracy") == pytest.approx(np.std(values, ddof=1) / 2)
    assert cell.seeds == 4
    assert math.isnan(cell.sd("one"))
    assert math.isnan(cell.mean("absent"))


def records_of(accuracies: dict[str, list[float]]) -> list[dict[str, object]]:
    return [
        {
            "setting": {"place": place, "seed": 0},
            "method": method,
            "figures": {"accuracy": value},
            "seconds": 1.0,
            "note": "",
        }
        for method, values in accuracies.items()
        for place, value in enumerate(values)
    ]


def test_standing_counts_against_the_best_rival_of_each_setting():
    found = cells(
        records_of(
            {"sift": [0.80, 0.70, 0.9005, 0.5], "bt": [0.70, 0.75, 0.9000, 0.4985], "hbtl": [0.79, 0.60, 0.8000, 0.1]}
        )
    )
    result = standing(found)
    assert (result.beats, result.ties, result.loses, result.settings) == (2, 1, 1, 4)


def test_a_page_tells_of_which_revision_its_fits_are():
    chosen = experiment("synthetic", Options(seeds=1))
    records = records_of({"bt": [0.7], "sift": [0.8, 0.9]})
    assert "evision" not in described(chosen, records)
    one = [{**record, "revision": "abc"} for record in records]
    assert described(chosen, one).endswith("Revision abc.\n")
    two = [{**one[0], "revision": "def"}, *one[1:]]
    assert described(chosen, two).endswith("Revisions: def (bt); abc (sift).\n")


def test_the_paper_turns_the_scores_of_methods_that_model_workers():
    assert like_published("bora-em", "accuracy") == "accuracy_up_to_sign"
    assert like_published("bt", "accuracy") == "accuracy"
    assert like_published("barp", "kendall_tau") == "kendall_tau"


def test_distance_from_the_published_mean_is_in_standard_errors_of_both(tmp_path, monkeypatch):
    (tmp_path / "paper_synthetic.csv").write_text(
        "beta,sweep,items,workers,comparisons,method,acc,acc_sd,wacc,tau,tau_sd\n"
        '"[0,1]",items,50,10,100,BoRaEM,0.8,0.04,0.9,0.6,0.1\n'
    )
    monkeypatch.setenv("CROWDSIFT_REFERENCE", str(tmp_path))
    names = ("beta", "sweep", "items", "workers", "comparisons")
    published = Published("synthetic", names, None)
    key = ("[0,1]", "items", 50, 10, 100)
    ours = [0.86, 0.9, 0.82, 0.88]
    cell = Cell({"accuracy_up_to_sign": ours, "accuracy": [0.1] * 4})
    error = math.sqrt(np.var(ours, ddof=1) / 4 + 0.04**2 / 10)
    expected = (np.mean(ours) - 0.8) / error
    assert published.distance(key, "bora-em", cell) == pytest.approx(expected)
    mean, deviation = published.figure(key, "bora-em", "weighted_accuracy")
    assert mean == 0.9
    assert math.isnan(deviation)
    assert published.mean(key, "bt") is None
    assert math.isnan(published.distance(key, "bt", cell))


def test_our_figure_beside_the_published():
    assert beside(0.7012, 0.6959, far=True) == ".7012 (.6959, +.0053‡)"
    assert beside(0.69588, 0.6959) == ".6959 (.6959, +.0000)"
    assert beside(0.5, 0.75, best=True) == "**.5000** (.7500, −.2500)"
    assert beside(0.5, None) == ".5000"
    assert markdown_table(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | --: |\n| x | 1 |\n"


def test_tables_have_all_columns_and_leave_out_what_is_not_there():
    rows = [{"a": 1, "b": math.nan}, {"a": 0.1234567, "c": True}]
    assert comma_separated(rows) == "a,b,c\n1,,\n0.123457,,true\n"


def test_figures_are_the_same_bytes_whatever_the_user_prefers():
    import matplotlib as mpl

    lines = [Line("sift", [1, 10, 100], [0.5, 0.6, 0.7], [0.1, 0.1, 0.1]), Line("bt", [1], [0.5])]
    figure = Figure("f", [Panel("one", "workers", "accuracy", lines, logarithmic=True)])
    first = figure.files()
    with mpl.rc_context({"font.size": 20.0, "axes.facecolor": "red"}):
        assert figure.files() == first
    assert set(first) == {"f.svg", "f.png"}
    assert first["f.png"][0].startswith(b"\x89PNG")
    svg = first["f.svg"][0].decode()
    assert "<dc:date>" not in svg
    assert "accuracy" in svg
