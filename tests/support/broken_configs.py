"""Texts of a `ralph.yml` that cannot be used. Each still says that ZETA- and THETA- numbers are private."""

BROKEN = {
    "merge markers": (
        "memories:\n<<<<<<< HEAD\n  budget: 900\n=======\n  budget: 800\n>>>>>>> topic\n"
        "privacy:\n  patterns:\n<<<<<<< HEAD\n    - 'ZETA-[0-9]{4}'\n=======\n"
        "    - 'THETA-[0-9]{4}'\n>>>>>>> topic\n"
    ),
    "a tab": "memories:\n\tbudget: 900\nprivacy:\n  patterns: ['ZETA-[0-9]{4}', 'THETA-[0-9]{4}']\n",
    "a bad regular expression": (
        "privacy:\n  patterns: ['(', 'ZETA-[0-9]{4}', 'THETA-[0-9]{4}']\n"
    ),
    "a value of another type": (
        "memories: {budget: lots}\nprivacy: {patterns: ['ZETA-[0-9]{4}', 'THETA-[0-9]{4}']}\n"
    ),
    "too large": (
        "privacy:\n  patterns:\n    - ZETA-[0-9]{4}\n    - THETA-[0-9]{4}\n" + "# filler\n" * 9_000
    ),
    "too many keys": (
        "privacy:\n  patterns:\n  - 'ZETA-[0-9]{4}'\n  - 'THETA-[0-9]{4}'\n"
        + "".join(f"key{number}: 1\n" for number in range(30_000))
    ),
    "too deep": (
        "privacy:\n  patterns: [\n    'ZETA-[0-9]{4}',\n    'THETA-[0-9]{4}',\n  ]\nx: "
        + "[" * 60_000
    ),
    "not UTF-8": "privacy:\n  patterns: ['ZETA-[0-9]{4}', 'THETA-[0-9]{4}']\nx: '\udcff'\n",
}
