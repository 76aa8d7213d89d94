"""How well search finds: sets with known answers, baselines, metrics, and the runs that join them.

Everything here is a pure function of its arguments (the clock aside, for latencies): who calls gives
parsed JSON and gets figures. `loaders` turns public data sets and our own into Collections, `baselines`
are what people would use instead, `metrics` counts, `runs` asks every question. The verbs are in
`app/bench.py`; `tests/search/test_measure.py` checks the counting by hand-made cases.
"""
