"""Whether skew is the problem: key distributions, what Spark combines by itself, and what each grouping would do."""
