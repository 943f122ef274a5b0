"""Training without an allreduce, compared with eager-SGD (Li et al., PPoPP 2020, Table 2).

Ranks exchange weights with few other ranks. D-PSGD averages with both neighbours on a ring (Lian et al., NeurIPS 2017).
In SGP, a rank pushes half of its weights to another rank, and the receiver changes from step to step (Assran et al.,
ICML 2019). Time is virtual, as in twin.py.
"""

from __future__ import annotations

import dataclasses
import statistics
from typing import Callable

import torch

from partial import AVERAGED, FULL, MAJORITY_PAST, PAST, SOLO
from policy import Outcome, Policy
from result import Figure, Result, Rule, checked, trainings_of
from tasks import TASKS, Task
from twin import COMMUNICATION, Rank, Twin


class Spread:
    """The distance of the replicas from their average, relative to the length of the average.

    Replicas are the weights at the beginning of the last step of each epoch. mean() returns the mean over epochs."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._seen: dict[int, list[torch.Tensor]] = {}

    def see(self, rank: Rank, step: int) -> None:
        if (step + 1) % self._task.epoch == 0:
            rank.weights.take_weights()
            self._seen.setdefault(step, []).append(rank.weights.flat.clone())

    def mean(self) -> float:
        return statistics.mean(self._of(torch.stack(all)) for all in self._seen.values())

    @staticmethod
    def _of(replicas: torch.Tensor) -> float:
        average = replicas.mean(0)
        return ((replicas - average).square().sum(1).mean().sqrt() / average.norm()).item()


class SeenTwin(Twin):
    def __init__(self, task: Task, policy: Policy) -> None:
        super().__init__(task, policy, unit=1.0)
        self.spread = Spread(task)

    def _call(self, now: float, number: int) -> None:
        self.spread.see(self.ranks[number], self.ranks[number].step)
        super()._call(now, number)


@dataclasses.dataclass(frozen=True)
class Gossip:
    """A rule for exchanges. After each step a rank divides its weights by the number of shares. The rank keeps one
    share, and pushes one share to each of some other ranks."""

    name: str
    heard: Callable[[int, int, int], list[int]]  # (rank, step, ranks) -> the ranks whose messages this rank gets
    delay: int = 0  # number of steps after which a rank waits for these messages

    def __str__(self) -> str:
        return self.name


def _ring(rank: int, step: int, ranks: int) -> list[int]:
    return [(rank - 1) % ranks, (rank + 1) % ranks]


def _exponential(rank: int, step: int, ranks: int) -> list[int]:
    return [(rank - 2 ** (step % (ranks - 1).bit_length())) % ranks]


class GossipTwin:
    """A simulation of Gossip. The ranks that a rank waits for are known beforehand, so no queue of events is needed.

    A replica is a sum of weights, divided by a count that is pushed with the weights. The count is 1 unless messages
    are delayed. In that case a part of the count is always in flight."""

    def __init__(self, task: Task, how: Gossip) -> None:
        self.task, self.how = task, how
        self.spread = Spread(task)
        self.ranks = [Rank(task) for _ in range(task.ranks)]
        for rank in self.ranks:
            rank.weights.take_weights()
        self._sums = torch.stack([rank.weights.flat for rank in self.ranks])
        self._counts = torch.ones(task.ranks, 1, dtype=task.dtype)
        self._begin = [0.0] * task.ranks  # time at which each rank begins the next step
        self._ends: list[list[float]] = []  # end of each step of each rank
        self._on_their_way: list[tuple[torch.Tensor, torch.Tensor]] = []  # messages of the last steps

    def run(self) -> Outcome:
        for step in range(self.task.steps):
            self._ends.append([begin + self.task.units(rank, step) for rank, begin in enumerate(self._begin)])
            for number in range(self.task.ranks):
                self._descend(number, step)
            self._push(step)
            if step >= self.how.delay:
                self._hear(step - self.how.delay)
        for step in range(self.task.steps - self.how.delay, self.task.steps):
            self._hear(step)
        outcome = Outcome(time=max(self._ends[-1]))
        outcome.accuracy = statistics.mean(self._accuracy(*each) for each in zip(self._sums, self._counts))
        outcome.averaged = self._accuracy(self._sums.sum(0), self._counts.sum())
        return outcome

    def _accuracy(self, sum: torch.Tensor, count: torch.Tensor) -> float:
        rank = self.ranks[0]
        rank.weights.flat.copy_(sum / count)
        rank.weights.give_weights()
        return self.task.accuracy(rank.model)

    def _descend(self, number: int, step: int) -> None:
        rank = self.ranks[number]
        before = self._sums[number] / self._counts[number]
        rank.weights.flat.copy_(before)
        rank.weights.give_weights()
        self.spread.see(rank, step)
        rank.optimizer.zero_grad()
        self.task.loss(rank.model, number, step).backward()
        rank.optimizer.param_groups[0]["lr"] = self.task.rate_of(step + 1)
        rank.optimizer.step()
        rank.weights.take_weights()
        self._sums[number] += rank.weights.flat - before

    def _push(self, step: int) -> None:
        shares = 1 + len(self.how.heard(0, step, self.task.ranks))
        self._sums /= shares
        self._counts /= shares
        self._on_their_way.append((self._sums.clone(), self._counts.clone()))

    def _hear(self, step: int) -> None:
        """Adds the messages that were pushed in the step."""
        sums, counts = self._on_their_way.pop(0)
        for rank in range(self.task.ranks):
            heard = self.how.heard(rank, step, self.task.ranks)
            self._sums[rank] += sums[heard].sum(0)
            self._counts[rank] += counts[heard].sum(0)
            last = max(self._ends[step][each] for each in (rank, *heard))
            self._begin[rank] = max(self._ends[-1][rank], last + COMMUNICATION)


Row = Policy | Gossip
RING, PUSH = Gossip("D-PSGD", _ring), Gossip("SGP", _exponential)
LATE_PUSH = Gossip("SGP, a step later", _exponential, 1)  # as the paper configures it
ROWS: tuple[Row, ...] = (FULL, RING, PUSH, LATE_PUSH, AVERAGED, PAST, MAJORITY_PAST, SOLO)


def train(row: Row, seed: int, is_fast: bool) -> dict[str, float]:
    task = TASKS["digits_one_late"](seed, torch.float64)
    task.steps //= 2 if is_fast else 1
    twin = GossipTwin(task, row) if isinstance(row, Gossip) else SeenTwin(task, row)
    outcome = twin.run()
    return {"accuracy": outcome.accuracy, "averaged": outcome.averaged, "time": outcome.time,
            "spread": twin.spread.mean()}


def _is_faster(row: Row, other: Row, times: float) -> Rule:
    return Rule(f"{row}: at least {times} times as fast as {other}", (row, other),
                lambda one, two: one["speed"] >= times * two["speed"])


def _keeps(row: Row, most: float) -> Rule:
    return Rule(f"{row}: at most {100 * most:.1f} points below full", (FULL, row),
                lambda full, one: full["accuracy"] - one["accuracy"] <= most)


def _is_close(row: Row) -> Rule:
    return Rule(f"{row}: replicas at most a third as far apart as those of {SOLO}", (row, SOLO),
                lambda one, solo: 3 * one["spread"] <= solo["spread"])


RULES = (_is_faster(RING, FULL, 1.1), _is_faster(AVERAGED, RING, 1.1), _is_faster(LATE_PUSH, PUSH, 1.05),
         _is_faster(PAST, LATE_PUSH, 1.05), _keeps(RING, 0.010), _keeps(PUSH, 0.010), _keeps(LATE_PUSH, 0.010),
         _keeps(AVERAGED, 0.015), _is_close(RING), _is_close(PUSH), _is_close(LATE_PUSH))


class Decentralised(Figure):
    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        found = trainings_of((FULL, RING, AVERAGED) if is_fast else ROWS, seeds,
                             lambda row, seed: train(row, seed, is_fast))
        of = {row: self._summary(all, found[FULL]) for row, all in found.items()}
        return Result({str(row): each for row, each in of.items()}, checked(RULES, of),
                      {str(row): all for row, all in found.items()}, axes=("speed", "accuracy"))

    @staticmethod
    def _summary(all: list[dict[str, float]], first: list[dict[str, float]]) -> dict[str, float]:
        def mean(name: str, of: list[dict[str, float]] = all) -> float:
            return statistics.mean(each[name] for each in of)

        return {"accuracy": mean("accuracy"), "+-": statistics.pstdev(each["accuracy"] for each in all),
                "averaged": mean("averaged"), "speed": mean("time", first) / mean("time"), "spread": mean("spread")}


PAPER = ("Li et al., PPoPP 2020, Table 2: ResNet-50 on ImageNet, 64 processes of which 4 are late in each step; steps "
         "a second: D-PSGD 0.94, SGP 1.02, solo 1.19. Its parameter server (0.45) has no row here")
FIGURES = {"decentralised": Decentralised("digits, one random rank late, weights exchanged with neighbours", PAPER, 3)}
