"""A fit that is cut short goes on from its last iterate, to the answer of one that was not."""

from __future__ import annotations

import numpy as np
import pytest

import crowdsift
from crowdsift.errors import InputError, RequestError, ResourceError
from crowdsift.fitting import start as checkpoint
from crowdsift.io.saved import read_safetensors, safetensors_bytes
from crowdsift.models import MODELS


@pytest.fixture(scope="module")
def votes():
    found = crowdsift.simulate(30, 12, 3000, reliability=(0.3, 1.5), seed=4).comparisons()
    return found.with_classes([str(j % 3) for j in range(30)])


def cut_after(number):
    def progress(at, measure):
        if at == number:
            raise ResourceError("the cluster is gone")

    return progress


def cut_short(votes, model, folder, number=2):
    options = {"checkpoint": folder}
    with pytest.raises(ResourceError, match=r"is gone\. The iterate is kept in .*--start"):
        crowdsift.fit(votes, model, engine_options=options, progress=cut_after(number))


@pytest.mark.parametrize("method", MODELS)
def test_every_method_goes_on(method, votes, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    # sift: after its starts were tried; the others where they are not done yet.
    number = {"sift": 9, "htcv": 1, "crowd-bt": 1}.get(method, 2)
    model = crowdsift.model(method).relax(votes)[0]
    whole = crowdsift.fit(votes, model)
    assert whole.summary["iterations"] > number
    cut_short(votes, model, tmp_path / "kept", number)
    assert checkpoint.is_checkpoint(tmp_path / "kept")
    found = crowdsift.fit(votes, model, start=tmp_path / "kept")
    assert found.converged
    assert found.summary["iterations"] <= whole.summary["iterations"]
    close = {"sift": 1e-3, "bora-em": 1e-3}.get(method, 1e-5)  # tolerances of 1e-5 and 1e-6
    for table, name in (("item_table", "score"), ("worker_table", "reliability")):
        np.testing.assert_allclose(getattr(found, table)[name], getattr(whole, table)[name], atol=close)


def test_sift_starts_over_while_starts_are_tried(votes, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    cut_short(votes, crowdsift.model("sift"), tmp_path, 3)
    found = crowdsift.fit(votes, "sift", start=tmp_path)
    assert found.items.to_csv() == crowdsift.fit(votes, "sift").items.to_csv()


def test_only_the_same_fit_goes_on(votes, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    cut_short(votes, crowdsift.model("bora-map"), tmp_path)
    other = crowdsift.simulate(30, 12, 3000, seed=5).comparisons()
    for given, model, what in (
        (other, "bora-map", "set of votes"),
        (votes, "bt", "method"),
        (votes, crowdsift.BoraMAP(reliability_sd=0.3), "setting of the method"),
    ):
        with pytest.raises(RequestError, match=f"checkpoint of another {what}"):
            crowdsift.fit(given, model, start=tmp_path)
    path = tmp_path / checkpoint.NAME
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InputError, match="cannot be read"):
        crowdsift.fit(votes, "bora-map", start=tmp_path)


def test_files_are_written_while_a_fit_runs(votes, tmp_path, monkeypatch):
    """A client that is killed leaves its last one."""
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    seen = []
    crowdsift.fit(
        votes,
        "bora-map",
        engine_options={"checkpoint": str(tmp_path / "a" / "b")},
        progress=lambda number, measure: seen.append((tmp_path / "a/b" / checkpoint.NAME).exists()),
    )
    assert seen
    assert all(seen)


def test_a_checkpoint_of_other_gold_is_refused(votes, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    gold = {"winner": [votes.items[0]], "loser": [votes.items[1]]}
    with pytest.raises(ResourceError, match="is gone"):
        crowdsift.fit(votes, "bora-em", gold=gold, engine_options={"checkpoint": tmp_path}, progress=cut_after(2))
    with pytest.raises(RequestError, match="another set of gold pairs"):
        crowdsift.fit(votes, "bora-em", start=tmp_path)
    assert crowdsift.fit(votes, "bora-em", gold=gold, start=tmp_path).converged


@pytest.fixture
def kept(votes, tmp_path, monkeypatch):
    """A checkpoint of bt."""
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    cut_short(votes, crowdsift.model("bt"), tmp_path, 1)
    return tmp_path / checkpoint.NAME


def test_a_flipped_bit_in_a_checkpoint_changes_nothing_or_is_refused(votes, kept):
    whole, rng = kept.read_bytes(), np.random.default_rng(1)
    model = crowdsift.model("bt")
    expected = checkpoint.start_of(kept.parent, votes, model)
    places = [*range(64), *rng.integers(0, 8 * len(whole), 600).tolist()]
    refused = 0
    for place in places:
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        kept.write_bytes(flipped)
        try:
            found = checkpoint.start_of(kept.parent, votes, model)
        except InputError:
            refused += 1
        else:
            np.testing.assert_array_equal(found.scores, expected.scores)
            np.testing.assert_array_equal(found.variances, expected.variances)
            assert found.population == expected.population
    assert refused > 0.9 * len(places)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.full(30, np.nan)}, "not all finite"),
        ({"scores": np.zeros(29)}, "not those of the items"),
        ({"scores": np.zeros((30, 1))}, "not those of the items"),
        ({"scores": np.zeros(30, np.float32)}, "not all finite"),
        ({"scores": np.zeros(30), "variances": -np.ones(30)}, "not those of the items"),
        ({"variances": np.ones(30)}, "scores"),
    ],
)
def test_forged_checkpoints_are_refused(votes, kept, change, message):
    _, about = read_safetensors(kept.read_bytes())
    kept.write_bytes(safetensors_bytes(change, about))
    with pytest.raises(InputError, match=rf"{checkpoint.NAME}: .*{message}.*fit without --start"):
        crowdsift.fit(votes, "bt", start=kept.parent)


@pytest.mark.parametrize("header", [b"[" * 100_000, b"{}", b"[]", b'{"__metadata__": 3}', b""])
def test_headers_of_checkpoints_that_are_damaged(votes, kept, header):
    kept.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(InputError, match="the checkpoint cannot be read"):
        crowdsift.fit(votes, "bt", start=kept.parent)
