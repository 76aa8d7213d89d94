"""Tasks with a checkout of their own: made, merged and dropped; what is staged there, and what each checkout sees."""
