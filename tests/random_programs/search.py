"""Tries seeds one after the other, and prints programs that fail as short reproducers.

PYTHONPATH=src:tests python -m random_programs.search FIRST BEHIND
"""

from __future__ import annotations

import sys
import time
from collections import Counter

from random_programs.comparison import check
from random_programs.generator import generate
from random_programs.program import Program
from random_programs.shrinker import shrink
from riverrun.errors import RiverrunError


def how_it_fails(program: Program) -> str | None:
    """The kind of error that a program ends in; of one that Riverrun refuses, with what it should have been."""
    try:
        check(program)
    except RiverrunError as error:
        return f"{type(error).__name__}: {error.hint}"
    except Exception as error:
        return type(error).__name__
    return None


def failure_of(seed: int, small: bool = True) -> str | None:
    """What is wrong with the program of a seed: the difference, and a reproducer; None if nothing is."""
    program = generate(seed)
    if how_it_fails(program) is None:
        return None
    if small:
        program = shrink(program, how_it_fails)
    try:
        check(program)
    except Exception as error:
        return f"seed {seed}: {type(error).__name__}: {error}\n\n{program.text()}"
    return f"seed {seed} fails now and then\n\n{program.text()}"


def main() -> None:
    first, behind = (int(text) for text in sys.argv[1:3])
    began, compared, failed = time.monotonic(), Counter[str](), []
    for seed in range(first, behind):
        try:
            compared += check(generate(seed))
        except Exception:
            failed.append(seed)
            print(failure_of(seed, small="--whole" not in sys.argv), flush=True)
    print(f"{behind - first} programs in {time.monotonic() - began:.0f} s: {dict(compared)}; failed: {failed}")


if __name__ == "__main__":
    main()
