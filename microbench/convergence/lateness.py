"""Measures the time of a whole training for each policy, with five kinds of late ranks. Compares these times with the
times of DistributedDataParallel.

The loops of DDP and of the hook end after a number of steps. All other loops end with a given round
(PartialOptimizer.rounds). The measured time is the time of the slowest process, from its first step to the end of the
flush.
"""

from __future__ import annotations

import dataclasses
import heapq
import statistics
from typing import Any, Iterator

import torch

from policy import Outcome, Policy
from result import Figure, Result, lines_of_ranks, progress
from tasks import LATENESS, TASKS, Task
from twin import COMMUNICATION, Rank, Twin

UNIT = 5e-5  # seconds per unit of the load, if ranks are processes
DDP, HOOK, FULL = "DDP", "hook(solo)", "full"
SOLO, MAJORITY, HALF, MOST, AUTO = "solo", "majority", "quorum(2)", "quorum(3)", "deadline(auto)"
BOUNDED, AUTO_BOUNDED = MOST + "+every(64)", AUTO + "+every(64)"
ROWS = (DDP, HOOK, FULL, SOLO, MAJORITY, HALF, MOST, BOUNDED, AUTO, AUTO_BOUNDED)
FAST = (DDP, MOST)
ADVICE = MOST


class RoundsTwin(Twin):
    """Simulates loops that end with round `task.steps`, in virtual time. A call is for the round that is open at the
    time of the call."""

    def __init__(self, task: Task, activation: str) -> None:
        name, _, every = activation.partition("+every(")
        self._every = int(every.rstrip(")") or 0)
        self._called: dict[Rank, int] = {}  # last round for which a rank has called
        super().__init__(task, Policy(name, "history"), UNIT)

    def _draw(self) -> None:
        super()._draw()
        self._is_full = self._every > 0 and self._open % self._every == 0
        if self._is_full:
            self._candidates = list(range(self.task.ranks))
            self._needed = self.task.ranks

    def _call(self, now: float, number: int) -> None:
        rank = self._add_gradient(now, number)
        self._called[rank] = min(self._open, self.task.steps)
        rank.calls.append(self._called[rank])
        if self._called[rank] < self._open:
            return self._resume(now, number)
        rank.is_waiting = True
        if sum(self._has_called(each) for each in self._candidates) >= self._needed:
            self._end_and_resume(now)
        elif self._has_deadline and not self._is_full and (wait := self._longest_wait(rank)) is not None:
            heapq.heappush(self._events, (now + wait, number, self._open))

    def _has_called(self, number: int) -> bool:
        return self._called.get(self.ranks[number], 0) >= self._open

    def _end_and_resume(self, now: float) -> None:
        self._end_round(now)
        for number, rank in enumerate(self.ranks):
            if rank.is_waiting:
                rank.is_waiting = False
                self._resume(now + COMMUNICATION, number)

    def _resume(self, now: float, number: int) -> None:
        rank = self.ranks[number]
        self._deliver(rank)
        if rank.seen < self.task.steps:
            heapq.heappush(self._events, (now + self.task.units(number, rank.step), number, 0))


def simulated(kind: str, policy: str, seed: int, share: int) -> Outcome:
    task = TASKS[kind](seed, torch.float64)
    task.steps //= share
    twin = RoundsTwin(task, FULL if policy == DDP else policy)
    outcome = twin.run()
    outcome.time *= UNIT
    outcome.steps = [rank.step for rank in twin.ranks]
    return outcome


Outcomes = dict[tuple[str, str], list[Outcome]]


@dataclasses.dataclass(frozen=True)
class Row:
    """Means over seeds. `speed` and `points` are relative to DDP with the same late ranks."""

    seconds: float
    speed: float
    accuracy: float
    points: float  # accuracy minus the accuracy of DDP, in percentage points
    contributors: float
    fewest: float  # minimum number of steps over ranks

    @classmethod
    def of(cls, all: list[Outcome], ddp: list[Outcome]) -> Row:
        def mean(of: list[Outcome], what: Any) -> float:
            return statistics.mean(what(each) for each in of)

        seconds, accuracy = (mean(all, lambda each, name=name: getattr(each, name)) for name in ("time", "accuracy"))
        return cls(seconds=seconds, speed=mean(ddp, lambda each: each.time) / seconds, accuracy=accuracy,
                   points=100 * (accuracy - mean(ddp, lambda each: each.accuracy)),
                   contributors=mean(all, lambda each: statistics.mean(each.contributors)),
                   fewest=mean(all, lambda each: min(each.steps)))


def _rules(of: dict[tuple[str, str], Row]) -> list[tuple[str, bool]]:
    wanted = [(kind, 1.3, 0.8) for kind in ("in turn", "random", "two classes")] + [("always", 2.0, 1.0)]
    return [(f"{kind}, {ADVICE}: ends at least {times} times earlier than DDP, at most {points} points below",
             of[kind, ADVICE].speed >= times and of[kind, ADVICE].points >= -points)
            for kind, times, points in wanted]


class Lateness(Figure):
    has_ranks = True

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        policies = FAST if is_fast else tuple(each for each in ROWS if by_ranks or each != HOOK)
        jobs = [(kind, policy, seed) for kind in LATENESS for policy in policies for seed in range(seeds)]
        found: Outcomes = {(kind, policy): [] for kind in LATENESS for policy in policies}
        share = 2 if is_fast else 1
        outcomes = self._ranks(jobs, share) if by_ranks else (simulated(*job, share) for job in jobs)
        for done, ((kind, policy, _), outcome) in enumerate(zip(jobs, outcomes, strict=True)):
            found[kind, policy].append(outcome)
            progress(done + 1, len(jobs), f"{kind}, {policy}")
        of = {(kind, policy): Row.of(all, found[kind, DDP]) for (kind, policy), all in found.items()}
        is_exact = all(each.is_exact for all in found.values() for each in all)
        return Result({", ".join(key): vars(row) for key, row in of.items()},
                      [*_rules(of), ("all ranks end with the same round and the same bits", is_exact)],
                      {", ".join(key): [vars(each) for each in all] for key, all in found.items()},
                      axes=("speed", "accuracy"), are_curves=True)

    @staticmethod
    def _ranks(jobs: list[tuple[str, str, int]], share: int) -> Iterator[Outcome]:
        for told in lines_of_ranks(4, "lateness_ranks.py", {"unit": UNIT, "share": share, "jobs": jobs}):
            yield Outcome(**told)


FIGURES = {"lateness": Lateness("digits, a whole job under five kinds of lateness, loops by rounds",
                                "No figure of a paper: the time that a user of PartialOptimizer.rounds gains", 3)}
