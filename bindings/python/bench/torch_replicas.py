"""Times replica groups with a slow shard: PartialOptimizer between groups of FSDP2, and synchronous HSDP.

    lsched run -n 4 python torch_replicas.py [--json FILE]

Two groups of two shards train an MLP with FSDP2. One shard of group 1 computes `--slow` times as long as the others. In
synchronous HSDP, FSDP2 reduces the gradients inside the groups and between the groups, so each step waits for the slow
shard. With replica groups, FSDP2 works inside a group, and a partial allreduce with quorum(1) between the groups.
Prints the time of a step of group 0 with both, and PASS if the ratio is at most 0.6. Then the weights of both groups
must be equal.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import libsched.torch as lst

TARGET = 0.6


def model(mesh) -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(made, mesh=mesh)


class Training:
    """Steps of one model. The time of computing is a sleep, so that it does not depend on the number of cores."""

    def __init__(self, mesh, compute: float, make) -> None:
        self.model = model(mesh)
        self.optimizer = make(self.model)
        self.compute = compute
        torch.manual_seed(dist.get_rank())
        self.x, self.y = torch.randn(32, 64), torch.randint(10, (32,))

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        time.sleep(self.compute)
        loss.backward()
        self.optimizer.step()


def timed(training: Training, steps: int) -> list[float]:
    """Returns the milliseconds of each step."""
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        training.step()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", help="file for the results, as JSON")
    arguments.add_argument("--steps", type=int, default=40, help="steps of group 0 (default: %(default)s)")
    arguments.add_argument("--compute", type=float, default=0.02, help="seconds of a step (default: %(default)s)")
    arguments.add_argument("--slow", type=float, default=4, help="factor of the slow shard (default: %(default)s)")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("lsched")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    compute = options.compute * (options.slow if rank == 3 else 1)
    sgd = lambda of: torch.optim.SGD(of.parameters(), lr=0.05)  # noqa: E731

    hsdp = Training(mesh, compute, sgd)
    timed(hsdp, 2)
    synchronous = statistics.median(timed(hsdp, options.steps // 2))

    groups = Training(mesh["shard"], compute, lambda of: lst.PartialOptimizer(
        sgd(of), of.named_parameters(), replicas=mesh, activation="quorum(1)"))
    # Group 1 makes fewer steps in the same time.
    steps = options.steps if rank < 2 else max(2, int(options.steps / options.slow))
    timed(groups, 1)
    times = timed(groups, steps)
    opt = groups.optimizer
    opt.flush()
    weights = torch.cat([each.full_tensor().flatten() for each in groups.model.parameters()])
    every = [torch.empty_like(weights) for _ in range(4)]
    dist.all_gather(every, weights)
    apart = max(float((each - every[0]).abs().max()) for each in every)
    opt.average_parameters()
    weights = torch.cat([each.full_tensor().flatten() for each in groups.model.parameters()])
    dist.all_gather(every, weights)
    is_equal = all(torch.equal(each, every[0]) for each in every)
    rounds = opt.round
    opt.close()
    if rank == 0:
        ratio = statistics.median(times) / synchronous
        has_passed = ratio <= TARGET and is_equal and apart < 1e-5
        print(f"step of group 0: {statistics.median(times):.1f} ms with replica groups, {synchronous:.1f} ms with "
              f"synchronous HSDP; ratio {ratio:.2f}, target {TARGET}; {rounds} rounds; weights of the groups differ by "
              f"{apart:.1e} after the flush, equal bits after the average: {is_equal}; "
              f"{'PASS' if has_passed else 'FAIL'}")
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"groups_ms": times, "hsdp_ms": synchronous, "ratio": ratio, "apart": apart,
                           "pass": has_passed}, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
