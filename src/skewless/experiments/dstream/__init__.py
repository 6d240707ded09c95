"""Chen, Zhang & Jin: Popularity-aware Differentiated Distributed Stream Processing (DStream)."""
