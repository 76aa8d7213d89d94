"""Find and give: what a prompt, an action or a session start gets."""
