"""Curated memory: add, edit, archive and merge its entries."""
