"""Runs trainings of lateness.py on real ranks, one after the other. Each rank runs this program.

    lsched run -n 4 python lateness_ranks.py '{"unit": 5e-5, "share": 1, "jobs": [[kind, policy, seed], ...]}'

A step computes the gradient, and sleeps for the rest of its time. Rank 0 writes a line of JSON for each training.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import libsched.torch as lst
from policy import Outcome
from tasks import TASKS, Task

LIMIT = 120.0  # seconds


class Training:
    """The loop of one rank. There is a subclass for each way to combine gradients."""

    def __init__(self, task: Task, unit: float) -> None:
        self.task, self.unit, self.rank = task, unit, dist.get_rank()
        self.model = task.model()
        self.inner = task.optimizer(self.model)
        self.steps = 0
        self.contributors: list[int] = []

    def train(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def last_round(self) -> int:
        return self.steps

    def run(self) -> Outcome:
        dist.barrier()
        begin = time.monotonic()
        self.train()
        passed = time.monotonic() - begin
        told = self._of_all(passed, self.task.accuracy(self.model), float(self.steps), float(self.last_round()),
                            self._checksum())
        self.close()
        is_exact = bool((told[:, 3:] == told[0, 3:]).all())
        return Outcome(accuracy=told[:, 1].mean().item(), time=told[:, 0].max().item(), is_exact=is_exact,
                       contributors=self.contributors, steps=[int(each) for each in told[:, 2]])

    def _loss(self, model: torch.nn.Module) -> torch.Tensor:
        """Returns the loss of the next batch. Sleeps until the duration of the step has passed."""
        end = time.monotonic() + self.task.units(self.rank, self.steps) * self.unit
        loss = self.task.loss(model, self.rank, self.steps)
        self.steps += 1
        time.sleep(max(0.0, end - time.monotonic()))
        return loss

    def _set_rate(self, round: int) -> None:
        for group in self.inner.param_groups:
            group["lr"] = self.task.rate_of(round)

    def _checksum(self) -> float:
        weights = torch.cat([each.detach().flatten() for each in self.model.parameters()]).double()
        return (weights * torch.arange(len(weights))).sum().item()

    @staticmethod
    def _of_all(*numbers: float) -> torch.Tensor:
        """Returns a row of numbers for each rank. This function is collective."""
        mine = torch.tensor(numbers, dtype=torch.float64)
        all = torch.zeros(dist.get_world_size() * len(numbers), dtype=torch.float64)
        dist.all_gather_into_tensor(all, mine)
        return all.view(-1, len(numbers))


class Synchronous(Training):
    """Training with DistributedDataParallel."""

    def __init__(self, task: Task, unit: float) -> None:
        super().__init__(task, unit)
        self.ddp = DistributedDataParallel(self.model, broadcast_buffers=False)

    def train(self) -> None:
        while self.steps < self.task.steps:
            self.inner.zero_grad()
            self._loss(self.ddp).backward()
            self._set_rate(self.steps)
            self.inner.step()
            self.contributors.append(self._contributors())

    def _contributors(self) -> int:
        return dist.get_world_size()


class Hooked(Synchronous):
    """Training with DistributedDataParallel and partial_hook. Each rank makes `task.steps` steps."""

    def __init__(self, task: Task, unit: float) -> None:
        super().__init__(task, unit)
        self.state = lst.PartialState(self.ddp, activation="solo", lag="accumulate", timeout=LIMIT, seed=task.seed)
        self.ddp.register_comm_hook(self.state, lst.partial_hook)

    def _contributors(self) -> int:
        return self.state.report.contributors

    def _checksum(self) -> float:
        return 0.0  # replicas differ

    def close(self) -> None:
        self.state.close()


class ByRounds(Training):
    """Training with PartialOptimizer.rounds."""

    def __init__(self, task: Task, unit: float, activation: str) -> None:
        super().__init__(task, unit)
        self.opt = lst.PartialOptimizer(self.inner, self.model.named_parameters(), activation=activation,
                                        lag="history", timeout=LIMIT, seed=task.seed, on_round=self._see)

    def _see(self, report: Any) -> None:
        self._set_rate(report.to)
        self.contributors.append(report.contributors)

    def train(self) -> None:
        for _ in self.opt.rounds(itertools.count(), until=self.task.steps):
            self.opt.zero_grad()
            self._loss(self.model).backward()
            self.opt.step()

    def last_round(self) -> int:
        return self.opt.round

    def close(self) -> None:
        self.opt.close()


def training_of(task: Task, policy: str, unit: float) -> Training:
    if policy == "DDP":
        return Synchronous(task, unit)
    if policy == "hook(solo)":
        return Hooked(task, unit)
    return ByRounds(task, unit, policy)


def main(wanted: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("lsched")
    for kind, policy, seed in wanted["jobs"]:
        task = TASKS[kind](seed, torch.float32)
        task.steps //= wanted["share"]
        outcome = training_of(task, policy, wanted["unit"]).run()
        if dist.get_rank() == 0:
            print(json.dumps(vars(outcome)), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
