"""Training that does not wait for the slowest rank: eager-SGD (Li and others, PPoPP 2020)."""

import contextlib
from typing import Any, Callable, Iterable, Iterator, Sequence, TypeVar

import torch
import torch.distributed as dist

from .._collective import refusing
from .._partial import Report
from .._words import whole_number
from .._world import World
from ._hook import Hook, world_and_limit
from ._wrapper import Wrapper

_Batch = TypeVar("_Batch")


class PartialOptimizer(Wrapper):
    """An optimizer that combines gradients by a partial allreduce: step() does not wait for the slowest rank.

        opt = libsched.torch.PartialOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        libsched.torch.broadcast_parameters(model)
        for x, y in opt.rounds(loader, until=1000):
            opt.zero_grad()
            loss_fn(model(x), y).backward()
            opt.step()
        opt.close()

    All ranks create the optimizer. All arguments except lag, divisor and weight must be the same on all ranks:
        activation     condition that starts a round: "full", "solo", "majority", "quorum(K)",
                       "quorum(K)+grace(microseconds)", "deadline(microseconds or auto)" and so on, perhaps with
                       "+every(T)"; None: the calls of three quarters of the ranks, rounded down, which
                       docs/guides/training-loop.md recommends
        lag            treatment of results for which this rank was too late: "latest": only the newest result is
                       used, as in the paper; "accumulate": the sum of the results is used; "history": an inner step
                       is made for each of the last 60 results
        divisor        divisor of the sums: "ranks", "contributors" or "offers"; None: "offers" with a weight, otherwise
                       "ranks"
        weight         weight of this rank's gradients, such as the number of samples or tokens: a whole number, or a
                       function without arguments, which each step() calls after the closure. With divisor="offers"
                       the result is the weighted mean. None: 1
        age            factors of late gradients: "inverse" or a list, as in World.partial(); None: 1
        process_group  a group of the backend lsched, or a libsched.World; None: the default group
        replicas       a 2-D DeviceMesh of all ranks (groups, ranks of a group) for models of FSDP2, sharded by
                       fully_shard(model, mesh=replicas[inner dimension]). The gradients of a group are in a round
                       together or not at all, and the policy counts groups. `lag` must be "accumulate" (the default) or
                       "latest"
        timeout        maximum duration of any wait in seconds; None: the group's timeout
        seed           seed of the random draws of the policy
        on_round       a function that is called with the libsched.Report of a result, before the inner step with that
                       result. The learning rate must depend on `to` only. Otherwise replicas do not have the same bits

    Attributes:
        report  the libsched.Report of the last step(), with the number of contributors and the staleness of this rank's
                gradients. If from_ < to, there was a new result

    A parameter that no rank has used in a round has no gradient in the result, so the inner optimizer does not change
    the parameter. A sparse gradient raises ValueError, which names the parameter.
    """

    def __init__(self, inner: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]], *,
                 activation: str | None = None, lag: str | None = None, divisor: str | None = None,
                 weight: int | Callable[[], int] | None = None, age: str | Sequence[float] | None = None,
                 process_group: Any = None, replicas: Any = None, timeout: float | None = None, seed: int = 0,
                 on_round: Callable[[Report], None] | None = None) -> None:
        self.world, self._limit = world_and_limit(process_group, timeout)
        with refusing(self.world):
            if replicas is not None and (replicas.ndim != 2 or replicas.mesh.flatten().tolist()
                                         != list(range(self.world.size))):
                raise ValueError(f"replicas is {replicas}, but PartialOptimizer needs a mesh of all {self.world.size} "
                                 "ranks in order, groups first: use init_device_mesh(\"cpu\", (groups, shards))")
            if weight is not None and not callable(weight):
                whole_number(weight, "weight")
            if isinstance(inner, torch.optim.SparseAdam):
                raise ValueError("SparseAdam needs sparse gradients, but partial sums need dense gradients: use Adam, "
                                 "and layers with sparse=False")
            if isinstance(inner, torch.optim.LBFGS):
                raise ValueError("LBFGS evaluates the loss several times in a step, but a round has one gradient from "
                                 "each rank: use another optimizer")
            super().__init__(inner, named_parameters, is_sharded=replicas is not None)
            if replicas is not None:
                self._expect_mesh(replicas)
            self._mine, self._result = self.parameters.flagged_vector(), self.parameters.flagged_vector()
        if lag is None:
            lag = "history" if replicas is None else "accumulate"
        shards = 1 if replicas is None else replicas.size(1)
        # The world in which contributions are added up: the ranks that have the same shard.
        self._adds = self.world if replicas is None else self.world.split(self.world.rank % shards, self.world.rank)
        self._is_grouped = replicas is not None
        self._on_round = on_round
        self._lag = lag
        self._weight = 1 if weight is None else weight
        self._ticket: Any = None
        self.report: Report | None = None
        self._rounds_before = 0
        self._has_left = False
        # True if the weights may differ from those of replicas that have made a step for each round.
        self._differs = False
        if activation is None:
            activation = f"quorum({max(1, 3 * self._adds.size // 4)})"
        if divisor is None:
            divisor = "ranks" if weight is None else "offers"
        self._options = dict(activation=activation, lag=lag, history=60 if lag == "history" else 0, divisor=divisor,
                             seed=seed, age=age, averages_weights=not self._is_grouped,
                             groups=(self.world, shards) if self._is_grouped else None)
        self._open(passes=0)

    def _expect_mesh(self, replicas: Any) -> None:
        """Raises ValueError if a parameter is not sharded over the ranks of this rank's group."""
        group = replicas.mesh[self.world.rank // replicas.size(1)].tolist()
        for name, each in zip(self.parameters.names, self.parameters.tensors):
            mesh = each.device_mesh.mesh.flatten().tolist() if hasattr(each, "device_mesh") else None
            if mesh != group:
                raise ValueError(f"{name} is sharded over the ranks {mesh}, but the group of this rank has the ranks "
                                 f"{group}: use fully_shard(model, mesh=replicas[inner dimension])")

    def _open(self, passes: int) -> None:
        self.sums = self._adds.partial(self._mine.flat.numel(), self.parameters.word, **self._options)
        self.sums._create_wait(self._limit)
        self.sums.passes = passes

    @property
    def round(self) -> int:
        """The last round that this rank has collected.

        With lag="history", replicas with equal values of `round` have the same bits.
        """
        return self._rounds_before + self.sums.round

    # --- a loop --------------------------------------------------------------------------------------------------

    def rounds(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        """Yields batches, pass after pass, until round `until` is over.

        Then makes the weights of all ranks equal. This method is collective.

            for x, y in opt.rounds(loader, until=1000): ...

        The loop ends as soon as round `until` is over. A slow rank skips the rounds that it has missed, and makes fewer
        steps. After the loop, a flush() runs as round `until` + 1, so that all ranks have the same weights. If weights
        may still differ, they are averaged in round `until` + 2. Weights may differ if lag is not "history", or if a
        rank has missed more than 60 rounds in one step. `round` shows the progress. After a `break` the weights are
        neither flushed nor averaged.

        `batches` is a DataLoader or any other iterable that can be read repeatedly. Each pass calls set_epoch() of the
        sampler, if the sampler has that function. Learning rates must depend on `round`, because the number of steps
        differs between ranks.
        """
        yield from self.sums.rounds(batches, until - self._rounds_before)
        self.flush()
        differs = torch.tensor([float(self._differs)], device="cpu")
        with self.world.allreduce(differs, op="max") as any_differs:
            any_differs.run(self._limit)
        if differs:
            self.average_parameters()

    # --- one rank alone ------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Contributes the gradients, and makes an inner step with the results of rounds that are over.

        Returns the value of `closure`. If gradients have overflowed under a GradScaler, this rank takes part without a
        contribution. Afterwards the gradients of the parameters are the result, in memory that later steps overwrite.
        Blocks until the round is over. Raises Timeout and PeerLost. In both cases the contribution has been made. After
        PeerLost call shrink(), and after Timeout call step() again. Raises ValueError and contributes nothing if a
        parameter requires a gradient now, but did not when the optimizer was created.
        """
        self._expect_known_parameters()
        answer = None if closure is None else closure()
        if not self._syncs:
            self.sums._steps += 1
            return answer
        if self._is_for_initial_state():
            self.inner.step()
            return answer
        contribution = None
        weight = self._weight() if callable(self._weight) else self._weight
        if not self._has_overflowed():
            self._mine.take_gradients(self._scale())
            contribution = self._mine.flat
        self._ticket = self.sums.offer(contribution, weight)
        self._collect()
        return answer

    def _collect(self, has_more: bool = False) -> None:
        """Makes inner steps with all results that were not collected yet.

        If `has_more` is true, the caller has already made an inner step, and only a new result leads to another step.
        """
        while True:
            report = self.sums.collect(self._ticket, self._result.flat, self._limit)
            is_new = report.from_ < report.to
            if is_new or not has_more:
                self._step_by(report)
            if not is_new or self._lag != "history":
                return
            has_more = True

    def _step_by(self, report: Report) -> None:
        self.report = report
        self._differs |= self._lag != "history" or report.to - report.from_ > 1
        if report.from_ < report.to and report.has_result:
            self._result.be_gradients()
            if self._on_round is not None:
                self._on_round(report)
            self.inner.step()

    def leave(self) -> None:
        """Declares that this rank has no more data. Later rounds do not wait for this rank.

        Replicas differ until all ranks have left and have called average_parameters(). After that all ranks can
        continue.
        """
        self.sums.leave()
        self._has_left = True

    @contextlib.contextmanager
    def join(self) -> Iterator[None]:
        """A context manager around a loop over uneven data. Calls leave() at the end of the loop."""
        yield
        self.leave()

    # --- all ranks together --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Runs a round with all pending offers of all ranks, and makes a step with its result.

        This method is collective.
        """
        report = self.sums.flush(self._result.flat, self._limit)
        self._step_by(report)
        if self._lag == "history" and self._ticket is not None:
            self._collect(has_more=True)

    def average_parameters(self, buffers: Iterable[torch.Tensor] = ()) -> None:
        """Replaces the weights by their mean, with the same bits on all ranks, and drops pending offers.

        With `replicas`, call flush() before, because no offers are dropped. This method is collective. `buffers` are
        buffers of the model. Also averages buffers of a floating dtype.
        """
        self._mine.take_weights()
        if self._has_left:
            self._begin_anew()
        elif self._is_grouped:
            with self._adds.allreduce(self._mine.flat, divisor="ranks") as mean:
                mean.run(self._limit)
        else:
            self.sums.model_sync(self._mine.flat, self._limit)
        self._mine.give_weights()
        self._differs = False
        for each in buffers:
            if each.is_floating_point() and each.numel():
                with self.world.allreduce(each, divisor="ranks") as step:
                    step.run(self._limit)

    def _begin_anew(self) -> None:
        """Averages `_mine` after all ranks have left, and creates a schedule that continues the round numbers."""
        self.sums.close(self._limit)
        with self.world.allreduce(self._mine.flat, divisor="ranks") as mean:
            mean.run(self._limit)
        last = torch.tensor([self.round], device="cpu")
        with self.world.allreduce(last, op="max") as most:
            most.run(self._limit)
        self._rounds_before = int(last)
        self._has_left = False
        self._ticket = None
        self._open(self.sums.passes)

    def shrink(self) -> World:
        """Continues after a PeerLost in a world of the ranks that are left, and returns the world.

        All of these ranks must call this method. Replicas may have collected different rounds, so call
        average_parameters() next. docs/reference/shrink.md has the details.
        """
        survivors = self.world.shrink(self._limit)
        survivors.nonblocking = self.world.nonblocking
        self.sums.carry(survivors)
        self.world = self._adds = survivors
        return survivors

    def close(self) -> None:
        """Leaves, and waits until all ranks have left."""
        self.sums.close(self._limit)
        if self._is_grouped:
            self._adds.close()

    def __enter__(self) -> "PartialOptimizer":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.sums._abandon(is_cancelled=True)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the inner optimizer, and the offers of this rank that are in no round yet.

        Each rank must save its own state.
        """
        image = b"" if self._is_grouped else self.sums.save_pending()
        pending = torch.frombuffer(bytearray(image), dtype=torch.uint8) if image else torch.empty(0, dtype=torch.uint8)
        return self._state_with(ranks=self.world.size, rank=self.world.rank, round=self.round, pending=pending,
                                passes=self.sums.passes)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state that state_dict() has returned. Must be called before the first step.

        Drops the pending offers if another rank, or a rank of a world of another size, has saved them. Round numbers
        continue. States do not include results that were not collected, so call flush() before you save. The functions
        of torch.distributed.checkpoint.state_dict keep only the state of the inner optimizer, so save `round` as well.
        """
        mine = self._load_inner(state_dict)
        if mine is None:
            return
        self._rounds_before = mine["round"] - self.sums.round
        self.sums.passes = mine["passes"]
        if self._is_grouped:
            return
        self.sums.withdraw()
        if (mine["ranks"], mine["rank"]) == (self.world.size, self.world.rank):
            self.sums.load_pending(bytes(mine["pending"].numpy()))


class PartialState(Hook):
    """The state of partial_hook. Gradients become the result of the round, or zeros if there is no result.

        state = libsched.torch.PartialState(ddp, activation="majority")
        ddp.register_comm_hook(state, libsched.torch.partial_hook)

    The arguments are those of PartialOptimizer, but `lag` must be "latest" or "accumulate". DDP must not synchronise by
    itself, so create DDP with broadcast_buffers=False and find_unused_parameters=False. `report` is the libsched.Report
    of the last round.

    Warning: do not use the hook if the same rank is always slow. That rank applies the sum of several rounds in one
    step, so that its replica differs from the others. The model then loses accuracy (docs/figures.md has measurements).
    With PartialOptimizer and lag="history", replicas do not differ.
    """

    def __init__(self, ddp: Any, *, activation: str = "majority", lag: str = "accumulate", divisor: str = "ranks",
                 timeout: float | None = None, seed: int = 0) -> None:
        with refusing(world_and_limit(ddp.process_group, timeout)[0]):
            if ddp.broadcast_buffers and any(True for _ in ddp.module.buffers()):
                raise ValueError("DDP broadcasts buffers in every step, so each step would wait for rank 0: set "
                                 "broadcast_buffers=False")
            if ddp.find_unused_parameters:
                raise ValueError("DDP looks for unused parameters on all ranks, so each step would wait for late "
                                 "ranks: set find_unused_parameters=False")
            if lag not in ("latest", "accumulate"):
                raise ValueError(f'lag is {lag!r}, but a hook has one result per step: use "latest" or "accumulate"')
            super().__init__(ddp, timeout)
        self.report: Report | None = None
        self.sums = self.world.partial(self.parameters.count, self.parameters.word, activation=activation, lag=lag,
                                       divisor=divisor, seed=seed)
        self.sums._create_wait(self.limit)

    def _begin(self) -> Any:
        return _Collected(self, self.sums.offer(self.gradient.flat))

    def close(self) -> None:
        """Leaves, and waits until all ranks have left."""
        self.sums.close(self.limit)


class _Collected:
    """A round of a PartialState, with the methods that a Work needs."""

    def __init__(self, of: PartialState, ticket: Any) -> None:
        self._of = of
        self._ticket = ticket

    def wait(self, timeout: float) -> None:
        of = self._of
        of.report = of.sums.collect(self._ticket, of.result.flat, timeout)
        if of.report.from_ == of.report.to or not of.report.has_result:
            of.result.flat.zero_()

    def test(self) -> bool:
        return False  # only wait() collects a result


def partial_hook(state: PartialState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook of DistributedDataParallel for a PartialState."""
    return state.take(bucket)
