"""The loop: an agent works until its work is done. Engine, prompt, checks and end reasons."""
