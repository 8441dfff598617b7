"""Fits on another machine see the votes of the experiments, and none is made twice."""

from __future__ import annotations

import argparse
import json

import numpy as np
import pytest
from benchmarks import paper_gpu

import crowdsift
from crowdsift.lab import datasets


def test_spammed_votes_are_those_of_the_experiment(tmp_path, data_dir, monkeypatch):
    """In the same order of rows too, which decides what is left out."""
    monkeypatch.setenv("CROWDSIFT_DATA", str(data_dir))
    paper_gpu.prepare(tmp_path)
    for data in paper_gpu.REAL:
        setting = {"data": data, "kind": "adversarial", "percent": 40, "seed": 3}
        there, _ = paper_gpu.spammed(tmp_path, setting)
        votes = datasets.find(data, data_dir).read()
        here = crowdsift.add_spammers(votes, "adversarial", 40, 3)
        for name in (*paper_gpu.ARRAYS, "workers"):
            np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


def test_torch_chooses_the_same_penalty():
    """Of the rivals only bt is quick enough for Triton's interpreter."""
    pytest.importorskip("torch", reason="PyTorch is not installed: crowdsift[gpu]")
    pytest.importorskip("triton", reason="Triton is not installed")
    votes = crowdsift.simulate(items=5, workers=3, comparisons=60, seed=4).comparisons()
    one, two = (
        crowdsift.tune(votes, crowdsift.model("bt"), count=2, engine=engine, threads=1) for engine in ("cpu", "torch")
    )
    assert one.value == two.value
    np.testing.assert_allclose(one.tried, two.tried, atol=1e-6)


def test_what_a_file_holds_is_not_done_again_and_becomes_a_table(tmp_path):
    options = argparse.Namespace(
        folder=tmp_path, out=tmp_path / "out", experiments=paper_gpu.TUNED, methods="", data="", seeds=(0, 10)
    )
    name, setting, method = paper_gpu.tasks(options)[0]
    assert len(paper_gpu.tasks(options)) == 360  # 12 cells, 10 seeds, 3 rivals
    record = {"setting": setting, "method": method, "figures": {"accuracy": 0.7}, "penalty": 10.0}
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps([name, record]) + "\n[cut off")
    assert (name, setting, method) not in paper_gpu.tasks(options)
    assert len(paper_gpu.tasks(options)) == 359
    paper_gpu.table([path], tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines() == [
        "data,kind,percent,seed,method,accuracy,penalty",
        "passage,random,10,0,bora-em,0.7,10",
    ]
