from contracts.state import StateContract
from oracles.memory_state import MemoryState


class TestMemoryState(StateContract):
    def open(self, specs):
        return MemoryState(specs)
