"""Applications: what a run computes from the rows of its input."""
