"""The foundation: values, errors, ids, paths, settings and text."""
