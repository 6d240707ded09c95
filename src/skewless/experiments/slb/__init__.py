"""Guo & Zhou: Stateful Load Balancing for Parallel Stream Processing."""
