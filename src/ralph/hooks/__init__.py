"""What a coding agent calls at each event of a session: as fast as a bare interpreter, and never in its way."""
