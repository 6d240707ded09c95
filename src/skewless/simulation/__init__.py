"""Virtual time: sources, workers, queues and keyed state, with the same numbers on every machine."""

from skewless.simulation.keyed_state import KeyedState, StateResult
from skewless.simulation.memory import Memory
from skewless.simulation.merging import Merging
from skewless.simulation.result import Result
from skewless.simulation.simulation import FIRST_TUPLES, Simulation
from skewless.simulation.simulator import simulate

__all__ = ["FIRST_TUPLES", "KeyedState", "Memory", "Merging", "Result", "Simulation", "StateResult", "simulate"]
