"""From what happened to what is known: insights, proposals, review and forgetting."""
