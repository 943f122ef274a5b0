"""Local steps and merges of a GRU: time to a loss with a slow rank, and the loss of SparseLoCo, in virtual time."""

from __future__ import annotations

import copy
import dataclasses
import statistics
from typing import Any, Callable

import torch

from libsched.torch._parameters import Parameters
from merges import Job, Learner, Policy
from result import Figure, Result, trainings_of
from tasks import Task
from text_task import ShortText, Text

SLOW_RANK = 1
STEP, SLOW = 1.0, 4.0  # duration of a local step, and of a local step of the slow rank
ROUND = 1.0
RATE = 3e-3  # learning rate of the local steps
CHUNK = 4096  # elements of a chunk of SparseLoCo


def quantised(vector: torch.Tensor, k: int) -> torch.Tensor:
    """Returns the vector that a message of SparseLoCo decodes to (ops/sparse/chunk_message.h). Levels keep all bits."""
    sent = torch.zeros_like(vector)
    for chunk, values in zip(sent.split(CHUNK), vector.split(CHUNK)):
        sizes, places = values.abs().topk(max(1, (len(values) * k + len(vector) // 2) // len(vector)))
        places = places[sizes >= sizes[0] * 2**-15]
        sizes = sizes[:len(places)]
        is_high = sizes > (sizes[0] + sizes[-1]) / 2
        for group in (is_high, ~is_high):
            if group.any():
                level = torch.minimum(sizes[group].mean(), 2 * sizes[group].min())
                chunk[places[group]] = level * values[places[group]].sign()
    return sent


@dataclasses.dataclass(frozen=True)
class Outer:
    """The outer optimizer, and the transport of changes. None: dense changes."""

    rate: float = 0.7
    momentum: float = 0.9
    density: float | None = None

    def optimizer(self, weights: torch.Tensor) -> torch.optim.Optimizer:
        return torch.optim.SGD([weights], lr=self.rate, momentum=self.momentum, nesterov=self.momentum > 0)


class Training(Job):
    """Trains a task. The local steps of a block are computed when the block ends in virtual time."""

    def __init__(self, task: Task, policy: Policy, local_steps: int, outer: Outer, slow_rank: int | None) -> None:
        super().__init__(task.ranks, policy, ROUND)
        self.task, self._local_steps, self._outer, self._slow = task, local_steps, outer, slow_rank
        self.model = task.model()
        self._models = [copy.deepcopy(self.model) for _ in range(task.ranks)]
        self._inner = [torch.optim.AdamW(each.parameters(), lr=RATE) for each in self._models]
        self._vectors = [Parameters(each.named_parameters()).vector() for each in self._models]
        self._global = Parameters(self.model.named_parameters()).vector()
        self._global.take_weights()
        self._starts = [self._global.flat.clone() for _ in range(task.ranks)]
        self._residuals = [torch.zeros_like(self._global.flat) for _ in range(task.ranks)]
        self._weights = self._global.flat.clone().requires_grad_()
        self._optimizer = outer.optimizer(self._weights)
        self.offers: list[int] = []  # number of offers in each round
        self.on_round: Callable[[Training], None] = lambda _: None
        for each in self.learners:
            each.begin()

    def duration(self, rank: int, block: int) -> float:
        return self._local_steps * (SLOW if rank == self._slow else STEP)

    @torch.no_grad()
    def change(self, learner: Learner) -> torch.Tensor:
        """Makes the local steps of the last block. Returns the change since the last offer or merge."""
        rank = learner.number
        with torch.enable_grad():
            for step in range((learner.block - 1) * self._local_steps, learner.block * self._local_steps):
                self._inner[rank].zero_grad()
                self.task.loss(self._models[rank], rank, step).backward()
                self._inner[rank].step()
        self._vectors[rank].take_weights()
        local = self._vectors[rank].flat.clone()
        change, self._starts[rank] = self._starts[rank] - local, local
        if self._outer.density is None:
            return change
        self._residuals[rank] += change
        message = quantised(self._residuals[rank], max(1, round(self._outer.density * change.numel())))
        self._residuals[rank] -= message
        return message

    def merged(self, captured: dict[int, list[torch.Tensor]]) -> None:
        offers = [each for of_rank in captured.values() for each in of_rank]
        self.offers.append(len(offers))
        if offers:
            self._weights.grad = sum(offers) / len(offers)
            self._optimizer.step()
        self.on_round(self)

    @torch.no_grad()
    def apply(self, learner: Learner) -> None:
        rank = learner.number
        self._starts[rank] = self._weights.detach().clone()
        self._vectors[rank].flat.copy_(self._starts[rank])
        self._vectors[rank].give_weights()

    @torch.no_grad()
    def global_model(self) -> torch.nn.Module:
        self._global.flat.copy_(self._weights)
        self._global.give_weights()
        return self.model


class Watched:
    """The validation loss of the global weights over time. Each value is the mean over the last three points."""

    every = 2  # rounds between two points
    windows = 512

    def __init__(self, training: Training) -> None:
        self.times: list[float] = []
        self._points: list[float] = []
        self._training = training
        training.on_round = self._see

    def _see(self, training: Training) -> None:
        if training.rounds.over % self.every == 0:
            self.times.append(training.clock.now)
            task = training.task
            self._points.append(task.loss_of(training.global_model(), task.test_set[:self.windows]))

    @property
    def losses(self) -> list[float]:
        return [statistics.mean(self._points[max(0, i - 2):i + 1]) for i in range(len(self._points))]

    def at(self, time: float) -> float:
        """Returns the last loss that was known at the time."""
        return [loss for when, loss in zip(self.times, self.losses) if when <= time][-1]

    def time_to(self, loss: float) -> float | None:
        """Returns the first time at which the loss is at most `loss`. None: never."""
        return next((time for time, each in zip(self.times, self.losses) if each <= loss), None)


SYNCHRONOUS = Policy()


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of a training: the full size, or a small size for a run of some seconds."""

    task: Any
    local_steps: int
    rounds: int  # of synchronous training


@dataclasses.dataclass(frozen=True)
class SlowRank(Figure):
    """Trains synchronously for some rounds. Then trains with a quorum until the loss is the same, and for at least half
    of the time."""

    full: Scale
    fast: Scale
    policy: Policy

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        scale = self.fast if is_fast else self.full
        ends: dict[int, tuple[float, float]] = {}  # time and loss of synchronous training, by seed

        def train(policy: Policy, seed: int) -> dict[str, Any]:
            training = Training(scale.task(seed, torch.float32), policy, scale.local_steps, Outer(), SLOW_RANK)
            watched = Watched(training)
            if policy == SYNCHRONOUS:
                training.clock.run(lambda: training.rounds.over >= scale.rounds)
                ends[seed] = training.clock.now, watched.losses[-1]
            time, loss = ends[seed]
            if policy != SYNCHRONOUS:
                training.clock.run(lambda: training.clock.now >= time or (
                    training.clock.now >= time / 2 and watched.time_to(loss) is not None))
            return {"time": watched.time_to(loss) or time, "loss": loss, "offers": statistics.mean(training.offers),
                    "loss at half time": watched.at(time / 2), "curve": list(zip(watched.times, watched.losses))}

        found = trainings_of((SYNCHRONOUS, self.policy), seeds, train)
        rows = {str(policy): self._columns(all, found[SYNCHRONOUS]) for policy, all in found.items()}
        spread = statistics.pstdev(each["loss"] for each in found[SYNCHRONOUS])
        excess = max(each["loss at half time"] - each["loss"] for each in found[self.policy])
        rules = [(f"{self.policy}: the final loss of synchronous DiLoCo in at most half of its time, on average",
                  rows[str(self.policy)]["speed"] >= 2),
                 (f"{self.policy}: at half of this time with each seed at most a deviation above this loss",
                  excess <= spread)]
        return Result(rows, rules, {str(policy): all for policy, all in found.items()}, axes=("time", "loss"))

    @staticmethod
    def _columns(all: list[dict[str, Any]], first: list[dict[str, Any]]) -> dict[str, float]:
        """Returns means over seeds: of the times to the final loss of synchronous training, and of this loss."""
        def mean(name: str, of: list[dict[str, Any]]) -> float:
            return statistics.mean(each[name] for each in of)

        return {"time": mean("time", all), "loss": mean("loss", all),
                "+-": statistics.pstdev(each["loss"] for each in all), "speed": mean("time", first) / mean("time", all),
                "least": min(one["time"] / two["time"] for one, two in zip(first, all)),
                "loss at half time": mean("loss at half time", all), "offers": mean("offers", all)}


PLAIN = {"rate": 1.0, "momentum": 0.0}  # the outer optimizer of SparseLoCo
ROWS = {"DiLoCo": Outer(), "DiLoCo, plain outer steps": Outer(**PLAIN), "SparseLoCo": Outer(**PLAIN, density=1 / 64)}


@dataclasses.dataclass(frozen=True)
class Sparsity(Figure):
    """Trains with the same local steps, and dense or sparse changes. No rank is slow.

    For such a short training the published outer optimizer of DiLoCo is not the best. So a second dense row has the
    outer optimizer of SparseLoCo, and shows the loss of the sparse messages alone.
    """

    full: Scale
    fast: Scale
    most: float
    fast_most: float

    def run(self, seeds: int, by_ranks: bool, is_fast: bool) -> Result:
        scale, most = (self.fast, self.fast_most) if is_fast else (self.full, self.most)

        def train(name: str, seed: int) -> dict[str, float]:
            training = Training(scale.task(seed, torch.float32), SYNCHRONOUS, scale.local_steps, ROWS[name], None)
            training.clock.run(lambda: training.rounds.over >= scale.rounds)
            return training.task.measures(training.global_model())

        found = trainings_of(ROWS, seeds, train)
        rows = {name: {column: statistics.mean(each[column] for each in all) for column in all[0]}
                for name, all in found.items()}
        dense, _, sparse = rows.values()
        rules = [(f"SparseLoCo: at most {most} times the {what} loss of DiLoCo", sparse[column] <= most * dense[column])
                 for column, what in (("loss", "training"), ("validation", "validation"))]
        return Result(rows, rules, found, axes=("loss", "validation"))


FIGURES = {
    "slow_rank": SlowRank("a GRU, DiLoCo with a rank whose steps take four times as long",
                          "Decoupled DiLoCo, arXiv 2604.21428: faster ranks do not wait for slow ranks; no published "
                          "number for this case", 3,
                          Scale(Text, 16, 50), Scale(ShortText, 8, 12), Policy(quorum=3, grace=4.0)),
    "sparse_changes": Sparsity("a GRU, local steps, dense changes, and the largest 64 of 4096 elements in 2 bits",
                               "SparseLoCo, arXiv 2508.15706: a lower loss than DiLoCo at 1 % to 3 %", 1,
                               Scale(Text, 8, 200), Scale(ShortText, 2, 60), 1.03, 1.2),
}
