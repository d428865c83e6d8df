"""How much is held at once, and whose turn it is."""

from __future__ import annotations

import asyncio

import pytest

from riverrun.serve.memory_budget import MemoryBudget
from riverrun.serve.problems import Refused


def test_more_than_there_is_room_for_is_refused() -> None:
    admission = MemoryBudget(memory=100, parsing=10)
    admission.take("ada", 50)
    admission.take("bob", 30)
    with pytest.raises(Refused, match="too much"):
        admission.take("eve", 21)
    admission.take("eve", 20)
    admission.give_back("ada", 50)
    admission.take("ada", 50)
    assert admission.held == 100


def test_one_client_gets_half_and_always_one_body() -> None:
    admission = MemoryBudget(memory=100, parsing=10)
    admission.take("ada", 50)
    with pytest.raises(Refused, match="too much"):
        admission.take("ada", 1)
    admission.take("bob", 50)
    small = MemoryBudget(memory=16, parsing=10)
    small.take("ada", 10)
    small.take("bob", 6)


def test_turns_are_taken_in_order_and_a_large_one_is_not_passed_over() -> None:
    order: list[str] = []

    async def one(admission: MemoryBudget, name: str, size: int, go: asyncio.Event) -> None:
        async with admission.turn(size):
            order.append(name)
            await go.wait()

    async def main() -> None:
        admission, go = MemoryBudget(1000, 10), asyncio.Event()
        sizes = {"a": 4, "b": 6, "large": 50, "c": 1, "gone": 5, "d": 5, "e": 5}
        tasks = {name: asyncio.create_task(one(admission, name, size, go)) for name, size in sizes.items()}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["a", "b"]
        tasks["gone"].cancel()
        go.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert order == ["a", "b", "large", "c", "d", "e"]
        await one(admission, "last", 10, go)

    asyncio.run(main())
    assert order[-1] == "last"


def test_a_turn_that_is_given_up_when_it_comes_is_passed_on() -> None:
    async def main() -> None:
        admission = MemoryBudget(1000, 10)

        async def hold() -> None:
            async with admission.turn(10):
                await asyncio.sleep(0)

        first = asyncio.create_task(hold())
        second = asyncio.create_task(hold())
        third = asyncio.create_task(hold())
        await first
        second.cancel()
        await asyncio.wait_for(third, 5)
        await asyncio.wait_for(hold(), 5)

    asyncio.run(main())
