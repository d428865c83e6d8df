"""commit_epochs.py STORE EPOCHS: bring two views of one flow to epoch EPOCHS, going on where the store is.

STORE is a file for SQLite or a URL for PostgreSQL. Each epoch replaces what the one before wrote for 200 keys and
deletes one key. Prints each epoch once it is committed.
"""

import sys

import pyarrow as pa

from riverrun.views import Epoch, ViewSpec, open_store

where, epochs = sys.argv[1:]
store = open_store(where)
for name in ("one", "two"):
    store.declare(ViewSpec(name, "flow", "k bigint, n bigint", ("k",), ("t",), history="1 hour"))


def changes(epoch: int) -> pa.Table:
    old = [(k, epoch - 1, -1) for k in range(epoch - 1, 200)] if epoch > 1 else []
    new = [(k, epoch, 1) for k in range(epoch, 200)]
    k, n, weight = zip(*old, *new, strict=True)
    return pa.table({"k": k, "n": n, "_weight": weight})


fence = store.take_fence("flow")
for epoch in range(store.last("flow").epoch + 1, int(epochs) + 1):
    table = changes(epoch)
    manifest = b"state after %d" % epoch
    store.commit(Epoch("flow", fence, epoch, {"t": {0: epoch}}, {"one": table, "two": table}, manifest))
    print(epoch, flush=True)
store.close()
