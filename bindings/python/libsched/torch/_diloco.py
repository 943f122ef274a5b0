"""Local steps and merges: DiLoCo and Streaming DiLoCo (Douillard and others, 2023 and 2025) with partial allreduces."""

from __future__ import annotations

import collections
import functools
import io
import time
from typing import Any, Callable, Iterable, Iterator, Sequence, TypeVar, Union

import torch

from .._collective import refusing
from .._errors import StateError, Timeout
from .._partial import Report, _samplers_of
from .._words import whole_number
from .._world import World
from ._fragment import Fragment
from ._hook import world_and_limit
from ._parameters import Parameters

_NO_END = 2**62  # larger than the number of any round
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
    which copies the weights of rank 0 to all ranks. One partial schedule moves the fragments in turn, so each round
    moves as many elements as the largest fragment has. Prefer fragments of similar sizes. Arguments with the names of
    torchft have the meaning of torchft:
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
                   trains on, and its weights get the result at the next merge of the fragment. Without a quorum, a
                   rank that has waited for half of this time starts the round without the late ranks
        weight     weight of this rank's change, such as the number of tokens since its last offer: a whole number, or
                   a function without arguments, which returns the weight of the steps since its last call. Merged
                   changes are weighted means. A change of weight 0 is dropped. None: 1
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
        # Numbers of the fragments of the turns that were not merged; None: the turn has made no offer.
        self._turns: collections.deque = collections.deque()
        self._called = 0  # last round for which this rank has called
        # (ticket, number of the turn) of rounds whose results were not applied, oldest first
        self._tickets: collections.deque = collections.deque()
        self._used_ticket: Any = None  # of the last round whose results were applied
        self._is_overdue = False  # true if a wait for the oldest ticket has ended without a result
        self._final_round = _NO_END  # last round of the running loop over rounds()
        self._has_left = False
        with refusing(self.world):
            self._expect_valid(len(model_fragments), quorum, transport)
            parameters = [_parameters_of(each, i) for i, each in enumerate(model_fragments)]
            outers = _outers_of(outer_optimizer, len(parameters))
            _expect_owners(parameters, inner_optimizer, outers)
            self._fragments = [Fragment(each, outer, keeps_residual=transport is not None)
                               for each, outer in zip(parameters, outers)]
        dtype = _TRANSPORTS.get(transport or "") or functools.reduce(torch.promote_types,
                                                                     (each.dtype for each in parameters))
        # A change of a fragment, and later a result. Fragments that are shorter than the longest do not use the end.
        self._message = torch.zeros(max(each.count for each in parameters), dtype=dtype, device="cpu")
        self._distance = sync_every // len(self._fragments)
        self._sums = self.world.partial(len(self._message), dtype, divisor="offers", lag="history", history=_HISTORY,
                                        activation=self._activation(quorum), fragments=len(self._fragments))
        self._sums._create_wait(self._limit)
        for each in self._fragments:
            each.begin()
            self._broadcast(each.weights.flat, 0)
            each.restart()
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
        """The number of rounds of each fragment that this rank has applied."""
        return [each.round for each in self._fragments]

    @property
    def reports(self) -> list[Report | None]:
        """The libsched.Report of the last result of each fragment; None: no result yet.

        Its round numbers count the rounds of all fragments.
        """
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
        self._sums._agreed_until(until)
        self._final_round = len(self._fragments) * (until - min(each.rounds_before for each in self._fragments))
        try:
            while not self._has_ended():
                yield from self._pass(batches)
        finally:
            self._final_round = _NO_END
        self.flush()

    def _has_ended(self) -> bool:
        return self._sums.round >= self._final_round

    def _pass(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        for sampler in {id(each): each for each in _samplers_of(batches)}.values():
            sampler.set_epoch(self.passes)
        self.passes += 1
        steps = self.steps
        for batch in batches:
            yield batch
            if self._has_ended():
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
        if self._has_ended():
            return  # flush() merges the rest
        since = self.steps - self._origin
        if (since + self._delay) // self._distance > self._offered:
            self._offer_next()
        while self._collected < min(since // self._distance, self._offered):
            self._merge(self._turns[0])
            self._turns.popleft()
            self._collected += 1

    def _offer_next(self) -> None:
        """Offers a change, and calls for the round after the last round that was called or applied.

        If this rank is late, that round may be over, so that the next merge does not wait. All ranks call for rounds of
        one sequence, so no two ranks wait for each other in different fragments.
        """
        number = None  # after the call for the last round of a loop, flush() makes the next offers
        if self._called < self._final_round:
            number = self._fragment_of_turn()
            self._sums.skip(max(0, min(self._sums.round, self._final_round - 1)))
            self._weigh()
            self._offer(number)
        self._turns.append(number)
        self._offered += 1

    def _fragment_of_turn(self) -> int:
        """Returns the number of the fragment that is offered next: the fragment that the called round moves.

        A slow rank calls for few rounds, perhaps always of the same fragment. So a fragment that was not offered for
        twice the usual time precedes.
        """
        late = min(range(len(self._fragments)), key=lambda number: self._fragments[number].offered_step)
        if self.steps - self._fragments[late].offered_step >= 2 * self._every:
            return late
        return max(self._called, min(self._sums.round, self._final_round - 1)) % len(self._fragments)

    def _weigh(self) -> None:
        """Asks the weight function for the weight of the steps since its last call."""
        if callable(self._weight):
            weight = self._weight()
            for each in self._fragments:
                each.owed += weight

    def _offer(self, number: int) -> None:
        fragment = self._fragments[number]
        weight = fragment.owed if callable(self._weight) else 1 if self._weight is None else self._weight

        def send() -> None:
            self._message[fragment.parameters.count:] = 0
            ticket = self._sums.offer(self._message, weight, number)
            self._called = ticket.round
            self._tickets.append((ticket, self._offered))

        fragment.offer(send, self._message[:fragment.parameters.count], self.steps, weight)

    def _merge(self, number: int | None) -> None:
        """Applies all results up to this turn's offer, then mixes the local and the global weights of the fragment.

        If a result is late, raises Timeout, or returns if there is a grace.
        """
        end = time.monotonic() + self._longest_wait()
        try:
            if self._used_ticket is not None:  # a late rank skips rounds, whose results precede the first ticket's
                self._take(self._used_ticket, 0.0)
            while self._tickets and self._tickets[0][1] <= self._collected:
                self._take(self._tickets[0][0], max(0.0, end - time.monotonic()))
                self._used_ticket, self._is_overdue = self._tickets.popleft()[0], False
        except Timeout:
            self._is_overdue = True
            if self._grace is None:
                raise
        finally:
            if number is not None:
                self._fragments[number].mix(self._alpha)

    def _take(self, ticket: Any, timeout: float) -> None:
        """Waits for the ticket's round. Then makes outer steps with all results that are there."""
        while self._apply(self._sums.collect(ticket, self._message, timeout)):
            pass

    def _apply(self, report: Report) -> bool:
        """Makes an outer step with the result in the message. Returns false if there is no new result."""
        if report.from_ == report.to:
            return False
        fragment = self._fragments[report.fragment]
        rounds = (self._rounds_until(report.fragment, report.to) - self._rounds_until(report.fragment, report.from_))
        fragment.step(report, self._message[:fragment.parameters.count], rounds)
        return True

    def _rounds_until(self, number: int, round: int) -> int:
        """Returns how many of the rounds 1 … `round` move a fragment."""
        return (round + len(self._fragments) - 1 - number) // len(self._fragments)

    def _begin_turns(self) -> None:
        """Makes the next turn that of fragment 0, as on all other ranks."""
        self._origin, self._offered, self._collected = self.steps, 0, 0
        self._turns.clear()

    def _longest_wait(self) -> float:
        """Returns the time in seconds for which a merge may wait.

        A rank that has stopped costs one wait: while a round is late, this rank waits for no round.
        """
        if self._grace is None:
            return self._limit
        return 0.0 if self._is_overdue and not self._tickets[0][0].test() else self._grace

    def leave(self) -> None:
        """Declares that this rank makes no more merges. Later rounds do not wait for this rank."""
        if not self._has_left:
            self._has_left = True
            self._hook.remove()
            self._sums.leave()

    # --- all ranks together --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Merges all changes of all ranks. The weights of all models become the global weights. Collective.

        Changes include the local steps since the last offer. The next merge is then that of fragment 0, after
        sync_every / P local steps. After a Timeout, call flush() again. A rank that has missed more than 60 rounds of a
        fragment gets the global weights and the state of the outer optimizer from another rank.
        """
        late = [number for number, each in enumerate(self._fragments) if each.offered_step < self.steps]
        if late:
            self._weigh()
        for number in late:
            self._offer(number)
        if not self._tickets and self._used_ticket is None:
            self._tickets.append((self._sums.offer(None), 0))
        self._apply(self._sums.flush(self._message, self._limit))
        if self._tickets:
            self._used_ticket = self._tickets[-1][0]
        self._tickets.clear()
        self._is_overdue = False
        self._take(self._used_ticket, self._limit)
        self._called = self._sums.round
        for each in self._fragments:
            each.restart()
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
            each.restart()
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
        self._sums.carry(survivors)
        self.world = survivors
        return survivors

    def close(self) -> None:
        """Leaves, and waits until all ranks have left."""
        self.leave()
        self._sums.close(self._limit)

    def __enter__(self) -> DiLoCo:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
            return
        self._hook.remove()
        self._sums._abandon(is_cancelled=True)

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
                      "is_mixed": each.is_mixed, "owed": each.owed,
                      "residual": None if each.residual is None else each.residual.clone()} for each in self._fragments]
        pending = torch.frombuffer(bytearray(self._sums.save_pending()), dtype=torch.uint8)
        return {"version": 2, "ranks": self.world.size, "rank": self.world.rank, "steps": self.steps,
                "passes": self.passes, "fragments": fragments, "pending": pending,
                "outer": [each.state_dict() for each in self._outers()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state that state_dict() has returned. Must be called before the first step.

        Drops the pending offers and the residual if another rank, or a rank of a world of another size, has saved them.
        """
        if state_dict["version"] != 2:
            raise ValueError(f"the state has version {state_dict['version']}, but this version of libsched reads "
                             "version 2: use the version of libsched that has saved the state")
        theirs = state_dict["fragments"]
        if [each["names"] for each in theirs] != [each.parameters.names for each in self._fragments]:
            raise ValueError("the state belongs to a model with other fragments: load the state of these fragments")
        for outer, state in zip(self._outers(), state_dict["outer"]):
            outer.load_state_dict(state)
        self.steps, self.passes = state_dict["steps"], state_dict["passes"]
        self._begin_turns()
        is_mine = (state_dict["ranks"], state_dict["rank"]) == (self.world.size, self.world.rank)
        self._sums.withdraw()
        if is_mine:
            self._sums.load_pending(bytes(state_dict["pending"].numpy()))
        for number, (each, saved) in enumerate(zip(self._fragments, theirs)):
            each.weights.flat.copy_(saved["weights"])
            each.start.flat.copy_(saved["start"])
            each.round, each.offered_step = saved["round"], saved["offered_step"]
            each.is_mixed, each.owed = saved["is_mixed"], saved["owed"]
            each.rounds_before = each.round - self._rounds_until(number, self._sums.round)
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
