"""Partial collectives: nobody waits for the slowest (Li and others, PPoPP 2020)."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from . import _core
from ._collective import collective_call
from ._errors import ArgumentError, Error, Mismatch, StateError
from ._memory import NOTHING, Memory, look_at_host
from ._schedule import Schedule, Ticket
from ._words import (DIVISORS, DTYPE_NAMES, ITEM_BYTES, LAGS, dtype_kind, dtype_number, number_of,
                     reduction_number, text_of, whole_number)

if TYPE_CHECKING:
    from ._world import World

_Batch = TypeVar("_Batch")
_Looked = TypeVar("_Looked")


class Report(NamedTuple):
    """What a collect has delivered, of rounds (from_, to]."""

    last_round: int  #: `to`, of which the next three tell; the same on every rank that has collected just up to it
    contributors: int  #: ranks whose contribution is in it
    last_offers: int  #: offers inside
    ranks: int  #: size of the world in which it was
    from_: int
    to: int  #: from_ == to: nothing new, the result is untouched
    round: int  #: the last round that was over
    offers: int  #: offers inside the result, of all ranks
    mine: int  #: of them this rank's
    staleness: int  #: of these: rounds between the one that was called for and the one it was in, at most
    has_result: bool  #: False: nobody has contributed anything, the result is untouched


class Partial(Schedule):
    """A collective in which nobody waits for the slowest. It owns its buffers and is served in the background.

        with world.partial(n, "f32", activation="majority", lag="accumulate", divisor="ranks") as sums:
            ticket = sums.offer(gradient)
            report = sums.collect(ticket, result)

    World.partial(count, dtype, ...) takes, the same on all ranks but for lag and divisor:
        collective        "allreduce", "reduce_scatter_block", "adasum" or "allgather"
        buckets           elements of the parts of an allreduce's vector that are reduced side by side
        op                how contributions combine
        activation        what starts a round: "full", "solo", "majority", "first_of(M)", "all_of(M)", "quorum(K)",
                          "deadline(microseconds or auto)", perhaps followed by "+every(T)"
        seed              of the draws
        lag               what becomes of results that were not collected: "latest", "accumulate", "history"
        history           how many are kept of the last, 1 to 60
        divisor           what results are divided by: "ranks", "contributors", "offers" or None
        algorithm         a name that `lsched list` shows
        averages_weights  True: model_sync() will be called
        tensors           of an adasum: (begin, count) of each, without gaps
        sparse            k, or a dict of the options of World.sparse_allreduce: then it is a sparse allreduce

    One thread at a time offers, and one collects; they may be two.

    Attributes:
        round   the last round that was collected here
        passes  passes over the batches that rounds() has begun
    """

    _count: int
    _result_count: int
    _dtype: int
    _buckets: list[int]
    round = 0
    passes = 0
    _final_round: int | None = None  # of the loop over rounds() that is under way
    _steps = 0

    # --- a loop --------------------------------------------------------------------------------------------------

    def rounds(self, batches: Iterable[_Batch], until: int) -> Iterator[_Batch]:
        """Yield batches, pass after pass, until round `until` has been collected: then all ranks stop.

            for batch in sums.rounds(batches, until=1000):
                report = sums.collect(sums.offer(gradient_of(batch)), result)
            report = sums.flush(result)

        Within the loop an offer calls for the open round: a late rank leaves out the rounds that it has missed, and
        makes fewer steps than the others. No rank calls for a round after `until`. Each pass calls set_epoch(passes)
        of the sampler or batch sampler of `batches`, if that exists (torch's DistributedSampler has it).

        Collective: all ranks call it with the same `until`, and wait for each other before the first batch, at most
        `commit_timeout` seconds of the world. Raises ArgumentError on all ranks if a rank gives an `until` that is not
        a whole number, and Mismatch if the numbers differ. Raises ArgumentError if a pass has no batch (an iterator can
        be read once only), and StateError if no offer was made in a whole pass.
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
            raise ArgumentError(f"rounds: pass {self.passes} over the batches has no batch, and round {self.round} of "
                                f"{until} is over: give batches that can be iterated repeatedly, such as a list or a "
                                "DataLoader", "LSCHED_ERR_ARGUMENT")
        if self._steps == steps:
            raise StateError(f"rounds: no step was made in pass {self.passes} over the batches, so round {until} would "
                             "never come: make a step (an offer and a collect) for each batch", "LSCHED_ERR_STATE")

    def skip(self, last: int) -> int:
        """Count the rounds up to `last` that are over as called for; returns their number. rounds() does so."""
        return _core.skip(self, whole_number(last, "last"))

    def _begin_offer(self) -> None:
        self._steps += 1
        if self._final_round is not None:
            _core.skip(self, max(0, self._final_round - 1))

    # --- one rank alone ------------------------------------------------------------------------------------------

    def offer(self, contribution: Any = None) -> Ticket:
        """Deposit a copy of an array and call for my next round; None: call without a contribution. Does not block.

        If the array is refused, this rank makes no call, and no other rank raises. Offer again.
        Contributions that have missed their round are combined with later ones: none is lost, none counts twice.
        """
        memory = self._looked_at(contribution, self._count, False, "contribution")
        self._begin_offer()
        return _core.offer(self, memory.address)

    def offer_buckets(self, buckets: Sequence[Any]) -> Ticket:
        """The same of buckets that lie in arrays of their own."""
        memories = self._looked_at_buckets(buckets, False)
        self._begin_offer()
        return _core.offer_buckets(self, [each.address for each in memories])

    def offer_bucket(self, index: int, bucket: Any) -> None:
        """Copy one bucket of a contribution, in any order, while others are still computed; then offer_end()."""
        count = self._buckets[index] if 0 <= index < len(self._buckets) else None
        if count is None:
            raise ArgumentError(f"there is no bucket {index}", "LSCHED_ERR_ARGUMENT")
        _core.offer_bucket(self, index, self._looked_at(bucket, count, False, f"bucket {index}").address)

    def offer_end(self) -> Ticket:
        """Deposit the contribution whose buckets have been given, and call."""
        self._begin_offer()
        return _core.offer_end(self)

    def collect(self, ticket: Ticket, result: Any = None, timeout: float | None = None) -> Report:
        """Wait until the ticket's round is over, then copy the result that was not collected yet; None drops it.

        Blocks for at most `timeout` seconds, and raises Timeout. Of a history it is the first of those that wait.
        """
        self._expect_mine(ticket)
        memory = self._looked_at(result, self._result_count, True, "result")
        return self._reported(_core.collect(ticket, memory.address, timeout))

    def collect_buckets(self, ticket: Ticket, buckets: Sequence[Any], timeout: float | None = None) -> Report:
        """The same into arrays of the buckets."""
        self._expect_mine(ticket)
        memories = self._looked_at_buckets(buckets, True)
        return self._reported(_core.collect_buckets(ticket, [each.address for each in memories], timeout))

    def collect_view(self, ticket: Ticket, timeout: float | None = None) -> tuple[memoryview | None, Report]:
        """The same without a copy: (bytes of the result, to be read until the next collect of any kind; or None)."""
        self._expect_mine(ticket)
        address, report = _core.collect_view(ticket, timeout)
        view = self._viewed(address, self._result_count * self._item_bytes, is_read_only=True) if address else None
        return view, self._reported(report)

    def withdraw(self) -> int:
        """Take back what was offered and has not been sent; how many offers that was."""
        return _core.withdraw(self)

    def leave(self) -> None:
        """From now on this rank counts as having called in every round, with nothing to contribute."""
        _core.leave(self)

    # --- all ranks together --------------------------------------------------------------------------------------

    # If the arrays of a rank are refused, the rank cannot take part, so the other ranks would wait until their timeout.

    def flush(self, result: Any = None, timeout: float | None = None) -> Report:
        """With all ranks: a round that contains everything offered before, collected. After a Timeout call again.

        A rank whose array is refused raises, and cancels the schedule, so that the other ranks raise Cancelled."""
        memory = self._or_cancelled(lambda: self._looked_at(result, self._result_count, True, "result"))
        return self._reported(_core.flush(self, memory.address, timeout))

    def flush_buckets(self, buckets: Sequence[Any], timeout: float | None = None) -> Report:
        """The same into arrays of the buckets."""
        memories = self._or_cancelled(lambda: self._looked_at_buckets(buckets, True))
        return self._reported(_core.flush_buckets(self, [each.address for each in memories], timeout))

    def model_sync(self, weights: Any, timeout: float | None = None) -> Report:
        """With all ranks: replace the weights by their mean, the same bits everywhere, and drop what is pending.

        A rank whose array is refused raises, and cancels the schedule, so that the other ranks raise Cancelled."""
        memory = self._or_cancelled(lambda: self._looked_at(weights, self._count, True, "weights"))
        return self._reported(_core.model_sync(self, memory.address, timeout))

    def carry(self, survivors: World) -> None:
        """Go on in a world of some of the ranks, after World.shrink(); docs/reference/shrink.md.
        Collective over `survivors`."""
        survivors._take_over(self)

    # --- what lives on, and what was seen ------------------------------------------------------------------------

    def save_pending(self) -> bytes:
        """What this rank has offered and no round has taken yet, for a checkpoint."""
        return _core.pending_save(self)

    def load_pending(self, image: bytes) -> None:
        """Put such an image beside what is pending, without a call."""
        _core.pending_load(self, image)

    def statistics(self) -> dict[str, Any]:
        """Contributors, staleness, and times of calls, as histograms; the members of lsched_partial_stats."""
        return json.loads(_core.partial_stats(self))

    def _reported(self, members: tuple) -> Report:
        report = Report(*members)
        self.round = max(self.round, report.to)
        return report

    # --- arrays --------------------------------------------------------------------------------------------------

    @property
    def _item_bytes(self) -> int:
        return ITEM_BYTES[self._dtype]

    def _or_cancelled(self, look: Callable[[], _Looked]) -> _Looked:
        """Returns look(). If that raises, cancels the schedule first."""
        try:
            return look()
        except Exception:
            try:
                self.cancel()
            except Error:
                pass  # the schedule has failed all the same, and the first error is the cause
            raise

    def _expect_mine(self, ticket: Ticket) -> None:
        if ticket.schedule is not self:
            raise ArgumentError("the ticket is of another schedule", "LSCHED_ERR_ARGUMENT")

    def _looked_at(self, array: Any, count: int, is_written: bool, name: str) -> Memory:
        if array is None:
            return NOTHING
        memory = look_at_host(array, is_written, name=name)
        if (memory.dtype, memory.kind, memory.count) != (self._dtype, self._kind, count):
            raise ArgumentError(f"{name} has {memory.count} elements of {memory.dtype_name}: "
                                f"{count} of {self._kind or DTYPE_NAMES[self._dtype]} are wanted",
                                "LSCHED_ERR_ARGUMENT")
        return memory

    def _looked_at_buckets(self, buckets: Sequence[Any], is_written: bool) -> list[Memory]:
        if len(buckets) != len(self._buckets):
            raise ArgumentError(f"{len(buckets)} buckets: there are {len(self._buckets)}", "LSCHED_ERR_ARGUMENT")
        return [self._looked_at(each, count, is_written, f"bucket {i}")
                for i, (each, count) in enumerate(zip(buckets, self._buckets))]


def _samplers_of(batches: Any) -> Iterator[Any]:
    """The samplers of a DataLoader that draw another order in each epoch."""
    batch_sampler = getattr(batches, "batch_sampler", None)
    for each in (getattr(batches, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)):
        if hasattr(each, "set_epoch"):
            yield each


def make_partial(world: World, count: int, dtype: Any, *, collective: str | None = None,
                 buckets: Sequence[int] | None = None, op: str | None = "sum", activation: str = "full", seed: int = 0,
                 lag: str = "latest", history: int = 0, divisor: str | None = None, algorithm: str | None = None,
                 averages_weights: bool = False, tensors: Sequence[tuple[int, int]] | None = None,
                 sparse: Any = None) -> Partial:
    from ._sparse import request_of

    number, kind = dtype_number(dtype), dtype_kind(dtype)
    wanted = None
    if sparse is not None:
        options = dict(sparse) if isinstance(sparse, dict) else {"k": sparse}
        wanted = request_of(**options)
    count = whole_number(count, "count")
    sizes = [whole_number(each, "an entry of buckets") for each in buckets or ()]
    cuts = [whole_number(each, "an entry of tensors") for pair in tensors or () for each in pair]
    reduction = 0 if op is None else reduction_number(op, kind)
    start = text_of(activation, "activation") or ""
    handle = _core.partial(world, text_of(collective, "collective"), count, sizes, number, reduction, start,
                           whole_number(seed, "seed"), number_of(LAGS, lag, "lag"),
                           whole_number(history, "history", 0, 2**32 - 1), number_of(DIVISORS, divisor, "divisor"),
                           text_of(algorithm, "algorithm"), averages_weights, cuts, wanted, kind)
    made = Partial(world, handle)
    made._dtype, made._kind = number, kind
    made._count = made._result_count = count
    made._buckets = sizes or [count]
    if collective == "reduce_scatter_block":
        made._count = count * world.size
    if collective == "allgather":
        made._result_count = count * world.size
    return made
