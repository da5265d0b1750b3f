"""Time the measurements and print a table for each benchmark.

    python -m benchmarks [capture statistics ablation growth report training fullsize] [--repeats 3] [--save]

All contestants of a table run in one process, interleaved, on all cores; peak memory is taken
in a process each.  --save keeps the tables in book/data/benchmarks, from where the page "What it costs" reads them.
"""

import argparse
import sys

from benchmarks import pages, report, shapes, tables
from lib.panels.panel import load_panel

TABLES = {
    "capture": tables.capture,
    "statistics": tables.statistics,
    "ablation": tables.ablation,
    "growth": tables.growth,
    "report": report.report,
    "training": tables.training,
    "fullsize": tables.fullsize,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Time the measurements.")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)} (default: all)")
    parser.add_argument(
        "--models", nargs="+", metavar="MODEL", help="for the tables capture and statistics: only these models"
    )
    parser.add_argument("--repeats", type=int, default=3, help="timed rounds; the table has their medians (default: 3)")
    parser.add_argument("--save", action="store_true", help="keep the tables in book/data/benchmarks")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table is called {unknown[0]!r}; there are {', '.join(TABLES)}")
    models = [*shapes.SHAPES, *load_panel("mini").models]
    strange = [name for name in options.models or () if name not in models]
    if strange:
        parser.error(f"no model is called {strange[0]!r}; there are {', '.join(map(repr, models))}")
    for name in options.tables or TABLES:
        print(f"\n{name}: {TABLES[name].__doc__.splitlines()[0]}", flush=True)
        chosen = {"models": options.models} if name in ("capture", "statistics") else {}
        table = TABLES[name](options.repeats, **chosen)
        print(table.to_string(index=False, float_format=lambda v: f"{v:.3g}"), flush=True)
        if options.save:
            tables.save(name, table)
            pages.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
