"""Random programs come to what an oracle in plain Python says, after every epoch.

`python -m random_programs.search 1000 2000` tries the seeds from 1000 on and prints what differs, made small.
"""

from __future__ import annotations

import os

import pytest

from random_programs.search import failure_of

SEEDS = 100 * int(os.environ.get("RIVERRUN_EXAMPLES", "1"))


def check_seeds(first: int, count: int) -> None:
    for seed in range(first, first + count):
        failure = failure_of(seed)
        if failure is not None:
            pytest.fail(failure, pytrace=False)


@pytest.mark.timeout(900)  # where one fails it is made small, which takes minutes
@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_random_programs_come_to_what_the_oracle_says(first: int) -> None:
    check_seeds(first, 10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(100_000, 103_000, 100))
def test_thousands_of_random_programs_come_to_what_the_oracle_says(first: int) -> None:
    check_seeds(first, 100)
