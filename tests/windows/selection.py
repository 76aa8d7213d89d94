"""Which tests run under Wine, and which of them cannot."""

_WRITERS = "tests/windows/test_writers.py"

PART = (
    "tests/windows/test_processes.py",
    "tests/windows/test_story.py",
    f"{_WRITERS}::test_eight_writers_of_one_memory_file_lose_nothing",
    f"{_WRITERS}::test_eight_writers_of_one_log_lose_and_tear_no_line",
    "tests/core/test_pattern_process.py",
    "tests/core/test_side_process.py",
    "tests/lean/test_windows_paths.py",
    "tests/memory/test_memory.py",
)
"""What CI runs, with the newest Python only and without Git for Windows, which is large."""

STORY = ("tests/windows/test_story.py",)
"""What `make windows` runs with the older Pythons as well."""

WHOLE = (
    "tests/windows",
    "tests/capture",
    "tests/core/test_pattern_process.py",
    "tests/core/test_side_process.py",
    "tests/formats",
    "tests/hooks/test_run.py::test_every_recorded_payload_is_handled",
    "tests/lean",
    "tests/memory",
    "tests/privacy",
    "tests/search",
)
"""What `make windows` runs."""

_GIT = "needs git, which only test_git.py has under Wine"
_POSIX = "uses POSIX paths, modes or modules"
_LINKS = "Python does not see Wine's symbolic links"
_EXTRA = "needs packages that are not installed there"

IGNORED = {
    "tests/capture/test_host_payloads.py": _POSIX,
    "tests/capture/test_pipeline.py": _POSIX,
    "tests/capture/test_summary.py": _POSIX,
    "tests/formats/test_merge.py": _GIT,
    "tests/formats/test_merge_files.py": _GIT,
    "tests/lean/test_discovery.py": _GIT,
    "tests/lean/test_foreign_commands.py": _POSIX,
    "tests/lean/test_hook_files.py": _POSIX,
    "tests/memory/test_caller.py": _POSIX,
    "tests/memory/test_knowledge.py": _POSIX,
    "tests/memory/test_merge_driver.py": _GIT,
    "tests/memory/test_signed.py": _GIT,
    "tests/search/test_idle_embedding.py": _EXTRA,
    "tests/search/test_index.py": _POSIX,
    "tests/search/test_index_rules.py": _LINKS,
    "tests/search/test_meaning.py": _EXTRA,
    "tests/search/test_state.py": _POSIX,
}
"""Files in selected folders that cannot run there, and why."""

LEFT_OUT = {
    "tests/formats/test_host_files.py::test_a_ralph_hook_is_recognised_by_its_command": _POSIX,
    "tests/formats/test_memories_problems.py::"
    "test_a_symbolic_link_is_written_through_and_stays_a_link": _LINKS,
    "tests/search/test_rank.py::test_the_ranking_loads_next_to_nothing": _POSIX,
}
"""Tests in selected files that cannot pass there, and why."""
