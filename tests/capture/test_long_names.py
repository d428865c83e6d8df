"""A table whose topic would have too long a name stops alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from captured_file import FileShop


def test_a_table_with_too_long_a_name_stops_alone(tmp_path: Path) -> None:
    with closing(FileShop(tmp_path)) as shop:
        long = "\u8868" * 25  # 9 characters each in the name of a topic
        shop.sql(f'create table "{long}" (id integer primary key); create table users (id integer primary key)')
        shop.sql("insert into users values (1)")
        tables = shop.once(long, "users")["tables"]
        assert "cannot be the name of a topic" in tables[long]["reason"]
        assert "Rename the table" in tables[long]["reason"]
        assert set(shop.replica("users")) == {1}
