"""Virtual time: sources, workers, queues and keyed state, with the same numbers on every machine."""
