"""Simulates partial training in virtual time. All ranks are in one process, and only the load determines the order of
events.

This is a second, short implementation of the semantics of lsched_offer, lsched_collect and lsched_model_sync. The same
seed gives the same numbers on every machine, so this simulation is the oracle for runs with real ranks.
"""

from __future__ import annotations

import heapq
import random
import re
import statistics
from typing import Any

import torch

from libsched.torch._parameters import Parameters
from policy import Outcome, Policy
from tasks import Task

COMMUNICATION = 2.0  # duration of a round in units


class Rank:
    def __init__(self, task: Task) -> None:
        self.model = task.model()
        self.optimizer = task.optimizer(self.model)
        self.parameters = Parameters(self.model.named_parameters())
        self.gradient, self.weights = self.parameters.vector(), self.parameters.vector()
        self.pending = self.parameters.vector()
        self.calls: list[int] = []  # calls whose gradients are pending
        self.step = 0
        self.seen = 0
        self.is_waiting = False
        self.called: list[float] = []  # times of all calls


class Twin:
    def __init__(self, task: Task, policy: Policy, unit: float) -> None:
        """`unit` is the duration of a unit of the load in seconds. Deadlines and graces are converted to units."""
        self.task, self.policy = task, policy
        self.ranks = [Rank(task) for _ in range(task.ranks)]
        self.results: list[torch.Tensor | None] = [None]  # result of each round
        self.outcome = Outcome()
        self._draws = random.Random(task.seed)
        found = re.fullmatch(r"deadline\((\d+|auto)\)", policy.activation)
        self._has_deadline = found is not None
        self._deadline = float(found[1]) * 1e-6 / unit if found and found[1] != "auto" else None
        grace = re.search(r"\+grace\((\d+)\)", policy.activation)
        self._grace = float(grace[1]) * 1e-6 / unit if grace else 0.0
        self._graced = 0  # last round whose grace has begun
        # Events are tuples (time, rank, number). The number is 0 for a call, and the step number for the end of a
        # deadline or grace.
        self._events = [(task.units(rank, 0), rank, 0) for rank in range(task.ranks)]
        self._draw()

    def _draw(self) -> None:
        """Draws the candidates of the open round, and sets how many of them must call."""
        all = list(range(self.task.ranks))
        name = self.policy.activation
        self._needed = len(all)
        self._candidates = all
        if name == "solo":
            self._needed = 1
        elif name == "majority":
            self._candidates, self._needed = [self._draws.choice(all)], 1
        elif found := re.fullmatch(r"quorum\((\d+)\)(\+grace\(\d+\))?", name):
            self._needed = int(found[1])
        elif name != "full" and not self._has_deadline:
            raise ValueError(f"the simulation does not support the policy {name}")

    def run(self) -> Outcome:
        heapq.heapify(self._events)
        while self._events:
            now, rank, step = heapq.heappop(self._events)
            if step == 0:
                self._call(now, rank)
            elif self.ranks[rank].is_waiting and step == self._open:
                self._end_and_resume(now)
        self._end_round(now)  # a flush uses all pending gradients
        for rank in self.ranks:
            self._deliver(rank)
        self.outcome.time = now
        self.outcome.accuracy = statistics.mean(self.task.accuracy(rank.model) for rank in self.ranks)
        self._average()
        self.outcome.averaged = self.task.accuracy(self.ranks[0].model)
        return self.outcome

    @property
    def _open(self) -> int:
        return len(self.results)

    def _add_gradient(self, now: float, number: int) -> Rank:
        """Computes the gradient of a step, and adds it to the pending gradients of the rank."""
        rank = self.ranks[number]
        rank.optimizer.zero_grad()
        self.task.loss(rank.model, number, rank.step).backward()
        rank.gradient.take_gradients()
        rank.pending.flat += rank.gradient.flat
        rank.step += 1
        rank.called.append(now)
        return rank

    def _call(self, now: float, number: int) -> None:
        rank = self._add_gradient(now, number)
        rank.calls.append(rank.step)
        if rank.step < self._open:
            return self._resume(now, number)
        rank.is_waiting = True
        called = sum(self._has_called(each) for each in self._candidates)
        if called == len(self._candidates) or (called >= self._needed and not self._grace):
            self._end_and_resume(now)
        elif called >= self._needed and self._graced != self._open:
            self._graced = self._open
            heapq.heappush(self._events, (now + self._grace, number, rank.step))
        elif self._has_deadline and (wait := self._longest_wait(rank)) is not None:
            heapq.heappush(self._events, (now + wait, number, rank.step))

    def _longest_wait(self, rank: Rank) -> float | None:
        """Returns the longest wait of a rank. None: until all ranks have called.

        For deadline(auto) the longest wait is a fifth of the median of the last 64 times between successive calls."""
        if self._deadline is not None:
            return self._deadline
        last = rank.called[-65:]
        between = sorted(later - earlier for earlier, later in zip(last, last[1:]))
        return between[len(between) // 2] / 5 if len(between) >= 8 else None

    def _end_and_resume(self, now: float) -> None:
        self._end_round(now)
        for other, each in enumerate(self.ranks):
            if each.is_waiting and each.step < self._open:
                each.is_waiting = False
                self._resume(now + COMMUNICATION, other)

    def _has_called(self, number: int) -> bool:
        rank = self.ranks[number]
        return rank.step >= self._open or rank.step == self.task.steps

    def _end_round(self, now: float) -> None:
        with_some = [rank for rank in self.ranks if rank.calls]
        self.results.append(sum(rank.pending.flat for rank in with_some) / self.task.ranks if with_some else None)
        self.outcome.contributors.append(len(with_some))
        for rank in with_some:
            self.outcome.staleness += [self._open - 1 - call for call in rank.calls]
            rank.pending.flat.zero_()
            rank.calls.clear()
        self._draw()

    def _resume(self, now: float, number: int) -> None:
        rank = self.ranks[number]
        self._deliver(rank)
        every = self.policy.average_every
        if every and rank.step % every == 0:
            rank.is_waiting = True
            if all(each.step >= rank.step and each.is_waiting for each in self.ranks):
                self._average()
                for other, each in enumerate(self.ranks):
                    each.is_waiting = False
                    self._go_on(now + COMMUNICATION, other)
            return
        self._go_on(now, number)

    def _go_on(self, now: float, number: int) -> None:
        step = self.ranks[number].step
        if step < self.task.steps:
            heapq.heappush(self._events, (now + self.task.units(number, step), number, 0))

    def _deliver(self, rank: Rank) -> None:
        """Steps the optimizer by the results that the rank has not collected yet, according to the lag of the
        policy."""
        rounds = [i for i in range(rank.seen + 1, self._open) if self.results[i] is not None]
        rank.seen = self._open - 1
        if not rounds:
            return
        if self.policy.lag == "latest":
            rounds = rounds[-1:]
        if self.policy.lag == "accumulate":
            return self._step_by(rank, rounds[-1], sum(self.results[i] for i in rounds))
        for i in rounds:
            self._step_by(rank, i, self.results[i])

    def _step_by(self, rank: Rank, round: int, result: Any) -> None:
        rank.gradient.flat.copy_(result)
        rank.gradient.be_gradients()
        rank.optimizer.param_groups[0]["lr"] = self.task.rate_of(round)
        rank.optimizer.step()

    def _average(self) -> None:
        """Averages the weights. Drops all pending gradients."""
        for rank in self.ranks:
            rank.weights.take_weights()
            rank.pending.flat.zero_()
            rank.calls.clear()
            rank.seen = self._open - 1
        mean = sum(rank.weights.flat for rank in self.ranks) / self.task.ranks
        for rank in self.ranks:
            rank.weights.flat.copy_(mean)
            rank.weights.give_weights()
