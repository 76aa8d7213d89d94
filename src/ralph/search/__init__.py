"""The index and the ranking: a query in, hits out.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "citations",
    "embeddings",
    "filters",
    "graph",
    "index",
    "meaning",
    "question",
    "rank",
]
