"""Votes in databases: the same fit as from a file, one snapshot, no secrets, all tables or none."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import duckdb
import numpy as np
import pytest
from postgres import PASSWORD, server

import crowdsift
from crowdsift.errors import CrowdsiftError, InputError, RequestError
from crowdsift.io.databases import write_tables
from crowdsift.io.sql import kind_of_database, masked, shown_address

pa = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")
pytest.importorskip("adbc_driver_sqlite")

# CROWDSIFT_VOTES=1000000 is the size of docs/scale.md.
VOTES = int(os.environ.get("CROWDSIFT_VOTES", "100000"))
AWKWARD = [
    'quo"te',
    "it's",
    "com,ma",
    "line\nbreak",
    "tab\there",
    "naïve",
    "日本",
    "🙂",
    "\\N",
    "NULL",
    "007",
    "7",
    "back\\slash",
    "%s",
    "; drop table votes; --",
    "\u00e9",
    "e\u0301",
    "left",
    "a  b",
    "$1",
]
QUERY = "select winner, loser, worker from votes"


def awkward_votes() -> pa.Table:
    """Simulated votes whose items and workers have labels that break careless programs."""
    votes = crowdsift.simulate(60, 40, VOTES, seed=5).comparisons()
    items = np.array([f"{AWKWARD[i % 20]} {i}" if i >= 20 else AWKWARD[i] for i in range(60)])
    crowd = np.array([f"{AWKWARD[-1 - i % 20]}|{i}" for i in range(40)])
    times = votes.weight.astype(np.int64)
    first, second = (np.repeat(items[each], times) for each in (votes.first, votes.second))
    left = np.repeat(votes.outcome, times) == 1.0
    return pa.table(
        {
            "winner": np.where(left, first, second),
            "loser": np.where(left, second, first),
            "worker": np.repeat(crowd[votes.worker_codes()], times),
        }
    )


@pytest.fixture(scope="module")
def table():
    return awkward_votes()


@pytest.fixture(scope="module")
def by_csv(table, tmp_path_factory):
    """The fit of the same votes by way of a CSV file."""
    path = tmp_path_factory.mktemp("votes") / "votes.csv"
    duckdb.from_arrow(table).write_csv(str(path))
    return crowdsift.fit(path, method="bora-map")


@pytest.fixture(scope="module")
def postgres(table):
    import adbc_driver_postgresql.dbapi as driver

    os.environ["PGPASSWORD"] = PASSWORD
    with server() as address:
        with driver.connect(address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("votes", table)
            connection.commit()
        yield address
    del os.environ["PGPASSWORD"]


def assert_same(fit, expected):
    for ours, theirs in ((fit.item_table, expected.item_table), (fit.worker_table, expected.worker_table)):
        assert list(ours) == list(theirs)
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_postgres_equals_csv_and_comes_back(postgres, by_csv, tmp_path):
    folder, report = tmp_path / "fit", tmp_path / "page.html"
    secret = postgres.replace("tester@", f"tester:{PASSWORD.replace('/', '%2F')}@")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "crowdsift",
            "fit",
            secret,
            "--query",
            QUERY + ";",
            "--method",
            "bora-map",
            "--out",
            str(folder),
            "--report",
            str(report),
            "--to-table",
            "ranking",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PGPASSWORD": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "the table ranking_items" in done.stderr
    written = [done.stdout, done.stderr]
    written += [p.read_text("utf-8", "replace") for p in (*folder.rglob("*"), report) if p.is_file()]
    for text in written:
        assert PASSWORD not in text
        assert "s3cret" not in text
        assert "tester" not in text
    fit = crowdsift.load(folder)
    assert_same(fit, by_csv)
    back = crowdsift.fit(postgres, method="bora-map", query=QUERY)
    assert_same(back, by_csv)
    assert back.votes.source == shown_address(postgres)
    assert _rows(postgres, "ranking_items") == list(by_csv.item_table["item"])
    assert sorted(_rows(postgres, "ranking_workers", "worker")) == list(by_csv.worker_table["worker"])


def _rows(address, table, column="item"):
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(address) as connection, connection.cursor() as cursor:
        cursor.execute(f"select {column} from {table}")
        return [value for (value,) in cursor.fetchall()]


def test_tables_are_written_together_or_not_at_all(postgres, by_csv):
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("create table mine_workers (other text)")
        connection.commit()
    items, workers = by_csv.item_table.to_arrow(), by_csv.worker_table.to_arrow()
    with pytest.raises(InputError, match=r"mine_workers.*other columns"):
        write_tables(postgres, "mine", {"items": items, "workers": workers})
    with pytest.raises(Exception, match="does not exist"):
        _rows(postgres, "mine_items")
    write_tables(postgres, "public.again", {"items": items})
    write_tables(postgres, "again", {"items": items.slice(0, 5)})  # new rows instead of the old
    assert _rows(postgres, "again_items") == items["item"].to_pylist()[:5]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select winner, worker from votes", "needed columns are missing|loser"),
        ("select nothing from votes", 'column "nothing" does not exist'),
        ("delete from votes", "must be one SELECT"),
        ("with w as (delete from votes returning *) select * from w", "must be at the top level"),
        ("select winner, loser, worker from votes where false", "no rows"),
    ],
)
def test_queries_that_give_no_votes(postgres, query, message):
    with pytest.raises(CrowdsiftError, match=message) as caught:
        crowdsift.read(postgres, query=query)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://tester:wr0ng@/postgres?host={folder}",
        "postgresql://tester:wr0ng@127.0.0.1:1/postgres",
        "postgresql://tester:wr0ng/x@127.0.0.1:1/postgres",
        "postgresql://tester:a@wr0ng@127.0.0.1:1/postgres",
        "postgresql://tester:wr0ng%zz@127.0.0.1:1/postgres",
        "postgresql://tester@127.0.0.1:1/postgres?password=wr0ng&nonsense=1",
    ],
)
def test_no_secret_in_errors(postgres, address):
    address = address.format(folder=postgres.partition("host=")[2])
    with pytest.raises(CrowdsiftError) as caught:
        crowdsift.read(address, query=QUERY)
    assert "wr0ng" not in str(caught.value)
    assert "wr0ng" not in masked(f"crowdsift fit {address}")


def test_a_query_of_postgres_runs_no_program(postgres):
    """The tester is a superuser: a read-only transaction alone lets it run programs."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # the server runs as another user
        target = os.path.join(folder, "made")
        with pytest.raises(InputError, match="SELECT"):
            crowdsift.read(postgres, query=f"copy (select 1) to program 'cat > {target}'")
        assert not os.path.exists(target)


@pytest.mark.parametrize(
    "query",
    [
        "select winner, loser, worker from votes, pg_sleep(60)",  # before the first row
        "select 'a' || i as winner, 'b' as loser, pg_sleep(0.001)::text as worker "
        "from generate_series(1, 1000000) i",  # between rows
    ],
    ids=["waiting", "streaming"],
)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_signals_end_a_query_of_postgres(postgres, query, number, status):
    command = [sys.executable, "-m", "crowdsift", "fit", postgres, "--query", query]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        wait_for_queries(postgres, 1)
        running.send_signal(number)
        try:
            _, errors = running.communicate(timeout=8)
        finally:
            running.kill()
    assert running.returncode == status, errors
    assert "nothing was written" in errors
    wait_for_queries(postgres, 0)  # cancelled on the server as well


def wait_for_queries(address: str, count: int) -> None:
    """Wait until the server runs this number of our queries."""
    import adbc_driver_postgresql.dbapi as driver

    ours = (
        "select count(*) from pg_stat_activity where query like '%) AS votes%' "
        "and state = 'active' and pid <> pg_backend_pid()"
    )
    with driver.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for _ in range(300):
            cursor.execute(ours)
            if cursor.fetchone() == (count,):
                return
            time.sleep(0.1)
    raise AssertionError(f"the server never ran {count} queries of votes")


def test_a_query_of_sqlite_makes_no_file(tmp_path):
    path, other = tmp_path / "votes.db", tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table votes (winner, loser, worker)")
    for query in (f"attach database '{other}' as other", f"vacuum into '{other}'"):
        with pytest.raises(InputError, match="it must be one SELECT"):
            crowdsift.read(path, query=query)
    assert not other.exists()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb", "postgresql"])
@pytest.mark.parametrize("ending", ["-- all", "; -- all", ";\n/* all */ ;", " -- it's; 'all"])
def test_queries_may_end_in_a_comment(postgres, tmp_path, kind, ending):
    rows = "select 'a;--' as winner, 'b' as loser, 'w' as worker "
    path = tmp_path / f"votes.{kind}"
    if kind == "postgresql":
        path = postgres
    elif kind == "sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute("create table votes (winner)")
    else:
        duckdb.connect(str(path)).close()
    assert crowdsift.read(path, query=rows + ending).items.tolist() == ["a;--", "b"]


def test_types_of_postgres(postgres):
    query = """select gen_random_uuid() winner, 'b' loser, 7::int2 worker, 0.5::numeric weight
               union all select gen_random_uuid(), 'c', 8, null::numeric + 1 where false"""
    votes = crowdsift.read(postgres, query=query)
    assert votes.workers.tolist() == [7]
    assert votes.weight.tolist() == [0.5]
    assert {len(label) for label in votes.items} == {1, 36}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_files(kind, table, by_csv, tmp_path):
    path = tmp_path / f"votes #1?.{kind}"
    if kind == "sqlite":
        with sqlite3.connect(path) as connection:
            connection.execute("create table votes (winner text, loser text, worker text)")
            rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
            connection.executemany("insert into votes values (?, ?, ?)", rows)
        connection.close()
    else:
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("create table votes as select * from given")
    assert kind_of_database(path) == kind
    fit = crowdsift.fit(path, method="bora-map", query=QUERY)
    assert_same(fit, by_csv)
    tables = {"items": fit.item_table.to_arrow(), "workers": fit.worker_table.to_arrow()}
    for _ in range(2):
        write_tables(f"{kind}:///{path}", "ranking", tables)
    again = crowdsift.read(
        f"{kind}:///{path}", query="select item as winner, 'the rest' as loser, 1 as worker from ranking_items"
    )
    assert again.n_items == 61
    assert len(again) == 60
    with pytest.raises(InputError, match="query fails"):
        crowdsift.read(path, query="select nothing from nowhere")
    with pytest.raises(RequestError, match="--query"):
        crowdsift.read(path)


def test_sqlite_of_several_types(tmp_path):
    path = tmp_path / "votes.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table votes (winner, loser)")
        connection.executemany("insert into votes values (?, ?)", [(1, 2)] * 2000 + [("a", 2)])
    connection.close()
    with pytest.raises(InputError, match="CAST"):
        crowdsift.read(path, workers=False, query="select winner, loser from votes")


def test_requests(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("winner,loser\na,b\n")
    with pytest.raises(RequestError, match="for votes in a database"):
        crowdsift.read(path, workers=False, query=QUERY)
    with pytest.raises(RequestError, match="do not come from a database"):
        write_tables(str(path), "ranking", {})
    with pytest.raises(InputError, match="no such file"):
        crowdsift.read(f"sqlite:///{tmp_path}/none.db", query=QUERY)
