"""Trains with OkTopkState under DistributedDataParallel. Each rank runs this program.

    lsched run -n 8 python sparse_ranks.py '{"seed": 0, "density": 0.01}'

In the middle of the training all state is saved, as in a checkpoint. A second training begins with this state, and must
end with the same bits. Density 0 is dense training. In this case the second training may differ in bits, because a new
DistributedDataParallel has different buckets.
"""

from __future__ import annotations

import copy
import json
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import libsched.torch as lst
from sparse import loss_of_all
from tasks import Sparse


class Training:
    def __init__(self, task: Sparse, density: float, states: Any = None) -> None:
        self.task = task
        self.ddp = DistributedDataParallel(task.model(), broadcast_buffers=False)
        self.opt = task.optimizer(self.ddp.module)
        self.hook = lst.OkTopkState(self.ddp, density) if density else None
        if self.hook is not None:
            self.ddp.register_comm_hook(self.hook, lst.oktopk_hook)
        if states is not None:
            for each, state in zip(self._parts(), states, strict=True):
                each.load_state_dict(state)

    def _parts(self) -> list[Any]:
        return [self.ddp.module, self.opt, *([self.hook] if self.hook is not None else [])]

    def states(self) -> Any:
        return copy.deepcopy([each.state_dict() for each in self._parts()])

    def run(self, begin: int, end: int) -> None:
        for step in range(begin, end):
            self.opt.param_groups[0]["lr"] = self.task.rate_of(step + 1)
            self.opt.zero_grad()
            self.task.loss(self.ddp, dist.get_rank(), step).backward()
            self.opt.step()

    def weights(self) -> torch.Tensor:
        return torch.cat([each.detach().flatten() for each in self.ddp.parameters()])


def is_within(training: Training) -> bool:
    """Returns True if this rank has sent and received at most 6 k (P-1)/P words a round, on average over all rounds."""
    if training.hook is None:
        return True
    told, ranks = training.hook.statistics(), dist.get_world_size()
    most = 6 * training.hook.k * (ranks - 1) / ranks * 4 * told["rounds"]
    return max(told["item_bytes_sent"], told["item_bytes_received"]) <= most


def main(wanted: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("lsched", timeout=timedelta(seconds=120))
    task = Sparse(wanted["seed"], torch.float32)
    first = Training(task, wanted["density"])
    middle = task.steps // 2
    first.run(0, middle)
    states = first.states()
    first.run(middle, task.steps)
    second = Training(task, wanted["density"], states)
    second.run(middle, task.steps)
    mine = torch.tensor([float(is_within(first)), float(torch.equal(first.weights(), second.weights()))])
    dist.all_reduce(mine, dist.ReduceOp.MIN)
    if dist.get_rank() == 0:
        print(json.dumps({"accuracy": task.accuracy(first.ddp.module), "loss": loss_of_all(task, first.ddp.module),
                          "is_sparse": first.hook is not None,
                          "is_within": bool(mine[0]), "goes_on": bool(mine[1])}), flush=True)
    for each in (first, second):
        if each.hook is not None:
            each.hook.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
