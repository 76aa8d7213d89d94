"""What may be stored or injected: private parts, secrets and orders in disguise."""
