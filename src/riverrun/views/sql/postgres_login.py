"""The login that queries of strangers run with: it reads views, and nothing else."""

from __future__ import annotations

import psycopg

from riverrun.errors import Invalid, Unavailable
from riverrun.views.sql.conditions import quoted

MADE_BY = "create role riverrun_viewer login password '…' connection limit 8"
HINT = (
    f"Make a login, as in: {MADE_BY}; and name it in the setting views_read (RIVERRUN_VIEWS_READ), as in "
    "postgresql://riverrun_viewer@host/database; Riverrun grants it the views"
)
OWNER_HINT = (
    "Give it one that may do no more than keep views: create role riverrun login password '…'; "
    "grant create on database NAME to riverrun; and let it own the schema riverrun and what is in it"
)

# Roles that PostgreSQL has from the beginning and that reach beyond tables one was granted.
_POWERFUL = [
    "pg_read_all_data",
    "pg_write_all_data",
    "pg_read_server_files",
    "pg_write_server_files",
    "pg_execute_server_program",
    "pg_signal_backend",
    "pg_create_subscription",
    "pg_maintain",
]
_POWERS = """
select case
  when r.rolsuper then 'it is a superuser'
  when r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls then 'it may do more than log in'
  when pg_has_role(r.oid, n.nspowner, 'member') then 'it belongs to the owner of the views'
  when has_schema_privilege(n.oid, 'create') then 'it may create tables beside the views'
  end
from pg_roles r, pg_namespace n where r.rolname = session_user and n.nspname = %s
"""
_MEMBERSHIP = "select rolname from pg_roles where rolname = any(%s) and pg_has_role(oid, 'member') limit 1"
# Tables of extensions are theirs to grant.
_READABLE = """
select quote_ident(n.nspname) || '.' || quote_ident(c.relname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not like 'pg\\_%%' and n.nspname <> 'information_schema'
  and not (n.nspname = %s and c.relkind = 'v')
  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select, insert, update, delete')
  and not exists (select 1 from pg_depend d where d.objid = c.oid and d.deptype = 'e')
limit 1
"""


def login_of(url: str) -> str:
    """The role that a connection string logs in as."""
    try:
        name = psycopg.conninfo.conninfo_to_dict(url).get("user")
    except psycopg.Error:
        name = None
    if not name:
        raise Invalid("views_read does not name a login", hint="Write postgresql://login@host/database")
    return str(name)


def refuse_powers(connection: psycopg.Connection, schema: str) -> None:
    """`Unavailable` when the login of a connection may do more than read the views of a schema."""
    why = _power(connection, schema)
    if why is not None:
        name = connection.info.user
        raise Unavailable(f"the login {name!r} of views_read may do more than read views: {why}", hint=HINT)


def _power(connection: psycopg.Connection, schema: str) -> str | None:
    [found] = connection.execute(_POWERS, (schema,)).fetchone() or ["it does not see the schema of the views"]
    if found is not None:
        return str(found)
    member = connection.execute(_MEMBERSHIP, (_POWERFUL,)).fetchone()
    if member is not None:
        return f"it belongs to {member[0]}"
    readable = connection.execute(_READABLE, (schema,)).fetchone()
    return None if readable is None else f"it has rights on {readable[0]}"


def is_superuser(connection: psycopg.Connection) -> bool:
    """Whether the login of a connection may do everything."""
    row = connection.execute("select rolsuper from pg_roles where rolname = session_user").fetchone()
    return row is not None and bool(row[0])


def grant_schema(connection: psycopg.Connection, schema: str, login: str) -> None:
    """Let a login find the views of a schema."""
    try:
        there = connection.execute("select has_schema_privilege(%s, %s, 'usage')", (login, schema)).fetchone()
        if there != (True,):
            connection.execute(f"grant usage on schema {quoted(schema)} to {quoted(login)}")
    except psycopg.errors.UndefinedObject:
        raise Unavailable(f"there is no login {login!r}, which views_read names", hint=f"Make it: {MADE_BY}") from None
