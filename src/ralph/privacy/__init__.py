"""Decide what may be stored or injected: find private sections, secrets and hidden instructions.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "hook_payloads",
    "injection",
    "invisible_characters",
    "json_values",
    "privacy",
    "private_parts",
    "private_paths",
    "redactor",
    "secrets",
    "word_splitters",
]
