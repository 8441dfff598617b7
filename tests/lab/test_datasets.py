"""Data sets by name: folders, layouts, downloads, and errors if they are missing."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import http.server
import io
import threading
import zipfile

import pytest

from crowdsift.errors import InputError, RequestError
from crowdsift.lab import datasets

LABELS = "left,right,performer,label\na.jpg,b.jpg,w1,left\nb.jpg,c.jpg,w2,c.jpg\n"
EXPERTS = (
    '{"judge":"author_4","model_a":"a","model_b":"b","question_id":160,"turn":2,"winner":"tie"}\n'
    '{"judge":"expert_0","model_a":"b","model_b":"c","question_id":160,"turn":2,"winner":"model_a"}\n'
)
TRUTH = "label,score\na.jpg,3\nb.jpg,2\nc.jpg,5\n"


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No folder of data sets but this empty one."""
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.setenv("CROWDSIFT_DATA", str(folder))
    monkeypatch.delenv("CROWDSIFT_REFERENCE", raising=False)
    return folder


def test_every_data_set_of_the_folder_is_read(data_dir):
    sizes = {}
    for name in datasets.DATASETS:
        if name not in {"faceage", "mtbench_gpt4", "pandalm"}:
            votes = datasets.find(name, data_dir).read()
            sizes[name] = (int(votes.total_weight), votes.n_items, votes.n_workers)
    assert sizes["passage"] == (11763, 472, 624)
    assert sizes["faceage_subset"] == (48627, 9150, 4091)
    assert sizes["wmt13_fren"] == (99960, 13, 218)


def test_preference_rows_are_read_as_they_are_published(nowhere):
    """Three annotators a row, and missing replies as NaN, which is no JSON."""
    row = '{"cmp_key": "llama-7b_opt-7b", "response1": NaN, "response2": "b", "annotator1": 2, "annotator2": 1, '
    (nowhere / "pandalm.json").write_text(f'[\n{row}"annotator3": 0}},\n{row}"annotator3": 2}}\n]')
    votes = datasets.load("pandalm").read()
    assert (int(votes.total_weight), votes.items.tolist(), votes.n_workers) == (6, ["llama-7b", "opt-7b"], 3)
    assert datasets.load("pandalm").about.licence == "Apache-2.0"


def test_truth_has_a_score_for_every_item(data_dir):
    for name in ("passage", "faceage_subset"):
        found = datasets.find(name, data_dir)
        assert set(found.read().items) <= set(found.truth())


def test_a_set_without_truth_says_so(data_dir):
    with pytest.raises(RequestError, match="mtbench has no truth"):
        datasets.find("mtbench", data_dir).truth()


def test_the_folder_that_is_given_comes_first(nowhere, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    (given / "mtbench.csv").write_text("winner,loser,worker\na,b,x\n")
    (nowhere / "mtbench.csv").write_text("winner,loser,worker\nc,d,x\n")
    assert list(datasets.find("mtbench", given).read().items) == ["a", "b"]
    assert list(datasets.find("mtbench").read().items) == ["c", "d"]


def test_a_missing_set_says_where_it_was_looked_for_and_what_to_do(nowhere):
    with pytest.raises(InputError) as caught:
        datasets.find("passage", fetch=True)
    for part in ("passage.csv and passage_items.csv", str(nowhere), "CROWDSIFT_DATA", "--data"):
        assert part in str(caught.value)
    with pytest.raises(InputError, match="--download"):
        datasets.find("faceage")
    with pytest.raises(RequestError, match="no source in plain text"):
        datasets.download("passage")


def test_a_folder_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("CROWDSIFT_DATA", "no/such/folder")
    with pytest.raises(InputError, match="CROWDSIFT_DATA: no/such/folder is not a folder"):
        datasets.find("passage")


def test_published_figures_are_beside_the_data(nowhere, monkeypatch, tmp_path):
    assert datasets.published("real") is None
    reference = nowhere.parent / "reference"
    reference.mkdir()
    (reference / "paper_real.csv").write_text("dataset,method,acc\npassage,BT,0.6804\n")
    rows = [{"dataset": "passage", "method": "BT", "acc": "0.6804"}]
    assert datasets.published("real") == rows
    monkeypatch.setenv("CROWDSIFT_REFERENCE", str(tmp_path))
    assert datasets.published("real") is None


@pytest.mark.parametrize("worker", ["performer", "worker"])
@pytest.mark.parametrize("item", ["label", "task"])
def test_faceage_in_its_own_layout(nowhere, worker, item):
    (nowhere / "crowd_labels.csv").write_text(LABELS.replace("performer", worker))
    (nowhere / "gt.csv").write_text(TRUTH.replace("label", item))
    found = datasets.find("faceage")
    votes = found.read()
    assert votes.sides_known
    by_row = dict(zip(votes.items[votes.first], votes.outcome.tolist(), strict=True))
    assert by_row == {"a.jpg": 1.0, "b.jpg": 0.0}
    assert found.truth() == {"a.jpg": 3.0, "b.jpg": 2.0, "c.jpg": 5.0}


def test_another_layout_is_refused(nowhere):
    (nowhere / "crowd_labels.csv").write_text("one,two\n1,2\n")
    (nowhere / "gt.csv").write_text(TRUTH)
    with pytest.raises(InputError, match=r"crowd_labels\.csv: not in the layout"):
        datasets.find("faceage")


@pytest.fixture
def served(tmp_path, monkeypatch, nowhere):
    """A server of this machine that has the archive."""
    import pooch

    folder = tmp_path / "served"
    folder.mkdir()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("imdb-wiki-sbs/crowd_labels.csv", LABELS)
        archive.writestr("imdb-wiki-sbs/gt.csv", TRUTH)
    (folder / "set.zip").write_bytes(content.getvalue())
    (folder / "human.jsonl").write_text(EXPERTS)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            """Nothing on standard error."""

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, file in (("faceage", "set.zip"), ("mtbench", "human.jsonl")):
            url = f"http://127.0.0.1:{server.server_address[1]}/{file}"
            digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
            here = dataclasses.replace(datasets._SOURCES[name], url=url, checksum=digest)
            monkeypatch.setitem(datasets._SOURCES, name, here)
        monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder
        server.shutdown()


def test_a_download_is_checked_unpacked_and_kept(served):
    found = datasets.find("faceage", fetch=True)
    assert found.read().n_items == 3
    (served / "set.zip").unlink()
    assert datasets.download("faceage").votes == found.votes


def test_a_download_that_is_not_what_was_meant_is_refused(served, tmp_path):
    (served / "set.zip").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"cannot be downloaded.*--data"):
        datasets.find("faceage", fetch=True)
    assert not list((tmp_path / "cache").rglob("*.csv"))


def test_a_server_that_does_not_answer_is_an_error_of_ours(served):
    (served / "set.zip").unlink()
    with pytest.raises(InputError, match="cannot be downloaded"):
        datasets.find("faceage", fetch=True)


def test_a_set_is_loaded_in_one_call_and_kept(served):
    found = datasets.load("mtbench")
    votes = found.read()
    assert (votes.n_items, votes.n_workers, votes.intake.format) == (3, 2, "mtbench")
    (served / "human.jsonl").unlink()
    assert datasets.load("mtbench").votes == found.votes


def test_a_changed_file_is_refused_with_the_page_of_the_set(served):
    (served / "human.jsonl").write_text(EXPERTS + "\n")
    with pytest.raises(InputError, match=r"cannot be downloaded.*huggingface.*--data"):
        datasets.load("mtbench")


def test_the_folder_comes_before_the_download(served, nowhere):
    (nowhere / "mtbench.csv").write_text("winner,loser,worker\na,b,x\n")
    assert datasets.load("mtbench").votes == nowhere / "mtbench.csv"


def test_every_set_has_a_source_and_a_licence(tmp_path):
    assert set(datasets._SOURCES) == set(datasets.DATASETS)
    for name in datasets.DATASETS:
        about = datasets.Dataset(name, tmp_path).about
        assert all((about.kind, about.truth, about.licence))
        assert about.page.startswith("https://")


def test_sets_that_can_be_downloaded_have_a_checksum_and_a_secure_address():
    for source in datasets._SOURCES.values():
        assert source.url.startswith("https://") == bool(source.checksum)


def test_the_checksum_of_mtbench_is_that_of_our_copy(data_dir):
    """The published file holds the rows of mtbench.csv, in its order."""
    rows = (line.split(",") for line in (data_dir / "mtbench.csv").read_text().splitlines()[1:])
    sides = {"left": "model_a", "right": "model_b", "tie": "tie"}
    text = "".join(
        f'{{"judge":"{worker}","model_a":"{left}","model_b":"{right}","question_id":{question},'
        f'"turn":{turn},"winner":"{sides[winner]}"}}\n'
        for left, right, winner, worker, question, turn in rows
    )
    assert datasets._SOURCES["mtbench"].checksum == (f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
