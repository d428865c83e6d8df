"""Views: results that flows keep up to date, in SQLite or PostgreSQL.

Read `spec` and `epoch` (what goes in), `store` (the contract), `net` (the sum of weighted rows), `sqlstore` (the
commit), then `view` (what people use). `sqlite` and `postgres` are the databases' own ways.
"""

from riverrun.views.changelog import Change
from riverrun.views.epoch import Epoch, Last
from riverrun.views.places import open_store
from riverrun.views.selection import Condition, Selection
from riverrun.views.spec import ViewSpec
from riverrun.views.store import Store
from riverrun.views.view import Snapshot, View

__all__ = ["Change", "Condition", "Epoch", "Last", "Selection", "Snapshot", "Store", "View", "ViewSpec", "open_store"]
