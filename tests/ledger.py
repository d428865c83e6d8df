"""Accounts and a ledger in the SQL of each database: transactions that move amounts, so that everything adds up to zero,
and both tables say the same of every account whenever no transaction is half done."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

TABLES = {"accounts": ("id", "balance", "note"), "ledger": ("id", "account", "delta"), "tags": ("id", "tag")}
ACCOUNTS = 120
_NUMBERED = {
    "postgresql": "bigserial primary key",
    "mariadb": "bigint auto_increment primary key",
    "sqlite": "integer primary key",
}


def made(dialect: str) -> list[str]:
    """The tables, and accounts without a balance."""
    accounts = ", ".join(f"({number}, 0, '{f'note {number} ' * 300}')" for number in range(1, ACCOUNTS + 1))
    statements = [
        "create table accounts (id integer primary key, balance integer not null, note text)",
        f"create table ledger (id {_NUMBERED[dialect]}, account integer, delta integer)",
        "create index deltas on ledger (delta)",
        "create table tags (id integer primary key, tag varchar(20) unique)",
    ]
    if dialect == "postgresql":  # values that are not sent again
        statements.append("alter table accounts alter note set storage external")
    return [*statements, f"insert into accounts values {accounts}"]


def transaction(dialect: str, dice: random.Random, writer: int, step: int) -> list[str]:
    """A transfer; now and then keys that change, a row that takes the place of others, more than is appended at once, and a
    change of mind. `writer` is another number for each of those who write at the same time."""
    one, other = dice.sample(range(1, ACCOUNTS + 1), 2)
    amount = dice.randrange(1, 10)
    steps = [
        f"update accounts set balance = balance - {amount} where id = {one}",
        f"update accounts set balance = balance + {amount} where id = {other}",
        f"insert into ledger (account, delta) values ({one}, -{amount}), ({other}, {amount})",
    ]
    if step % 5 == 4:
        away = one + 1000 * writer
        steps += [
            f"update accounts set id = {away} where id = {one}",
            f"update accounts set id = {one} where id = {away}",
        ]
        steps += _replaced(dialect, dice.randrange(30), f"tag {dice.randrange(10)}")
    if step % 11 == 10:
        steps += [
            "insert into ledger (account, delta) select id, 0 from accounts",
            "delete from ledger where delta = 0",
        ]
    begin = "begin immediate" if dialect == "sqlite" else "begin"  # who has read before may not write in SQLite
    return [begin, *steps, "rollback" if step % 13 == 12 else "commit"]


def _replaced(dialect: str, key: int, tag: str) -> list[str]:
    """One row instead of all that have its key or its tag."""
    if dialect == "postgresql":
        return [f"delete from tags where id = {key} or tag = '{tag}'", f"insert into tags values ({key}, '{tag}')"]
    return [f"replace into tags values ({key}, '{tag}')"]


def disagreement(accounts: Iterable[Mapping[str, Any]], ledger: Iterable[Mapping[str, Any]]) -> str | None:
    """What is wrong with these rows; None: they can be the state between two transactions."""
    balances = {row["id"]: row["balance"] for row in accounts if row["balance"]}
    entries: dict[int, int] = {}
    for row in ledger:
        entries[row["account"]] = entries.get(row["account"], 0) + row["delta"]
    entries = {account: total for account, total in entries.items() if total}
    if sum(balances.values()) or balances != entries:
        return f"accounts add up to {sum(balances.values())}; they are {balances}, by the ledger {entries}"
    return None
