"""sqlite_writer.py FILE NUMBER ROUNDS: transactions that move amounts between accounts and a ledger, and add up to zero."""

import random
import sqlite3
import sys

file, number, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
dice = random.Random(number)
db = sqlite3.connect(file, isolation_level=None, timeout=60)
for step in range(rounds):
    one, other, amount = dice.randrange(1, 121), dice.randrange(1, 121), dice.randrange(9)
    db.execute("begin immediate")
    db.execute("update accounts set balance = balance - ? where id = ?", (amount, one))
    db.execute("update accounts set balance = balance + ? where id = ?", (amount, other))
    db.execute("insert into ledger (account, delta) values (?, ?), (?, ?)", (one, -amount, other, amount))
    if step % 5 == 0:  # keys that change, and a row that is replaced by another unique column
        db.execute("update accounts set id = id + 1000 * ? where id = ?", (number, one))
        db.execute("update accounts set id = ? where id = ? + 1000 * ?", (one, one, number))
        db.execute("insert or replace into tags values (?, ?)", (dice.randrange(30), f"tag {dice.randrange(10)}"))
    if step % 11 == 0:  # larger than what is appended at once
        db.execute("insert into ledger (account, delta) select id, 0 from accounts")
        db.execute("delete from ledger where delta = 0")
    db.execute("rollback" if step % 13 == 0 else "commit")
