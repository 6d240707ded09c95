"""Virtual time: sources, workers, queues and keyed state, with the same numbers on every machine."""

from skewless.simulation.keyed_state import KeyedState, StateResult
from skewless.simulation.simulator import Result, Simulation, simulate

__all__ = ["KeyedState", "Result", "Simulation", "StateResult", "simulate"]
