"""Public data sets by name, from a local folder or downloaded.

    votes = crowdsift.datasets.load("mtbench").read()

A data set is searched for in the given folder, then in the folder that the environment variable CROWDSIFT_DATA names,
then in ``../shared/data`` beside the project. Only then is it downloaded: over HTTPS, with a checksum, in plain text,
once. Nothing is shipped with the package.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crowdsift.errors import InputError, RequestError
from crowdsift.votes.comparisons import Comparisons

__all__ = ["DATASETS", "Dataset", "Source", "find", "load"]


@dataclass(frozen=True)
class Source:
    """Facts about a data set; it can be downloaded if it has a `url` and a `checksum`."""

    kind: str
    truth: str
    page: str
    licence: str
    url: str = ""
    checksum: str = ""


@dataclass(frozen=True)
class Dataset:
    """A data set that is on this machine.

    Attributes
    ----------
    name, votes, items
        Its name, its file of votes, and the file that describes the items (None if there is none).
    item_column, score_column
        The columns of `items` with the labels and the truth; the latter None without a truth.
    classes
        The class of every item, as `crowdsift.fit` takes it; None if there are none.
    columns
        Names of the columns of votes, if they differ from ours.

    Examples
    --------
    >>> from crowdsift.lab import datasets
    >>> datasets.find("passage").read()  # doctest: +SKIP
    Comparisons(11763 votes in 11763 distinct rows, 472 items, 624 workers)
    """

    name: str
    votes: Path
    items: Path | None = None
    item_column: str = "item"
    score_column: str | None = None
    classes: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def about(self) -> Source:
        """Return facts about it: kind of votes, truth, page, licence."""
        return _SOURCES[self.name]

    @property
    def files(self) -> list[Path]:
        """Return the files that it consists of."""
        return [self.votes] if self.items is None else [self.votes, self.items]

    def read(self) -> Comparisons:
        """Return the votes, ready to fit."""
        from crowdsift.io.ingest import read

        return read(self.votes, columns=dict(self.columns) or None)

    def truth(self) -> dict[Any, float]:
        """Return the true score of every item by its label."""
        if self.items is None or self.score_column is None:
            raise RequestError(f"the data set {self.name} has no truth")
        from crowdsift.io.items import read_item_values

        if self.item_column == "item":
            labels, values = read_item_values(self.items, self.score_column)
        else:
            with self.items.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            table = {"item": [row[self.item_column] for row in rows], "score": [row[self.score_column] for row in rows]}
            labels, values = read_item_values(table)
        return dict(zip(labels, values.tolist(), strict=True))


@dataclass(frozen=True)
class _Known:
    """The files of a data set in a local folder, and columns of scores and of classes."""

    votes: str
    items: str | None = None
    score: str | None = None
    classes: str | None = None


_FACES = ("faceage_items.csv", "score", "gender")
_ELSEWHERE = "it is not downloaded, because no source in plain text with a checksum is known"

_KNOWN: dict[str, _Known] = {
    "passage": _Known("passage.csv", "passage_items.csv", "score"),
    "faceage_subset": _Known("faceage_subset.csv", *_FACES),
    "faceage": _Known("faceage.csv", *_FACES),
    "lightfield": _Known("lightfield.csv", "lightfield_items.csv"),
    "llmfao": _Known("llmfao.csv", "llmfao_items.csv"),
    "llmfao_llmjudges": _Known("llmfao_llmjudges.csv"),
    "mtbench": _Known("mtbench.csv"),
    "mtbench_gpt4": _Known("mtbench_gpt4.csv"),
    "musicsim": _Known("musicsim.csv", "musicsim_items.csv"),
    "wmt13_fren": _Known("wmt13_fren.csv.gz"),
    "ppr": _Known("ppr.csv.gz"),
    "pandalm": _Known("pandalm.json"),
    "cj_luckett2018_cola": _Known("cj_luckett2018_cola.csv"),
    "cj_mcmahon2014_peer": _Known("cj_mcmahon2014_peer.csv"),
    "cj_mcmahon2014_teachers": _Known("cj_mcmahon2014_teachers.csv"),
    "cj_spehar2016_expt2_plain": _Known("cj_spehar2016_expt2_plain.csv"),
}

#: The names of the data sets.
DATASETS = tuple(_KNOWN)

_FACEAGE_FILES = ("crowd_labels.csv", "gt.csv")
_FACES_PAGE = ("https://github.com/Toloka/IMDB-WIKI-SbS", "CC-BY-4.0")
_LLMFAO_PAGE = ("https://github.com/dustalov/llmfao", "CC-BY-4.0")
_CJ_PAGE = ("https://github.com/georgekinnear/cj-meta-analysis", "none stated")
_MTBENCH_PAGE = ("https://huggingface.co/datasets/lmsys/mt_bench_human_judgments", "CC-BY-4.0")
# A copy of MT-bench without the conversations; its PROVENANCE.json lists these checksums.
_JUDGELAB = (
    "https://raw.githubusercontent.com/aliabbas-muhammadi/judgelab/"
    "61d3e849c77a1428bb4f69838909b7c66116533c/data/snapshots/mtbench/"
)
_SOURCES = {
    "passage": Source(
        "crowd: which text is harder",
        "school grade of every text",
        "https://github.com/KaustubhShejole/BoRa_EM",
        "none stated",
    ),
    "faceage_subset": Source("crowd: who is older", "age of every person", *_FACES_PAGE),
    "faceage": Source(  # as packed for crowd-kit, whose source states this checksum
        "crowd: who is older",
        "age of every person",
        *_FACES_PAGE,
        "https://tlk.s3.yandex.net/dataset/crowd-kit/imdb-wiki-sbs.zip",
        "md5:750f22901743492b63262931449818cc",
    ),
    "lightfield": Source(
        "laboratory: quality of images", "order of distortion levels", "https://github.com/mantiuk/pwcmp", "MIT"
    ),
    "llmfao": Source("people judge language models", "none", *_LLMFAO_PAGE),
    "llmfao_llmjudges": Source("two LLM judges, language models", "none", *_LLMFAO_PAGE),
    "mtbench": Source(
        "experts judge language models",
        "none",
        *_MTBENCH_PAGE,
        _JUDGELAB + "human.jsonl",
        "sha256:7ae1ff9ad4a01c30936342dd5494493da9a7fe6538265df1f4c04d44e76fa5f3",
    ),
    "mtbench_gpt4": Source(
        "one LLM judge, language models",
        "votes of experts: mtbench",
        *_MTBENCH_PAGE,
        _JUDGELAB + "gpt4_pair.jsonl",
        "sha256:ef1d3c8d0eb9824cd9ecdd50a4d5690f0c05382148a24801128cb5facb121238",
    ),
    "musicsim": Source(
        "crowd: similarity of music", "none", "https://github.com/julian-urbano/sigir2010-crowdsourcing", "CC-BY-SA-4.0"
    ),
    "wmt13_fren": Source(
        "crowd and experts: translations", "none", "https://github.com/keisks/wmt-trueskill", "none stated"
    ),
    "ppr": Source(
        "people and three LLM judges, language models",
        "ranking by all votes of people",
        "https://github.com/Networks-Learning/prediction-powered-ranking",
        "MIT",
    ),
    "pandalm": Source("preference data: three annotators", "none", "https://github.com/WeOpenML/PandaLM", "Apache-2.0"),
    "cj_luckett2018_cola": Source("comparative judgement: tastes of cola", "none", *_CJ_PAGE),
    "cj_mcmahon2014_peer": Source("comparative judgement: scripts, by peers", "votes of teachers", *_CJ_PAGE),
    "cj_mcmahon2014_teachers": Source("comparative judgement: scripts, by teachers", "votes of peers", *_CJ_PAGE),
    "cj_spehar2016_expt2_plain": Source("comparative judgement: images", "none", *_CJ_PAGE),
}


def folders(data: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders that are searched for data sets, in order: first `data`, which must exist."""
    given = [] if data is None else [_folder(data, "--data")]
    named = os.environ.get("CROWDSIFT_DATA")
    if named:
        return [*given, _folder(named, "CROWDSIFT_DATA")]
    beside = (Path.cwd().parent, Path(__file__).resolve().parents[3])
    places = dict.fromkeys((place / "shared" / "data").resolve() for place in beside)
    return [*given, *(place for place in places if place.is_dir())]


def load(name: str, data: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a data set; download it if no local folder has it.

    Parameters
    ----------
    name
        One of `DATASETS`. faceage, mtbench and mtbench_gpt4 can be downloaded.
    data
        A folder to look into first.

    Examples
    --------
    >>> from crowdsift.lab import datasets
    >>> datasets.load("mtbench").about.licence  # doctest: +SKIP
    'CC-BY-4.0'
    """
    return find(name, data, fetch=True)


def find(name: str, data: str | os.PathLike[str] | None = None, *, fetch: bool = False) -> Dataset:
    """Return the data set of that name from a folder; download it if `fetch` and possible.

    Raises
    ------
    RequestError
        The name is unknown.
    InputError
        The data set is missing; the message names the folders searched and a remedy.

    Examples
    --------
    >>> from crowdsift.lab import datasets
    >>> datasets.find("faces")
    Traceback (most recent call last):
    ...
    crowdsift.errors.RequestError: unknown data set 'faces'; the data sets are passage, ...
    """
    if name not in _KNOWN:
        raise RequestError(f"unknown data set {name!r}; the data sets are {', '.join(DATASETS)}")
    places = folders(data)
    for place in places:
        found = _in_folder(name, place)
        if found is not None:
            return found
    known, source = _KNOWN[name], _SOURCES[name]
    if source.url and fetch:
        return download(name)
    wanted = " and ".join(text for text in (known.votes, known.items) if text)
    looked = ", ".join(str(place) for place in places) or "no folder"
    remedy = f"it is published at {source.page}; {_ELSEWHERE}"
    if source.url:
        remedy = f"download it with --download (in Python crowdsift.datasets.load({name!r}))"
    raise InputError(
        f"the data set {name} is not there: {wanted} looked for in {looked}. Set CROWDSIFT_DATA to the folder that has "
        f"them, or give it with --data; {remedy}"
    )


def download(name: str) -> Dataset:
    """Return a data set, downloaded once with its checksum; later calls find it in the cache."""
    source = _SOURCES.get(name)
    if source is None or not source.url:
        raise RequestError(f"{name}: {_ELSEWHERE}")
    try:
        import pooch
    except ImportError:
        raise RequestError("downloading needs pooch; install it with: pip install 'crowdsift[reproduce]'") from None
    pooch.get_logger().setLevel("WARNING")
    archive = source.url.endswith(".zip")
    try:
        paths = pooch.retrieve(
            source.url, source.checksum, path=pooch.os_cache("crowdsift"), processor=pooch.Unzip() if archive else None
        )
    except (OSError, ValueError) as error:  # no network, or a different file
        raise InputError(
            f"{source.url} cannot be downloaded: {str(error).splitlines()[0]}. Get the data set "
            f"from {source.page} by hand and give its folder with --data"
        ) from error
    if not archive:
        return Dataset(name, Path(paths))
    for path in paths:
        found = _in_folder(name, Path(path).parent)
        if found is not None:
            return found
    raise InputError(f"{source.url} does not hold {' and '.join(_FACEAGE_FILES)}")


def published(name: str, data: str | os.PathLike[str] | None = None) -> list[dict[str, str]] | None:
    """Return the figures that the paper published (real, synthetic or spammers) as rows of text; None if missing."""
    # They are searched for in the folder ``reference`` beside each folder of data sets, or in the folder that the
    # environment variable CROWDSIFT_REFERENCE names.
    named = os.environ.get("CROWDSIFT_REFERENCE")
    places = (
        [_folder(named, "CROWDSIFT_REFERENCE")] if named else [place.parent / "reference" for place in folders(data)]
    )
    for place in places:
        path = place / f"paper_{name}.csv"
        if path.is_file():
            with path.open(newline="", encoding="utf-8") as file:
                return list(csv.DictReader(file))
    return None


def _folder(path: str | os.PathLike[str], origin: str) -> Path:
    if not Path(path).is_dir():
        raise InputError(f"{origin}: {path} is not a folder")
    return Path(path)


def _in_folder(name: str, place: Path) -> Dataset | None:
    known = _KNOWN[name]
    votes, items = place / known.votes, place / known.items if known.items else None
    if votes.is_file() and (items is None or items.is_file()):
        classes = f"{items}:{known.classes}" if known.classes else None
        return Dataset(name, votes, items, score_column=known.score, classes=classes)
    if name == "faceage":
        return _as_published(place)
    return None


def _as_published(place: Path) -> Dataset | None:
    votes, items = (place / file for file in _FACEAGE_FILES)
    if not (votes.is_file() and items.is_file()):
        return None
    worker = next((c for c in ("worker", "performer") if c in _header(votes)), None)
    item = next((c for c in ("label", "task", "item") if c in _header(items)), None)
    if worker is None or item is None:
        raise InputError(
            "not in the layout of IMDB-WIKI-SbS: crowd_labels.csv has left, right, label and "
            "worker (or performer), gt.csv has label and score",
            source=str(votes if worker is None else items),
        )
    columns = {"winner": "label", "worker": worker}
    return Dataset("faceage", votes, items, item, "score", columns=columns)


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])
