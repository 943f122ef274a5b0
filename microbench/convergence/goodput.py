"""Goodput of training while ranks fail: lock-step training, and DiLoCo with a quorum and a grace, in virtual time.

A rank fails after an exponentially distributed time, and is back after RESTART minutes. Goodput is the part of the time
of all ranks that was spent in local steps whose results are in the final weights.

- Lock-step: each step needs all ranks. After a failure all ranks restart from the last checkpoint. Without such losses,
  8 ranks that are all back for 0.27 of the time would each be back for 0.27 ** (1/8) = 0.85 of the time, so no method
  could reach the published 0.88.
- DiLoCo: after a death the other ranks call shrink() at their next merge, and continue. A rank that is back gets the
  weights from the others, at the end of a merge. The rank that has failed loses its offers that are in no result, and
  its current block of steps. The rule of rounds is that of libsched (merges.py), without a central process.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from typing import Any

from merges import Job, Learner, Policy
from result import Figure, Result, trainings_of

RANKS = 8
BLOCK, SLOWEST = 1.0, 1.02  # a block of local steps takes a random time between these numbers, in minutes
RESTART = 5.0
CHECKPOINT = 10.0  # time between two checkpoints of lock-step training
ROUND = 0.01  # duration of a merge
REGROUP = 0.01  # duration of a change of the members, after the last member has come
QUORUM = Policy(quorum=4, grace=0.1)
SYNCHRONOUS = Policy()
MEAN = 66.0  # mean time between two failures of a rank for which lock-step training has the published goodput


class Failing(Job):
    """A job whose ranks fail. Members change when all living members have come to a merge (death), or to the end of a
    merge (return)."""

    def __init__(self, policy: Policy, mean: float, seed: int) -> None:
        super().__init__(RANKS, policy, ROUND)
        self._mean, self._draws = mean, random.Random(seed)
        self.useful = 0.0  # time of all blocks that were merged
        self.offered = self.merged_offers = self.lost = 0
        self._durations = [0.0] * RANKS  # of the current block
        self._lives = [0] * RANKS
        self._returned: set[int] = set()  # ranks that wait until they are members
        self._has_death = False
        self._here: dict[int, Any] = {}  # members that have come for a change: what each one does afterwards
        self._changes = 0
        for each in self.learners:
            self._live(each.number)
            each.begin()

    def _live(self, rank: int) -> None:
        self._lives[rank] += 1
        life = self._lives[rank]
        self.clock.after(self._draws.expovariate(1 / self._mean), lambda: self._die(rank, life))

    def is_alive(self, rank: int) -> bool:
        return rank in self.rounds.present

    def duration(self, rank: int, block: int) -> float:
        self._durations[rank] = self._draws.uniform(BLOCK, SLOWEST)
        return self._durations[rank]

    def change(self, learner: Learner) -> float:
        self.offered += 1
        return self._durations[learner.number]

    def merged(self, captured: dict[int, list[float]]) -> None:
        self.useful += sum(map(sum, captured.values()))
        self.merged_offers += sum(map(len, captured.values()))

    # --- deaths and returns --------------------------------------------------------------------------------------

    def _die(self, rank: int, life: int) -> None:
        if life != self._lives[rank]:
            return
        self._lives[rank] += 1
        self.clock.after(RESTART, lambda: self._return(rank))
        if rank in self._returned:  # dies before it is a member
            return self._returned.discard(rank)
        self.lost += self.rounds.lose(rank)
        self._has_death = True
        self._changes += 1
        learner = self.learners[rank]
        learner.block += 1
        learner.tickets, learner.is_waiting, learner.is_overdue = [], False, False
        self._here.pop(rank, None)
        for each in self.learners:
            if each.is_waiting:  # the wait ends with PeerLost
                each.is_waiting = False
                self._here[each.number] = each.collect
        self._look()

    def _return(self, rank: int) -> None:
        self._live(rank)
        self._returned.add(rank)
        self._look()

    def at_merge(self, learner: Learner) -> None:
        self._come(learner, learner.merge, self._has_death)

    def at_block(self, learner: Learner) -> None:
        self._come(learner, learner.begin, self._has_death or bool(self._returned))

    def _come(self, learner: Learner, afterwards: Any, is_needed: bool) -> None:
        if not is_needed:
            return afterwards()
        self._here[learner.number] = afterwards
        self._look()

    def _look(self) -> None:
        """Changes the members when all of them have come."""
        if (self._has_death or self._returned) and self._here.keys() >= self.rounds.present:
            self._changes += 1
            number = self._changes
            self.clock.after(REGROUP, lambda: self._regroup(number))

    def _regroup(self, number: int) -> None:
        if number != self._changes:
            return
        joined, here = self._returned, self._here
        self._returned, self._here, self._has_death = set(), {}, False
        self.rounds.resume(self.rounds.present | joined)
        for rank in joined:
            self.learners[rank].applied = self.rounds.over
            self.learners[rank].begin()
        for afterwards in here.values():
            afterwards()

    def run(self, minutes: float) -> float:
        """Returns the goodput. Raises AssertionError unless each offer is in one result, pending, or lost with its
        rank."""
        self.clock.run(lambda: self.clock.now >= minutes)
        assert self.offered == self.merged_offers + self.rounds.left + self.lost
        return self.useful / (RANKS * self.clock.now)


def lock_step(mean: float, seed: int, minutes: float) -> float:
    """Returns the goodput of lock-step training. A failure during a restart begins another restart."""
    draws, now, useful, since = random.Random(seed), 0.0, 0.0, 0.0
    saved_at, unsaved = 0.0, 0.0
    failure = draws.expovariate(RANKS / mean)
    while now < minutes:
        blocks = [draws.uniform(BLOCK, SLOWEST) for _ in range(RANKS)]
        now += max(blocks)
        if now < failure:
            unsaved += sum(blocks)
            if now - saved_at >= CHECKPOINT:
                useful, unsaved, saved_at = useful + unsaved, 0.0, now
            continue
        now = failure
        while now >= failure:
            failure = now + draws.expovariate(RANKS / mean)
            now = min(failure, now + RESTART)
        unsaved, saved_at = 0.0, now
    return useful / (RANKS * now)


def alone(mean: float) -> float:
    """Returns the goodput of ranks that never wait and lose no step."""
    return mean / (mean + RESTART)


PUBLISHED = {"lock-step": 0.27, str(QUORUM): 0.88}
FAST = ("lock-step", str(QUORUM))
LINES = (*FAST, str(SYNCHRONOUS), "ranks alone")


def goodput_of(line: str, mean: float, seed: int, minutes: float) -> float:
    if line == "lock-step":
        return lock_step(mean, seed, 5 * minutes)
    if line == "ranks alone":
        return alone(mean)
    return Failing(SYNCHRONOUS if line == str(SYNCHRONOUS) else QUORUM, mean, seed).run(minutes)


@dataclasses.dataclass(frozen=True)
class Goodput(Figure):
    """Rows are points (line, mean time between two failures of a rank)."""

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        means = (MEAN,) if is_fast else (16.0, 32.0, MEAN, 128.0, 256.0, 1024.0)
        minutes = 4000.0 if is_fast else 12000.0
        cells = [(line, mean) for line in (LINES if not is_fast else FAST) for mean in means]
        found = trainings_of(cells, seeds, lambda cell, seed: goodput_of(*cell, seed, minutes))
        names = {(line, mean): f"{line}, {mean:g}" for line, mean in cells}
        rows = {names[line, mean]: {"minutes": mean, "goodput": statistics.mean(found[line, mean]),
                                    "least": min(found[line, mean]), "most": max(found[line, mean]),
                                    "published": PUBLISHED.get(line, "") if mean == MEAN else ""}
                for line, mean in cells}
        lock, quorum = (rows[names[line, MEAN]] for line in ("lock-step", str(QUORUM)))
        rules = [("lock-step: goodput from 0.25 to 0.29", 0.25 <= lock["goodput"] <= 0.29),
                 (f"{QUORUM}: goodput at least 0.88 with each seed", quorum["least"] >= 0.88),
                 (f"{QUORUM}: goodput at most that of ranks that never wait", quorum["most"] <= alone(MEAN))]
        return Result(rows, rules, {names[cell]: all for cell, all in found.items()}, axes=("minutes", "goodput"),
                      are_curves=True)


FIGURES = {
    "goodput": Goodput("part of the time in useful steps, 8 ranks that fail at exponentially distributed times",
                       "Decoupled DiLoCo, arXiv 2604.21428: 0.88 with a central synchroniser, and 0.27 of data "
                       "parallel training. Chosen here, not published: all durations. With 66 minutes between two "
                       "failures of a rank, lock-step training has the published goodput", 3),
}
