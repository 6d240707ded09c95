"""Rivetti et al.: Efficient Key Grouping for Near-Optimal Load Balancing."""
