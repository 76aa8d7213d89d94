"""What happened, made safe to keep."""
