"""Tasks: the board, the verbs of `ralph task`, their progress and PRD, import and export."""
