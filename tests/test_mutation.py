"""The mutants that no test can notice are listed with lines of the source as it is."""

from __future__ import annotations

import itertools

import pytest
from tools import mutation


def test_every_entry_matches_the_source():
    assert mutation.excused()


def test_an_entry_that_matches_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "EXCUSED", tmp_path / "mutants.toml")
    entry = '[[mutant]]\nfile = "numeric/metrics.py"\nbefore = "no such line"\nreason = "none"\n'
    mutation.EXCUSED.write_text(entry)
    with pytest.raises(SystemExit, match="no such line"):
        mutation.excused()


def test_a_seed_fixes_the_order_and_every_mutant_is_another_source():
    pytest.importorskip("cosmic_ray")
    found = list(mutation.mutants("numeric/likelihoods.py", 1))
    source = (mutation.PACKAGE / "numeric/likelihoods.py").read_text(encoding="utf-8")
    assert len({mutant.source for mutant in found} - {source}) == len(found) > 20
    assert found[:3] == list(itertools.islice(mutation.mutants("numeric/likelihoods.py", 1), 3))
    assert found[:3] != list(itertools.islice(mutation.mutants("numeric/likelihoods.py", 2), 3))
