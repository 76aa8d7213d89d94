"""Files, locks, logs and the SQLite index: everything that reads or writes the disk."""
