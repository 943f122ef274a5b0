"""Local steps and merges: DiLoCo and Streaming DiLoCo (Douillard and others, 2023 and 2025) with partial allreduces."""

from __future__ import annotations

import io
from typing import Any, Callable, Iterable, Iterator, Sequence, TypeVar, Union

import torch

from .._collective import refusing
from .._errors import StateError
from .._partial import Report, _samplers_of
from .._words import whole_number
from .._world import World
from ._fragment import NO_END, Fragment
from ._hook import world_and_limit
from ._parameters import Parameters

_LONGEST_GRACE = 3600  # seconds
_HISTORY = 60  # results that the library keeps for a late rank, at most
_TRANSPORTS = {"bf16": torch.bfloat16}

_Batch = TypeVar("_Batch")
_Weight = Union[int, Callable[[], int], None]


class DiLoCo:
    """Trains with local steps. The ranks merge the changes of their weights after every `sync_every` steps.

        inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
        outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        with libsched.torch.DiLoCo([model], inner, outer, sync_every=100) as diloco:
            for x, y in diloco.rounds(loader, until=50):
                inner.zero_grad()
                loss_fn(model(x), y).backward()
                inner.step()

    A hook of the inner optimizer does the work: call step() of the inner optimizer only. All ranks create the object,
    which copies the weights of rank 0 to all ranks. Arguments with the names of torchft have the meaning of torchft:
        model_fragments        modules or lists of parameters. Together they have each parameter of the inner optimizer
                               once
        inner_optimizer        the optimizer of the local steps
        outer_optimizer        the optimizer of the merged changes: one of all parameters, or a list of one for each
                               fragment
        sync_every             number of local steps (H) between two merges of a fragment. The P fragments take turns:
                               fragment p is merged after step (p + 1) * H / P, and then after every H steps
        fragment_sync_delay    number of local steps between an offer of a change and the use of the merged change
        fragment_update_alpha  part of the local weights in the weights after a merge: 0: the global weights
    Further arguments:
        world      a process group of the backend lsched, or a libsched.World; None: the default group
        quorum     number of ranks whose changes start a round. With a grace, the round waits for further ranks for half
                   of this time. None: all ranks
        grace      maximum duration in seconds of the wait for a merge. If the round is not over by then, the rank
                   trains on, and applies the result at its next merge of the fragment. Without a quorum, a rank that
                   has waited for half of this time starts the round without the late ranks
        weight     weight of this rank's change, such as the number of tokens since its last offer: a whole number, or
                   a function without arguments, which is called for each offer. Merged changes are weighted means. A
                   change of weight 0 is dropped. None: 1
        transport  "bf16": changes are rounded to bf16. The rounding errors of this rank are added to its next change;
                   None: no rounding
        timeout    maximum duration of a wait in seconds; None: the group's timeout

    The change of a late rank is merged in a later round, once. Ranks with equal `fragment_rounds` have equal global
    weights, bit for bit. The inner optimizer's step() raises Timeout and PeerLost after the local step. Call shrink()
    after PeerLost. In both cases train on: the interrupted merge is repeated after the next step. Buffers of the model
    are not merged.

    Attributes:
        steps   number of local steps
        passes  number of passes that rounds() has begun over the batches
    """

    def __init__(self, model_fragments: Sequence[torch.nn.Module | Iterable[torch.nn.Parameter]],
                 inner_optimizer: torch.optim.Optimizer,
                 outer_optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer], sync_every: int, *,
                 world: Any = None, fragment_sync_delay: int = 0, fragment_update_alpha: float = 0.0,
                 quorum: int | None = None, grace: float | None = None, weight: _Weight = None,
                 transport: str | None = None, timeout: float | None = None) -> None:
        self.world, self._limit = world_and_limit(world, timeout)
        self._every, self._delay, self._alpha = sync_every, fragment_sync_delay, fragment_update_alpha
        self._grace, self._weight = grace, weight
        self.steps = self.passes = 0
        self._origin = 0  # local step after which fragment 0 has its first turn
        self._offered = self._collected = 0  # number of offers and of merges since then
        self._turn = 0
        self._has_left = False
        with refusing(self.world):
            self._expect_valid(len(model_fragments), quorum, transport)
            parameters = [_parameters_of(each, i) for i, each in enumerate(model_fragments)]
            outers = _outers_of(outer_optimizer, len(parameters))
            _expect_owners(parameters, inner_optimizer, outers)
            self._fragments = [Fragment(each, outer, _TRANSPORTS.get(transport or ""))
                               for each, outer in zip(parameters, outers)]
        self._distance = sync_every // len(self._fragments)
        for each in self._fragments:
            each.sums = self.world.partial(each.parameters.count, each.transport, divisor="offers", lag="history",
                                           history=_HISTORY, activation=self._activation(quorum))
            each.sums._create_wait(self._limit)
            each.begin()
            self._broadcast(each.weights.flat, 0)
            each.mix(0.0)
        self._hook = inner_optimizer.register_step_post_hook(self._after_step)

    def _expect_valid(self, fragments: int, quorum: int | None, transport: str | None) -> None:
        if not fragments:
            raise ValueError("model_fragments is empty: pass [model], or a list of modules")
        if self._every < 1 or self._every % fragments:
            raise ValueError(f"sync_every is {self._every}, but the {fragments} fragments are merged at equal distances"
                             f": give a multiple of {fragments}")
        if not 0 <= self._delay < self._every // fragments:
            raise ValueError(f"fragment_sync_delay is {self._delay}, but a fragment is merged before the next offers: "
                             f"give a number from 0 to {self._every // fragments - 1}")
        if not 0 <= self._alpha <= 1:
            raise ValueError(f"fragment_update_alpha is {self._alpha}: give a number from 0 to 1")
        if quorum is not None and not 1 <= quorum <= self.world.size:
            raise ValueError(f"quorum is {quorum}, but the world has {self.world.size} ranks: give a number from 1 to "
                             f"{self.world.size}")
        if self._weight is not None and not callable(self._weight):
            whole_number(self._weight, "weight")
        if self._grace is not None and not 0 <= self._grace <= _LONGEST_GRACE:
            raise ValueError(f"grace is {self._grace}: give a number of seconds from 0 to {_LONGEST_GRACE}")
        if transport is not None and transport not in _TRANSPORTS:
            raise ValueError(f"transport is {transport!r}, but changes cannot be added in this type without overflow: "
                             "use 'bf16' or None")

    def _activation(self, quorum: int | None) -> str:
        half = None if self._grace is None else max(1, round(self._grace * 5e5))  # half of the grace in microseconds
        if quorum is None:
            return "full" if half is None else f"deadline({half})"
        return f"quorum({quorum})" if half is None else f"quorum({quorum})+grace({half})"

    @property
    def fragment_rounds(self) -> list[int]:
        """The last round of each fragment that this rank has applied."""
        return [each.round for each in self._fragments]

    @property
    def reports(self) -> list[Report | None]:
        """The libsched.Report of the last result of each fragment; None: no result yet."""
        return [each.report for each in self._fragments]

    def global_weights(self) -> list[torch.Tensor]:
        """Copies of the global weights of each fragment, as flat tensors."""
        return [each.weights.flat.clone() for each in self._fragments]

    # --- a loop --------------------------------------------------------------------------------------------------

    def rounds(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        """Yields batches, pass after pass, until round `until` of each fragment is over. Then calls flush().

        A late rank skips the rounds that it has missed, and makes fewer steps. All ranks must call this method with the
        same `until`. With a quorum, use this loop. Without the loop, a late rank would wait for rounds for which the
        others do not call. `batches` can be read repeatedly, as in PartialOptimizer.rounds().
        """
        self._fragments[0].sums._agreed_until(until)
        for each in self._fragments:
            each.final_round = until
        try:
            while not self._have_ended():
                yield from self._pass(batches)
        finally:
            for each in self._fragments:
                each.final_round = NO_END
        self.flush()

    def _have_ended(self) -> bool:
        return all(each.has_ended for each in self._fragments)

    def _pass(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        for sampler in {id(each): each for each in _samplers_of(batches)}.values():
            sampler.set_epoch(self.passes)
        self.passes += 1
        steps = self.steps
        for batch in batches:
            yield batch
            if self._have_ended():
                return
        if self.steps == steps:
            raise StateError(f"rounds: the inner optimizer made no step in pass {self.passes} over the batches, so the "
                             "last round would never come: give batches that can be iterated repeatedly, and make a "
                             "step for each batch", "LSCHED_ERR_STATE")

    # --- one rank alone ------------------------------------------------------------------------------------------

    def _after_step(self, inner: torch.optim.Optimizer, *_: Any) -> None:
        if self._has_left or _is_for_initial_state(inner):
            return
        self.steps += 1
        since = self.steps - self._origin
        if (since + self._delay) // self._distance > self._offered:
            self._offer_next()
        while self._collected < min(since // self._distance, self._offered):
            fragment = self._fragments[self._collected % len(self._fragments)]
            fragment.collect(self._alpha, self._longest_wait(), self._grace is not None)
            self._collected += 1

    def _offer_next(self) -> None:
        """Offers the change of the fragment whose turn it is.

        In a turn, a rank calls for round `turn` of fragment 0, then of fragment 1, and so on. A late rank only leaves
        out whole turns all of whose rounds are over. So if ranks wait for different fragments, the earliest of these
        rounds has the calls of all waiting ranks, and no ranks wait for each other.
        """
        number = self._offered % len(self._fragments)
        if number == 0:
            self._turn = min(each.sums.round - each.first_round for each in self._fragments) + 2
        fragment = self._fragments[number]
        if not fragment.has_ended:
            fragment.skip_to(self._turn)
            fragment.offer(self.steps, self._weight)
        self._offered += 1

    def _begin_turns(self) -> None:
        """Makes the next turn that of fragment 0, as on all other ranks."""
        self._origin, self._offered, self._collected = self.steps, 0, 0
        for each in self._fragments:
            each.first_round = each.sums.round + 1

    def _longest_wait(self) -> float:
        """Returns the time in seconds for which a merge may wait.

        A rank that has stopped costs one wait: while a round is late, this rank waits for no round.
        """
        if self._grace is None:
            return self._limit
        return 0.0 if any(each.is_blocked for each in self._fragments) else self._grace

    def leave(self) -> None:
        """Declares that this rank makes no more merges. Later rounds do not wait for this rank."""
        if not self._has_left:
            self._has_left = True
            self._hook.remove()
            for each in self._fragments:
                each.sums.leave()

    # --- all ranks together --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Merges all changes of all ranks. The weights of all models become the global weights. Collective.

        Changes include the local steps since the last offer. The next merge is then that of fragment 0, after
        sync_every / P local steps. After a Timeout, call flush() again. A rank that has missed more than 60 rounds gets
        the global weights and the state of the outer optimizer from another rank.
        """
        for each in self._fragments:
            if each.offered_step < self.steps:
                each.offer(self.steps, self._weight)
            each.flush(self._limit)
        self._begin_turns()
        self._equalise()

    def _equalise(self) -> None:
        mine = torch.tensor([any(each.differs for each in self._fragments)], dtype=torch.int32, device="cpu")
        all_ranks = torch.zeros(self.world.size, dtype=torch.int32, device="cpu")
        with self.world.allgather(mine, all_ranks) as gather:
            gather.run(self._limit)
        if not all_ranks.any():
            return
        root = int(all_ranks.argmin())
        file = io.BytesIO()
        torch.save([each.state_dict() for each in self._outers()], file)
        image = torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)
        size = torch.tensor([image.numel()], device="cpu")
        self._broadcast(size, root)
        if self.world.rank != root:
            image = torch.empty(int(size), dtype=torch.uint8, device="cpu")
        self._broadcast(image, root)
        for outer, state in zip(self._outers(), torch.load(io.BytesIO(image.numpy().tobytes()))):
            outer.load_state_dict(state)
        for each in self._fragments:
            self._broadcast(each.weights.flat, root)
            each.mix(0.0)
            each.differs = False

    def _broadcast(self, tensor: torch.Tensor, root: int) -> None:
        with self.world.bcast(tensor, root) as step:
            step.run(self._limit)

    def shrink(self) -> World:
        """Continues after a PeerLost in a world of the ranks that are left, and returns the world.

        All of these ranks must call this method. After another PeerLost, call shrink() again. Ranks with equal
        `fragment_rounds` still have equal global weights.
        """
        survivors = self.world.shrink(self._limit)
        survivors.nonblocking = self.world.nonblocking
        for each in self._fragments:
            each.sums.carry(survivors)
        self.world = survivors
        return survivors

    def close(self) -> None:
        """Leaves, and waits until all ranks have left."""
        self.leave()
        for each in self._fragments:
            each.sums.close(self._limit)

    def __enter__(self) -> DiLoCo:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
            return
        self._hook.remove()
        for each in self._fragments:
            each.sums._abandon(is_cancelled=True)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def _outers(self) -> list[torch.optim.Optimizer]:
        return list({id(each.outer): each.outer for each in self._fragments}.values())

    def state_dict(self) -> dict[str, Any]:
        """Returns the global weights, the state of the outer optimizers, and this rank's offers that are in no round.

        Each rank must save its own state, and the states of the model and of the inner optimizer. Results that were not
        applied are not included, so call flush() before.
        """
        fragments = [{"names": list(each.parameters.names), "weights": each.weights.flat.clone(),
                      "start": each.start.flat.clone(), "round": each.round, "offered_step": each.offered_step,
                      "residual": None if each.residual is None else each.residual.clone(),
                      "pending": torch.frombuffer(bytearray(each.sums.save_pending()), dtype=torch.uint8)}
                     for each in self._fragments]
        return {"version": 1, "ranks": self.world.size, "rank": self.world.rank, "steps": self.steps,
                "passes": self.passes, "fragments": fragments, "outer": [each.state_dict() for each in self._outers()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state that state_dict() has returned. Must be called before the first step.

        Drops the pending offers and the residual if another rank, or a rank of a world of another size, has saved them.
        """
        theirs = state_dict["fragments"]
        if [each["names"] for each in theirs] != [each.parameters.names for each in self._fragments]:
            raise ValueError("the state belongs to a model with other fragments: load the state of these fragments")
        for outer, state in zip(self._outers(), state_dict["outer"]):
            outer.load_state_dict(state)
        self.steps, self.passes = state_dict["steps"], state_dict["passes"]
        self._begin_turns()
        is_mine = (state_dict["ranks"], state_dict["rank"]) == (self.world.size, self.world.rank)
        for each, saved in zip(self._fragments, theirs):
            each.weights.flat.copy_(saved["weights"])
            each.start.flat.copy_(saved["start"])
            each.rounds_before = saved["round"] - each.sums.round
            each.offered_step = saved["offered_step"]
            each.sums.withdraw()
            if is_mine:
                each.sums.load_pending(bytes(saved["pending"].numpy()))
            if is_mine and each.residual is not None and saved["residual"] is not None:
                each.residual.copy_(saved["residual"])


def _parameters_of(fragment: Any, number: int) -> Parameters:
    if isinstance(fragment, torch.nn.Module):
        return Parameters(fragment.named_parameters())
    return Parameters((f"fragment {number}, parameter {i}", each) for i, each in enumerate(fragment))


def _outers_of(given: Any, fragments: int) -> list[torch.optim.Optimizer]:
    """Returns the outer optimizer of each fragment."""
    if isinstance(given, torch.optim.Optimizer):
        return [given] * fragments
    outers = list(given)
    if len(outers) != fragments:
        raise ValueError(f"outer_optimizer has {len(outers)} optimizers, but there are {fragments} fragments: give one "
                         "optimizer, or one for each fragment")
    return outers


def _ids_of(optimizer: torch.optim.Optimizer) -> set[int]:
    return {id(each) for group in optimizer.param_groups for each in group["params"] if each.requires_grad}


def _expect_owners(fragments: list[Parameters], inner: torch.optim.Optimizer,
                   outers: list[torch.optim.Optimizer]) -> None:
    """Raises ValueError unless fragments and optimizers have the same parameters."""
    if any(each is inner for each in outers):
        raise ValueError("the inner and the outer optimizer are the same object: create two optimizers")
    ids = [id(each) for fragment in fragments for each in fragment.tensors]
    if len(ids) != len(set(ids)):
        raise ValueError("a parameter is in two fragments: put each parameter, also a tied one, into one fragment")
    if set(ids) != _ids_of(inner):
        raise ValueError("the fragments and the inner optimizer have different parameters: the fragments together must "
                         "have each parameter of the inner optimizer once")
    for fragment, outer in zip(fragments, outers):
        its = _ids_of(outer)
        for name, each in zip(fragment.names, fragment.tensors):
            if id(each) not in its:
                raise ValueError(f"{name} is not in the outer optimizer of its fragment: give this optimizer all "
                                 "parameters of the fragment")


def _is_for_initial_state(inner: torch.optim.Optimizer) -> bool:
    """Returns true for a step that functions of torch.distributed.checkpoint.state_dict make.

    These functions make a step with zero gradients at a learning rate of 0. Such a step needs no other rank.
    """
    if any(group.get("lr", 1.0) != 0 for group in inner.param_groups):
        return False
    gradients = (each.grad for group in inner.param_groups for each in group["params"])
    return not any(each is not None and bool(each.any()) for each in gradients)
