"""Hits in, a brief within budget out."""
