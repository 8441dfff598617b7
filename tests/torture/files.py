"""Files of votes in many dialects, whole and damaged, against the rows that were written.

A whole file gives back exactly its votes. Lines taken away, doubled or moved change exactly what they say. A damaged
gzip is refused or gives the same votes; other damage may change what is read, but never ends in an error that is not
ours.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path

import crowdsift
from crowdsift import Comparisons, CrowdsiftError
from samples import assert_same
from torture.words import labels, result

Vote = tuple[str, str, str]


def case(seed: int, folder: Path) -> None:
    """Write, read, compare; then move lines, then damage bytes."""
    rng = random.Random(seed)
    votes = drawn(rng)
    kind = rng.choice(("csv", "csv", "jsonl", "json", "parquet"))
    write = {"csv": as_csv, "jsonl": as_lines, "json": as_list, "parquet": as_parquet}[kind]
    content = write(rng, votes)
    zipped = kind != "parquet" and rng.random() < 0.4
    suffix = {"csv": rng.choice(("csv", "tsv", "txt"))}.get(kind, kind)
    path = folder / f"votes.{suffix}{'.gz' if zipped else ''}"
    path.write_bytes(gzip.compress(content) if zipped else content)
    assert_same(crowdsift.read(path), comparisons(votes))
    if kind in ("csv", "jsonl"):
        moved = lines_moved(rng, votes)
        path.write_bytes(gzip.compress(write(rng, moved)) if zipped else write(rng, moved))
        assert_same(crowdsift.read(path), comparisons(moved))
    for _ in range(5):
        path.write_bytes(damaged(rng, gzip.compress(content) if zipped else content))
        try:
            found = crowdsift.read(path)
        except CrowdsiftError as error:
            result(error)
        else:
            assert found.total_weight <= 2 * len(votes) + 1
            if zipped:
                assert_same(found, comparisons(votes))


def drawn(rng: random.Random) -> list[Vote]:
    """Between one vote and a few hundred, of awkward labels."""
    items, workers = labels(rng, rng.randrange(2, 12)), labels(rng, rng.randrange(1, 6))
    count = rng.choice((1, 2, 5, 40, 300))
    return [(*rng.sample(items, 2), rng.choice(workers)) for _ in range(count)]


def comparisons(votes: Sequence[Vote]) -> Comparisons:
    winner, loser, worker = (list(column) for column in zip(*votes, strict=True))
    return Comparisons.from_arrays(winner, loser, worker=worker)


def as_csv(rng: random.Random, votes: Sequence[Vote]) -> bytes:
    """CSV with any delimiter, line end, mark, order of columns and further columns."""
    order = rng.sample(range(3), 3)
    names = [("winner", "loser", "worker")[i] for i in order]
    more = rng.random() < 0.3
    out = io.StringIO(newline="")
    writer = csv.writer(
        out, delimiter=rng.choice(",,,;\t|"), lineterminator=rng.choice(("\n", "\n", "\r\n")), quoting=csv.QUOTE_ALL
    )
    writer.writerow([*names, *(["note"] if more else [])])
    for vote in votes:
        note = [rng.choice(("", "x", 'a "note"', "1,2"))] if more else []
        writer.writerow([*(vote[i] for i in order), *note])
    text = out.getvalue()
    if rng.random() < 0.3:
        text = text.rstrip("\r\n")
    return (b"\xef\xbb\xbf" if rng.random() < 0.2 else b"") + text.encode()


def _records(rng: random.Random, votes: Sequence[Vote]) -> list[dict[str, str]]:
    names = ("winner", "loser", "worker")
    records = []
    for vote in votes:
        pairs = list(zip(names, vote, strict=True))
        records.append(dict(rng.sample(pairs, 3)))
    return records


def as_lines(rng: random.Random, votes: Sequence[Vote]) -> bytes:
    plain = rng.random() < 0.5
    return "".join(json.dumps(r, ensure_ascii=plain) + "\n" for r in _records(rng, votes)).encode()


def as_list(rng: random.Random, votes: Sequence[Vote]) -> bytes:
    indent = rng.choice((None, 2))
    plain = rng.random() < 0.5
    return json.dumps(_records(rng, votes), indent=indent, ensure_ascii=plain).encode()


def as_parquet(rng: random.Random, votes: Sequence[Vote]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    kind = rng.choice((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())))
    columns = zip(*votes, strict=True)
    names = ("winner", "loser", "worker")
    table = pa.table({n: pa.array(c).cast(kind) for n, c in zip(names, columns, strict=True)})
    out = io.BytesIO()
    compression = rng.choice(("snappy", "zstd", "gzip", "none"))
    parquet.write_table(table, out, compression=compression, row_group_size=rng.choice((1, 7, 9999)))
    return out.getvalue()


def lines_moved(rng: random.Random, votes: Sequence[Vote]) -> list[Vote]:
    """Rows taken away, doubled, in another order; at least one is left."""
    moved = [vote for vote in votes for _ in range(rng.choice((0, 1, 1, 1, 2)))] or [votes[0]]
    rng.shuffle(moved)
    return moved


def damaged(rng: random.Random, content: bytes) -> bytes:
    """Bits flipped, a piece cut out, doubled or replaced, the end lost."""
    data = bytearray(content)
    place = rng.randrange(len(data))
    end = min(len(data), place + rng.choice((1, 1, 4, 64, 4096)))
    kind = rng.randrange(5)
    if kind == 0:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[place:end]
    elif kind == 2:
        data[place:place] = data[place:end]
    elif kind == 3:
        data[place:end] = rng.randbytes(end - place)
    else:
        del data[place:]
    return bytes(data)
