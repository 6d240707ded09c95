"""The configuration of a run: flags and pipeline files, checked as a whole and made into a pipeline."""
