"""The papers' training figures at small scale.

    python microbench/convergence x1 [--ranks] [--seeds N] [--fast] [--json FILE] [--csv FILE] [--plot FILE]

Without --ranks the ranks are simulated in virtual time, with the same numbers on every machine; with it they are
processes that sleep for the time of their steps. Prints a table, and one line for each thing that must hold; the status
is 1 where one does not.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys

import torch

from figures import FIGURES, Figure, Summary, summary
from policies import Outcome, Policy

HERE = pathlib.Path(__file__).parent
Outcomes = dict[Policy, list[Outcome]]


def progress(done: int, all: int, policy: Policy) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{done} of {all}: {policy}", end="" if done < all else "\r\033[K", file=sys.stderr, flush=True)


def by_twin(figure: Figure, jobs: list[tuple[int, Policy]]) -> Outcomes:
    from tasks import TASKS
    from twin import Twin

    torch.set_num_threads(1)
    outcomes: Outcomes = {}
    for done, (seed, policy) in enumerate(jobs):
        progress(done, len(jobs), policy)
        outcomes.setdefault(policy, []).append(Twin(TASKS[figure.task](seed, torch.float64), policy).run())
    progress(len(jobs), len(jobs), jobs[-1][1])
    return outcomes


def by_ranks(figure: Figure, jobs: list[tuple[int, Policy]], ranks: int = 8) -> Outcomes:
    wanted = {"task": figure.task, "unit": figure.unit,
              "jobs": [[seed, [policy.activation, policy.lag, policy.average_every]] for seed, policy in jobs]}
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), sys.executable, "-W", "ignore",
               str(HERE / "ranks.py"), json.dumps(wanted)]
    outcomes: Outcomes = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}) as run:
        for done, line in enumerate(run.stdout):
            outcomes.setdefault(jobs[done][1], []).append(Outcome(**json.loads(line)))
            progress(done + 1, len(jobs), jobs[done][1])
    if run.returncode != 0 or sum(map(len, outcomes.values())) != len(jobs):
        raise SystemExit(f"the ranks ended with status {run.returncode}")
    return outcomes


def table(rows: dict[str, Summary]) -> None:
    width = max(map(len, rows))
    print(f"{'policy':{width}}  accuracy    +-     least  averaged  speed-up  contributors  staleness: mean  most")
    for name, row in rows.items():
        print(f"{name:{width}}    {row.accuracy:.3f}  {row.deviation:.3f}   {row.least:.3f}     {row.averaged:.3f}"
              f"      {row.speed:.2f}          {row.contributors:.1f}             {row.staleness:.2f}  {row.most_stale:4}")


def write_csv(file: str, outcomes: Outcomes) -> None:
    """A line for each training; what each round had is in the JSON."""
    with open(file, "w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["policy", "seed", "accuracy", "averaged", "time"])
        for policy, all in outcomes.items():
            lines.writerows([str(policy), seed, each.accuracy, each.averaged, each.time]
                            for seed, each in enumerate(all))


def plot(file: str, title: str, rows: dict[str, Summary]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, row in rows.items():
        axes.errorbar(row.speed, 100 * row.accuracy, yerr=100 * row.deviation, fmt="o", capsize=3)
        axes.annotate(name, (row.speed, 100 * row.accuracy), textcoords="offset points", xytext=(6, 4), fontsize=8)
    axes.set(xlabel="speed, all ranks waiting for all = 1", ylabel="accuracy of replicas, %", title=title)
    axes.grid(alpha=0.3)
    figure.savefig(file, dpi=120, bbox_inches="tight")


def main() -> int:
    parser = argparse.ArgumentParser(prog="convergence", description=__doc__.split("\n")[0])
    parser.add_argument("figure", choices=sorted(FIGURES))
    parser.add_argument("--ranks", action="store_true", help="processes instead of virtual time")
    parser.add_argument("--seeds", type=int, help="trainings of each policy")
    parser.add_argument("--fast", action="store_true", help="one seed")
    for name in ("json", "csv", "plot"):
        parser.add_argument(f"--{name}", metavar="FILE")
    given = parser.parse_args()

    figure = FIGURES[given.figure]
    seeds = 1 if given.fast else given.seeds or figure.seeds
    jobs = [(seed, policy) for policy in figure.policies for seed in range(seeds)]
    outcomes = (by_ranks if given.ranks else by_twin)(figure, jobs)
    rows = {str(policy): summary(all, outcomes[figure.policies[0]]) for policy, all in outcomes.items()}

    how = "8 processes" if given.ranks else "virtual time"
    print(f"{given.figure}, {how}, {seeds} seed{'s' if seeds > 1 else ''}; {figure.paper}")
    table(rows)
    holds = [(text, rule(rows)) for text, rule in figure.rules]
    for text, does in holds:
        print(f"{'PASS' if does else 'FAIL'}  {text}")
    if given.json:
        told = {str(policy): [vars(each) for each in all] for policy, all in outcomes.items()}
        pathlib.Path(given.json).write_text(json.dumps(told))
    if given.csv:
        write_csv(given.csv, outcomes)
    if given.plot:
        plot(given.plot, f"{given.figure}: {figure.task}, {how}", rows)
    return 0 if all(does for _, does in holds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
