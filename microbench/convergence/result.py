"""The result of an experiment, and a function that runs ranks as processes."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from typing import Any, ClassVar, Iterator

HERE = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Result:
    rows: dict[str, dict[str, Any]]  # values; keys: name of the row, name of the column
    rules: list[tuple[str, bool]]  # text of each rule; true: the rule holds
    trainings: Any  # all details of each training
    axes: tuple[str, str]  # names of the columns on the axes of the plot
    are_curves: bool = False  # True: rows have names "LINE, POINT", and each LINE is a line of the plot

    def lines(self) -> dict[str, list[str]]:
        """Returns the names of the rows of each line of the plot."""
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
        raise SystemExit(f"the ranks ended with status {run.returncode}")
