"""Decide what may be stored or injected: find private parts, secrets and hidden instructions.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "injection",
    "invisible_characters",
    "privacy",
    "secret_prefilter",
    "secret_rules",
    "secrets",
]
