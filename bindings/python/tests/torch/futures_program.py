"""The program of each rank that tests futures of works and their callbacks. Needs at least two ranks.

    lsched run -n 3 python futures_program.py [NAME...]

Functions whose names begin with check_ are the checks. A rank that fails ends at once, and the other ranks notice that.
"""

import pickle

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks_of_torch
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as quantizing
from torch.nn.parallel import DistributedDataParallel

from backend_program import Ranks, main


def check_a_callback_waits_for_another_work(ranks):
    """The callback waits for a second work, as in the hook of PowerSGD."""

    def second(first):
        (sums,) = first.value()
        return dist.all_reduce(sums, async_op=True).get_future().wait()[0]

    for _ in range(50):
        x = torch.ones(1000)
        future = dist.all_reduce(x, async_op=True).get_future().then(second)
        assert (future.wait() == ranks.size ** 2).all()


def check_a_callback_waits_for_a_work_that_was_begun_before(ranks):
    for _ in range(50):
        x, y = torch.ones(10), torch.ones(10)
        works = [dist.all_reduce(each, async_op=True) for each in (x, y)]
        futures = [work.get_future() for work in works]
        told = futures[0].then(lambda _, other=futures[1]: other.wait())
        assert (told.wait()[0] == ranks.size).all() and (y == ranks.size).all()


def check_futures_are_completed_in_the_order_in_which_works_end(ranks):
    """The future that is requested first belongs to the work that ends last."""
    for _ in range(20):
        x = torch.ones(5)
        if ranks.rank == 0:
            come = torch.zeros(1)
            late = dist.irecv(come, 1).get_future()
            assert (dist.all_reduce(x, async_op=True).get_future().wait()[0] == ranks.size).all()
            dist.send(torch.zeros(1), 1)
            late.wait()
            assert come[0] == 7
        else:
            dist.all_reduce(x)
        if ranks.rank == 1:
            dist.recv(torch.zeros(1), 0)
            dist.send(torch.full((1,), 7.0), 0)


def check_a_future_and_a_wait_of_one_message(ranks):
    for _ in range(200):
        x = torch.full((5,), float(ranks.rank))
        if ranks.rank == 0:
            work = dist.irecv(x, 1)
            future = work.get_future()
            work.wait()
            assert (future.wait()[0] == 1).all()
        elif ranks.rank == 1:
            dist.send(x, 0)


def trained(ranks, register, group=None):
    """Returns the weights after some steps. These weights must be the same on all ranks."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 1))
    model = DistributedDataParallel(net, process_group=group)
    register(model)
    best = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        best.zero_grad()
        model(torch.randn(8, 64) + ranks.rank).square().mean().backward()
        best.step()
    mine = torch.cat([each.detach().flatten() for each in model.parameters()])
    other = mine.clone()
    dist.broadcast(other, 0)
    assert torch.equal(mine, other)
    return mine


def check_the_hooks_of_torch(ranks):
    plain = trained(ranks, lambda model: None, ranks.gloo)
    hooks = {
        hooks_of_torch.allreduce_hook: 1e-6, hooks_of_torch.fp16_compress_hook: 1e-4,
        quantizing.quantization_pertensor_hook: 1e-2, quantizing.quantization_perchannel_hook: 1e-2,
    }
    for hook, error in hooks.items():
        mine = trained(ranks, lambda model, hook=hook: model.register_comm_hook(dist.group.WORLD, hook))
        assert (mine - plain).abs().max() < error, hook
    mine = trained(ranks, lambda model: model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE))
    assert (mine - plain).abs().max() < 1e-6


def check_the_hooks_of_torch_that_fail(ranks):
    """The built-in hook works only with Gloo. It needs a C++ list, which a future made in Python does not contain.

    In the other hook, torch 2.13 itself passes a matrix in place of a batch of matrices, under any backend.
    """
    state = power.PowerSGDState(None, 1, start_powerSGD_iter=2)
    fails = {
        "TensorList": (RuntimeError, lambda it: it._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)),
        "": (AssertionError, lambda it: it.register_comm_hook(state, power.batched_powerSGD_hook)),
    }
    for text, (kind, register) in fails.items():
        try:
            trained(ranks, register)
        except kind as error:
            assert text in str(error)
        else:
            raise AssertionError(f"works now, which the reference should state: {text}")


def check_a_future_of_all_gather_has_one_tensor_of_all_ranks(ranks):
    for shape in ((), (0,), (3,), (2, 3)):
        all = [torch.zeros(shape) for _ in range(ranks.size)]
        work = dist.all_gather(all, torch.full(shape, float(ranks.rank)), async_op=True)
        (value,) = work.get_future().wait()
        assert torch.equal(value, torch.stack(all)) and torch.equal(all[1], torch.ones(shape))
    # Tensors of several lengths: the future holds the tensors themselves.
    all = [torch.zeros(each) for each in range(ranks.size)]
    value = dist.all_gather(all, torch.ones(ranks.rank), async_op=True).get_future().wait()
    assert [each.numel() for each in value] == list(range(ranks.size)) and (value[-1] == 1).all()


def check_the_hook_of_power_sgd(ranks):
    """Uses one bucket.

    With several buckets the hook orders its collectives differently on each rank, under any backend.
    """
    state = power.PowerSGDState(None, 1, start_powerSGD_iter=2)
    trained(ranks, lambda model: model.register_comm_hook(state, power.powerSGD_hook))
    again = pickle.loads(pickle.dumps(state))
    trained(ranks, lambda model: model.register_comm_hook(again, power.powerSGD_hook))


if __name__ == "__main__":
    main(globals(), Ranks)
