#!/usr/bin/env python3
"""Is a new build of the library nowhere slower than an old one?

    cmake --install BUILD --prefix PREFIX                  one prefix for each build, as alike in flags as can be
    tests/freeze/compare.py OLD_PREFIX NEW_PREFIX [--launches 15] [--only WORD] [--ranks 1,2,4,8] [--json FILE]

Compiles bench.c against each prefix and launches it with that prefix's `lsched run` and library. In every round and for
every number of ranks the launches are old, new, old, one after the other, so that what else the machine does falls on
all of them alike. A cell is a name and a number of ranks:

    ratio    median of the new launches / median of all old ones
    old/old  median of each round's second old launch / median of its first
    spread   what old against old can come to by chance: two sets of as many launches as there are new ones are drawn
             from the old ones (with replacement, 2,000 times); 99th percentile of the ratio of their medians, less 1

PASS: each cell's ratio is at most 1.03 + its spread, and the geometric mean of all ratios is at most 1.03. With
a spread of some tenths a cell proves little: the machine was busy. Ask again with --only and --ranks. Progress goes to
standard error. At most --minutes are spent: fewer rounds than asked for are judged as they are, and are no PASS.
Exit status: 0 PASS, 1 FAIL, 2 not measured. How much the engine executes per op, which is exact, says instructions.sh.
"""
import argparse
import json
import math
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT = 1.03
LAUNCH_SECONDS = 180  # of one number of ranks; a quiet machine takes a few
SIDES = ("old", "new", "old again")


class NotMeasured(Exception):
    pass


def environment(prefix):
    env = dict(os.environ)
    for name, folder in (("LD_LIBRARY_PATH", "lib"), ("PKG_CONFIG_PATH", "lib/pkgconfig")):
        env[name] = os.pathsep.join([os.path.join(prefix, folder)] + ([env[name]] if env.get(name) else []))
    return env


def output_of(command, **options):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotMeasured(f"{shlex.join(command)}: {error}") from error
    if done.returncode != 0:
        raise NotMeasured(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def compile_bench(prefix, program):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench.c")
    env = environment(prefix)
    flags = shlex.split(output_of(["pkg-config", "--cflags", "--libs", "libsched"], env=env))
    compiler = os.environ.get("CC", "cc")
    output_of([compiler, "-std=c11", "-O2", source, "-o", program, *flags, "-lm", "-pthread"], env=env)


def launch(prefix, program, ranks, options):
    """ns of each cell."""
    command = [os.path.join(prefix, "bin", "lsched"), "run", "-n", str(ranks), "--timeout", str(LAUNCH_SECONDS),
               program, "--only", options.only, "--seconds", str(options.seconds)]
    cells = {}
    for line in output_of(command, env=environment(prefix), timeout=LAUNCH_SECONDS + 30).splitlines():
        name, of_ranks, ns, _ = line.split()
        cells[name, int(of_ranks)] = float(ns)
    return cells


def tell(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def measure(prefixes, programs, options):
    """A list of ns for each side and cell, and how many rounds these are."""
    ns = {side: {} for side in SIDES}
    end = time.monotonic() + 60 * options.minutes
    longest = 0
    for number in range(options.launches):
        begin = time.monotonic()
        if number > 0 and begin + longest > end:
            return ns, number
        for ranks in options.ranks:
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                tell(f"round {number + 1} of {options.launches}, {ranks} ranks, {side}")
                for cell, value in launch(prefixes[side], programs[side], ranks, options).items():
                    ns[side].setdefault(cell, []).append(value)
        took = time.monotonic() - begin
        longest = max(longest, took)
        if not sys.stderr.isatty():
            print(f"round {number + 1} of {options.launches}: {took:.0f} s", file=sys.stderr, flush=True)
    return ns, options.launches


def spread_of(old):
    draw = random.Random(1)
    half = len(old) // 2
    ratios = [statistics.median(draw.choices(old, k=half)) / statistics.median(draw.choices(old, k=half))
              for _ in range(2000)]
    return statistics.quantiles(ratios, n=100)[-1] - 1


def judge(ns):
    """A row for each cell."""
    old, new, again = (ns[side] for side in SIDES)
    if not old.keys() == new.keys() == again.keys() or not old:
        raise NotMeasured(f"no cells, or not the same ones: {sorted(old.keys() ^ new.keys())}")
    rows = []
    for cell in old:
        median = statistics.median(old[cell] + again[cell])
        row = {"name": cell[0], "ranks": cell[1], "old_ns": median, "new_ns": statistics.median(new[cell]),
               "old_to_old": statistics.median(again[cell]) / statistics.median(old[cell]),
               "spread": spread_of(old[cell] + again[cell]), "samples": {side: ns[side][cell] for side in SIDES}}
        row["ratio"] = row["new_ns"] / median
        row["is_slower"] = row["ratio"] > LIMIT + row["spread"]
        rows.append(row)
    return rows


def geometric_mean(rows, key="ratio"):
    return math.exp(statistics.fmean(math.log(row[key]) for row in rows))


def print_table(rows):
    print(f"{'cell':20} {'ranks':>5} {'old ns':>13} {'new ns':>13} {'old/old':>8} {'ratio':>7} {'spread':>7}")
    for row in rows:
        print(f"{row['name']:20} {row['ranks']:5} {row['old_ns']:13.1f} {row['new_ns']:13.1f} {row['old_to_old']:8.3f} "
              f"{row['ratio']:7.3f} {row['spread']:7.3f}{'  SLOWER' if row['is_slower'] else ''}")


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old_prefix")
    parser.add_argument("new_prefix")
    parser.add_argument("--launches", type=int, default=15, help="rounds of old, new, old (15)")
    parser.add_argument("--only", default="", metavar="WORD", help="cells whose name contains WORD")
    parser.add_argument("--ranks", type=numbers, default=[1, 2, 4, 8], help="1 is the engine's graphs (1,2,4,8)")
    parser.add_argument("--seconds", type=float, default=0.25, help="of a cell in one launch (0.25)")
    parser.add_argument("--minutes", type=float, default=60, help="no round begins that would not fit (60)")
    parser.add_argument("--json", metavar="FILE", help="everything, samples too; - is standard output")
    options = parser.parse_args()
    if options.launches < 3 or min(options.ranks) < 1 or options.seconds <= 0:
        parser.error("at least 3 launches, 1 rank, and some time")

    prefixes = {side: os.path.abspath(options.new_prefix if side == "new" else options.old_prefix) for side in SIDES}
    table_to_error = options.json == "-"
    try:
        with tempfile.TemporaryDirectory() as folder:
            programs = {side: os.path.join(folder, "bench_" + side.split()[0]) for side in SIDES}
            for side in SIDES[:2]:
                compile_bench(prefixes[side], programs[side])
            ns, rounds = measure(prefixes, programs, options)
        tell("")
        if rounds < 3:
            raise NotMeasured(f"{rounds} rounds are too few to judge")
        rows = judge(ns)
    except NotMeasured as error:
        print(f"\nnot measured: {error}", file=sys.stderr)
        return 2

    mean = geometric_mean(rows)
    slower = [row for row in rows if row["is_slower"]]
    verdict = "FAIL" if slower or mean > LIMIT else "PASS" if rounds == options.launches else "INCOMPLETE"
    if options.json:
        with sys.stdout if table_to_error else open(options.json, "w", encoding="utf-8") as file:
            json.dump({"verdict": verdict, "launches": rounds, "limit": LIMIT, "geometric_mean": mean,
                       "geometric_mean_old_to_old": geometric_mean(rows, "old_to_old"), "cells": rows}, file, indent=1)
            file.write("\n")
    if table_to_error:
        sys.stdout = sys.stderr
    print_table(rows)
    print(f"geometric mean of {len(rows)} cells {mean:.3f} (old to old {geometric_mean(rows, 'old_to_old'):.3f}), "
          f"{len(slower)} slower, {rounds} of {options.launches} rounds: {verdict}")
    return {"PASS": 0, "FAIL": 1}.get(verdict, 2)


if __name__ == "__main__":
    sys.exit(main())
