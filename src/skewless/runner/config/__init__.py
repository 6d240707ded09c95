"""What a run is, as flags and pipeline files tell it: read, checked as a whole, and made into a pipeline."""
