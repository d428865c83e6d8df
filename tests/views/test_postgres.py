"""What can happen to a store that is a server."""

from __future__ import annotations

import itertools
import signal
import tempfile
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from postgres_server import Server, shared_server
from riverrun.errors import Invalid, NewerFormat, OlderFormat, Transient, Unavailable
from riverrun.views import Epoch, View, ViewSpec, open_store
from riverrun.views.sql.postgres import PostgresDatabase
from riverrun.views.sql.sqlstore import SqlStore

SPEC = ViewSpec("v", "flow", "k string, n bigint", ("k",), ("t",))
_schemas = (f"test_{number}" for number in itertools.count())


def rows(*given: tuple) -> dict[str, pa.Table]:
    k, n, weight = zip(*given, strict=True)
    return {"v": pa.table({"k": pa.array(k, pa.string()), "n": n, "_weight": weight})}


def epoch(number: int, *given: tuple) -> Epoch:
    return Epoch("flow", 1, number, {"t": {0: number}}, rows(*given) if given else {})


@pytest.fixture
def schema():
    return next(_schemas)


@pytest.fixture
def store(schema):
    with SqlStore(PostgresDatabase(shared_server().url, schema=schema)) as store:
        store.declare(SPEC)
        store.take_fence("flow")
        yield store


def test_a_server_that_was_away_is_found_again():
    server = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")))
    try:
        with open_store(server.url) as store:
            store.declare(SPEC)
            store.take_fence("flow")
            store.commit(epoch(1, ("a", 1, 1)))
            view = View(store, "v")
            assert len(view.rows()) == 1
            server.stop("immediate")
            for use in (view.rows, lambda: store.commit(epoch(2)), view.rows):
                with pytest.raises(Transient, match="is away"):
                    use()
            with pytest.raises(Transient):
                open_store(server.url)
            server.start()
            assert view.get("a") == {"k": "a", "n": 1}
            assert not store.commit(epoch(1, ("a", 1, 1)))
            assert store.commit(epoch(2, ("a", 2, 1)))
            server.stop()
            server.start()
            assert view.get("a") == {"k": "a", "n": 2}
            assert store.commit(epoch(3))
    finally:
        server.remove()


def test_a_connection_that_was_cut_is_replaced(store):
    store.commit(epoch(1, ("a", 1, 1)))
    View(store, "v").rows()
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where pid <> pg_backend_pid() and datname = 'postgres'"
        )
    assert View(store, "v").get("a") == {"k": "a", "n": 1}
    assert store.commit(epoch(2, ("a", 2, 1)))


@pytest.mark.parametrize("place", ["views.changed:3", "views.applied:2", "views.committed:2"])
def test_killed_inside_a_commit_it_goes_on(program, place):
    server = shared_server()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute("drop schema if exists riverrun cascade")
    killed = program("commit_epochs.py", server.url, 3, failpoints=f"{place}=kill")
    assert killed.wait(30) == -signal.SIGKILL
    assert program("commit_epochs.py", server.url, 3).wait(30) == 0
    with open_store(server.url) as store:
        expected = [{"k": k, "n": 3} for k in range(3, 200)]
        assert View(store, "one").rows() == View(store, "two").rows() == expected
        assert (store.last("flow").epoch, store.last("flow").manifest) == (3, b"state after 3")
        counts = [
            sum(c.op == op for c in View(store, "one").changes(timeout=0)) for op in ("insert", "update", "delete")
        ]
        assert counts == [199, 395, 2]


def test_sql_can_run_as_a_role_that_sees_only_what_it_was_granted(store, schema):
    store.commit(epoch(1, ("a", 1, 1)))
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(f"drop role if exists looker_{schema}")
        admin.execute(f"create role looker_{schema}")
        admin.execute(f"grant usage on schema {schema} to looker_{schema}")
        admin.execute(f"grant select on {schema}.v to looker_{schema}")
    with SqlStore(PostgresDatabase(shared_server().url, schema=schema, reader=f"looker_{schema}")) as careful:
        assert careful.query("select n from v") == [{"n": 1}]
        with pytest.raises(Invalid, match="permission denied"):
            careful.query('select * from "riverrun:flows"')
        assert View(careful, "v").get("a") == {"k": "a", "n": 1}


def test_text_without_nul(store):
    store.commit(epoch(1, ("a\0b", 1, 1)))
    assert View(store, "v").rows() == [{"k": "a\ufffdb", "n": 1}]
    assert View(store, "v").get("a\0b") == {"k": "a\ufffdb", "n": 1}
    store.commit(epoch(2, ("a\0b", 1, -1)))
    assert View(store, "v").rows() == []


def test_a_key_that_is_too_long_is_refused_and_nothing_else_is_lost(store):
    store.commit(epoch(1, ("a", 1, 1)))
    incompressible = "".join(chr(0x4E00 + (i * 7919) % 20000) for i in range(9000))
    with pytest.raises(Invalid):
        store.commit(epoch(2, (incompressible, 1, 1)))
    assert View(store, "v").get("a") == {"k": "a", "n": 1}


def test_names_that_would_be_cut_are_refused(store):
    for name, column in (("v" * 64, "k"), ("long", "c" * 64), ("ü" * 32, "k")):
        with pytest.raises(Invalid, match="PostgreSQL cuts names"):
            store.declare(ViewSpec(name, "flow", f"`{column}` string", (column,)))


def test_views_that_others_built_on_a_view_survive_its_rebuild(store, schema):
    store.commit(epoch(1, ("a", 1, 1)))
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(f"create view {schema}.theirs as select n + 1 as more from {schema}.v")
        token = store.begin_rebuild("flow", [SPEC])
        store.commit(Epoch("flow", 1, 1, {"t": {0: 1}}, rows(("a", 7, 1)), rebuild=token))
        store.switch(token, 1)
        assert admin.execute(f"select more from {schema}.theirs").fetchall() == [(8,)]


def test_a_newer_format_is_refused(store, schema):
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(f"update {schema}.\"riverrun:counters\" set value = 99 where name = 'format'")
    with pytest.raises(NewerFormat, match="has format 99"):
        SqlStore(PostgresDatabase(shared_server().url, schema=schema))


def test_an_older_format_is_named_with_the_way_out(store, schema):
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(f"update {schema}.\"riverrun:counters\" set value = 1 where name = 'format'")
    with pytest.raises(OlderFormat, match=f"schema {schema}, was made by an older Riverrun: it has format 1"):
        SqlStore(PostgresDatabase(shared_server().url, schema=schema))


def test_a_server_that_has_become_a_standby_is_waited_for(schema):
    """After a failover the old connection says 25006 for ever; it was taken for a mistake, and ended the run."""
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        admin.execute(f"create role {schema} login superuser")
        url = shared_server().url.replace("//riverrun@", f"//{schema}@")
        with SqlStore(PostgresDatabase(url, schema=schema)) as store:
            store.declare(SPEC)
            store.take_fence("flow")
            store.commit(epoch(1, ("a", 1, 1)))
            admin.execute(f"alter role {schema} set default_transaction_read_only = on")
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", (schema,))
            for _ in range(2):
                with pytest.raises(
                    Transient, match="takes no changes now: cannot execute .* in a read-only transaction"
                ):
                    store.commit(epoch(2, ("b", 1, 1)))
            assert len(View(store, "v").rows()) == 1
            admin.execute(f"alter role {schema} reset default_transaction_read_only")
            assert store.commit(epoch(2, ("b", 1, 1)))


def test_passwords_are_in_no_error():
    for url in (
        "postgresql://me:hunter2@127.0.0.1:1/x",
        "postgresql://me:hunter2@host:port:y",
        "dbname=x password=hunter2 bad",
    ):
        with pytest.raises((Transient, Invalid, Unavailable)) as refused:
            PostgresDatabase(url)
        error: BaseException | None = refused.value
        while error is not None:
            assert "hunter2" not in str(error)
            error = error.__cause__
