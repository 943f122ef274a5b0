"""The program of each rank of test_refusals.py: each collective call with each invalid argument, on one rank.

    lsched run -n 3 python refusals_program.py [NAME...]

All ranks raise an error, and the next call gives the right result.
"""

import faulthandler
import functools
import os
import sys
import traceback
from datetime import timedelta

import above  # noqa: F401
import torch
import torch.distributed as dist
from waiting import be_late

import libsched.torch
from libsched.torch._calls import Calls
from libsched.torch._group import Group

LIMIT = 60


def ones(*shape, dtype=torch.float32):
    return torch.ones(*shape, dtype=dtype)


def several(count=2, dtype=torch.float32):
    return [torch.ones(count, dtype=dtype) for _ in range(dist.get_world_size())]



def same_tensor():
    return [ones(2)] * dist.get_world_size()


def mixed():
    return [ones(2)] * (dist.get_world_size() - 1) + [ones(2, dtype=torch.int32)]


def freed(*shape):
    """Returns a tensor whose storage was freed, as FSDP does."""
    tensor = torch.ones(*shape)
    tensor.untyped_storage().resize_(0)
    return tensor


def last_is(tensor):
    return [*several()[1:], tensor]


def same_memory():
    """Returns a list in which two tensors have the same elements in two shapes."""
    first = ones(2)
    return [first, first.view(2, 1), *several()[2:]]


def partly_same_memory():
    whole = ones(2 + dist.get_world_size())
    return [whole[i:i + 2] for i in range(dist.get_world_size())]


def expanded(count):
    """Returns a tensor whose elements share memory."""
    return ones(1).expand(count)


class Meta:
    """A tensor on a device that the library does not know."""

    def __new__(cls, *shape):
        return torch.ones(*shape, device="meta")


def sparse_integers():
    return torch.sparse_coo_tensor([[0]], torch.ones(1, dtype=torch.int64), (4,))


def summed(tensor):
    """Sums the tensor within a transform of torch. Tensors have no memory there."""
    dist.all_reduce(tensor)
    return tensor.sum()


SUM, BAND, AVG, MAX = dist.ReduceOp.SUM, dist.ReduceOp.BAND, dist.ReduceOp.AVG, dist.ReduceOp.MAX

# The values are a valid call, and calls that are refused. The keys are methods of the group. `at` is the rank whose
# arguments are refused. `at` is also the root, because only the root examines lists.
CALLS = {
    "allreduce": (lambda at: dist.all_reduce(ones(4)), [
        lambda at: dist.all_reduce(ones(4), BAND), lambda at: dist.all_reduce(torch.ones(4, dtype=torch.int16)),
        lambda at: world().allreduce(ones(4, dtype=torch.complex64), MAX),
        lambda at: dist.all_reduce(torch.ones(4, dtype=torch.bool), AVG), lambda at: dist.all_reduce(Meta(4)),
        lambda at: dist.all_reduce(sparse_integers()), lambda at: world().allreduce(["x"]),
        lambda at: world().allreduce([ones(4)], "plus"), lambda at: world().allreduce([]),
        lambda at: world().allreduce([ones(4)], timeout="x", op=3), lambda at: dist.all_reduce(ones(4).to_mkldnn()),
        lambda at: torch.func.vmap(summed)(ones(2, 4)), lambda at: torch.func.grad(summed)(ones(4)),
        lambda at: dist.all_reduce(freed(4)), lambda at: dist.all_reduce(expanded(4))]),
    "allreduce_coalesced": (lambda at: world().allreduce_coalesced([ones(4), ones(3)]), [
        lambda at: world().allreduce_coalesced([ones(4), Meta(3)]), lambda at: world().allreduce_coalesced(3)]),
    "reduce": (lambda at: dist.reduce(ones(4), at), [
        lambda at: dist.reduce(ones(4), at, BAND), lambda at: dist.reduce(Meta(4), at),
        lambda at: world().reduce([ones(4)], "x"), lambda at: world().reduce(ones(4), 99),
        lambda at: dist.reduce(freed(4), at), lambda at: dist.reduce(expanded(4), at)]),
    "broadcast": (lambda at: dist.broadcast(ones(4), at), [
        lambda at: dist.broadcast(Meta(4), at), lambda at: world().broadcast(ones(4), 99),
        lambda at: world().broadcast([ones(4), ones(4)]), lambda at: dist.broadcast(freed(4), at),
        lambda at: dist.broadcast(expanded(4), (at + 1) % dist.get_world_size())]),
    "allgather": (lambda at: dist.all_gather(several(), ones(2)), [
        lambda at: dist.all_gather(several()[1:], ones(2)), lambda at: dist.all_gather(several(3), ones(2)),
        lambda at: dist.all_gather(same_tensor(), ones(2)), lambda at: dist.all_gather(several(), Meta(2)),
        lambda at: world().allgather([several(dtype=torch.int32)], [ones(2)]),
        lambda at: world().allgather([mixed()], [ones(2)]), lambda at: dist.all_gather(several(), freed(2)),
        lambda at: dist.all_gather(last_is(freed(2)), ones(2)),
        lambda at: dist.all_gather(last_is(expanded(2)), ones(2)),
        lambda at: dist.all_gather(same_memory(), ones(2)),
        lambda at: dist.all_gather(partly_same_memory(), ones(2))]),
    "all_gather_single": (lambda at: dist.all_gather_into_tensor(ones(2 * dist.get_world_size()), ones(2)), [
        lambda at: dist.all_gather_into_tensor(ones(5), ones(2)),
        lambda at: dist.all_gather_into_tensor(ones(2 * dist.get_world_size(), dtype=torch.int32), ones(2)),
        lambda at: dist.all_gather_into_tensor(Meta(2 * dist.get_world_size()), ones(2)),
        lambda at: dist.all_gather_into_tensor(freed(2 * dist.get_world_size()), ones(2)),
        lambda at: dist.all_gather_into_tensor(expanded(2 * dist.get_world_size()), ones(2))]),
    "allgather_coalesced": (lambda at: world().allgather_coalesced([[each] for each in several()], [ones(2)]), [
        lambda at: world().allgather_coalesced([[each] for each in several(3)], [ones(2)]),
        lambda at: world().allgather_coalesced(None, [ones(2)])]),
    "all_gather_single_coalesced": (
        lambda at: world().all_gather_single_coalesced([ones(2 * dist.get_world_size())], [ones(2)]), [
            lambda at: world().all_gather_single_coalesced([ones(5)], [ones(2)]),
            lambda at: world().all_gather_single_coalesced([], [ones(2)])]),
    "gather": (lambda at: dist.gather(ones(2), several() if dist.get_rank() == at else None, at), [
        lambda at: dist.gather(ones(2), several(3), at), lambda at: dist.gather(ones(2), several()[1:], at),
        lambda at: dist.gather(ones(2), same_tensor(), at), lambda at: world().gather([several()], [ones(2)], "x"),
        lambda at: dist.gather(Meta(2), several(), at), lambda at: dist.gather(freed(2), several(), at),
        lambda at: dist.gather(ones(2), last_is(freed(2)), at),
        lambda at: dist.gather(ones(2), partly_same_memory(), at)]),
    "scatter": (lambda at: dist.scatter(ones(2), several() if dist.get_rank() == at else None, at), [
        lambda at: dist.scatter(ones(2), several(3), at), lambda at: dist.scatter(ones(2), several()[1:], at),
        lambda at: world().scatter([ones(2)], [several(dtype=torch.int32)], scatter_options(at)),
        lambda at: dist.scatter(Meta(2), several(), at), lambda at: dist.scatter(freed(2), several(), at),
        lambda at: dist.scatter(ones(2), last_is(freed(2)), at),
        lambda at: dist.scatter(expanded(2), several(), at)]),
    "reduce_scatter": (lambda at: dist.reduce_scatter(ones(2), several()), [
        lambda at: dist.reduce_scatter(ones(3), several()), lambda at: dist.reduce_scatter(ones(2), several()[1:]),
        lambda at: dist.reduce_scatter(ones(2), several(), BAND),
        lambda at: dist.reduce_scatter(ones(2), last_is(freed(2))),
        lambda at: dist.reduce_scatter(expanded(2), several()),
        lambda at: world().reduce_scatter([ones(2)], [several(dtype=torch.float64)])]),
    "reduce_scatter_single": (lambda at: dist.reduce_scatter_tensor(ones(2), ones(2 * dist.get_world_size())), [
        lambda at: dist.reduce_scatter_tensor(ones(2), ones(5)),
        lambda at: dist.reduce_scatter_tensor(ones(2, dtype=torch.float64), ones(2 * dist.get_world_size())),
        lambda at: dist.reduce_scatter_tensor(ones(2), ones(2 * dist.get_world_size()), BAND)]),
    "reduce_scatter_single_coalesced": (
        lambda at: world().reduce_scatter_single_coalesced([ones(2)], [ones(2 * dist.get_world_size())]), [
            lambda at: world().reduce_scatter_single_coalesced([ones(2)], [ones(5)])]),
    "alltoall": (lambda at: dist.all_to_all(several(), several()), [
        lambda at: dist.all_to_all(several()[1:], several()), lambda at: dist.all_to_all(several(), several(3)),
        lambda at: dist.all_to_all(same_tensor(), several()),
        lambda at: dist.all_to_all(partly_same_memory(), several()),
        lambda at: dist.all_to_all(several(), last_is(freed(2))),
        lambda at: world().alltoall(several(dtype=torch.int32), several())]),
    "all_to_all_single": (lambda at: dist.all_to_all_single(ones(2 * dist.get_world_size()),
                                                            ones(2 * dist.get_world_size())), [
        lambda at: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(1.0)),
        lambda at: dist.all_to_all_single(ones(5), ones(2 * dist.get_world_size())),
        lambda at: dist.all_to_all_single(ones(6), ones(6), [1, 2], [3, 3]),
        lambda at: dist.all_to_all_single(freed(2 * dist.get_world_size()), ones(2 * dist.get_world_size())),
        lambda at: dist.all_to_all_single(ones(3), ones(3), [4, -1, *[0] * (dist.get_world_size() - 2)],
                                          [3, *[0] * (dist.get_world_size() - 1)]),
        lambda at: world().all_to_all_single(ones(2 * dist.get_world_size(), dtype=torch.int32),
                                             ones(2 * dist.get_world_size()), [], [])]),
    "barrier": (lambda at: dist.barrier(), [lambda at: world().barrier(3)]),
    "monitored_barrier": (lambda at: libsched.torch.monitored_barrier(),
                          [lambda at: world().monitored_barrier("x")]),
}


RANKS = dist.get_world_size


def gathered_to(at, dtype):
    dist.gather(ones(2, dtype=dtype), several(dtype=dtype) if dist.get_rank() == at else None, at)


def scattered_from(at, dtype):
    dist.scatter(ones(2, dtype=dtype), several(dtype=dtype) if dist.get_rank() == at else None, at)


# Calls with the same number of bytes on all ranks. The dtype differs between ranks.
OF_A_DTYPE = {
    "allreduce": lambda at, dtype: dist.all_reduce(ones(4, dtype=dtype)),
    "reduce": lambda at, dtype: dist.reduce(ones(4, dtype=dtype), at),
    "broadcast": lambda at, dtype: dist.broadcast(ones(4, dtype=dtype), at),
    "allgather": lambda at, dtype: dist.all_gather(several(dtype=dtype), ones(2, dtype=dtype)),
    "all_gather_single": lambda at, dtype: dist.all_gather_into_tensor(ones(2 * RANKS(), dtype=dtype),
                                                                       ones(2, dtype=dtype)),
    "gather": gathered_to,
    "scatter": scattered_from,
    "reduce_scatter": lambda at, dtype: dist.reduce_scatter(ones(2, dtype=dtype), several(dtype=dtype)),
    "alltoall": lambda at, dtype: dist.all_to_all(several(dtype=dtype), several(dtype=dtype)),
    "all_to_all_single": lambda at, dtype: dist.all_to_all_single(ones(RANKS(), dtype=dtype),
                                                                  ones(RANKS(), dtype=dtype)),
}
# The library has no dtypes for bool and complex.
PAIRS_OF_DTYPES = [(torch.float32, torch.int32), (torch.uint8, torch.bool), (torch.int64, torch.complex64),
                   (torch.complex64, torch.int64)]

# In these calls, a rank that is not the root may finish without an error before the root calls.
ROOTED = {"reduce", "broadcast", "gather", "scatter"}

# The ranks make these calls once more at different times.
TIMED = {"allreduce", "allreduce_coalesced", "broadcast", "all_to_all_single"}
DELAY = 0.3  # seconds; a waiting round looks for messages twice in this time


def scatter_options(root):
    options = dist.distributed_c10d.ScatterOptions()
    options.rootRank = root
    options.asyncOp = False
    return options


def world():
    return dist.group.WORLD


def expect_right_sums(number):
    """Checks sums with a kind of schedule that all earlier calls have used, and with a kind that is new in some
    calls."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (4, 5 + number % 3):
        mine = torch.full((count,), float(rank + number))
        dist.all_reduce(mine)
        assert torch.equal(mine, torch.full((count,), float(size * (size - 1) // 2 + size * number))), mine


class SlowRefusal:
    """Delays this rank between the messages and the commit of a refusal, as if the rank lost its core."""

    def __enter__(self):
        self.tell_all = Calls._tell_all

        def slowly(calls):
            self.tell_all(calls)
            be_late(DELAY)

        Calls._tell_all = slowly

    def __exit__(self, *_):
        Calls._tell_all = self.tell_all


def refused(name, number, good, bad, is_known, late_rank=None):
    """Makes a call that one rank refuses.

    If `is_known`, earlier calls have created the schedules that the call uses. `late_rank` makes the call late.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    at = number % size
    for _ in range(5 if is_known else 0):
        good(at)
    if rank == late_rank:
        be_late(DELAY)
    try:
        answer = (bad if rank == at else good)(at)
        if answer is not None and answer is not False:
            answer.wait()
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        told = error
    else:
        raise AssertionError(f"{name}, case {number}: nothing was refused")
    if rank != at:
        cause = told if isinstance(told, libsched.Error) else told.__cause__
        assert isinstance(cause, libsched.Error) and cause.status != "LSCHED_ERR_TIMEOUT", (name, number, told)
        assert cause.rank == at, (name, number, told)
    expect_right_sums(number)
    answer = good(at)
    if answer is not None and answer is not False:
        answer.wait()


def main(names):
    dist.init_process_group("lsched", timeout=timedelta(seconds=LIMIT))
    public = {name for name in vars(Group) if getattr(getattr(Group, name), "_is_collective", False)}
    aliases = {"_allgather_base", "_reduce_scatter_base", "alltoall_base", "allgather_into_tensor_coalesced",
               "reduce_scatter_tensor_coalesced"}
    private = {"_other_allreduce"}  # used by allreduce only
    assert public - aliases - private == set(CALLS) - {"allreduce"}, public ^ set(CALLS)
    for name in names or CALLS:
        good, cases = CALLS[name]
        for number, bad in enumerate(cases):
            for is_known in (False,) if name in ROOTED else (False, True):
                refused(name, number, good, bad, is_known)
        for number, dtypes in enumerate(PAIRS_OF_DTYPES if name in OF_A_DTYPE else ()):
            good, bad = (functools.partial(OF_A_DTYPE[name], dtype=each) for each in dtypes)
            refused(name, number, good, bad, is_known=False)
        good, cases = CALLS[name]
        for is_known in (False, True) if name in TIMED else ():
            if name not in ROOTED or not is_known:
                refused(name, 0, good, cases[0], is_known, late_rank=dist.get_world_size() - 1)
                with SlowRefusal():
                    refused(name, 0, good, cases[0], is_known)
    dist.destroy_process_group()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(int(os.environ.get("REFUSALS_LIMIT", "200")), exit=True)
    try:
        main(sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
