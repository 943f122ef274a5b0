"""Partial collectives, which do not wait for the slowest rank (Li and others, PPoPP 2020)."""

from __future__ import annotations

import itertools
import json
from array import array
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from . import _core
from ._collective import collective_call
from ._errors import ArgumentError, Error, Mismatch, StateError
from ._memory import NOTHING, Memory, look_at_host
from ._schedule import Schedule, Ticket
from ._words import (age_numbers, DIVISORS, DTYPE_NAMES, ITEM_BYTES, LAGS, dtype_kind, dtype_number, number_of,
                     reduction_number, tensor_numbers, text_of, whole_number)

if TYPE_CHECKING:
    from ._world import World

_Batch = TypeVar("_Batch")
_Looked = TypeVar("_Looked")


class Report(NamedTuple):
    """Describes a collected result, which covers the rounds (from_, to]."""

    #: equal to `to`. The next three members describe round `to`, and are equal on all ranks that collect that round.
    last_round: int
    contributors: int  #: number of ranks that have contributed to round `to`
    last_offers: int  #: sum of the weights of the offers in round `to`; the number of offers if none has a weight
    ranks: int  #: size of the world in round `to`
    from_: int
    to: int  #: last round of the result; if equal to from_, no round is new, and the result array was not written
    round: int  #: number of the last round that is over
    offers: int  #: sum of the weights of the offers of all ranks in the result
    mine: int  #: sum of the weights of the offers of this rank in the result
    staleness: int  #: maximum number of rounds by which an offer of this rank was late
    has_result: bool  #: False: no rank has contributed, and the result array was not written
    age_factor: float  #: smallest factor of an age by which a round has multiplied a contribution of this rank
    groups: int  #: with replica groups: bit g is set if group g is in round `to`; otherwise 0
    fragment: int  #: fragment of round `to`


class Partial(Schedule):
    """A collective that does not wait for the slowest rank. The schedule owns its buffers, and runs in the background.

        with world.partial(n, "f32", activation="majority", lag="accumulate", divisor="ranks") as sums:
            ticket = sums.offer(gradient)
            report = sums.collect(ticket, result)

    World.partial(count, dtype, ...) has these options. All ranks must give the same options, except lag and
    divisor:
        collective        "allreduce", "reduce_scatter_block", "adasum" or "allgather"
        buckets           number of elements of each part of the vector (allreduce); the parts are reduced concurrently
        op                reduction of the contributions
        activation        condition that starts a round: "full", "solo", "majority", "first_of(M)", "all_of(M)",
                          "quorum(K)", "quorum(K)+grace(microseconds)", "deadline(microseconds or auto)", perhaps
                          followed by "+every(T)"
        seed              seed of the random draws
        lag               treatment of results that were not collected: "latest", "accumulate", "history"
        history           number of results that "history" keeps, from 1 to 60
        divisor           divisor of the results: "ranks", "contributors", "offers" (the sum of the weights) or None
        algorithm         a name that `lsched list` shows
        averages_weights  True: model_sync() will be called
        tensors           for "adasum": (begin, count) of each tensor, without gaps
        age               multiplies late contributions: "inverse": by 1/(1+age); a list: by the factors of the ages 0,
                          1, …; None: by 1. The age is in rounds (lsched_age in lsched.h)
        sparse            k, or a dict of the options of World.sparse_allreduce; makes the collective a sparse allreduce
        groups            (world of all ranks, ranks of a group) or (world, ranks, staged): replica groups
                          (lsched_groups in lsched.h). This world has the ranks with the same shard
        fragments         F: the schedule has F fragments of `count` elements. Round t moves fragment (t - 1) % F, and a
                          result has one fragment (lsched_partial_desc in lsched.h)
        joins             True: joins the schedule that the other ranks carry() to the world

    One thread at a time may offer, and one thread at a time may collect. The offering thread and the collecting thread
    may differ.

    Attributes:
        round   the last round that this rank has collected
        passes  number of passes that rounds() has begun over the batches
    """

    _count: int
    _result_count: int
    _dtype: int
    _buckets: list[int]
    round = 0
    passes = 0
    _final_round: int | None = None  # last round of the running loop over rounds()
    _steps = 0

    # --- a loop --------------------------------------------------------------------------------------------------

    def rounds(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        """Yields batches, pass after pass, until round `until` has been collected. Then all ranks stop.

            for batch in sums.rounds(batches, until=1000):
                report = sums.collect(sums.offer(gradient_of(batch)), result)
            report = sums.flush(result)

        Within the loop, offer() requests the oldest round that is not over. A late rank skips the rounds that it has
        missed, and makes fewer steps than the other ranks. No rank requests a round after `until`. Each pass calls
        set_epoch(passes) of the sampler or batch sampler of `batches`, if there is such a function.

        This method is collective: all ranks call rounds() with the same `until`. Before the first batch the ranks wait
        for each other, for at most the `commit_timeout` of the world. Raises ArgumentError on all ranks if a rank gives
        an `until` that is not a whole number, and Mismatch if the numbers differ. Raises ArgumentError if a pass has no
        batch, as in the second pass over an iterator. Raises StateError if a whole pass has made no offer.
        """
        return self._rounds(batches, self._agreed_until(until))

    @collective_call
    def _agreed_until(self, until: Any) -> int:
        """Returns `until` if all ranks give the same number."""
        mine = array("q", [whole_number(until, "until", -2**63, 2**63 - 1)])
        all_ranks = array("q", [0] * self.world.size)
        with self.world.allgather(mine, all_ranks) as gather:
            gather.run(self.world._commit_timeout)
        other = next((rank for rank, each in enumerate(all_ranks) if each != all_ranks[0]), None)
        if other is not None:
            raise Mismatch(f"rounds: until is {all_ranks[0]} on rank 0 and {all_ranks[other]} on rank {other}: give "
                           "the same round on all ranks", "LSCHED_ERR_MISMATCH", other)
        return mine[0]

    def _rounds(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        self._final_round = until
        try:
            while self.round < until:
                yield from self._pass(batches, until)
        finally:
            self._final_round = None

    def _pass(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        for sampler in {id(each): each for each in _samplers_of(batches)}.values():
            sampler.set_epoch(self.passes)
        self.passes += 1
        steps, is_empty = self._steps, True
        for batch in batches:
            is_empty = False
            yield batch
            if self.round >= until:
                return
        if is_empty:
            raise ArgumentError(f"rounds: pass {self.passes} over the batches has no batch, but only round "
                                f"{self.round} of {until} is over: give batches that can be iterated "
                                "repeatedly, such as a list or a DataLoader", "LSCHED_ERR_ARGUMENT")
        if self._steps == steps:
            raise StateError(f"rounds: no step was made in pass {self.passes} over the batches, so round {until} would "
                             "never come: make a step (an offer and a collect) for each batch", "LSCHED_ERR_STATE")

    def skip(self, last: int) -> int:
        """Skips all rounds up to `last` that are over. Returns the number of these rounds."""
        return _core.skip(self, whole_number(last, "last"))

    def _begin_offer(self) -> None:
        self._steps += 1
        if self._final_round is not None:
            _core.skip(self, max(0, self._final_round - 1))

    # --- one rank alone ------------------------------------------------------------------------------------------

    def offer(self, contribution: Any = None, weight: int = 1, fragment: int | None = None) -> Ticket:
        """Contributes a copy of an array, and requests this rank's next round.

        A list or tuple has one array for each bucket. With None, the rank makes the call without a contribution. Does
        not block. If offer() refuses an array, this rank has made no call, and no other rank raises. In this case, call
        offer() again with a valid array. A contribution that has missed its round is combined with later contributions.
        So every contribution is in the results exactly once.

        The contribution is multiplied by `weight`, for example the number of its samples or tokens, and reports count
        the weight. With divisor="offers" results are weighted means. With the weight 0 nothing is contributed.

        `fragment` is the fragment of the contribution. None: the fragment of the requested round.
        """
        buckets, _keeps = self._looked_at_vector(contribution, self._count, False, "contribution")
        number = whole_number(weight, "weight")
        which = None if fragment is None else whole_number(fragment, "fragment", 0, 2**32 - 1)
        self._begin_offer()
        return _core.offer(self, buckets, number, which)

    def offer_bucket(self, index: int, bucket: Any) -> None:
        """Copies one bucket of a contribution. Buckets may be given in any order, as soon as they are computed.

        After the last bucket, call offer_end().
        """
        count = self._buckets[index] if 0 <= index < len(self._buckets) else None
        if count is None:
            raise ArgumentError(f"there is no bucket {index}: the schedule has {len(self._buckets)} buckets, numbered "
                                "from 0", "LSCHED_ERR_ARGUMENT")
        _core.offer_bucket(self, index, self._looked_at(bucket, count, False, f"bucket {index}").address)

    def offer_end(self, weight: int = 1) -> Ticket:
        """Contributes the copied buckets with a weight, as offer() does, and requests the next round."""
        number = whole_number(weight, "weight")
        self._begin_offer()
        return _core.offer_end(self, number)

    def collect(self, ticket: Ticket, result: Any = None, timeout: float | None = None) -> Report:
        """Waits until the ticket's round is over, then copies the result that was not collected yet.

        A list or tuple has one array for each bucket. With None, drops the result. Blocks for at most `timeout`
        seconds, then raises Timeout. With lag="history", copies the oldest result that was not collected yet.
        """
        self._expect_mine(ticket)
        buckets, _keeps = self._looked_at_vector(result, self._result_count, True, "result")
        return self._reported(_core.collect(ticket, buckets, timeout))

    def collect_view(self, ticket: Ticket, timeout: float | None = None) -> tuple[memoryview | None, Report]:
        """Collects the result without a copy. Returns (bytes of the result or None, report).

        The bytes can be read until collect(), collect_view(), flush() or model_sync() returns a new result.
        """
        self._expect_mine(ticket)
        address, report = _core.collect_view(ticket, timeout)
        view = self._viewed(address, self._result_count * self._item_bytes, is_read_only=True) if address else None
        return view, self._reported(report)

    def withdraw(self) -> int:
        """Withdraws the offers that are in no round yet, and returns the sum of their weights."""
        return _core.withdraw(self)

    def leave(self) -> None:
        """Leaves the schedule. All later rounds proceed as if this rank had called offer(None)."""
        _core.leave(self)

    # --- all ranks together --------------------------------------------------------------------------------------

    # If one of the next functions refuses the array of a rank, that rank cancels the schedule. Otherwise the other
    # ranks would wait until their timeout.

    def flush(self, result: Any = None, timeout: float | None = None) -> Report:
        """Runs a round with all earlier offers of all ranks, and collects its result.

        This method is collective. `result` has the same meaning as in collect(). After a Timeout, call flush() again.
        If the array of a rank is refused, this rank raises and cancels the schedule, so that the other ranks raise
        Cancelled.
        """
        buckets, _keeps = self._or_cancelled(
            lambda: self._looked_at_vector(result, self._result_count, True, "result"))
        return self._reported(_core.flush(self, buckets, timeout))

    def model_sync(self, weights: Any, timeout: float | None = None) -> Report:
        """Replaces the weights by their mean, with the same bits on all ranks, and drops pending offers.

        This method is collective. If the array of a rank is refused, this rank raises and cancels the schedule, so that
        the other ranks raise Cancelled.
        """
        memory = self._or_cancelled(lambda: self._looked_at(weights, self._count, True, "weights"))
        return self._reported(_core.model_sync(self, memory.address, timeout))

    def carry(self, to: World) -> None:
        """Moves the schedule to another world; see docs/reference/shrink.md.

        `to` is a result of World.shrink(), or a world that was opened later. All ranks of `to` must call this method.
        Ranks that were not in the former world call World.partial(..., joins=True) instead.
        """
        to._take_over(self)

    # --- checkpoints and statistics ------------------------------------------------------------------------------

    def save_pending(self) -> bytes:
        """Returns the bytes of this rank's offers that are in no round yet, for a checkpoint."""
        return _core.pending_save(self)

    def load_pending(self, image: bytes) -> None:
        """Adds the offers in `image`, a result of save_pending(), to the pending offers. Does not request a round."""
        _core.pending_load(self, image)

    def statistics(self) -> dict[str, Any]:
        """Returns histograms of contributors, staleness and times of calls, named as in lsched_partial_stats."""
        return json.loads(self._statistics())

    def _reported(self, members: tuple) -> Report:
        report = Report(*members)
        self.round = max(self.round, report.to)
        return report

    # --- arrays --------------------------------------------------------------------------------------------------

    @property
    def _item_bytes(self) -> int:
        return ITEM_BYTES[self._dtype]

    def _or_cancelled(self, look: Callable[[], _Looked]) -> _Looked:
        """Returns the result of look(). If look() raises, cancels the schedule and raises the same exception."""
        try:
            return look()
        except Exception:
            try:
                self.cancel()
            except Error:
                pass  # the schedule has failed already, and the first error is the cause
            raise

    def _expect_mine(self, ticket: Ticket) -> None:
        if ticket.schedule is not self:
            raise ArgumentError("the ticket belongs to another schedule: pass a ticket of this schedule",
                                "LSCHED_ERR_ARGUMENT")

    def _looked_at(self, array: Any, count: int, is_written: bool, name: str) -> Memory:
        if array is None:
            return NOTHING
        memory = look_at_host(array, is_written, name=name)
        if (memory.dtype, memory.kind, memory.count) != (self._dtype, self._kind, count):
            raise ArgumentError(f"{name} has {memory.count} elements of {memory.dtype_name}: "
                                f"expected {count} of {self._kind or DTYPE_NAMES[self._dtype]}",
                                "LSCHED_ERR_ARGUMENT")
        return memory

    def _looked_at_vector(self, vector: Any, count: int, is_written: bool,
                          name: str) -> tuple[list[int] | None, list[Memory]]:
        """Returns the address of each bucket, and the Memory objects that keep the buckets alive.

        `vector` is one array, a list of one array for each bucket, or None.
        """
        if vector is None:
            return None, []
        if not isinstance(vector, (list, tuple)):
            whole = self._looked_at(vector, count, is_written, name)
            begins = [0, *itertools.accumulate(self._buckets)][:-1]
            return [whole.address + begin * self._item_bytes for begin in begins], [whole]
        if len(vector) != len(self._buckets):
            raise ArgumentError(f"got {len(vector)} arrays: expected {len(self._buckets)}, an array for each bucket",
                                "LSCHED_ERR_ARGUMENT")
        memories = [self._looked_at(each, bucket, is_written, f"bucket {i}")
                    for i, (each, bucket) in enumerate(zip(vector, self._buckets))]
        return [each.address for each in memories], memories


def _samplers_of(batches: Any) -> Iterator[Any]:
    """Yields the samplers of a DataLoader that have the function set_epoch()."""
    batch_sampler = getattr(batches, "batch_sampler", None)
    for each in (getattr(batches, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)):
        if hasattr(each, "set_epoch"):
            yield each


def _group_numbers(groups: tuple[Any, ...] | None) -> tuple[World | None, int, int]:
    """Returns the world of all ranks, the number of shards of a replica group, and the number of staged offers."""
    from ._world import World

    if groups is None:
        return None, 0, 0
    if len(groups) not in (2, 3) or not isinstance(groups[0], World):
        raise ArgumentError("groups is not a tuple (world of all ranks, ranks of a group): pass these two, and perhaps "
                            "the number of staged offers", "LSCHED_ERR_ARGUMENT")
    return (groups[0], whole_number(groups[1], "ranks of a group", 1, 2**31 - 1),
            whole_number(groups[2], "staged", 0, 16) if len(groups) == 3 else 0)


def make_partial(world: World, count: int, dtype: Any, *, collective: str | None = None,
                 buckets: Sequence[int] | None = None, op: str | None = "sum", activation: str = "full",
                 lag: str = "latest", divisor: str | None = None, algorithm: str | None = None,
                 tensors: Sequence[tuple[int, int]] | None = None, age: str | Sequence[float] | None = None,
                 sparse: Any = None, joins: bool = False, groups: tuple[Any, ...] | None = None,
                 **numbers: Any) -> Partial:
    from ._sparse import request_of

    number, kind = dtype_number(dtype), dtype_kind(dtype)
    wanted = None
    if sparse is not None:
        options = dict(sparse) if isinstance(sparse, dict) else {"k": sparse}
        try:
            wanted = request_of(**options)
        except TypeError as why:
            raise TypeError(f"sparse: {str(why).removeprefix('request_of() ')}") from None
    for name in numbers:
        if name not in _core.LARGEST_PARTIAL:
            raise TypeError(f"a partial collective has no option {name!r}")
    numbers = {name: whole_number(given, name, 0, _core.LARGEST_PARTIAL[name])
               for name, given in {"count": count, **numbers}.items()}
    count = numbers["count"]
    if wanted is not None:
        wanted.count, wanted.dtype = count, number
    all_ranks, shards, staged = _group_numbers(groups)
    sizes = [whole_number(each, "an entry of buckets") for each in buckets or ()]
    cuts = tensor_numbers(tensors or ())
    reduction = 0 if op is None else reduction_number(op, kind)
    start = text_of(activation, "activation") or ""
    handle = _core.partial(world, text_of(collective, "collective"), sizes, number, reduction, start,
                           number_of(LAGS, lag, "lag"), number_of(DIVISORS, divisor, "divisor"),
                           text_of(algorithm, "algorithm"), cuts, wanted, kind, *age_numbers(age), numbers, bool(joins),
                           all_ranks, shards, staged)
    made = Partial(world, handle)
    made._dtype, made._kind = number, kind
    made._count = made._result_count = count
    made._buckets = sizes or [count]
    if collective == "reduce_scatter_block":
        made._count = count * world.size
    if collective == "allgather":
        made._result_count = count * world.size
    return made
