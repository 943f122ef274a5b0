"""Measures how much communication overlaps with the backward pass of DistributedDataParallel, on an emulated device.

    lsched run -n 2 python torch_overlap.py [--json FILE] [--trace PREFIX]

In the backward pass, each layer sleeps, as a host does while a device computes, so the core is free for communication.
The script times the allreduce of DDP and the hook of Adasum. For each of the two, the script times computation alone,
communication alone, and both together, in turns. The lower bound on a step is the maximum of two times: communication
alone, and computation plus the processor time of communication. Each time is the time of the slowest rank in
milliseconds per step. The script prints the median over batches. `--trace` records another batch of the allreduce, and
writes a file for each rank, for `lsched trace`.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import libsched.torch as lst

LAYERS, WIDTH, BATCHES, STEPS = 8, 512, 9, 5


class Device(torch.autograd.Function):
    """A function that returns its input in the forward pass, and sleeps in the backward pass."""

    @staticmethod
    def forward(context, x, seconds):
        context.seconds = seconds
        return x

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.seconds)
        return gradient, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.seconds = 0.0

    def forward(self, x):
        for layer in self.layers:
            x = Device.apply(layer(x), self.seconds)
        return x


def timed(model, seconds, syncs):
    """Returns (time, processor time) of a step in milliseconds, each of the slowest rank."""
    model.module.seconds = seconds
    x = torch.ones(1, WIDTH)
    dist.barrier()
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(STEPS):
        if syncs:
            model(x).sum().backward()
        else:
            with model.no_sync():
                model(x).sum().backward()
    told = torch.tensor([time.perf_counter() - begin, time.process_time() - cpu]) * 1000 / STEPS
    dist.all_reduce(told, dist.ReduceOp.MAX)
    return told.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--trace", metavar="PREFIX")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("lsched")
    ways = {}
    for name in ("allreduce", "adasum"):
        torch.manual_seed(0)
        ways[name] = DistributedDataParallel(Net(), bucket_cap_mb=1, broadcast_buffers=False)
        if name == "adasum":
            ways[name].register_comm_hook(lst.AdasumState(ways[name]), lst.adasum_hook)
    rows = {}
    for name, model in ways.items():
        timed(model, 0.0, True)  # DDP rebuilds its buckets once
        alone = statistics.median(timed(model, 0.0, True)[0] for _ in range(3))
        layer = alone / 1000 / LAYERS  # computation takes as long as communication
        found = {"compute": [], "communicate": [], "both": []}
        for _ in range(BATCHES):
            found["compute"].append(timed(model, layer, False))
            found["communicate"].append(timed(model, 0.0, True))
            found["both"].append(timed(model, layer, True))
        compute, communicate, both = (statistics.median(wall for wall, _ in found[each]) for each in found)
        cpu = statistics.median(each for _, each in found["communicate"])
        bound = max(compute + cpu, communicate)
        rows[name] = {"compute": compute, "communicate": communicate, "cpu": cpu, "both": both,
                      "both/bound": both / bound, "both/sum": both / (compute + communicate)}
        if dist.get_rank() == 0:
            cells = (f"{key} {told:.2f}" for key, told in rows[name].items())
            print(f"{dist.get_world_size()} ranks  {name:9}", *cells, sep="   ", flush=True)
    if given.trace:
        world = lst.world_of()
        world.trace_start()
        timed(ways["allreduce"], 0.005, True)
        world.trace_write(f"{given.trace}.{dist.get_rank()}.json")
    if given.json and dist.get_rank() == 0:
        with open(given.json, "w") as out:
            json.dump({"ranks": dist.get_world_size(), "rows": rows}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
