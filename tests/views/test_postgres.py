"""What can happen to a store that is a server."""

from __future__ import annotations

import itertools
import signal
import socket
import tempfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from postgres_server import Server, shared_server
from riverrun.errors import Busy, Invalid, NewerFormat, NotFound, OlderFormat, TimedOut, Transient, Unavailable
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


@pytest.fixture
def admin():
    with psycopg.connect(shared_server().url, autocommit=True) as admin:
        yield admin


@pytest.fixture
def viewer(admin, schema):
    """The address of a login that nobody has granted anything."""
    name = f"viewer_{schema}"
    admin.execute(f"create role {name} login")
    yield shared_server().url.replace("riverrun@", f"{name}@")
    admin.execute(f"drop owned by {name}")
    admin.execute(f"drop role {name}")


@pytest.fixture
def private(admin, schema):
    """A table that is no view."""
    admin.execute(f"create schema private_{schema}")
    admin.execute(f"create table private_{schema}.cards as select '4111-1111' as n")
    yield f"private_{schema}.cards"
    admin.execute(f"drop schema private_{schema} cascade")


def opened(schema, viewer, **options):
    return SqlStore(PostgresDatabase(shared_server().url, schema=schema, read=viewer, **options))


def test_queries_run_as_a_login_that_reads_views_and_nothing_else(store, schema, viewer, private):
    """A query read the whole database, also where it ran as another role of the same login."""
    store.commit(epoch(1, ("a", 1, 1)))
    trick = (
        "select word from (select set_config('role', 'none', true) as r offset 0) a, lateral ts_stat("
        f"'select to_tsvector(''simple'', n) from {private} where ''' || r || ''' is not null')"
    )
    with opened(schema, viewer) as careful:
        assert careful.query("select n from v") == [{"n": 1}]
        for sql in (f"select * from {private}", 'select * from "riverrun:flows"', trick, "select pg_read_file('x')"):
            with pytest.raises(Invalid, match="permission denied"):
                careful.query(sql)
        assert View(careful, "v").get("a") == {"k": "a", "n": 1}


def test_views_that_are_made_later_or_anew_can_be_read(store, schema, viewer):
    with opened(schema, viewer) as careful:
        careful.declare(ViewSpec("later", "flow", "k string", ("k",), ("t",)))
        assert careful.query("select * from later") == []
        other = ViewSpec("later", "flow", "m double, k string", ("k",), ("t",))
        token = careful.begin_rebuild("flow", [SPEC, other])
        careful.switch(token, 1)
        assert careful.query("select m from later") == []


def test_a_query_cannot_stop_a_flow(store, schema, viewer, admin):
    """A lock that a query took outlived it, and commits waited for good; the flow's connections could be ended."""
    with opened(schema, viewer) as careful:
        for lock in (f"{schema}/flow", schema):
            careful.query(f"select pg_advisory_lock(hashtextextended('{lock}', 0))")
        admin.execute(f"select pg_advisory_lock(hashtextextended('{schema}/flow', 0))")  # held while we commit
        assert store.commit(epoch(1, ("a", 1, 1)))
        end = "select count(pg_terminate_backend(pid)) as n from pg_stat_activity where usename = 'riverrun'"
        with pytest.raises(Invalid, match="permission denied"):
            careful.query(end)
        assert store.commit(epoch(2, ("a", 2, 1)))


@pytest.mark.parametrize(
    ("power", "why"),
    [
        ("alter role {role} superuser", "it is a superuser"),
        ("grant riverrun to {role}", "it belongs to the owner"),
        ("grant pg_signal_backend to {role}", "it belongs to pg_signal_backend"),
        ("grant create on schema {schema} to {role}", "it may create tables"),
        ('grant select on {schema}."riverrun:flows" to {role}', "it has rights on .*riverrun:flows"),
    ],
)
def test_a_login_that_may_do_more_is_refused(store, schema, viewer, admin, power, why):
    admin.execute(power.format(role=f"viewer_{schema}", schema=schema))
    with opened(schema, viewer) as careless:
        with pytest.raises(Unavailable, match=f"may do more than read views: {why}"):
            careless.query("select n from v")
        assert [what for what, _ in careless.concerns() if "may do more than read views" in what]


def test_without_such_a_login_strangers_may_not_ask(store, schema, viewer):
    with pytest.raises(Unavailable, match=r"needs a login that reads views .*create role .*RIVERRUN_VIEWS_READ"):
        store.admit_strangers()
    with opened(schema, viewer) as careful:
        careful.admit_strangers()


def test_a_login_that_is_not_there_is_named(schema):
    with pytest.raises(Unavailable, match=r"there is no login 'nobody_here'.*create role"):
        opened(schema, shared_server().url.replace("riverrun@", "nobody_here@"))
    with pytest.raises(Invalid, match="views_read does not name a login"):
        opened(schema, "postgresql://host/database")


def test_a_superuser_is_a_concern(store, schema, viewer, admin):
    [(what, _)] = store.concerns()
    assert what == f"the login of the view store {store.database.where} is a superuser"
    admin.execute(f"create role owner_{schema} login")
    admin.execute(f"grant create on database postgres to owner_{schema}")
    modest = shared_server().url.replace("riverrun@", f"owner_{schema}@")
    with SqlStore(PostgresDatabase(modest, schema=f"of_{schema}", read=viewer)) as own:
        assert own.concerns() == []
    admin.execute(f"drop owned by owner_{schema} cascade")
    admin.execute(f"drop role owner_{schema}")


@pytest.mark.parametrize("table", ["riverrun:locks", "riverrun:views"])
def test_what_others_have_locked_is_waited_for_and_said(store, schema, admin, table):
    """A commit that waited for a lock said nothing and never gave up, be it to write or to read."""
    with (
        SqlStore(PostgresDatabase(shared_server().url, schema=schema, wait=0.2)) as impatient,
        admin.transaction(),
    ):
        admin.execute(f'lock table {schema}."{table}" in access exclusive mode')
        with pytest.raises(Busy, match=r"somebody else holds a lock in the view store .*lock timeout"):
            impatient.commit(epoch(1, ("a", 1, 1)))
    assert store.commit(epoch(1, ("a", 1, 1)))


@pytest.mark.usefixtures("store")
def test_a_store_that_others_have_locked_is_not_opened(schema, admin):
    with admin.transaction():
        admin.execute(f'lock table {schema}."riverrun:counters" in access exclusive mode')
        with pytest.raises(Busy, match="lock timeout"):
            PostgresDatabase(shared_server().url, schema=schema, wait=0.2)


def test_a_store_that_only_looks_makes_nothing(schema):
    with pytest.raises(NotFound, match="has no views yet"):
        PostgresDatabase(shared_server().url, schema=schema, create=False)


def test_a_condition_cannot_hide_a_statement_in_brackets(store, private):
    """What SQLite reads as a name in brackets is an array here."""
    store.commit(epoch(1, ("a", 1, 1)))
    with pytest.raises(Invalid, match="'select' in it"):
        store.fetch("v", f"n = any(array[(select count(*) from {private})])")
    assert store.fetch("v", "n = any(array[1, 2])").num_rows == 1


def test_a_condition_that_takes_too_long_is_stopped(store):
    """`where` had no limit."""
    store.commit(epoch(1, ("a", 1, 1)))
    with pytest.raises(TimedOut):
        View(store, "v").rows("pg_sleep(20) is not null", timeout="100 ms")


def test_an_answer_that_is_too_large_stays_where_it_is(store):
    for sql, why in (
        ("select repeat('x', 900000000)", "MiB of memory"),
        ("select repeat('x', 1000000) from generate_series(1, 1000)", "more than 64 MiB"),
    ):
        with pytest.raises(Invalid, match=why):
            store.query(sql, timeout=60)
    assert store.query("select 1 as n") == [{"n": 1}]


def test_values_of_all_kinds_are_answered(store):
    [row] = store.query(
        "select 1.10 as a, timestamptz '2026-01-01 12:00+02' as b, date '2026-01-01' as c, interval '1 day' as d,"
        """ array[1, 2] as e, '{"x": [1]}'::json as f, 'ab'::bytea as g, 10::numeric ^ 30 as h, '10.0.0.1'::inet as i,"""
        " null as j, true as k"
    )
    assert list(row.values()) == [
        Decimal("1.10"),
        datetime(2026, 1, 1, 10, tzinfo=UTC),
        date(2026, 1, 1),
        timedelta(days=1),
        [1, 2],
        {"x": [1]},
        b"ab",
        Decimal(10) ** 30,
        "10.0.0.1",
        None,
        True,
    ]


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
    for name, column in (("v" * 64, "k"), ("long", "c" * 64), ("long", "ü" * 32)):
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


def test_a_store_from_before_is_read_by_who_may_not_create(store, schema, admin):
    login = f"app_{schema}"
    admin.execute(f"create role {login} login")
    try:
        admin.execute(f'drop table {schema}."riverrun:runs"')
        admin.execute(f"grant usage on schema {schema} to {login}")
        admin.execute(f"grant all on all tables in schema {schema} to {login}")
        url = shared_server().url.replace("riverrun@", f"{login}@")
        with SqlStore(PostgresDatabase(url, schema=schema)) as reader:
            assert reader.incumbent("flow") is None
            with pytest.raises(Unavailable, match="permission denied for schema"):
                reader.hear("flow", 1, "one")
            store.hear("flow", 1, "one")
            assert reader.incumbent("flow") is None  # it is there now, and may not be read
            assert reader.spec("v").name == "v"
    finally:
        admin.execute(f"drop owned by {login}")
        admin.execute(f"drop role {login}")


def test_databases_of_one_name_behind_two_ports_are_two_places() -> None:
    first = shared_server()
    second = Server(Path(tempfile.mkdtemp(prefix="rr-pg-")), settings="-F -c port=5433")
    try:
        places = set()
        for server, port in ((first, 5432), (second, 5433)):
            with open_store(server.url + f"&port={port}") as store:
                places.add(store.identity().place.replace(str(server.directory), "here"))
        assert len(places) == 2
        assert all(socket.gethostname() in place for place in places)  # no other machine has this socket
    finally:
        second.remove()
