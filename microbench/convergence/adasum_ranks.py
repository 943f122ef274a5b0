"""Trains with AdasumOptimizer. Each rank runs this program.

    lsched run -n 4 python adasum_ranks.py '{"task": "Microbatches", "seeds": 2}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

import libsched
import libsched.torch as lst
import tasks

LIMIT = 120.0  # seconds


def train(world: libsched.World, task: Any) -> dict[str, Any]:
    model = task.model()
    inner = task.optimizer(model)
    opt = lst.AdasumOptimizer(inner, model.named_parameters(), process_group=world, timeout=LIMIT)
    lst.broadcast_parameters(model, world)
    for step in range(task.steps):
        inner.param_groups[0]["lr"] = task.rate_of(step + 1)
        opt.zero_grad()
        task.loss(model, world.rank, step).backward()
        opt.step()
    opt.close()
    weights = torch.cat([each.detach().flatten() for each in model.parameters()])
    least, most = weights.clone(), weights.clone()
    for each, op in ((least, "min"), (most, "max")):
        with world.allreduce(each, op=op) as step:
            step.run(LIMIT)
    return {"accuracy": task.accuracy(model), "are_alike": torch.equal(least, most)}


def main(wanted: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    with libsched.init() as world:
        for seed in range(wanted["seeds"]):
            told = train(world, getattr(tasks, wanted["task"])(seed, torch.float32, world.size))
            if world.rank == 0:
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
