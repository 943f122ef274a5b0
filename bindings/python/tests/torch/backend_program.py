"""The program of each rank that compares every collective of the backend with Gloo and with expected results.

    lsched run -n 3 python backend_program.py [NAME...]

Functions whose names begin with check_ are the checks. A rank that fails ends at once, and the other ranks notice that.
"""

import faulthandler
import os
import sys
import tempfile
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import libsched
import libsched.torch
from libsched.torch._parameters import Parameters

INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LIMIT = timedelta(seconds=60)


def given(rank, count, dtype, factor=3):
    """Returns small integers that depend on the rank. Every dtype represents these integers exactly."""
    if dtype == torch.bool:
        return (torch.arange(count) * 7 + rank) % factor == 0
    return ((torch.arange(count) * 7 + rank * 5) % factor + 1).to(dtype)


class Ranks:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.gloo = dist.new_group(backend="gloo", timeout=LIMIT)

    def all_given(self, count, dtype, factor=3):
        return [given(r, count, dtype, factor) for r in range(self.size)]


def check_allreduce_of_every_dtype_and_op(ranks):
    ops = {"SUM": sum, "PRODUCT": lambda all: torch.stack(all).prod(0), "MIN": lambda all: torch.stack(all).amin(0),
           "MAX": lambda all: torch.stack(all).amax(0)}
    for count in (0, 1, 37):
        for dtype in INTEGERS + FLOATS + (torch.bool,):
            for name, how in ops.items():
                mine, wanted = given(ranks.rank, count, dtype), how(ranks.all_given(count, dtype)).to(dtype)
                dist.all_reduce(mine, getattr(dist.ReduceOp, name))
                assert torch.equal(mine, wanted), (name, dtype, count)


def check_bits(ranks):
    for dtype in INTEGERS + (torch.bool,):
        for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
            ours, theirs = given(ranks.rank, 20, dtype), given(ranks.rank, 20, dtype)
            dist.all_reduce(ours, op)
            dist.all_reduce(theirs, op, group=ranks.gloo)
            assert torch.equal(ours, theirs), (dtype, op)


def check_means_and_factors(ranks):
    for dtype in FLOATS:
        mine = given(ranks.rank, 37, dtype)
        wanted = (sum(each.double() for each in ranks.all_given(37, dtype)) / ranks.size).to(dtype)
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        assert torch.equal(mine, wanted), dtype
    rows = torch.cat(ranks.all_given(5, torch.float32)) + ranks.rank
    part = torch.empty(5)
    dist.reduce_scatter_tensor(part, rows, dist.ReduceOp.AVG)
    whole = sum(torch.cat(ranks.all_given(5, torch.float32)) + r for r in range(ranks.size)) / ranks.size
    assert torch.equal(part, whole[5 * ranks.rank:5 * ranks.rank + 5])
    for factor in (0.5, torch.tensor([2.0])):
        mine = given(ranks.rank, 9, torch.float32)
        dist.all_reduce(mine, dist._make_nccl_premul_sum(factor))
        assert torch.equal(mine, sum(ranks.all_given(9, torch.float32)) * float(factor))
        mine, before = given(ranks.rank, 9, torch.float32), given(ranks.rank, 9, torch.float32)
        dist.reduce(mine, 0, dist._make_nccl_premul_sum(factor))
        assert ranks.rank != 0 or torch.equal(mine, sum(ranks.all_given(9, torch.float32)) * float(factor))
        assert ranks.rank == 0 or torch.equal(mine, before)
    number = torch.full((4,), 1 + 2j, dtype=torch.complex64)
    dist.all_reduce(number)
    assert torch.equal(number, torch.full((4,), (1 + 2j) * ranks.size, dtype=torch.complex64))


def check_a_factor_of_another_dtype_keeps_the_dtype_of_the_tensor(ranks):
    """Elements that follow an output in memory must not change."""
    for dtype, factor, scale in ((torch.bfloat16, torch.tensor([0.5]), 0.5), (torch.int64, torch.tensor([2]), 2)):
        op = dist._make_nccl_premul_sum(factor)
        wanted = torch.full((3,), ranks.size * 4 * scale, dtype=dtype)
        room = torch.full((9,), 4, dtype=dtype)
        dist.reduce(room[:3], 0, op)
        assert torch.equal(room[3:], torch.full((6,), 4, dtype=dtype)), dtype
        assert torch.equal(room[:3], wanted if ranks.rank == 0 else torch.full((3,), 4, dtype=dtype)), dtype
        part, rows = torch.full((9,), 7, dtype=dtype), torch.full((3 * ranks.size,), 4, dtype=dtype)
        dist.reduce_scatter_tensor(part[:3], rows, op)
        assert torch.equal(part[:3], wanted) and torch.equal(part[3:], torch.full((6,), 7, dtype=dtype)), dtype
        dist.reduce_scatter(part[3:6], list(rows.chunk(ranks.size)), op)
        assert torch.equal(part[3:6], wanted) and torch.equal(part[6:], torch.full((3,), 7, dtype=dtype)), dtype
    numbers = torch.ones(2, dtype=torch.int32)
    for call in (lambda op: dist.all_reduce(numbers, op), lambda op: dist.reduce(numbers, 0, op),
                 lambda op: dist.reduce_scatter_tensor(numbers, numbers.repeat(ranks.size), op)):
        try:
            call(dist._make_nccl_premul_sum(0.5))
        except RuntimeError as error:
            assert "can't be cast" in str(error), error
        else:
            raise AssertionError("a fraction of integers was computed")


def check_tensors_on_the_cpu_beside_another_default_device(ranks):
    mine, sum_of_ranks = torch.full((ranks.size,), float(ranks.rank)), float(sum(range(ranks.size)))
    out, sparse, columns = torch.empty(ranks.size), mine.to_sparse(), list(torch.empty(2, 2 * ranks.size).t())
    layer = nn.Linear(2, 1)
    torch.set_default_device("meta")
    try:
        dist.group.WORLD.all_to_all_single(out, mine, [], [])
        vector = Parameters(layer.named_parameters()).vector()
        dist.all_reduce(sparse)
        dist.all_gather(columns[:ranks.size], torch.ones(2, device="cpu"))
    finally:
        torch.set_default_device(None)
    assert vector.flat.is_cpu and out.tolist() == list(range(ranks.size))
    assert (torch.stack(columns[:ranks.size]) == 1).all()
    assert (sparse.to_dense() == sum_of_ranks).all()


def check_shapes(ranks):
    mine = torch.arange(12.0).view(3, 4).t() + ranks.rank
    wanted = sum(torch.arange(12.0).view(3, 4).t() + r for r in range(ranks.size))
    dist.all_reduce(mine)
    assert torch.equal(mine, wanted)
    number = torch.tensor(float(ranks.rank))
    dist.all_reduce(number)
    assert number.item() == ranks.size * (ranks.size - 1) / 2
    half = torch.zeros(2 * 6)[::2]
    half.copy_(given(0, 6, torch.float32) if ranks.rank == 1 % ranks.size else torch.zeros(6))
    dist.broadcast(half, 1 % ranks.size)
    assert torch.equal(half, given(0, 6, torch.float32))


def check_moves_are_those_of_gloo(ranks):
    r, size = ranks.rank, ranks.size
    for dtype in INTEGERS + FLOATS + (torch.bool, torch.complex64, torch.int16):
        for count in (0, 1, 13):
            mine = given(r, count, torch.int64, 100).to(dtype)
            root = size - 1
            all = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(all, mine)
            for each, rank in zip(all, range(size)):
                assert torch.equal(each, given(rank, count, torch.int64, 100).to(dtype))
            flat = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(flat, mine)
            assert torch.equal(flat, torch.cat(all))
            copy = mine.clone()
            dist.broadcast(copy, root)
            assert torch.equal(copy, all[root])
            got = [torch.empty_like(mine) for _ in range(size)] if r == root else None
            dist.gather(mine, got, root)
            assert r != root or all_equal(got, all)
            part = torch.empty_like(mine)
            dist.scatter(part, all if r == root else None, root)
            assert torch.equal(part, all[r])
            back = torch.empty(size * count, dtype=dtype)
            dist.all_to_all_single(back, flat + 0 if dtype != torch.bool else flat.clone())
            assert torch.equal(back, torch.cat([all[r]] * size))


def all_equal(some, others):
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


def check_uneven_parts(ranks):
    r, size = ranks.rank, ranks.size
    lengths = [(3 * each) % 4 for each in range(size)]
    all = [torch.empty(each) for each in lengths]
    dist.all_gather(all, given(r, lengths[r], torch.float32))
    assert all_equal(all, [given(each, lengths[each], torch.float32) for each in range(size)])
    part = torch.empty(lengths[r])
    dist.reduce_scatter(part, [given(r + 1, each, torch.float32) for each in lengths])
    assert torch.equal(part, sum(given(each + 1, lengths[r], torch.float32) for each in range(size)))
    for shift in range(3):  # the lengths of a rank may stay while lengths of other ranks change
        sent = [(r + to + shift * to) % 3 for to in range(size)]
        received = [(of + r + shift * r) % 3 for of in range(size)]
        inputs = [given(10 * r + to, sent[to], torch.int32, 50).view(-1, 1).repeat(1, 2) for to in range(size)]
        outputs = [torch.empty(each, 2, dtype=torch.int32) for each in received]
        dist.all_to_all(outputs, inputs)
        wanted = [given(10 * of + r, received[of], torch.int32, 50).view(-1, 1).repeat(1, 2) for of in range(size)]
        assert all_equal(outputs, wanted)
        output = torch.empty(sum(received), 2, dtype=torch.int32)
        dist.all_to_all_single(output, torch.cat(inputs), received, sent)
        assert torch.equal(output, torch.cat(wanted))


def check_what_is_not_waited_for(ranks):
    works, tensors = [], []
    for i in range(11):
        tensors.append(torch.full((1000,), float(i + ranks.rank)))
        works.append(dist.all_reduce(tensors[-1], async_op=True))
    for i in (3, 0, 10, 5):
        assert works[i].wait()
    for i, (work, tensor) in enumerate(zip(works, tensors)):
        work.wait()
        assert work.is_completed() and tensor[7] == sum(i + r for r in range(ranks.size))
    futures = [dist.all_reduce(torch.ones(3), async_op=True).get_future() for _ in range(9)]
    for future in futures:
        assert torch.equal(future.wait()[0], torch.full((3,), float(ranks.size)))
    with dist._coalescing_manager(async_ops=True) as manager:
        some = [torch.ones(each) for each in (1, 4, 9)]
        for each in some:
            dist.all_reduce(each)
    manager.wait()
    assert all((each == ranks.size).all() for each in some)
    dropped = [dist.all_reduce(torch.ones(1 << 16), async_op=True) for _ in range(20)]
    del dropped
    dist.barrier()


def check_a_barrier_waits_for_collectives_that_have_begun(ranks):
    wanted = ranks.size * (ranks.size + 1) // 2
    for is_async in (False, True):
        for count in (6, 1 << 20):
            for _ in range(5):
                flat = torch.full((count,), ranks.rank + 1.0)
                columns = torch.full((2, count // 2), ranks.rank + 1.0).t()  # the columns are reduced in a copy, which
                                                                             # is copied back
                works = [dist.all_reduce(each, async_op=True) for each in (flat, columns)]
                barrier = dist.barrier(async_op=is_async)
                if is_async:
                    barrier.wait()
                assert (flat == wanted).all() and (columns == wanted).all()
                del works


def check_views_whose_memory_holds_other_values_are_refused_outside_the_backend(ranks):
    world = libsched.torch.world_of(None)
    plain = torch.ones(2, dtype=torch.complex64)
    for view in (torch.full((2,), 1j, dtype=torch.complex64).conj(), torch._neg_view(torch.ones(2))):
        for arrays in ((view,), (view, torch.ones_like(view)), (torch.ones_like(view), view)):
            try:
                world.allreduce(*arrays)
            except libsched.Error as error:
                assert error.status == "LSCHED_ERR_ARGUMENT" and "resolve_conj" in error.text, error
            else:
                raise AssertionError("was reduced")
    world.allreduce(plain).run(60)
    assert (plain == ranks.size).all()


def check_sparse_sums_of_rows_without_elements(ranks):
    rows = torch.sparse_coo_tensor([[ranks.rank]], torch.ones(1, 0), (ranks.size, 0))
    dist.all_reduce(rows)
    assert rows.to_dense().shape == (ranks.size, 0)
    mine = torch.ones(2)
    dist.all_reduce(mine)
    assert (mine == ranks.size).all()


def check_short_forms(ranks):
    group, r, size = dist.group.WORLD, ranks.rank, ranks.size
    mine = torch.ones(2)
    group.allreduce(mine).wait()
    group.allreduce([mine]).wait()
    group.allreduce(mine, dist.ReduceOp.MAX).wait()
    group.allreduce([mine], op=dist.ReduceOp.MIN).wait()
    assert (mine == size * size).all()
    group.broadcast(mine, 0).wait()
    group.reduce(mine, 0, dist.ReduceOp.MAX).wait()
    all = [torch.empty(1) for _ in range(size)]
    group.allgather(all, torch.full((1,), float(r))).wait()
    assert [int(each) for each in all] == list(range(size))
    part = torch.empty(1)
    group.reduce_scatter(part, all).wait()
    assert part == r * size
    group.scatter(part, all if r == 0 else [], 0).wait()
    assert part == r
    group.barrier().wait()
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        for each in all:
            dist.all_reduce(each)
    manager.wait()
    assert [int(each) for each in all] == [size * each for each in range(size)]


def check_messages(ranks):
    right, left = (ranks.rank + 1) % ranks.size, (ranks.rank - 1) % ranks.size
    come = torch.zeros(4, 3).t()
    work = dist.isend(torch.full((3, 4), float(ranks.rank)), right, tag=3)
    assert dist.recv(come, left, tag=3) == left
    work.wait()
    assert (come == left).all()
    big = torch.empty(300_000)
    ops = [dist.P2POp(dist.isend, torch.full((300_000,), float(ranks.rank)), right),
           dist.P2POp(dist.irecv, big, left)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (big == left).all()
    if ranks.rank == 0:
        seen = {dist.recv(torch.empty(1)) for _ in range(ranks.size - 1)}
        assert seen == set(range(1, ranks.size))
    else:
        dist.send(torch.ones(1), 0)


def check_groups(ranks):
    evens, odds = list(range(0, ranks.size, 2)), list(range(1, ranks.size, 2))
    groups = {tuple(part): dist.new_group(part) for part in (evens, odds, [0], list(reversed(evens))) if part}
    for part, group in groups.items():
        if ranks.rank in part:
            mine = torch.ones(3)
            dist.all_reduce(mine, group=group)
            assert (mine == len(part)).all()
            assert libsched.torch.world_of(group).size == len(part)
    for part, group in groups.items():
        if ranks.rank in part:
            dist.destroy_process_group(group)
    for _ in range(30):  # opens and closes many groups
        group = dist.new_group(list(range(ranks.size)))
        dist.barrier(group=group)
        dist.destroy_process_group(group)


def check_objects(ranks):
    all = [None] * ranks.size
    dist.all_gather_object(all, {"rank": ranks.rank, "words": ["x"] * ranks.rank})
    assert [each["rank"] for each in all] == list(range(ranks.size))
    some = [{"seed": 5}] if ranks.rank == 0 else [None]
    dist.broadcast_object_list(some, 0)
    assert some == [{"seed": 5}]
    got = [None]
    dist.scatter_object_list(got, [f"to {r}" for r in range(ranks.size)] if ranks.rank == 0 else None, 0)
    assert got == [f"to {ranks.rank}"]


def check_sparse_tensors(ranks):
    for dense in ((), (2,)):
        indices = torch.tensor([[ranks.rank, 0, 4], [1, 1, ranks.rank % 3]])
        mine = torch.sparse_coo_tensor(indices, torch.ones(3, *dense), (max(5, ranks.size), 3, *dense),
                                       check_invariants=True)
        wanted = mine.to_dense()
        dist.all_reduce(wanted)
        dist.all_reduce(mine)
        assert mine.is_coalesced() and torch.equal(mine.to_dense(), wanted)


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 4))


def train(wrapped, optimizer, ranks, steps=4):
    for step in range(steps):
        torch.manual_seed(100 * step + ranks.rank)
        optimizer.zero_grad()
        wrapped(torch.randn(5, 8)).square().sum().backward()
        optimizer.step()
    return [each.detach().clone() for each in wrapped.parameters()]


def check_ddp_is_that_of_gloo(ranks):
    found = []
    for group in (dist.group.WORLD, ranks.gloo):
        wrapped = nn.parallel.DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.0005)
        found.append(train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), ranks))
    for ours, theirs in zip(*found):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    wrapped = nn.parallel.DistributedDataParallel(model(), find_unused_parameters=True, static_graph=False)
    with wrapped.join():
        train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), ranks, 1 + ranks.rank)


def check_zero_and_fsdp2(ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer

    wrapped = nn.parallel.DistributedDataParallel(model())
    sharded = train(wrapped, ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.Adam, lr=0.01), ranks)
    wrapped = nn.parallel.DistributedDataParallel(model())
    whole = train(wrapped, torch.optim.Adam(wrapped.parameters(), lr=0.01), ranks)
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(sharded, whole))

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4))
    twin = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4)))
    twin.module.load_state_dict(plain.state_dict())
    fully_shard(plain, mesh=init_device_mesh("cpu", (ranks.size,)))
    for trained in (plain, twin):
        train(trained, torch.optim.SGD(trained.parameters(), lr=0.1), ranks)
    for ours, theirs in zip(plain.parameters(), twin.parameters()):
        assert torch.allclose(ours.full_tensor(), theirs, atol=1e-6)
    norm = nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    assert norm.full_tensor() > 0


def check_functional_collectives_and_dtensors(ranks):
    import torch.distributed._functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (ranks.size,))
    total = functional.all_reduce(torch.ones(5), "sum", mesh)
    assert torch.equal(functional.wait_tensor(total), torch.full((5,), float(ranks.size)))
    wide = functional.all_gather_tensor(torch.full((2,), float(ranks.rank)), 0, mesh)
    assert torch.equal(functional.wait_tensor(wide), torch.arange(ranks.size).repeat_interleave(2).float())
    part = functional.reduce_scatter_tensor(torch.ones(3 * ranks.size), "avg", 0, mesh)
    assert torch.equal(functional.wait_tensor(part), torch.ones(3))
    whole = torch.arange(7.0 * 3).view(7, 3)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(placements=[Replicate()]).to_local(), whole)
    ones = distribute_tensor(torch.ones(3, 2), mesh, [Replicate()])
    assert torch.equal((sharded @ ones).full_tensor(), whole @ torch.ones(3, 2))


def check_checkpoints(ranks):
    import torch.distributed.checkpoint as checkpoint

    folder = [tempfile.mkdtemp()] if ranks.rank == 0 else [None]
    dist.broadcast_object_list(folder, 0)
    state = {"model": model().state_dict(), "step": torch.tensor(7)}
    checkpoint.async_save(state, checkpoint_id=folder[0]).result(60)
    checkpoint.save(state, checkpoint_id=folder[0])
    other = {"model": {key: torch.zeros_like(each) for key, each in state["model"].items()}, "step": torch.tensor(0)}
    checkpoint.load(other, checkpoint_id=folder[0])
    assert other["step"] == 7 and all(torch.equal(other["model"][key], state["model"][key]) for key in other["model"])


def check_what_is_wrong_is_said(ranks):
    def refused(call, words, kind=RuntimeError):
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"not refused: {words}")

    refused(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16)), "int16")
    refused(lambda: dist.all_reduce(torch.ones(3, dtype=torch.bool), dist.ReduceOp.AVG), "bool")
    refused(lambda: dist.all_reduce(torch.ones(3, device="meta")), "meta")
    refused(lambda: dist.all_gather_into_tensor(torch.empty(3 * ranks.size + 1), torch.empty(3)), "elements")
    refused(lambda: libsched.torch.world_of(ranks.gloo), "backend", ValueError)
    libsched.torch.monitored_barrier(timeout=LIMIT)
    group = dist.new_group(timeout=timedelta(seconds=1))
    if ranks.rank != 0:
        refused(lambda: dist.barrier(group=group), "rank 0")
    dist.barrier()
    if ranks.rank == 0:
        refused(lambda: libsched.torch.monitored_barrier(dist.new_group([0], use_local_synchronization=True),
                                                         timedelta(seconds=-1)), "timeout")


def check_persistent_schedules_beside_torch(ranks):
    world = libsched.torch.world_of()
    gradient = torch.ones(100)
    with world.allreduce(gradient, divisor="ranks") as step:
        for _ in range(10):
            gradient.fill_(ranks.rank)
            step.run(timeout=60)
            assert (gradient == (ranks.size - 1) / 2).all()


def check_many_shapes(ranks):
    """Uses more kinds of calls than a group keeps schedules for. A group then closes the schedules of
    the oldest kind, which must be the same kind on all ranks."""
    for count in range(1, 600):
        mine = torch.ones(count)
        work = dist.all_reduce(mine, async_op=count % 3 == 0)
        if work is not None and count % 6 == 0:
            work.wait()
    dist.barrier()


def main(known, make):
    """Runs the checks in `known`, or only those that the command line names.

    The argument of each check is the object that `make` returns.
    """
    faulthandler.dump_traceback_later(200, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("lsched", timeout=LIMIT)
    together, its, rank = dist.new_group(backend="gloo", timeout=LIMIT), make(), dist.get_rank()
    for name in [each for each in known if each.startswith("check_")]:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            known[name](its)
            dist.barrier(group=together)
        except BaseException:
            print(f"rank {rank} of {dist.get_world_size()} failed in {name}", flush=True)
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    dist.destroy_process_group()
    print(f"rank {rank} is done", flush=True)


if __name__ == "__main__":
    main(globals(), Ranks)
