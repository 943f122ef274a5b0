"""Local steps and merges in virtual time: the rounds of a partial allreduce, and ranks that train as DiLoCo does.

This is a second, short implementation of the semantics of lsched_offer, lsched_collect, lsched_shrink and of
libsched.torch.DiLoCo with one fragment. No rank has a special role. Times are in units of the load.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from typing import Any, Callable


class Clock:
    """Calls functions in the order of their virtual times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, delay: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), call))

    def run(self, is_over: Callable[[], bool]) -> None:
        while self._events and not is_over():
            self.now, _, call = heapq.heappop(self._events)
            call()


@dataclasses.dataclass(frozen=True)
class Policy:
    """The arguments `quorum` and `grace` of DiLoCo. The grace is in units. None: a round needs all ranks, and a merge
    waits without a limit."""

    quorum: int | None = None
    grace: float | None = None

    @property
    def window(self) -> float:
        """The time T of the activation quorum(K)+grace(T)."""
        return (self.grace or 0.0) / 2

    def __str__(self) -> str:
        if self.quorum is None:
            return "synchronous DiLoCo"
        return f"quorum={self.quorum}, grace={self.grace:g}"


class Rounds:
    """The rounds of a partial schedule with the activation quorum(K)+grace(T), or full.

    Invariants:
        - Round t starts when all present ranks have called for t, or T after the K-th call for t has been counted.
          Calls for t are counted when round t-1 is over.
        - A round that starts captures all pending offers of all present ranks. Each offer is in one result, unless its
          rank has died.
    """

    def __init__(self, clock: Clock, ranks: int, policy: Policy, duration: float,
                 on_end: Callable[[dict[int, list[Any]]], None]) -> None:
        self.present = set(range(ranks))
        self.over = 0  # number of rounds that are over
        self._clock, self._policy, self._duration, self._on_end = clock, policy, duration, on_end
        self._calls = [0] * ranks  # last round for which each rank has called
        self._times: list[dict[int, float]] = [{} for _ in range(ranks)]  # of calls, by round
        self._pending: list[list[Any]] = [[] for _ in range(ranks)]
        self._captured: dict[int, list[Any]] | None = None  # offers in the running round; None: no round is running
        self._is_timed = False  # true if the K-th call for the next round has been counted
        self._world = 0  # number of changes of the members: timers of earlier worlds have no effect
        self._is_suspended = False

    def offer(self, rank: int, collected: int, offer: Any) -> int:
        """Makes the offer pending, and calls for the next round. Returns this round, which is over if the rank is late.

        `collected` is the last round that the rank has collected."""
        self._calls[rank] = round = max(self._calls[rank], collected) + 1
        self._times[rank][round] = self._clock.now
        self._pending[rank].append(offer)
        self._look()
        return round

    @property
    def left(self) -> int:
        """The number of offers that are in no result yet."""
        return sum(map(len, [*self._pending, *(self._captured or {}).values()]))

    def _look(self) -> None:
        if self._captured is not None or self._is_suspended or not self.present:
            return
        called = sum(self._calls[rank] > self.over for rank in self.present)
        if called == len(self.present):
            self._start()
        elif self._policy.quorum is not None and called >= self._policy.quorum and not self._is_timed:
            self._is_timed = True
            open_round, world = self.over + 1, self._world
            self._clock.after(self._policy.window, lambda: self._pass(open_round, world))

    def _pass(self, open_round: int, world: int) -> None:
        if (open_round, world) == (self.over + 1, self._world) and self._captured is None:
            self._start()

    def _may_start(self) -> bool:
        """Returns true if the first invariant allows that the next round starts now."""
        times = sorted(min(time for round, time in self._times[rank].items() if round > self.over)
                       for rank in self.present if self._calls[rank] > self.over)
        quorum = self._policy.quorum or len(self.present)
        return len(times) == len(self.present) or (
            len(times) >= quorum and self._clock.now >= times[quorum - 1] + self._policy.window)

    def _start(self) -> None:
        assert self._may_start()
        self._captured = {rank: self._pending[rank] for rank in self.present if self._pending[rank]}
        for rank in self._captured:
            self._pending[rank] = []
        self._is_timed = False
        world = self._world
        self._clock.after(self._duration, lambda: self._end(world))

    def _end(self, world: int) -> None:
        if world != self._world:
            return
        captured, self._captured = self._captured, None
        self.over += 1
        self._times = [{round: time for round, time in each.items() if round > self.over} for each in self._times]
        self._on_end(captured or {})
        self._look()

    # --- changes of the members ----------------------------------------------------------------------------------

    def lose(self, rank: int) -> int:
        """Handles the death of a rank, and returns the number of its lost offers. No round runs until resume(). The
        running round is repeated."""
        lost = len(self._pending[rank]) + len((self._captured or {}).get(rank, []))
        self.present.discard(rank)
        self._pending[rank] = []
        self._world += 1
        self._is_suspended, self._is_timed = True, False
        captured, self._captured = self._captured or {}, None
        for other, offers in captured.items():
            if other != rank:
                self._pending[other] = offers + self._pending[other]
        return lost

    def resume(self, present: set[int]) -> None:
        for rank in present - self.present:
            self._calls[rank] = self.over
        self.present = set(present)
        self._is_suspended = False
        self._look()


class Learner:
    """A rank that makes blocks of local steps, and a merge after each block.

    A merge waits until the round of the last offer is over, but for at most the grace. While a round is overdue, the
    rank waits for no round (DiLoCo._longest_wait).
    """

    def __init__(self, job: Job, number: int) -> None:
        self.job, self.number = job, number
        self.block = 0
        self.tickets: list[int] = []  # rounds that this rank has not collected
        self.is_overdue = False
        self.is_waiting = False
        self.applied = 0  # last round whose result this rank has applied
        self._waits = 0

    def begin(self) -> None:
        """Begins a block of local steps."""
        number = self.block
        self.job.clock.after(self.job.duration(self.number, number), lambda: self._end_block(number))

    def _end_block(self, number: int) -> None:
        if self.block == number and self.job.is_alive(self.number):
            self.block += 1
            self.job.at_merge(self)

    def merge(self) -> None:
        self.tickets.append(self.job.rounds.offer(self.number, self.applied, self.job.change(self)))
        self.collect()

    def collect(self) -> None:
        """Applies the results of all rounds that are over. Then waits, or begins the next block."""
        rounds, grace = self.job.rounds, self.job.policy.grace
        if rounds.over > self.applied:
            self.applied = rounds.over
            self.job.apply(self)
        while self.tickets and self.tickets[0] <= rounds.over:
            self.tickets.pop(0)
            self.is_overdue = False
        if not self.tickets or self.is_overdue:
            return self._go_on()
        self.is_waiting = True
        self._waits += 1
        wait = self._waits
        if grace is not None:
            self.job.clock.after(grace, lambda: self._give_up(wait))

    def hear(self) -> None:
        """Handles the end of a round."""
        if self.is_waiting and self.tickets[-1] <= self.job.rounds.over:
            self.is_waiting = False
            self.collect()

    def _give_up(self, wait: int) -> None:
        if self.is_waiting and wait == self._waits:
            self.is_waiting, self.is_overdue = False, True
            self.collect()

    def _go_on(self) -> None:
        self.is_waiting = False
        self.job.at_block(self)


class Job:
    """Ranks that train together. Subclasses define the durations, the changes and their use."""

    def __init__(self, ranks: int, policy: Policy, round_duration: float) -> None:
        self.clock, self.policy = Clock(), policy
        self.rounds = Rounds(self.clock, ranks, policy, round_duration, self._end_round)
        self.learners = [Learner(self, rank) for rank in range(ranks)]

    def _end_round(self, captured: dict[int, list[Any]]) -> None:
        self.merged(captured)
        for each in self.learners:  # calls of these ranks count for the next round, which may start at once
            each.hear()

    def is_alive(self, rank: int) -> bool:
        return True

    def at_merge(self, learner: Learner) -> None:
        """Handles the end of a block."""
        learner.merge()

    def at_block(self, learner: Learner) -> None:
        """Handles the end of a merge."""
        learner.begin()

    def duration(self, rank: int, block: int) -> float:
        """Returns the duration of the local steps of a block."""
        raise NotImplementedError

    def change(self, learner: Learner) -> Any:
        """Returns what the rank offers after a block."""
        raise NotImplementedError

    def merged(self, captured: dict[int, list[Any]]) -> None:
        """Handles the result of a round: the offers of each rank."""
        raise NotImplementedError

    def apply(self, learner: Learner) -> None:
        """Applies the results of all rounds that are over to the rank."""
