"""Kafka as the log: the same topics, kept by brokers. What others write there is read, and the other way round.

`address` and `refusals` say where it is and what it does not do; `messages` and the `…_values` are pure: rows ↔ messages;
`connection`, `reader`, `writer`, `table` are the clients; `backend`, `catalogue`, `consumer` and `groups` are what the
rest of Riverrun sees.
"""
