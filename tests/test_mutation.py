"""The mutants that no test can notice are listed with lines of the source as it is."""

from __future__ import annotations

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
