"""Times a step of DistributedDataParallel with the backend lsched, with Gloo, and without communication.

    torchrun --nproc-per-node 2 torch_ddp.py [--json FILE]

The model is an MLP 784-1024-256-10 with 1.07 million parameters. The optimizer is SGD, and each rank has 32 images. The
three variants take turns in the same processes. The time of a batch of steps is the time of the slowest rank. Prints
the median over batches, in milliseconds per step.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

import libsched.torch  # noqa: F401  registers the backend


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 10))


class Training:
    def __init__(self, group) -> None:
        self.model = nn.parallel.DistributedDataParallel(model(), process_group=group)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.images, self.labels = torch.randn(32, 784), torch.randint(10, (32,))

    def step(self, without=contextlib.nullcontext) -> None:
        with without():
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(self.images), self.labels).backward()
            self.optimizer.step()


def timed(call, steps: int) -> float:
    """Returns the milliseconds per step of the slowest rank."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        call()
    told = torch.tensor([(time.perf_counter() - begin) / steps * 1e3], dtype=torch.float64)
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return float(told)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", help="file for the results, as JSON")
    arguments.add_argument("--steps", type=int, default=20, help="training steps in a batch (default: %(default)s)")
    arguments.add_argument("--batches", type=int, default=9, help="batches of each variant (default: %(default)s)")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("lsched")
    ours, gloo = Training(dist.group.WORLD), Training(dist.new_group(backend="gloo"))
    ways = {"local": lambda: ours.step(ours.model.no_sync), "lsched": ours.step, "gloo": gloo.step}
    found = {way: [] for way in ways}
    for call in ways.values():
        timed(call, 5)
    for _ in range(options.batches):
        for way, call in ways.items():
            found[way].append(timed(call, options.steps))
    medians = {way: statistics.median(all) for way, all in found.items()}
    if dist.get_rank() == 0:
        local, mine, theirs = medians["local"], medians["lsched"], medians["gloo"]
        print(f"{dist.get_world_size()} ranks   local {local:.1f} ms   lsched {mine:.1f}   gloo {theirs:.1f}   "
              f"lsched / gloo {mine / theirs:.2f}   lsched / local {mine / local:.2f}")
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"ranks": dist.get_world_size(), "ms": medians}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
