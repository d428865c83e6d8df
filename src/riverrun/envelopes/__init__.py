"""Envelopes: how change-data-capture tools write the rows of a database as JSON, read and written.

`envelope.py` says what a flow declares of such a topic, `changes.py` what a batch of messages comes to, `debezium.py` and
`maxwell.py` read the two forms, `wire.py` has the types of columns, `connect.py` what the schema inside a message says of
them. `encoding.py` writes Debezium's form. All of it is pure.
"""
