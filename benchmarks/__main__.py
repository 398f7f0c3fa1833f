"""`make bench`: every figure in one run on one machine, each as the median of several runs with its spread.

Times are CPU times of the main thread. A figure alone means little: look at the ratios, and run it on an idle
machine. Each workload lives in a module of its own with a function `workloads()`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks.measure import Figure


def main(arguments: list[str]) -> int:
    """Run the workloads named on the command line, or all; answers the exit code."""
    names = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name.startswith("bench_"))
    chosen = [name for name in names if not arguments or name.removeprefix("bench_") in arguments]
    unknown = set(arguments) - {name.removeprefix("bench_") for name in names}
    if unknown or not chosen:
        known = ", ".join(name.removeprefix("bench_") for name in names)
        print(f"No such benchmark: {', '.join(sorted(unknown))}. There are: {known}.", file=sys.stderr)
        return 2
    console = Console()
    for name in chosen:
        module = importlib.import_module(f"benchmarks.{name}")
        table = Table(title=(module.__doc__ or name).splitlines()[0], title_justify="left")
        for column in ("what", "median", "lowest", "highest", "unit", "runs"):
            table.add_column(column, justify="left" if column in ("what", "unit") else "right")
        figures: list[Figure] = module.workloads(console.status)
        for figure in figures:
            table.add_row(*figure.row())
        console.print(table)
    return 0


sys.exit(main(sys.argv[1:]))
