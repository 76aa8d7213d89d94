"""An agent works until its work is done: the engine, its prompt, what is checked, and when to stop."""
