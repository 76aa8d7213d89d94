"""The verbs, one file a noun: the only place that joins the parts."""
