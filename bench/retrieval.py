"""How well search finds, on every data set that is there: `python bench/retrieval.py [DIR] [--set NAME] ...`."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from ralph.app import bench  # noqa: E402  (the path comes first)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", nargs="?", type=Path, default=ROOT.parent / "shared" / "bench-data")
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--no-baselines", action="store_true")
    words = parser.parse_args()
    sets = []
    for folder in (words.data, ROOT / "bench" / "own"):
        for place in bench.PLACES:
            if (not words.sets and not place.asked) or place.name in words.sets:
                try:
                    sets += bench.data_sets(folder, [place.name])
                except bench.NotFound:
                    continue
    heads = "set system n any@5 R@5 R@10 MRR nDCG silent prec gateR tok p50 p95".split()
    print("%-16s %-12s" % tuple(heads[:2]), *("%6s" % h for h in heads[2:]))
    for r in bench.retrieval(sets, baselines=not words.no_baselines):
        for name, f in [(r.system, r.figures), *((f"  {k}", v) for k, v in r.categories.items())]:
            values = (f.any5, f.recall5, f.recall10, f.mrr, f.ndcg10, f.silent, f.precision, f.gate_recall, f.tokens, f.p50, f.p95)
            print("%-16s %-12s %6d" % (r.data_set, name, f.questions), *("%6s" % ("-" if v is None else f"{v:.3f}" if v <= 1 else f"{v:.1f}") for v in values), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
