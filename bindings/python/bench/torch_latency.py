"""Latency of dist.all_reduce with the backend lsched, beside Gloo in the same run.

    torchrun --nproc-per-node 2 torch_latency.py [--json FILE]

Both groups have the same processes, and take turns. The time of a batch is the time of the slowest rank. Prints the
median over batches, in microseconds per call. `run` is the time of a schedule of the C interface, called from Python.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

import libsched.torch

SIZES = {8: 2000, 4096: 1000, 65536: 500, 1 << 20: 100, 1 << 24: 8}
BATCHES = 9


def slowest(seconds: float, group) -> float:
    told = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(told, op=dist.ReduceOp.MAX, group=group)
    return float(told)


def timed(call, calls: int, group) -> float:
    """Returns the microseconds per call of the slowest rank."""
    dist.barrier(group=group)
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return slowest(time.perf_counter() - begin, group) / calls * 1e6


def measure(bytes: int, calls: int, ours, gloo) -> dict:
    tensor = torch.zeros(bytes // 4)
    world = libsched.torch.world_of(ours)
    with world.allreduce(tensor) as step:
        ways = {
            "schedule.run": (step.run, calls),
            "lsched": (lambda: dist.all_reduce(tensor, group=ours), calls),
            "gloo": (lambda: dist.all_reduce(tensor, group=gloo), max(4, calls // 20)),
        }
        for call, number in ways.values():
            timed(call, max(2, number // 10), ours)
        found = {way: [] for way in ways}
        for _ in range(BATCHES):
            for way, (call, number) in ways.items():
                found[way].append(timed(call, number, ours))
    return {way: statistics.median(all) for way, all in found.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", help="file for the results, as JSON")
    arguments.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="message sizes in bytes")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("lsched")
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    if hasattr(os, "sched_setaffinity") and dist.get_world_size() <= (os.cpu_count() or 1):
        os.sched_setaffinity(0, {dist.get_rank()})
    rows = {}
    for bytes in options.sizes:
        rows[bytes] = measure(bytes, SIZES.get(bytes, 50), ours, gloo)
        if dist.get_rank() == 0:
            row = rows[bytes]
            print(f"{bytes:>9} B   run {row['schedule.run']:>9.2f}   lsched {row['lsched']:>9.2f}   gloo "
                  f"{row['gloo']:>10.1f}   gloo / lsched {row['gloo'] / row['lsched']:>6.1f}", flush=True)
    if options.json and dist.get_rank() == 0:
        with open(options.json, "w") as file:
            json.dump({"ranks": dist.get_world_size(), "us": rows}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
