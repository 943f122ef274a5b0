"""The result of an experiment, its rules, and functions that run trainings and ranks."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Callable, ClassVar, Iterable, Iterator

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Result:
    rows: dict[str, dict[str, Any]]  # values; keys: name of the row, name of the column
    rules: list[tuple[str, bool]]  # text of each rule; true: the rule holds
    trainings: Any  # all details of each training
    axes: tuple[str, str]  # names of the columns on the axes of the plot
    are_curves: bool = False  # True: rows have names "LINE, POINT", and each LINE is a line of the plot

    def lines(self) -> dict[str, list[str]]:
        """Returns, for each line of the plot, the names of its rows."""
        found: dict[str, list[str]] = {}
        for name in self.rows:
            found.setdefault(name.rpartition(", ")[0] if self.are_curves else name, []).append(name)
        return found


@dataclasses.dataclass(frozen=True)
class Figure:
    about: str
    paper: str  # source of the figure, and its result
    seeds: int
    has_ranks: ClassVar[bool] = False  # True: the ranks can be processes

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Rule:
    """An expected relation between the results of some rows."""

    text: str
    of: tuple[Any, ...]  # keys of the rows
    holds: Callable[..., bool]  # takes the results of these rows


def checked(rules: Iterable[Rule], results: dict[Any, Any]) -> list[tuple[str, bool]]:
    """Returns the text and the outcome of each rule whose rows all have results."""
    return [(rule.text, rule.holds(*(results[key] for key in rule.of))) for rule in rules
            if results.keys() >= set(rule.of)]


def trainings_of(rows: Iterable[Any], seeds: int, train: Callable[[Any, int], Any]) -> dict[Any, list[Any]]:
    """Calls train(row, seed) for each row and seed, and returns the outcomes of each row."""
    found: dict[Any, list[Any]] = {row: [] for row in rows}
    for row, all in found.items():
        for seed in range(seeds):
            all.append(train(row, seed))
            progress(sum(map(len, found.values())), len(found) * seeds, str(row))
    return found


def progress(done: int, all: int, what: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{done} of {all}: {what}", end="" if done < all else "\r\033[K", file=sys.stderr, flush=True)


def lines_of_ranks(ranks: int, program: str, wanted: Any) -> Iterator[Any]:
    """Runs a program of this folder on `ranks` ranks, and yields the parsed JSON of each line of its output. Raises
    SystemExit if the program fails."""
    command = [sys.executable, "-m", "libsched", "run", "-n", str(ranks), sys.executable, "-W", "ignore",
               str(HERE / program), json.dumps(wanted)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"}) as run:
        yield from map(json.loads, run.stdout)
    if run.returncode != 0:
        raise SystemExit(f"the ranks ended with status {run.returncode}: see their messages above")
