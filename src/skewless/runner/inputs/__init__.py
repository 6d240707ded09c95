"""Inputs: named streams, Spark's rate source, files and Kafka topics."""
