"""The loop, which runs an agent again and again until its work is done.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "agents",
    "chats",
    "distil",
    "loop",
    "mcp_servers",
    "mcp_status",
    "parts",
    "plan",
    "printer",
    "recovery",
    "request",
    "run_prompts",
    "run_record",
    "run_shapes",
    "runs",
    "scratchpad_file",
    "state",
]
