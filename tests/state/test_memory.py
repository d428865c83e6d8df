from contracts.state import StateContract
from riverrun.state.memory import MemoryState


class TestMemoryState(StateContract):
    def open(self, specs):
        return MemoryState(specs)
