"""Compact summaries of streams of key hashes: pure kernels over plain arrays."""
