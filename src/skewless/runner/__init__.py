"""`skewless run`: inputs, applications, pipelines, rejects and verification on Spark."""
