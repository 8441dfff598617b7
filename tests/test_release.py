"""The script of a release: what it writes, and what it refuses."""

from __future__ import annotations

import pytest
from tools import release

import crowdsift


def test_version_is_written_wherever_it_stands():
    text = release.VERSION_FILE.read_text()
    assert '__version__ = "9.8.7"' in release.with_version(text, "9.8.7", "2030-01-02")
    text = release.CITATION.read_text()
    changed = release.with_version(text, "9.8.7", "2030-01-02")
    assert "\nversion: 9.8.7\n" in changed
    assert "cff-version: 1.2.0" in changed  # the version of the format stays
    text = "# Changes\n\n## 9.8.7 (unreleased)\n\n## 9.8.6 (2029-01-01)\n"
    expected = "# Changes\n\n## 9.8.7 (2030-01-02)\n\n## 9.8.6 (2029-01-01)\n"
    assert release.with_version(text, "9.8.7", "2030-01-02") == expected


def test_citation_and_package_agree_on_the_version():
    assert f"\nversion: {crowdsift.__version__}\n" in release.CITATION.read_text()


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3rc1", ""])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(SystemExit, match="not a version"):
        release.checked(version)
