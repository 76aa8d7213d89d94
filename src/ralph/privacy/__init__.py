"""What may be stored or injected: private parts, secrets and disguised instructions.

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
