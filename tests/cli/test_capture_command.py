"""`riverrun capture`: what it says, and what people get wrong. A server is in tests/capture."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

from captured_shop import Shop
from postgres_server import logical_server
from riverrun.river import River


def test_what_people_get_wrong(riverrun, tmp_path):
    address = "postgresql://ada:s3cret@127.0.0.1:1/shop"
    for arguments, why in (
        ((address,), "a capture needs a name"),
        ((address, "--name", "shop"), "a capture needs tables"),
        (("$NOWHERE", "--name", "shop", "--tables", "a"), "there is no variable NOWHERE"),
        (("shop",), "there is no settings file riverrun.toml"),
        (("oracle://x", "--name", "shop", "--tables", "a"), "not an address of a database that can be captured"),
        ((address, "--name", "a.b", "--tables", "a"), "without dots"),
        ((address, "--name", "shop", "--tables", "a", "--snapshot", "often"), "snapshot is initial or never or always"),
    ):
        done = riverrun("capture", *arguments)
        assert done.code == 2, done
        assert why in done.err
        assert "s3cret" not in done.err + done.out
    (tmp_path / "riverrun.toml").write_text('[captures.shop]\nsource = "x"\ntable = ["a"]\n')
    assert "there is no option 'table'. Did you mean 'tables'?" in riverrun("capture", "shop").err


def test_a_file_that_is_named_without_its_kind(riverrun, tmp_path):
    (tmp_path / "till.db").touch()
    (tmp_path / "riverrun.toml").write_text('[captures.shop]\nsource = "x"\ntables = ["a"]\n')
    for source in ("till.db", "sqlit:till.db"):
        for options in ((), ("--name", "shop", "--tables", "a")):
            done = riverrun("capture", source, *options)
            assert f"{source} is neither an address nor the name of a capture" in done.error
            assert "Write sqlite:till.db" in done.error
    other = riverrun("capture", "sohp", "--name", "shop", "--tables", "a").error
    assert "riverrun.toml has no capture 'sohp'" in other
    assert "sqlite:PATH" in other
    assert "s3cret" not in riverrun("capture", "postgresql:ada:s3cret@host/shop").error


def test_a_table_without_a_key_is_given_one_as_the_advice_says(riverrun, tmp_path):
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript("create table log (day text not null, number int not null, text text)")
        db.execute("insert into log values ('mon', 1, 'a'), ('mon', 2, 'b')")
        db.commit()
    command = ("capture", f"sqlite:{file}", "--name", "shop", "--tables", "log", "--once")
    refused = riverrun(*command)
    assert refused.code != 0
    advice = 'name its columns: keys={"log": [...]}, or --key log=COLUMN,… of the command'
    assert advice in refused.err
    with closing(sqlite3.connect(file)) as db:
        db.executescript("create unique index log_key on log (day, number)")
    done = riverrun(*command, "--key", "log=day,number")
    assert done.code == 0, done
    with River(tmp_path / "river") as river:
        topic = river.topic("shop.log")
        assert topic.spec.key == ("day", "number")
        assert topic.read().num_rows == 2


def test_a_key_that_is_not_named_again_is_the_one_that_was(riverrun, tmp_path):
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as db:
        db.executescript("create table log (n int not null, text text); create unique index log_key on log (n)")
        command = ("capture", f"sqlite:{file}", "--name", "shop", "--tables", "log", "--once")
        assert riverrun(*command, "--key", "log=n").code == 0
        db.executescript("insert into log values (1, 'a')")
        for key in ((), ("--key", "log=n")):
            done = riverrun(*command, *key)
            assert done.code == 0, done
        with River(tmp_path / "river") as river:
            assert river.topic("shop.log").read().num_rows == 1
        db.executescript("create table users (id integer primary key); drop index log_key")
        command = (*command, "--tables", "log,users")
        stopped = riverrun(*command)
        assert stopped.code == 1
        assert "log has stopped: log has no unique index on its key (n)" in stopped.err
        db.executescript("create unique index log_key on log (n)")
        again = riverrun(*command, "--json")
        assert (again.code, json.loads(again.out)["tables"]["users"]["state"]) == (1, "streaming")
        assert "riverrun capture … --resnapshot log" in again.err
        assert riverrun(*command, "--resnapshot", "log").code == 0


def test_keys_that_people_get_wrong(riverrun, tmp_path):
    command = ("capture", f"sqlite:{tmp_path}/shop.db", "--name", "shop", "--tables", "log")
    for key in ("log", "log=", "=day"):
        assert f"not a key of a table: '{key}'. Write --key public.log=id" in riverrun(*command, "--key", key).error
    for more in ((), ("--install",)):
        (tmp_path / "shop.db").touch()
        elsewhere = riverrun(*command, *more, "--key", "lgo=day").error
        assert "there is a key of lgo, which is not captured. Did you mean 'log'?" in elsewhere
        assert "there are two keys of log" in riverrun(*command, *more, "--key", "log=day", "--key", "log=number").error
    (tmp_path / "riverrun.toml").write_text('[captures.shop]\nsource = "x"\ntables = ["a"]\n')
    assert "which has its tables and keys" in riverrun("capture", "shop", "--key", "a=b").error


def test_once_with_a_name_in_the_settings(riverrun, tmp_path, monkeypatch):
    server = logical_server(16)
    try:
        shop = Shop(server, tmp_path)
        shop.sql("create table orders (id int primary key); insert into orders values (1), (2)")
        monkeypatch.setenv("SHOP", shop.url)
        (tmp_path / "riverrun.toml").write_text(f'[captures.{shop.name}]\nsource = "$SHOP"\ntables = ["orders"]\n')
        done = riverrun("capture", shop.name, "--once", "--json")
        assert done.code == 0, done
        assert json.loads(done.out)["tables"]["public.orders"]["rows"] == 2
        again = riverrun("capture", "$SHOP", "--name", shop.name, "--tables", "orders", "--once")
        assert again.code == 0, again
        assert f"capture {shop.name}: stopped" in again.out
        assert set(shop.replica("public.orders")) == {1, 2}
        shop.close()
    finally:
        server.remove()
