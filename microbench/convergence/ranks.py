"""Runs trainings on real ranks, one after the other. Each rank runs this program.

    lsched run -n 8 python ranks.py '{"task": "digits", "unit": 5e-5, "jobs": [[seed, [activation, lag, every]], ...]}'

A step computes the gradient and then sleeps for the rest of its time, so that many ranks fit on few cores. Rank 0
writes a line of JSON for each training.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

import libsched
import libsched.torch as lst
from policy import Outcome, Policy
from tasks import TASKS, Task

LIMIT = 120.0  # seconds


class Training:
    def __init__(self, world: libsched.World, task: Task, policy: Policy, unit: float) -> None:
        self.world, self.task, self.policy, self.unit = world, task, policy, unit
        self.model = task.model()
        inner = task.optimizer(self.model)

        self.reports: list[libsched.Report] = []

        def see(report: libsched.Report) -> None:
            self.reports.append(report)
            inner.param_groups[0]["lr"] = task.rate_of(report.to)

        self.opt = lst.PartialOptimizer(inner, self.model.named_parameters(), activation=policy.activation,
                                        lag=policy.lag, process_group=world, timeout=LIMIT, seed=task.seed,
                                        on_round=see)

    def run(self) -> Outcome:
        with self.world.barrier() as together:
            together.run(LIMIT)
        begin = time.monotonic()
        for step in range(self.task.steps):
            self._step(step)
        passed = time.monotonic() - begin
        self.opt.flush()
        return self._outcome(passed)

    def _step(self, step: int) -> None:
        end = time.monotonic() + self.task.units(self.world.rank, step) * self.unit
        self.opt.zero_grad()
        self.task.loss(self.model, self.world.rank, step).backward()
        time.sleep(max(0.0, end - time.monotonic()))
        self.opt.step()
        if self.policy.average_every and (step + 1) % self.policy.average_every == 0:
            self.opt.average_parameters()

    def _outcome(self, passed: float) -> Outcome:
        mine = sum(each.mine for each in self.reports)
        loses = self.policy.lag == "latest" or self.policy.average_every
        is_exact = all(1 <= each.contributors <= self.world.size for each in self.reports)
        is_exact = is_exact and (bool(loses) or mine == self.task.steps)
        accuracy = self.task.accuracy(self.model)
        self.opt.average_parameters()
        weights = torch.cat([each.detach().flatten() for each in self.model.parameters()]).double()
        told = self._of_all(passed, accuracy, float(is_exact), (weights * torch.arange(len(weights))).sum().item())
        self.opt.close()
        return Outcome(accuracy=told[:, 1].mean().item(), averaged=self.task.accuracy(self.model),
                       time=told[:, 0].max().item(), contributors=[each.contributors for each in self.reports],
                       staleness=[each.staleness for each in self.reports if each.mine],
                       is_exact=bool(told[:, 2].all()) and bool((told[:, 3] == told[0, 3]).all()))

    def _of_all(self, *numbers: float) -> torch.Tensor:
        """Returns a row of numbers for each rank. This method is collective."""
        mine = torch.tensor(numbers, dtype=torch.float64)
        all = torch.zeros(self.world.size, len(numbers), dtype=torch.float64)
        with self.world.allgather(mine, all) as step:
            step.run(LIMIT)
        return all


def main(wanted: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    with libsched.init() as world:
        for seed, policy in wanted["jobs"]:
            task = TASKS[wanted["task"]](seed, torch.float32)
            outcome = Training(world, task, Policy(*policy), wanted["unit"]).run()
            if world.rank == 0:
                print(json.dumps(vars(outcome)), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
