"""Which tests run under Wine, and which of them cannot."""

PART = (
    "tests/windows",
    "tests/core/test_pattern_process.py",
    "tests/formats/test_memories.py",
    "tests/lean/test_windows_paths.py",
    "tests/memory/test_memory.py",
)
"""What CI runs."""

WHOLE = (
    *PART,
    "tests/capture/test_commands.py",
    "tests/capture/test_recoveries.py",
    "tests/cli/test_forget.py",
    "tests/cli/test_import.py",
    "tests/cli/test_memory.py",
    "tests/cli/test_memory_edit.py",
    "tests/cli/test_memory_search.py",
    "tests/formats",
    "tests/hooks/test_answer.py",
    "tests/hooks/test_deadlines.py",
    "tests/hooks/test_record.py",
    "tests/lean",
    "tests/memory",
    "tests/privacy/test_secrets.py",
    "tests/search/test_index.py",
    "tests/storage/test_files.py",
    "tests/storage/test_index.py",
    "tests/web/test_front.py",
    "tests/web/test_site.py",
)
"""What `make windows` runs."""

STORY = ("tests/windows/test_story.py",)
"""What every supported Python runs."""

LEFT_OUT: dict[str, str] = {}
"""Tests in selected files that cannot pass there, and why."""
