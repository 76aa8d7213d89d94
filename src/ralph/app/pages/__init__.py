"""What the pages of `ralph web` show and change: lists, one record, the dashboard, changes with their diff and undo."""
