"""The papers' training figures at small scale.

    python microbench/convergence x1 [--ranks] [--seeds N] [--fast] [--json FILE] [--csv FILE] [--plot FILE]
    python microbench/convergence all --fast

Without --ranks the ranks are simulated, and the numbers are the same on every machine. With --ranks the ranks are
processes. Prints a table of results, and a line for each rule (an expected relation between results). The exit status
is 1 if a rule does not hold. docs/reference/training.md describes the figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import pathlib

import torch

import adasum
import decentralised
import goodput
import hessian
import hyperplane
import language
import lateness
import local_steps
import orthogonality
import partial
import selection
import sparse
from result import Result

FIGURES = {**partial.FIGURES, **lateness.FIGURES, **decentralised.FIGURES, **hyperplane.FIGURES, **adasum.FIGURES,
           **orthogonality.FIGURES, **hessian.FIGURES, **sparse.FIGURES, **selection.FIGURES, **language.FIGURES,
           **goodput.FIGURES, **local_steps.FIGURES}


def table(result: Result) -> None:
    names = [str(name) for name in result.rows]
    columns = list(next(iter(result.rows.values())))
    widths = [max(len(column), 7) for column in columns]
    first = max(map(len, names))
    print(" " * first, *(f"{column:>{width}}" for column, width in zip(columns, widths)), sep="  ")
    for name, row in result.rows.items():
        cells = (f"{row[column]:.3f}" if isinstance(row[column], float) else str(row[column]) for column in columns)
        print(f"{name:{first}}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths)), sep="  ")


def write_csv(file: str, result: Result) -> None:
    with open(file, "w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["", *next(iter(result.rows.values()))])
        lines.writerows([name, *row.values()] for name, row in result.rows.items())


def plot(file: str, title: str, result: Result) -> None:
    """Plots one column of the rows over another column."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x, y = result.axes
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for line, names in result.lines().items():
        points = [(result.rows[name][x], result.rows[name][y]) for name in names]
        axes.plot(*zip(*points), marker="o", label=line if len(names) > 1 else None)
        if len(names) == 1:
            axes.annotate(line, points[0], textcoords="offset points", xytext=(6, 4), fontsize=8)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    axes.set(xlabel=x, ylabel=y, title=title)
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=120, bbox_inches="tight")


def show(name: str, given: argparse.Namespace) -> bool:
    """Runs and prints a figure. Returns True if all of its rules hold."""
    figure = FIGURES[name]
    seeds = given.seeds or (1 if given.fast else figure.seeds)
    result = figure.run(seeds, by_ranks=given.ranks, is_fast=given.fast)

    title = f"{name}: {figure.about}, {'processes' if given.ranks else 'simulated'}, seeds 0 to {seeds - 1}"
    print(f"{title}\n{figure.paper}\n")
    table(result)
    for text, holds in result.rules:
        print(f"{'PASS' if holds else 'FAIL'}  {text}")
    if given.json:
        told = {"figure": name, "rows": result.rows, "rules": result.rules, "trainings": result.trainings}
        pathlib.Path(given.json).write_text(json.dumps(told))
    if given.csv:
        write_csv(given.csv, result)
    if given.plot:
        plot(given.plot, title, result)
    return all(holds for _, holds in result.rules)


def main() -> int:
    parser = argparse.ArgumentParser(prog="convergence", description=__doc__.split("\n")[0],
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="\n".join(f"{name:14}  {each.about}" for name, each in FIGURES.items()))
    parser.add_argument("figure", choices=(*FIGURES, "all"), metavar="FIGURE", help="a figure listed below, or all")
    parser.add_argument("--ranks", action="store_true", help="run processes instead of a simulation")
    parser.add_argument("--seeds", type=int, help="number of trainings of each row")
    parser.add_argument("--fast", action="store_true", help="one seed, and the rows that matter most")
    for name in ("json", "csv", "plot"):
        parser.add_argument(f"--{name}", metavar="FILE")
    given = parser.parse_args()
    if given.seeds is not None and given.seeds < 1:
        parser.error(f"--seeds is {given.seeds}, but must be at least 1")

    if given.figure == "all" and (given.ranks or given.json or given.csv or given.plot):
        parser.error("--ranks, --json, --csv and --plot need a single figure: name the figure in place of all")

    for file in filter(None, (given.json, given.csv, given.plot)):
        if not pathlib.Path(file).parent.is_dir():
            parser.error(f"{file}: there is no such directory")
    if given.ranks and not FIGURES[given.figure].has_ranks:
        parser.error(f"{given.figure} is simulated only: leave out --ranks")

    torch.set_num_threads(1)
    names = FIGURES if given.figure == "all" else [given.figure]
    return 0 if all([show(name, given) for name in names]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
