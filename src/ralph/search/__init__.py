"""The index and the ranking, which turn a query into hits.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "background",
    "candidates",
    "citations",
    "demands",
    "embedding_providers",
    "embeddings",
    "engine",
    "explanations",
    "filters",
    "graph_facts",
    "graph_walks",
    "idle_embedding",
    "index",
    "known_names",
    "meaning",
    "question",
    "rank",
    "record_ids",
    "scoring",
    "unknown_names",
    "vectors",
    "visibility",
    "wordpiece",
]
