"""The program of each rank that compares wait-avoiding, adaptive and sparse training with training by one process.

    lsched run -n 3 python training_program.py [NAME...]

Functions whose names begin with check_ are the checks. A rank that fails ends at once, and the other ranks notice that.
"""

import contextlib
import copy
import itertools

import above  # noqa: F401
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.nn.parallel import DistributedDataParallel

import libsched
import libsched.torch as lst
from backend_program import main
from waiting import compute_for, wait_until

STEPS = 20


class Training:
    """A small network, and the data of all ranks. Every rank has all data."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        drawn = torch.Generator().manual_seed(1)
        self.data = [[torch.randn(4, 8, generator=drawn) for _ in range(STEPS)] for _ in range(self.size)]

    def net(self):
        torch.manual_seed(5)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def loss(self, model, i, rank=None):
        return model(self.data[self.rank if rank is None else rank][i % STEPS]).square().mean()

    def train(self, model, opt, steps=range(STEPS)):
        for i in steps:
            opt.zero_grad()
            self.loss(model, i).backward()
            opt.step()

    def by_one(self):
        """Returns the weights after one process has trained on all data."""
        model = self.net()
        opt = sgd(model)
        for i in range(STEPS):
            opt.zero_grad()
            (sum(self.loss(model, i, rank) for rank in range(self.size)) / self.size).backward()
            opt.step()
        return weights(model)

    def partial(self, model, **options):
        return self.partial_of(sgd(model), model, **options)

    def partial_of(self, inner, model, **options):
        return lst.PartialOptimizer(inner, model.named_parameters(), **options)

    def hooked(self, make, hook, **options):
        """Returns a model with several buckets, and the state of its hook."""
        model = DistributedDataParallel(self.net(), broadcast_buffers=False, bucket_cap_mb=0.0002)
        state = make(model, **options)
        model.register_comm_hook(state, hook)
        return model, state


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def weights(model):
    return torch.cat([each.detach().flatten() for each in model.parameters()])


def are_alike(model):
    """Returns true if the weights of this rank and of rank 0 have the same bits."""
    mine = weights(model)
    other = mine.clone()
    dist.broadcast(other, 0)
    return torch.equal(mine, other)


def check_a_full_partial_optimizer_is_training_by_one(its):
    for lag in ("history", "latest", "accumulate"):
        model = its.net()
        lst.broadcast_parameters(model)
        with its.partial(model, activation="full", lag=lag) as opt:
            rate = torch.optim.lr_scheduler.StepLR(opt, 1000)
            its.train(model, opt)
            rate.step()
            opt.flush()
            assert opt.round == STEPS + 1 and torch.allclose(weights(model), its.by_one(), atol=1e-6)
            assert are_alike(model)


def check_weights_make_the_mean_of_all_rows(its):
    """Rank r has r + 1 rows of each batch, and takes no part in every fifth step."""
    def rows(rank, i):
        return 0 if i % 5 == rank else min(rank + 1, 4)

    model = its.net()
    opt = sgd(model)
    for i in range(STEPS):
        opt.zero_grad()
        torch.cat([model(its.data[rank][i][:rows(rank, i)]) for rank in range(its.size)]).square().mean().backward()
        opt.step()
    by_one, mine = weights(model), 0
    model = its.net()
    with its.partial(model, activation="full", weight=lambda: mine) as opt:
        for i in range(STEPS):
            opt.zero_grad()
            mine = rows(its.rank, i)
            if mine:
                model(its.data[its.rank][i][:mine]).square().mean().backward()
            opt.step()
            assert opt.report.last_offers == sum(rows(rank, i) for rank in range(its.size))
            assert opt.report.mine == mine
        assert torch.allclose(weights(model), by_one, atol=1e-6)
        mine = 0.5
        try:
            opt.step()
        except libsched.ArgumentError as error:
            assert "weight is 0.5" in str(error), error
        else:
            raise AssertionError("a step was made")
        mine = 0
    model = its.net()
    with its.partial(model, activation="full", weight=7) as opt:
        its.train(model, opt)
        assert torch.allclose(weights(model), its.by_one(), atol=1e-6) and opt.report.last_offers == 7 * its.size
    try:
        its.partial(model, weight=-1)
    except libsched.ArgumentError as error:
        assert "weight is -1" in str(error), error
    else:
        raise AssertionError("created with a negative weight")


def check_fused_optimizers_of_parameters_in_any_order_of_memory(its):
    """Fused kernels read weights and gradients in the order in which memory stores their elements."""
    def net():
        torch.manual_seed(5)
        weight = torch.nn.Parameter(torch.randn(3, 5).t())
        return torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), weight

    def train(conv, weight, opt):
        drawn = torch.Generator().manual_seed(7)  # the same numbers on all ranks, so each gradient equals the mean
        for _ in range(3):
            opt.zero_grad()
            image, row = torch.randn(2, 3, 6, 6, generator=drawn), torch.randn(4, 5, generator=drawn)
            (conv(image).square().mean() + (row @ weight).square().mean()).backward()
            opt.step()
        return torch.cat([conv.weight.detach().flatten(), weight.detach().flatten()])

    for make, is_fused in itertools.product((torch.optim.SGD, torch.optim.Adam), (False, True)):
        trained = []
        for is_partial in (False, True):
            conv, weight = net()
            named = [*conv.named_parameters(), ("weight", weight)]
            opt = make([each for _, each in named], lr=0.1, fused=is_fused)
            if is_partial:
                opt = lst.PartialOptimizer(opt, named, activation="full")
            trained.append(train(conv, weight, opt))
        opt.close()
        assert torch.allclose(*trained, atol=1e-5), (make, is_fused, (trained[0] - trained[1]).abs().max())


def check_parameters_that_are_unfrozen_later_are_refused(its):
    for wrapper, options in ((lst.PartialOptimizer, {"activation": "full"}), (lst.AdasumOptimizer, {})):
        p, q = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(3), requires_grad=False)
        opt = wrapper(torch.optim.SGD([p, q], lr=1.0), [("p", p), ("q", q)], **options)
        (p + q.sum()).backward()
        opt.step()
        q.requires_grad_()
        before = p.item()
        try:
            opt.step()
        except ValueError as error:
            assert "shape (3,)" in str(error) and wrapper.__name__ in str(error), error
        else:
            raise AssertionError("a step was made")
        q.requires_grad_(False)
        assert p.item() == before
        opt.step()
        opt.close()


def check_nothing_is_lost_without_waiting(its):
    """The rounds contain all offers of all ranks. With lag="history" all replicas have the same bits."""
    for policy in ("solo", "majority", "quorum(2)", "solo+every(4)"):
        model = its.net()

        ledger = torch.zeros(3, dtype=torch.int64)

        def decay(report):
            opt.param_groups[0]["lr"] = 0.1 / (1 + report.to)
            ledger.add_(torch.tensor([report.mine, report.offers, 1]))

        opt = its.partial(model, activation=policy, lag="history", on_round=decay)
        for i in range(50):
            compute_for(0.002 if (i + its.rank) % 3 == 0 else 0)
            its.train(model, opt, [i])
        opt.flush()
        assert are_alike(model), policy
        assert ledger.tolist()[:2] == [50, 50 * its.size] and ledger[2] <= opt.round, (policy, ledger, opt.round)
        opt.average_parameters([torch.ones(3) * its.rank])
        assert are_alike(model)
        opt.close()


class Recorded(torch.utils.data.DistributedSampler):
    """A sampler that records the argument of each call of set_epoch()."""

    epochs: list

    def set_epoch(self, epoch):
        self.epochs = [*getattr(self, "epochs", []), epoch]
        super().set_epoch(epoch)


def check_a_loop_by_rounds(its):
    """Rank 1 is slow. All ranks end with the same round and the same weights."""
    rows = torch.cat([torch.cat(each) for each in its.data])
    for policy in (None, "solo", "majority", "deadline(auto)", "quorum(2)+every(8)", "full"):
        model, steps = its.net(), 0
        sampler = Recorded(rows, seed=3)
        loader = torch.utils.data.DataLoader(rows, batch_size=8, sampler=sampler)
        with its.partial(model, activation=policy) as opt:
            for until in (30, 61):  # the second loop continues the first
                for batch in opt.rounds(loader, until=until):
                    steps += 1
                    opt.zero_grad()
                    model(batch).square().mean().backward()
                    compute_for(0.005 if its.rank == 1 else 0)
                    opt.step()
                    assert opt.round <= until and opt.sums.statistics()["rounds"] <= until
                assert opt.round == until + 1 and are_alike(model), (policy, opt.round)
            assert sampler.epochs == list(range(len(sampler.epochs))) and len(sampler.epochs) >= 2
            counts = torch.tensor([steps])
            all_steps = [torch.zeros_like(counts) for _ in range(its.size)]
            dist.all_gather(all_steps, counts)
            if policy == "full":
                assert all(each == 60 for each in all_steps), all_steps
            elif policy in (None, "solo"):
                assert max(all_steps) <= 60 and sum(all_steps) < 60 * its.size, all_steps
            again = its.partial(model, activation=policy)
            again.load_state_dict(copy.deepcopy(opt.state_dict()))
            assert (again.round, again.sums.passes) == (opt.round, len(sampler.epochs))
            again.close()


def check_replicas_are_alike_after_a_loop_by_rounds(its):
    """A rank receives several results combined, for example if it misses more rounds in a step than its history
    keeps."""
    for lag, pause in (("latest", 0.005), ("accumulate", 0.005), ("history", 0.3)):
        model = its.net()
        with its.partial(model, activation="solo", lag=lag if its.rank == 1 else "history") as opt:
            for i in opt.rounds(itertools.count(), until=200):
                its.train(model, opt, [i])
                compute_for(pause if its.rank == 1 and i < 20 else 0)
            assert are_alike(model) and opt.round in (201, 202), (lag, opt.round)


def check_what_a_loop_by_rounds_refuses(its):
    model = its.net()
    with its.partial(model, activation="solo") as opt:
        for batches, text in ((iter([1, 2]), "can be iterated repeatedly"), ([], "has no batch")):
            try:
                for _ in opt.rounds(batches, until=1000):
                    opt.step()
            except libsched.ArgumentError as error:
                assert text in str(error), error
            else:
                raise AssertionError("ended without batches")
        try:
            for _ in opt.rounds([1, 2], until=10000):
                pass
        except libsched.StateError as error:
            assert "no step was made in pass" in str(error), error
        else:
            raise AssertionError("ended without a step")
        for _ in opt.rounds([1], until=10000):  # a pass has fewer batches than a step has gradients
            with opt.no_sync() if opt.sums.passes % 3 else contextlib.nullcontext():
                opt.step()
            if opt.round >= 20:
                break
        assert opt.sums._final_round is None


class Branched(torch.nn.Module):
    """A model with a layer that no rank uses, a layer that only rank 0 uses, and a layer that all ranks use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.all, self.one, self.none = (torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        return self.one(self.all(x)) if dist.get_rank() == 0 else self.all(x)


def check_a_parameter_that_no_rank_uses_is_left_alone_as_in_ddp(its):
    def inner(model):
        return torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)

    plain = DistributedDataParallel(Branched(), find_unused_parameters=True)
    its.train(plain, inner(plain), range(5))
    for lag in ("history", "latest", "accumulate"):
        model = Branched()
        before = model.none.weight.detach().clone()
        with lst.PartialOptimizer(inner(model), model.named_parameters(), activation="full", lag=lag) as opt:
            its.train(model, opt, range(5))
            opt.flush()
            assert torch.equal(model.none.weight, before) and model.none.weight.grad is None
            assert not opt.state.get(model.none.weight) and opt.state[model.one.weight]["step"] == 5
        assert torch.allclose(weights(model), weights(plain), atol=1e-5), lag
    model = Branched()
    opt = lst.AdasumOptimizer(inner(model), model.named_parameters())
    its.train(model, opt, range(5))
    opt.close()
    assert torch.equal(model.none.weight, before)


def check_sparse_gradients_are_refused_by_name(its):
    class Words(torch.nn.Module):
        def __init__(self, is_sparse):
            super().__init__()
            torch.manual_seed(5)
            self.words = torch.nn.Embedding(10, 4, sparse=is_sparse)

        def forward(self, places):
            return self.words(places)

    ddp = DistributedDataParallel(Words(True), broadcast_buffers=False)
    for make in (lst.PartialState, lst.OkTopkState, lst.AdasumState):
        try:
            make(ddp)
        except ValueError as error:
            assert "words has sparse gradients" in str(error) and "sparse=False" in str(error), error
        else:
            raise AssertionError(f"{make} was made")
    model = Words(True)
    try:
        lst.PartialOptimizer(torch.optim.SparseAdam(model.parameters()), model.named_parameters())
    except ValueError as error:
        assert "SparseAdam" in str(error), error
    else:
        raise AssertionError("an optimizer of sparse gradients was taken")
    places = torch.tensor([its.rank, 3])
    opt = its.partial(model, activation="full")
    model(places).sum().backward()
    try:
        opt.step()
    except ValueError as error:
        assert "words.weight has a sparse gradient" in str(error), error
    else:
        raise AssertionError("a sparse gradient was taken")
    opt.close()
    ends = []
    for is_sparse in (True, False):  # the changes of weights are dense in both cases
        model = Words(is_sparse)
        opt = lst.AdasumOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        model(places).square().sum().backward()
        opt.step()
        opt.close()
        ends.append(weights(model))
    assert torch.equal(*ends)


def written(state):
    """Returns a state as text, with tuples as lists, because torch converts some tuples to lists when it loads a
    state."""
    return str(state).replace("(", "[").replace(")", "]")


def check_state_by_the_checkpoint_functions_of_torch(its):
    """The state is equal to the state of the inner optimizer, even before the first step. The functions of torch
    run no round."""
    def adam(model):
        return torch.optim.AdamW(model.parameters(), lr=0.1)

    makes = (lambda inner, model: its.partial_of(inner, model, activation="solo"),
             lambda inner, model: lst.AdasumOptimizer(inner, model.named_parameters()))
    options = (None, StateDictOptions(flatten_optimizer_state_dict=True), StateDictOptions(full_state_dict=True))
    for make in makes:
        for make_inner in (sgd, adam):
            for option in options:
                model, plain = its.net(), its.net()
                opt, other = make(make_inner(model), model), make_inner(plain)
                for step in range(2):
                    mine, theirs = (get_state_dict(*each, options=option) for each in ((model, opt), (plain, other)))
                    assert written(mine) == written(theirs), (step, mine, theirs)
                    for each in (model, plain):
                        each.zero_grad()
                        its.loss(each, step, rank=0).backward()
                    opt.inner.step()
                    other.step()
                before = weights(model)
                _, saved = get_state_dict(plain, other, options=option)
                set_state_dict(model, opt, model_state_dict=its.net().state_dict(), optim_state_dict=saved,
                               options=option)
                assert not torch.equal(weights(model), before)
                assert written(get_state_dict(model, opt, options=option)[1]) == written(saved)
                assert getattr(opt, "round", 0) == 0, "no round was made"
                opt.close()


def check_hooks_of_the_optimizer(its):
    """Hooks on the state dict, on loading and on steps are called as often and in the same order as hooks of the inner
    optimizer."""
    for make in (its.partial, lambda model: lst.AdasumOptimizer(sgd(model), model.named_parameters())):
        model, seen = its.net(), []
        opt = make(model)
        opt.register_state_dict_pre_hook(lambda _: seen.append("before state"))
        opt.register_state_dict_post_hook(lambda _, state: seen.append("after state") or {**state, "mine": 1})
        opt.register_load_state_dict_pre_hook(lambda _, state: seen.append(f"before load {state['mine']}"))
        opt.register_load_state_dict_post_hook(lambda _: seen.append("after load"))
        opt.register_step_pre_hook(lambda *_: seen.append("before step"))
        removed = opt.register_step_post_hook(lambda *_: seen.append("never"))
        opt.register_step_post_hook(lambda *_: seen.append("after step"))
        removed.remove()
        opt.load_state_dict(opt.state_dict())
        its.train(model, opt, range(1))
        states, steps = seen[:4], seen[4:]
        assert states == ["before state", "after state", "before load 1", "after load"], seen
        # A late rank steps once for each round that it has missed.
        assert steps and steps == ["before step", "after step"] * (len(steps) // 2), seen
        opt.close()


class Stateful(torch.nn.Module):
    """A module with all kinds of state that a module can have."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(rank)
        self.layer = torch.nn.Linear(3, 3)
        self.tied = self.layer.weight
        self.norm = torch.nn.BatchNorm1d(3)
        self.norm.num_batches_tracked.fill_(rank)
        self.register_buffer("table", torch.randn(2, 5).t(), persistent=False)
        self.register_buffer("mask", torch.tensor([rank == 0, True]))
        self.register_buffer("empty", torch.zeros(0))
        self.register_buffer("turn", torch.tensor(1j * (rank + 1)))
        self.frozen = torch.nn.Parameter(torch.randn(4), requires_grad=False)
        self._register_state_dict_hook(self._as_copies)

    @staticmethod
    def _as_copies(module, state, prefix, _):
        """Replaces the weights in the state by copies, like a module that stores its weights in another form."""
        for name, each in state.items():
            state[name] = each.clone() if torch.is_tensor(each) else each

    def get_extra_state(self):
        return {"name": "a text"}

    def set_extra_state(self, state):
        pass


def check_broadcast_parameters_is_what_ddp_does(its):
    model, plain = Stateful(its.rank), Stateful(its.rank)
    lst.broadcast_parameters(model)
    plain = DistributedDataParallel(plain).module
    for mine, theirs, first in zip(*([*each.parameters(), *each.buffers()] for each in (model, plain, Stateful(0)))):
        assert torch.equal(mine, first) and torch.equal(mine, theirs), (mine, first)
    assert model.tied is model.layer.weight and model.layer.weight.requires_grad


def check_uneven_data(its):
    model = its.net()
    opt = its.partial(model, activation="majority", lag="history")
    last = 0
    for _ in range(2):
        with opt.join():
            its.train(model, opt, range(5 + 5 * its.rank))
        opt.average_parameters()
        assert are_alike(model) and opt.round > last, "the next epoch must continue from there"
        last = opt.round
    opt.close()


def check_accumulated_gradients(its):
    ends = []
    for _ in range(2):
        model = its.net()
        opt = its.partial(model, activation="full")
        for i in range(0, STEPS, 2):
            opt.zero_grad()
            if ends:
                its.loss(model, i).backward()
                with opt.no_sync():
                    opt.step()
                its.loss(model, i + 1).backward()
            else:
                (its.loss(model, i) + its.loss(model, i + 1)).backward()
            opt.step()
        ends.append(weights(model))
        opt.close()
    assert torch.allclose(*ends, atol=1e-6)


def check_a_scaler_that_would_skip_a_step_on_one_rank(its):
    for make in (lambda model: its.partial(model, activation="full"),
                 lambda model: lst.AdasumOptimizer(sgd(model), model.named_parameters())):
        model = its.net()
        opt = make(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
        for i in range(STEPS):
            opt.zero_grad()
            scaler.scale(its.loss(model, i)).backward()
            if i == 3 and its.rank == 1:
                next(model.parameters()).grad[0] = float("inf")
            if i % 2:
                scaler.unscale_(opt)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)
            scaler.step(opt)
            scaler.update()
            assert torch.isfinite(weights(model)).all() and are_alike(model), i
        assert scaler.get_scale() == (8.0 if its.rank == 1 else 16.0)
        opt.close()


def check_a_checkpoint_of_what_is_pending(its):
    """Rank 0 is two calls ahead, so that one of its gradients is pending.

    The state contains this gradient, and training uses it after the state is loaded.
    """
    model = its.net()
    opt = its.partial(model, activation="full", lag="accumulate")
    its.train(model, opt, range(3))
    dist.barrier()
    if its.rank == 0:
        size = opt.parameters.flagged_vector().flat.numel()
        opt.sums.offer(torch.ones(size))
        wait_until(lambda: len(opt.sums.save_pending()) < 4 * size)  # the round has taken the first offer
        opt.sums.offer(torch.full((size,), float(its.size)))
    state = copy.deepcopy((model.state_dict(), opt.state_dict()))
    dist.barrier()
    opt.sums._abandon(is_cancelled=True)
    ends = []
    for _ in range(2):
        model = its.net()
        model.load_state_dict(state[0])
        opt = its.partial(model, activation="full", lag="accumulate")
        opt.load_state_dict(copy.deepcopy(state[1]))
        opt.zero_grad()
        opt.step()
        assert (next(model.parameters()).grad == 1).all(), next(model.parameters()).grad
        its.train(model, opt, range(3, 10))
        ends.append(weights(model))
        opt.close()
    assert torch.equal(*ends)


def check_rounds_and_groups_of_a_state_that_was_loaded(its):
    model, seen = its.net(), []
    opt = its.partial(model, activation="full", on_round=lambda _: seen.append(opt.round))
    its.train(model, opt, range(3))
    state = copy.deepcopy(opt.state_dict())
    opt.close()
    opt = its.partial(model, activation="full", on_round=lambda _: seen.append(opt.round))
    opt.load_state_dict(state)
    called = []
    opt.register_step_post_hook(lambda *_: called.append(1))
    for group in opt.param_groups:
        group["lr"] = 0.0
    before = weights(model)
    its.train(model, opt, range(2))
    assert seen == [1, 2, 3, 4, 5] and len(called) == 2 and torch.equal(weights(model), before), seen
    opt.close()


def check_adasum_is_what_its_definition_says(its):
    """Two ranks contribute. The learning rate of the other ranks is 0, so that they contribute nothing."""
    model, alone = its.net(), []
    inner = sgd(model)
    inner.param_groups[0]["lr"] = 0.1 if its.rank < 2 else 0.0
    opt = lst.AdasumOptimizer(inner, model.named_parameters())
    for rank in range(2):
        other = its.net()
        its_opt = sgd(other)
        its.loss(other, 0, rank).backward()
        its_opt.step()
        alone.append([(after - before).detach() for after, before in zip(other.parameters(), its.net().parameters())])
    its.train(model, opt, range(1))
    for part, before, a, b in zip(model.parameters(), its.net().parameters(), *alone):
        dot, aa, bb = (x.double().flatten() @ y.double().flatten() for x, y in ((a, b), (a, a), (b, b)))
        wanted = before + (1 - dot / (2 * aa)) * a + (1 - dot / (2 * bb)) * b
        assert torch.allclose(part, wanted.float(), atol=1e-6)
    its.train(model, opt)
    assert are_alike(model) and not opt.non_finite
    if its.rank == 0:
        inner.param_groups[0]["lr"] = float("nan")
    its.train(model, opt, range(1))
    assert len(opt.non_finite) == 4 and torch.isfinite(weights(model)).all() and are_alike(model)
    inner.param_groups[0]["lr"] = 0.1
    opt.zero_grad()
    its.loss(model, 0).backward()
    if its.rank == 1:
        next(model.parameters()).grad.view(-1)[0] = float("nan")
    opt.step()
    assert opt.non_finite == ["0.weight"], opt.non_finite
    before = weights(model)
    its.train(model, opt, range(1))
    assert not opt.non_finite and are_alike(model)
    assert (weights(model) != before).any(), "the momentum is non-finite, too"
    opt.close()


def check_local_steps_and_a_checkpoint_between_them(its):
    model = its.net()
    opt = lst.AdasumOptimizer(sgd(model), model.named_parameters(), local_steps=4)
    its.train(model, opt, range(6))
    state, kept = copy.deepcopy((opt.state_dict(), model.state_dict()))
    its.train(model, opt, range(6, 12))
    assert are_alike(model)
    end = weights(model)
    model.load_state_dict(kept)
    opt.load_state_dict(state)
    its.train(model, opt, range(6, 12))
    assert torch.equal(weights(model), end)
    opt.close()


def check_hooks_of_ddp(its):
    model, state = its.hooked(lst.PartialState, lst.partial_hook, activation="full")
    its.train(model, sgd(model))
    assert torch.allclose(weights(model), its.by_one(), atol=1e-6) and are_alike(model)
    assert state.report.contributors == its.size
    state.close()
    model, state = its.hooked(lst.OkTopkState, lst.oktopk_hook, density=1.0, warmup_steps=3)
    its.train(model, sgd(model))
    assert torch.allclose(weights(model), its.by_one(), atol=1e-4) and are_alike(model)
    state.close()
    model, state = its.hooked(lst.OkTopkState, lst.oktopk_hook, density=lambda step: 0.5 if step < 10 else 0.1)
    its.train(model, sgd(model))
    there = sum((each.grad != 0).sum().item() for each in model.parameters())
    assert are_alike(model) and 0 < there <= 0.2 * state.parameters.count
    state.close()
    model, state = its.hooked(lst.AdasumState, lst.adasum_hook)
    its.train(model, sgd(model))
    assert are_alike(model)
    state.close()


def check_a_hook_without_waiting(its):
    model, state = its.hooked(lst.PartialState, lst.partial_hook, activation="solo", lag="accumulate")
    opt = sgd(model)
    for i in range(50):
        compute_for(0.01 if its.rank == 1 else 0)
        its.train(model, opt, [i])
        assert state.report.to >= i + 1
    state.close()


class TwoHeads(torch.nn.Module):
    """A model with two outputs. If `has_idle`, no output depends on one of its layers."""

    def __init__(self, has_idle):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.first, self.second = (torch.nn.Linear(8, wide) for wide in (8, 4, 4))
        self.idle = torch.nn.Linear(3, 3) if has_idle else None

    def forward(self, x):
        x = torch.tanh(self.body(x))
        return self.first(x), self.second(x)


HOOKS = {
    "partial": lambda ddp: (lst.PartialState(ddp, activation="full"), lst.partial_hook),
    "sparse": lambda ddp: (lst.OkTopkState(ddp, density=1.0), lst.oktopk_hook),
    "adasum": lambda ddp: (lst.AdasumState(ddp), lst.adasum_hook),
}


def weights_or_error(its, group, hook, has_idle, uses_both, **options):
    """Returns the weights after three steps, or the beginning of the error that DDP raises."""
    model = TwoHeads(has_idle)
    ddp = DistributedDataParallel(model, process_group=group, broadcast_buffers=False, bucket_cap_mb=0.0001, **options)
    best, state = sgd(model), None
    if hook is not None:
        state, call = HOOKS[hook](ddp)
        ddp.register_comm_hook(state, call)
    try:
        for step in range(3):
            torch.manual_seed(10 * step + its.rank)
            best.zero_grad()
            outputs = ddp(torch.randn(4, 8))
            sum(each.square().mean() for each in outputs[:2 if uses_both else 1]).backward()
            best.step()
    except RuntimeError as error:
        return str(error)[:60]
    finally:
        if state is not None:
            state.close()
    return weights(model)


def check_hooks_with_unused_outputs_are_as_ddp_without_a_hook(its):
    gloo = dist.new_group(backend="gloo")
    for static, finds, uses_both, has_idle in itertools.product((False, True), repeat=4):
        case = dict(has_idle=has_idle, uses_both=uses_both, static_graph=static, find_unused_parameters=finds)
        wanted = weights_or_error(its, gloo, None, **case)
        for hook in (None, *HOOKS):
            if finds and hook == "partial":
                continue  # PartialState refuses this option
            found = weights_or_error(its, None, hook, **case)
            if isinstance(wanted, str):
                assert found == wanted and "Expected to have finished" in wanted, (hook, case, found)
            else:
                assert hook == "adasum" or torch.allclose(found, wanted, rtol=1e-5, atol=1e-6), (hook, case, found)


def check_a_sparse_checkpoint_goes_on_with_the_same_bits(its):
    def life(states, steps):
        model, state = its.hooked(lst.OkTopkState, lst.oktopk_hook, density=0.1)
        opt = sgd(model)
        if states:
            for each, told in zip((model.module, opt, state), copy.deepcopy(states)):
                each.load_state_dict(told)
        its.train(model, opt, steps)
        told = copy.deepcopy((model.module.state_dict(), opt.state_dict(), state.state_dict()))
        state.close()
        return weights(model), told

    whole, _ = life(None, range(STEPS))
    _, half = life(None, range(STEPS // 2))
    again, _ = life(half, range(STEPS // 2, STEPS))
    assert torch.equal(whole, again)
    _, same = life(half, range(0))
    assert torch.equal(same[2]["image"], half[2]["image"]) and same[2]["residual"].keys() == half[2]["residual"].keys()


def check_a_sparse_step_that_is_not_finite_is_left_out_by_all(its):
    model, state = its.hooked(lst.OkTopkState, lst.oktopk_hook, density=0.3, nans="skip")
    opt, scaler = sgd(model), torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000)
    scales = []
    for i in range(8):
        opt.zero_grad()
        loss = its.loss(model, i) * (float("inf") if i == 3 and its.rank == 1 else 1)
        before = weights(model)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        scales.append(scaler.get_scale())
        assert torch.equal(weights(model), before) == (i == 3) and are_alike(model), i
    assert scales == 3 * [8.0] + 5 * [4.0], scales
    assert all(torch.isfinite(each).all() for each in state.state_dict()["residual"].values())
    state.close()


def check_what_is_refused(its):
    model = torch.nn.Sequential(its.net(), torch.nn.BatchNorm1d(1))
    ddp = DistributedDataParallel(model)
    plain = DistributedDataParallel(its.net(), broadcast_buffers=False)
    sparse = lst.OkTopkState(plain)
    others = {**sparse.state_dict(), "rank": (its.rank + 1) % its.size}
    complex_one = torch.nn.Parameter(torch.ones(1, dtype=torch.complex64))
    named = list(model.named_parameters())
    for make, text in ((lambda: lst.PartialState(ddp), "broadcast_buffers"),
                       (lambda: lst.PartialState(plain, lag="history"), "one result"),
                       (lambda: lst.PartialOptimizer(sgd(model), its.net().named_parameters()), "not the same"),
                       (lambda: lst.AdasumOptimizer(sgd(model), named, local_steps=0), "at least 1"),
                       (lambda: sparse.load_state_dict(others), "the state is of rank"),
                       (lambda: lst.PartialOptimizer(torch.optim.LBFGS(model.parameters()), named), "LBFGS"),
                       (lambda: lst.PartialOptimizer(torch.optim.SGD([complex_one]), [("z", complex_one)]), "z is"),
                       (lambda: lst.PartialOptimizer(sgd(model), named, activation="none"), "none"),
                       (lambda: lst.PartialOptimizer(sgd(model), named, process_group=3), "not a process group")):
        try:
            make()
        except (ValueError, libsched.Error) as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"{text}: was made")


def check_arguments_that_one_rank_refuses_are_refused_on_all(its):
    model = its.net()
    named = list(model.named_parameters())
    ddp = DistributedDataParallel(its.net(), broadcast_buffers=False)
    for make, good, bad, text in (
            (lambda names: lst.PartialOptimizer(sgd(model), names), named, named[:1], "not the same"),
            (lambda steps: lst.AdasumOptimizer(sgd(model), named, local_steps=steps), 1, 0, "at least 1"),
            (lambda lag: lst.PartialState(ddp, lag=lag), "latest", "history", "one result")):
        try:
            make(bad if its.rank == 1 else good)
        except (ValueError, libsched.Error) as error:
            assert text in str(error), error
            assert its.rank == 1 or error.rank == 1, error
        else:
            raise AssertionError(f"{text}: was made")
        make(good).close()


if __name__ == "__main__":
    main(globals(), Training)
