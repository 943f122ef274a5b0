"""The program of each rank of test_cuda.py: collectives, DDP and FSDP2 on a GPU, against expected results and Gloo.

    lsched run -n 2 python cuda_program.py DEVICE [NAME...]

DEVICE is "cuda" or "cpu". With "cpu" the checks use tensors on the CPU, so that the program itself is tested without a
GPU. Rank r uses device r modulo the number of devices. Functions whose names begin with check_ are the checks.
Functions whose names begin with time_ print the times of the backend and of Gloo.
"""

import contextlib
import copy
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist
from backend_program import FLOATS, INTEGERS, LIMIT, given
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import libsched.torch

IS_CUDA = __name__ == "__main__" and sys.argv[1] == "cuda"


class Ranks:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.gloo = dist.new_group(backend="gloo", timeout=LIMIT)
        self.device = torch.device("cpu")
        if IS_CUDA:
            self.device = torch.device("cuda", self.rank % torch.cuda.device_count())
            torch.cuda.set_device(self.device)

    def mine(self, count, dtype, rank=None):
        return given(self.rank if rank is None else rank, count, dtype).to(self.device)

    def all(self, count, dtype):
        return [self.mine(count, dtype, rank) for rank in range(self.size)]

    def stream(self):
        return torch.cuda.Stream(self.device) if IS_CUDA else None


def within(stream):
    return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)


def settled():
    if IS_CUDA:
        torch.cuda.synchronize()


# --- collectives ---------------------------------------------------------------------------------------------------


def check_reductions_of_every_dtype(ranks):
    ops = {"SUM": sum, "PRODUCT": lambda all: torch.stack(all).prod(0), "MIN": lambda all: torch.stack(all).amin(0),
           "MAX": lambda all: torch.stack(all).amax(0)}
    for count in (0, 1, 37, 100_000):
        for dtype in INTEGERS + FLOATS + (torch.bool,):
            for name, how in ops.items():
                if name == "PRODUCT" and dtype == torch.bool:
                    continue
                mine = ranks.mine(count, dtype)
                dist.all_reduce(mine, getattr(dist.ReduceOp, name))
                wanted = how([each.cpu() for each in ranks.all(count, dtype)]).to(dtype)
                assert torch.equal(mine.cpu(), wanted), (name, dtype, count)


def check_means_factors_bits_and_complex_numbers(ranks):
    for dtype in FLOATS:
        mine = ranks.mine(37, dtype)
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        wanted = (sum(each.double() for each in ranks.all(37, dtype)) / ranks.size).to(dtype)
        assert torch.equal(mine, wanted), dtype
    mine = ranks.mine(9, torch.float32)
    dist.all_reduce(mine, dist._make_nccl_premul_sum(0.5))
    assert torch.equal(mine, sum(ranks.all(9, torch.float32)) * 0.5)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        ours, theirs = ranks.mine(20, torch.int32), ranks.mine(20, torch.int32).cpu()
        dist.all_reduce(ours, op)
        dist.all_reduce(theirs, op, group=ranks.gloo)
        assert torch.equal(ours.cpu(), theirs)
    number = torch.full((4,), 1 + 2j, dtype=torch.complex64, device=ranks.device)
    dist.all_reduce(number)
    assert torch.equal(number, torch.full_like(number, (1 + 2j) * ranks.size))


def check_moves(ranks):
    r, size, root = ranks.rank, ranks.size, ranks.size - 1
    for dtype in (torch.uint8, torch.int16, torch.float32, torch.bool, torch.complex64, torch.bfloat16):
        for count in (1, 13, 50_000):
            mine, all = ranks.mine(count, dtype), ranks.all(count, dtype)
            got = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(got, mine)
            assert all_equal(got, all), (dtype, count)
            flat = torch.empty(size * count, dtype=dtype, device=ranks.device)
            dist.all_gather_into_tensor(flat, mine)
            assert torch.equal(flat, torch.cat(all))
            copied = mine.clone()
            dist.broadcast(copied, root)
            assert torch.equal(copied, all[root])
            got = [torch.empty_like(mine) for _ in range(size)] if r == root else None
            dist.gather(mine, got, root)
            assert r != root or all_equal(got, all)
            part = torch.empty_like(mine)
            dist.scatter(part, all if r == root else None, root)
            assert torch.equal(part, all[r])
            sent = torch.cat([each + r if dtype != torch.bool else each for each in all])
            back = torch.empty_like(sent)
            dist.all_to_all_single(back, sent)
            parts = [torch.empty_like(mine) for _ in range(size)]
            dist.all_to_all(parts, list(sent.chunk(size)))
            assert torch.equal(back, torch.cat(parts))
            wanted = [mine + rank if dtype != torch.bool else mine for rank in range(size)]
            assert all_equal(parts, wanted), (dtype, count)


def check_shares_of_sums(ranks):
    r, size = ranks.rank, ranks.size
    rows = torch.cat(ranks.all(50, torch.float32)) * (r + 1)
    total = torch.cat(ranks.all(50, torch.float32)) * (size * (size + 1) // 2)
    part = torch.empty(50, device=ranks.device)
    dist.reduce_scatter_tensor(part, rows)
    assert torch.equal(part, total[50 * r:50 * r + 50])
    dist.reduce_scatter(part.zero_(), list(rows.chunk(size)))
    assert torch.equal(part, total[50 * r:50 * r + 50])
    uneven = torch.empty(r + 1, device=ranks.device)
    dist.reduce_scatter(uneven, [torch.full((rank + 1,), 2.0, device=ranks.device) for rank in range(size)])
    assert torch.equal(uneven, torch.full_like(uneven, 2.0 * size))
    mine = ranks.mine(30, torch.float32)
    dist.reduce(mine, 0)
    assert torch.equal(mine, sum(ranks.all(30, torch.float32)) if r == 0 else ranks.mine(30, torch.float32))


def check_what_is_not_contiguous(ranks):
    mine = torch.arange(12.0, device=ranks.device).view(3, 4).t() + ranks.rank
    wanted = sum(torch.arange(12.0, device=ranks.device).view(3, 4).t() + r for r in range(ranks.size))
    dist.all_reduce(mine)
    assert torch.equal(mine, wanted) and not mine.is_contiguous()
    wide = torch.zeros(2 * 6, device=ranks.device)[::2]
    dist.all_gather_into_tensor(target := torch.zeros(6 * ranks.size, 2, device=ranks.device)[:, 0], wide + ranks.rank)
    assert torch.equal(target, torch.arange(ranks.size, device=ranks.device).repeat_interleave(6).float())


def check_objects_and_barriers(ranks):
    all = [None] * ranks.size
    dist.all_gather_object(all, {"rank": ranks.rank})
    assert all == [{"rank": rank} for rank in range(ranks.size)]
    dist.barrier()


def all_equal(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


# --- streams -------------------------------------------------------------------------------------------------------


def check_works_are_behind_what_was_put_into_a_stream_and_before_what_follows(ranks):
    first, second = ranks.stream(), ranks.stream()
    x = torch.zeros(1_000_000, device=ranks.device)
    settled()
    for i in range(50):
        with within(first):
            for _ in range(20):
                x.add_(1)
            work = dist.all_reduce(x, async_op=True)
        with within(second):
            work.wait()
            seen = x.clone()
            x.zero_()
        if first is not None:
            first.wait_stream(second)
        if i % 10 == 9:
            settled()
            assert torch.equal(seen, torch.full_like(seen, 20.0 * ranks.size)), (i, seen[:3])


def check_several_are_under_way_and_are_waited_for_in_any_order(ranks):
    tensors = [torch.full((1000 + i,), float(ranks.rank + i), device=ranks.device) for i in range(20)]
    works = [dist.all_reduce(each, async_op=True) for each in tensors]
    for work in reversed(works):
        work.wait()
    for i, each in enumerate(tensors):
        assert torch.equal(each, torch.full_like(each, float(sum(r + i for r in range(ranks.size)))))
    settled()
    assert all(work.is_completed() and work.is_success() for work in works)


def check_futures(ranks):
    x = ranks.mine(1000, torch.float32)
    future = dist.all_reduce(x, async_op=True).get_future().then(lambda ended: ended.value()[0] * 2)
    assert torch.equal(future.wait(), 2 * sum(ranks.all(1000, torch.float32)))


def check_the_host_does_not_wait(ranks):
    if not IS_CUDA:
        return
    x = torch.ones(1000, device=ranks.device)
    dist.all_reduce(x)
    settled()
    torch.cuda._sleep(2_000_000_000)  # about a second
    begin = time.monotonic()
    dist.all_reduce(x)
    took = time.monotonic() - begin
    settled()
    until_its_end = time.monotonic() - begin
    print(f"a call behind a kernel of {until_its_end:.2f} s took {1e6 * took:.0f} us", flush=True)
    assert took < until_its_end / 2, (took, until_its_end)
    assert torch.equal(x, torch.full_like(x, float(ranks.size**2)))


def check_memory_that_is_freed_at_once(ranks):
    for i in range(200):
        dist.all_reduce(torch.full((10_000,), float(i), device=ranks.device), async_op=True)
        # This tensor would overwrite a tensor that was freed too early.
        other = torch.full((10_000,), -1.0, device=ranks.device)
        assert i % 20 or torch.equal(other, torch.full_like(other, -1.0))


def check_what_is_refused(ranks):
    if not IS_CUDA:
        return
    x = torch.ones(2 * ranks.size, device=ranks.device)
    model = nn.Linear(2, 2, device=ranks.device)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    for call in (lambda: dist.isend(x, 0), lambda: dist.irecv(x, 0), lambda: dist.all_reduce(x.to_sparse()),
                 lambda: dist.all_gather_into_tensor(torch.ones(2 * ranks.size**2), x),
                 lambda: libsched.torch.PartialOptimizer(optimizer, model.named_parameters()),
                 lambda: libsched.torch.AdasumOptimizer(optimizer, model.named_parameters())):
        try:
            call()
        except (RuntimeError, ValueError):
            continue
        raise AssertionError("it went well")


# --- training ------------------------------------------------------------------------------------------------------


def network(ranks, width=64):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 4 * width), nn.ReLU(),
                         nn.Linear(4 * width, 8)).to(ranks.device)


def trained(ranks, model, steps=8, width=64):
    """Trains the model. Returns the weights on the CPU."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        torch.manual_seed(100 * step + ranks.rank)
        x = torch.randn(16, width).to(ranks.device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [getattr(each, "full_tensor", lambda: each)().detach().cpu() for each in model.parameters()]


def check_ddp_is_that_of_gloo(ranks):
    for options in ({}, {"bucket_cap_mb": 0.05}, {"gradient_as_bucket_view": True, "static_graph": True}):
        ours = trained(ranks, DistributedDataParallel(network(ranks), **options))
        theirs = trained(ranks, DistributedDataParallel(network(ranks), process_group=ranks.gloo, **options))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def check_hooks_of_ddp(ranks):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = DistributedDataParallel(network(ranks))
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    ours = trained(ranks, model)
    theirs = trained(ranks, DistributedDataParallel(network(ranks), process_group=ranks.gloo))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0.1, atol=0.01)


def check_fsdp_is_ddp(ranks):
    from torch.distributed.fsdp import fully_shard

    model = network(ranks)
    whole = DistributedDataParallel(copy.deepcopy(model))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    for one, other in zip(trained(ranks, fully_shard(model)), trained(ranks, whole), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


# --- times ---------------------------------------------------------------------------------------------------------


def seconds_of(call, times):
    for _ in range(3):
        call()
    settled()
    begin = time.monotonic()
    for _ in range(times):
        call()
    settled()
    return (time.monotonic() - begin) / times


def time_allreduce(ranks):
    for count in (2, 1 << 10, 1 << 14, 1 << 18, 1 << 22):
        x = torch.ones(count, device=ranks.device)
        took = {name: 1e6 * seconds_of(lambda: (dist.all_reduce(x.fill_(1), group=group)), 30)
                for name, group in (("lsched", None), ("Gloo", ranks.gloo))}
        if ranks.rank == 0:
            print(f"all_reduce of {4 * count} B on {ranks.device.type}: " +
                  ", ".join(f"{name} {each:.0f} us" for name, each in took.items()), flush=True)


def time_ddp(ranks):
    for width in (64, 512):
        took = {}
        for name, group in (("lsched", None), ("Gloo", ranks.gloo), ("lsched again", None), ("Gloo again", ranks.gloo)):
            model = DistributedDataParallel(network(ranks, width), process_group=group)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            x = torch.randn(64, width, device=ranks.device)

            def step():
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()

            took[name] = 1e3 * seconds_of(step, 20)
        if ranks.rank == 0:
            count = sum(each.numel() for each in model.parameters())
            print(f"a step of {count} parameters on {ranks.device.type}: " +
                  ", ".join(f"{name} {each:.2f} ms" for name, each in took.items()), flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("lsched", timeout=LIMIT)
    ranks = Ranks()
    for name, check in list(globals().items()):
        is_wanted = name in sys.argv[2:] if sys.argv[2:] else IS_CUDA or name.startswith("check_")
        if not name.startswith(("check_", "time_")) or not is_wanted:
            continue
        try:
            check(ranks)
            settled()
            dist.barrier(group=ranks.gloo)
        except BaseException:
            print(f"rank {ranks.rank} of {ranks.size} failed in {name}", flush=True)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    dist.destroy_process_group()
    print(f"all is right on rank {ranks.rank}\n", end="", flush=True)


if __name__ == "__main__":
    main()
