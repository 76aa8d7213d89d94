"""The index and the ranking, which turn a query into hits.

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
