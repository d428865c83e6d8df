"""Machines that fall silent, or run hot three times in ten minutes."""

import riverrun as rr

BEATS = rr.TopicSpec("beats", "machine string, celsius double, at timestamp", key="machine", time="at")

flow = rr.Flow("machines")
beats = flow.stream(BEATS, lateness="10 seconds")

# A machine reports every ten seconds. This comes out when half a minute has passed without another report.
silent = beats.match("beat !beat", by="machine", within="30 seconds", measures={"celsius": "beat.celsius"})
flow.view("silent", silent.select("machine", "celsius", "match_start as last_heard"))

# Three times over 90 degrees, with cooler reports in between.
hot = beats.match(
    "hot -> hot -> hot",
    by="machine",
    within="10 minutes",
    define={"hot": "celsius > 90 and coalesce(prev(celsius), 0) <= 90"},
    measures={"hottest": "max(celsius)"},
)
flow.view("hot", hot)
