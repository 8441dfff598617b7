"""The script of a release: what it writes, and what it refuses."""

from __future__ import annotations

import pytest
from tools import release, release_check

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


def test_artefacts_are_kept_with_their_checksums(tmp_path):
    made = [tmp_path / "a.whl", tmp_path / "b.tar.gz"]
    for file, text in zip(made, ("abc", ""), strict=True):
        file.write_text(text)
    release_check.keep(made, tmp_path / "dist")
    assert (tmp_path / "dist" / "a.whl").read_text() == "abc"
    assert (tmp_path / "dist" / "SHA256SUMS").read_text() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.whl\n"  # FIPS 180-2
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b.tar.gz\n"
    )
