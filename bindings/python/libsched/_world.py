"""Worlds: ordered sets of ranks, which create schedules together."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence, TypeVar

from . import _core
from ._collective import collective_call
from ._errors import ArgumentError, Error, Unsupported
from ._memory import NOTHING, Memory, expect_declared, look, look_all, look_at_given, real_dtype, same_dtype
from ._partial import Partial, make_partial
from ._schedule import Schedule
from ._schedule_file import declared_buffers
from ._sparse import Sparse, make_coo, make_sparse
from ._words import (DIVISORS, IDLE, LANES, PROGRESS, dtype_kind, dtype_number, number_of, reduction_number,
                     tensor_numbers, text_of, whole_number)

if TYPE_CHECKING:
    from ._builder import Builder
    from ._messages import Mailbox

_Made = TypeVar("_Made", bound=Schedule)
_MOST_INT32 = 2**31 - 1
_open_worlds: set[World] = set()
_at_end: list[Callable[[], None]] = []  # functions that are called at exit, after all worlds were aborted


def _wishes(progress: str | None = None, idle: str | None = None, progress_core: int | None = None,
            lane: str | int | None = None, region_bytes: int | None = None,
            commit_timeout: float | None = None) -> _core.Wishes:
    wishes = _core.Wishes()
    if progress is not None:
        wishes.progress = number_of(PROGRESS, progress, "progress")
    if idle is not None:
        wishes.idle = number_of(IDLE, idle, "idle")
    wishes.progress_core = progress_core
    if lane is not None:
        wishes.lane = lane if isinstance(lane, int) else number_of(LANES, lane, "lane")
    wishes.region_bytes = region_bytes
    wishes.commit_timeout = commit_timeout
    return wishes


def init(comm: Any = None, *, progress: str | None = None, idle: str | None = None, progress_core: int | None = None,
         lane: str | int | None = None, region_bytes: int | None = None, commit_timeout: float | None = None) -> World:
    """Joins the world of `lsched run` or of an MPI launcher with PMI-1. Without a launcher, opens a world of one rank.

    `comm` is a communicator of mpi4py. Its ranks become the ranks of the world. Under `lsched run`, every process is an
    MPI world of one rank. `comm` is then ignored, and the ranks of `lsched run` form the world. The value of an option
    that is not given comes from the environment (LSCHED_PROGRESS and the like), or else is the default of the library:

    progress        "thread": a progress thread runs the schedules; "caller": they only run during calls of this library
    idle            how the progress thread waits: "auto", "spin", "yield" or "park"
    progress_core   core to which the progress thread is bound
    lane            executor of large arithmetic: "auto", "inline", "tbb" or a number of workers
    region_bytes    address space that is reserved for the shared memory of this rank
    commit_timeout  seconds that a collective create waits for other ranks

    Blocks until all ranks have joined. Raises Unsupported under a launcher without PMI-1, and under an MPI launcher if
    the process has loaded MPI. In these cases, pass `comm` or use open_with(). Also raises Unsupported if the launcher
    belongs to a different MPI implementation than mpi4py. Raises Timeout and PeerLost.
    """
    wishes = _wishes(progress, idle, progress_core, lane, region_bytes, commit_timeout)
    mpi = None if comm is None else sys.modules.get(type(comm).__module__)
    if comm is None or getattr(mpi, "COMM_WORLD", comm).Get_size() == 1:
        return _open_alone(wishes, mpi)
    return World(_core.open_with(wishes, comm.Get_rank(), comm.Get_size(), comm.allgather), wishes)


def _open_alone(wishes: _core.Wishes, mpi: Any) -> World:
    """Opens a world without MPI. Raises Unsupported under a launcher whose world cannot be joined.

    `mpi` is the module mpi4py.MPI with an MPI world of one rank, or None. If `mpi` is given, a launcher that has
    started several processes belongs to a different MPI implementation than mpi4py.
    """
    launch = _core.foreign_launch()
    if launch is None:
        return World(_core.open(wishes), wishes)
    if mpi is None:
        advice = ": pass a communicator of mpi4py to init(), call open_with()"
    else:
        library = " ".join(mpi.Get_library_version().split("\n")[0].split(",")[0].split())
        advice = f", but mpi4py has loaded {library}, whose world has one rank: use the mpiexec of that MPI"
    raise Unsupported(f"{launch}{advice}, start the program with `lsched run`, or set LSCHED_WORLD=alone",
                      "LSCHED_ERR_UNSUPPORTED")


def open_with(rank: int, size: int, exchange: Callable[[bytes], Sequence[bytes]], **options: Any) -> World:
    """Joins a world of `size` ranks as `rank`. Any launcher may have started the ranks, on one or several hosts.

    `exchange(mine)` must send the bytes `mine` to all ranks, and return the bytes of all ranks in rank order. The
    calling thread calls `exchange` three or four times, with at most 256 bytes. Options and errors are those of init().
    """
    wishes = _wishes(**options)
    return World(_core.open_with(wishes, rank, size, exchange), wishes)


def join(text: str, timeout: float | None = None, **options: Any) -> World:
    """Joins a world that grows (World.grow_begin) as a new rank, and returns the larger world.

    `text` is the result of World.grow_text(), or "@" and the path of the file of World.grow_begin(). Then join the
    partial schedules by World.partial(..., joins=True), in the order in which the other ranks carry them. Failed
    attempts are repeated for `timeout` seconds; then raises Timeout. Options are those of init().
    """
    wishes = _wishes(**options)
    return World(_core.join(wishes, text, timeout), wishes)


def open_threads(ranks: int, **options: Any) -> list[World]:
    """Opens a world whose ranks are threads of this process.

    Returns one World for each rank. Each World must be used by a separate thread.
    """
    wishes = _wishes(**options)
    return [World(handle, wishes) for handle in _core.open_threads(wishes, ranks)]


class World(_core.World):
    """The view of one rank on a world. A world is an ordered set of ranks.

    Methods that create objects are collective: all ranks of the world call the same methods in the same order. Such a
    method waits for the other ranks, at most `commit_timeout` seconds. If `nonblocking` is True, the method returns at
    once, and the schedule can be used before the ranks have agreed upon it. If one rank's arguments are wrong, the
    method raises on all ranks.

    Close the world after all objects that were created from it. `with` closes the world. If an exception leaves the
    block, `with` aborts the objects that are still open, so that other ranks raise instead of waiting.
    """

    def __init__(self, handle: int, wishes: _core.Wishes, of: World | None = None) -> None:
        super().__init__(handle)
        self.rank: int = self._rank()
        self.size: int = self._size()
        self.nonblocking = False if of is None else of.nonblocking
        # The next members are shared by all worlds that were split or shrunk from the same opened world.
        self._devices: list[int | None] = [] if of is None else of._devices
        self._wishes = wishes
        self._commit_timeout = wishes.commit_timeout_ns() * 1e-9
        self._set_nonblocking(True)  # instead, _agreed() waits for the ranks and checks for signals
        self._parts: weakref.WeakSet = weakref.WeakSet()
        self._abandoned: list[Any] = []
        _open_worlds.add(self)

    # --- information ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<libsched.World rank {self.rank} of {self.size}{'' if self.is_open else ', closed'}>"

    def describe(self) -> str:
        """Returns a line about transport, ranks, progress thread and lane (the executor of large arithmetic)."""
        return self._describe()

    def diagnose(self) -> tuple[int | None, str]:
        """Returns (the rank at fault or None, a text).

        The text has a line for each schedule. A line has the rank for which the schedule waits, or the reason why the
        schedule has failed.
        """
        rank, text = self._diagnose()
        return None if rank < 0 else rank, text

    def stats(self) -> dict[str, int]:
        """Returns counters since the world was opened, named as the members of lsched_stats."""
        return self._stats()

    def node_of(self, rank: int | None = None) -> dict[str, int]:
        """Returns the place of a rank, by default this rank.

        number       index of the node
        place        place of the rank on the node
        ranks        ranks on the node
        nodes        nodes of the world
        least_ranks  ranks on the smallest node
        """
        return self._node_of(self.rank if rank is None else rank)

    def rank_in(self, rank: int, other: World) -> int | None:
        """Returns the rank that `rank` has in `other`, a world of this process, or None if `rank` is not in `other`."""
        found = self._rank_in(rank, other)
        return None if found < 0 else found

    def lost(self) -> list[int]:
        """Returns the ranks that are known to be lost, in the order in which the losses were noticed.

        A rank that has closed its world is in the list only after another rank has waited for that rank in vain. Any
        thread may call this function. The function never blocks. Over MPI a rank only learns of lost ranks on its own
        node.
        """
        return self._lost()

    def progress(self) -> bool:
        """Advances the schedules in this thread, once. Returns True if any of them made progress."""
        return self._progress()

    def trace_start(self, events: int = 1 << 20) -> None:
        """Starts to record each step of every op with its time. Allocates 48 bytes for each of `events` events."""
        self._trace_start(events)

    def trace_write(self, path: str) -> None:
        """Ends the recording, and writes the recorded steps to a JSON file for Perfetto.

        `lsched trace FILE...` joins the files of all ranks.
        """
        self._trace_write(path)

    def set_verify(self, on: bool = True) -> None:
        """Turns the proof of schedules at commit on or off, as LSCHED_VERIFY=1 does (docs/reference/verify.md).

        Schedules are proved if at least one rank has turned proofs on. A schedule with a deadlock, a race or wrong
        contents is refused on all ranks, and the error has the finding. Worlds that are split from this world inherit
        the setting.
        """
        self._set_verify(on)

    # --- other worlds --------------------------------------------------------------------------------------------

    @collective_call
    def split(self, color: int | None, key: int = 0) -> World | None:
        """Returns the world of the ranks with the same `color`, ordered by `key`; None if `color` is None.

        This method is collective, and blocks.
        """
        number = -1 if color is None else whole_number(color, "color", -_MOST_INT32 - 1, _MOST_INT32)
        handle = self._split(number, whole_number(key, "key", -_MOST_INT32 - 1, _MOST_INT32))
        return World(handle, self._wishes, self) if handle else None

    def split_ranks(self, ranks: Sequence[int], tag: int = 0) -> World:
        """Returns the world of the listed ranks, in the order of the list.

        Only these ranks call this method, with the same list and tag. Blocks.
        """
        return World(self._split_ranks(list(ranks), tag), self._wishes, self)

    def shrink(self, timeout: float | None = None) -> World:
        """Returns the world of the ranks that are left after a loss, in their old order (docs/reference/shrink.md).

        Returns the larger world, if new ranks were admitted (grow()). Blocks.
        """
        return self._replaced_by(self._shrink(timeout))

    def grow_begin(self, file: str | os.PathLike | None = None) -> None:
        """Lets the world grow: new processes can join by join(). Collective.

        Rank 0 listens for new processes on the interfaces of LSCHED_NET_INTERFACES. If `file` is given, rank 0 writes
        the text of grow_text() to this file, which only its user can read. Raises Unsupported under LSCHED_NET_ENCRYPT
        and with progress="caller".
        """
        self._grow_begin(self._wishes, None if file is None else os.fspath(file))

    def grow_text(self) -> str:
        """Returns the text by which new processes can join this world. The text contains a secret."""
        return self._grow_text()

    def grow(self, timeout: float | None = 0.0) -> World | None:
        """Permits the admission of new ranks. Returns the larger world after their admission, else None.

        Call this method in each step of training. New ranks are admitted when all ranks have called. The admission ends
        all waits in this world with PeerLost, and shrink() then returns the larger world, too. Move each Partial to the
        larger world by carry(), while the new ranks call partial(..., joins=True). Blocks for `timeout` seconds.
        """
        handle = self._grow(timeout)
        return self._replaced_by(handle) if handle else None

    def grow_end(self, timeout: float | None = None) -> World | None:
        """Ends the growth on this rank. Returns the larger world if new ranks were admitted before, else None.

        Each rank must call this method before its training ends. Blocks until the ranks have decided.
        """
        handle = self._grow_end(timeout)
        return self._replaced_by(handle) if handle else None

    def _replaced_by(self, handle: int) -> World:
        made = World(handle, self._wishes, self)
        if made._rank_in(made.rank, self) < 0:  # a larger world has its own runtime, and no devices
            made._devices = []
        return made

    # --- devices and memory --------------------------------------------------------------------------------------

    def attach_cuda(self, device: int | None = None, *, staging_bytes: int = 0,
                    host_waits: bool | None = None) -> None:
        """Attaches a CUDA device, so that arrays of this rank may be in device memory (docs/reference/device.md).

        device         index of the device; None: LSCHED_CUDA_DEVICE, or the device of the caller's current context, or
                       else the rank's place on its machine, modulo the number of devices
        staging_bytes  size of one allocation of pinned host memory for messages; 0: 64 MiB
        host_waits     True: Ticket.wait_on_stream() waits in the host, even if streams could wait; None:
                       LSCHED_CUDA_STREAMS

        The call is local: ranks without a device are allowed. The device is attached to the opened world and to all
        worlds that are made from the opened world. A second call raises StateError. Uses the device's primary context,
        as torch and cupy do. Blocks while kernels are loaded. The first time, this takes seconds. Raises Unsupported if
        the build has no CUDA, or the machine has no driver or no device. Raises ArgumentError if there is no such
        device. Also raises NoMemory and DeviceError.
        """
        self._attach_cuda(device, staging_bytes, host_waits)
        self._devices.append(device)

    @property
    def has_device(self) -> bool:
        """True if attach_cuda() was called for this world or for another world made from the same opened world."""
        return bool(self._devices)

    def empty(self, bytes: int) -> memoryview:
        """Returns writable memory that other ranks of the machine can read directly.

            x = numpy.frombuffer(world.empty(4 * n), "f4")

        The contents are unspecified. The memory exists until the last reference is gone, even after close().
        """
        address = self._allocate(bytes)
        owner = _Allocation(self, address)
        return memoryview(_core.bytes_at(address, bytes, owner)).cast("B")

    # --- collectives ---------------------------------------------------------------------------------------------

    @collective_call
    def barrier(self) -> Schedule:
        """Creates a barrier: no rank leaves a round before every rank has entered it."""
        return self._agreed(Schedule(self, _core.barrier(self)))

    @collective_call
    def allreduce(self, input: Any, output: Any = None, op: str = "sum", *, divisor: str | None = None,
                  algorithm: str | None = None, dtype: Any = None, depth: int = 0) -> Schedule:
        """Creates an allreduce: output[i] is the reduction of input[i] over all ranks, bit-identical on all ranks.

        input, output  C-contiguous arrays with the same number of elements of one dtype; without `output` the result
                       replaces the input
        op             "sum", "prod", "min", "max"; for integers also "land", "lor", "lxor", "band", "bor", "bxor".
                       Complex elements can only be added. For bools, a sum or maximum is "or", and a product or minimum
                       is "and", as in numpy
        divisor        "ranks": divides the exact sum by the number of ranks, and rounds once
        algorithm      a name that `lsched list` shows; None: the library chooses
        depth          number of rounds that may be outstanding at once, up to 8 (Schedule.start_with); 0 means 1

        The application must not use the arrays while a round runs. The schedule keeps the arrays alive until the
        schedule is closed. This method is collective, and blocks until all ranks have called it. Raises ArgumentError,
        Timeout and PeerLost. Raises Mismatch if ranks disagree.
        """
        return self._elementwise("allreduce", input, output, op, divisor=divisor, algorithm=algorithm, dtype=dtype,
                                 depth=depth)

    @collective_call
    def reduce(self, input: Any, output: Any = None, op: str = "sum", *, root: int = 0, divisor: str | None = None,
               algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a reduce: the root gets the reduction over all ranks. Other ranks ignore `output`.

        Without `output` the result replaces the root's input.
        """
        root = self._root(root)
        if self.rank != root:
            output = None
        elif output is None:
            output = input
        return self._elementwise("reduce", input, output, op, in_place=False, root=root, divisor=divisor,
                                 algorithm=algorithm, dtype=dtype)

    @collective_call
    def scan(self, input: Any, output: Any = None, op: str = "sum", *, exclusive: bool = False,
             algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a scan: rank r gets the reduction over ranks 0 to r.

        With `exclusive`, rank r gets the reduction over ranks 0 to r-1, and the output of rank 0 is not written.
        """
        return self._elementwise("exscan" if exclusive else "scan", input, output, op, algorithm=algorithm,
                                 dtype=dtype)

    @collective_call
    def reduce_scatter(self, input: Any, output: Any = None, op: str = "sum", *, counts: Sequence[int] | None = None,
                       divisor: str | None = None, algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a reduce-scatter: rank r gets block r of the reduction over all ranks.

        The input has a block for each rank. Block r has `counts[r]` elements; without `counts` all blocks have the same
        length. Without `output` the result is in the first elements of the input.
        """
        source = look_at_given(input, output is None, dtype, "input")
        target = source if output is None else look(output, True, dtype, "output")
        name = "reduce_scatter_block" if counts is None else "reduce_scatter"
        count = self._share(source, "input") if counts is None else 0
        return self._collective(name, source, target, op=op, count=count, counts=counts, divisor=divisor,
                                algorithm=algorithm)

    @collective_call
    def bcast(self, buffer: Any, root: int = 0, *, algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a broadcast of the root's array to all other ranks."""
        root = self._root(root)
        memory = look_at_given(buffer, self.rank != root, dtype, "buffer")
        return self._collective("bcast", NOTHING, memory, count=memory.count, root=root, algorithm=algorithm)

    @collective_call
    def gather(self, input: Any, output: Any = None, root: int = 0, *, counts: Sequence[int] | None = None,
               algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a gather: the root gets the blocks of all ranks, one after the other.

        Block r has `counts[r]` elements; without `counts` all blocks have the same length. At the root, `input` may be
        the root's block in the output.
        """
        root = self._root(root)
        source = look_at_given(input, False, dtype, "input")
        target = look_at_given(output, True, dtype, "output") if self.rank == root else NOTHING
        return self._blocks("gather", source, target, counts, source.count, root=root, algorithm=algorithm)

    @collective_call
    def scatter(self, input: Any, output: Any, root: int = 0, *, counts: Sequence[int] | None = None,
                algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates a scatter: rank r gets block r of the root's array.

        At the root, `output` may be the root's block in the input.
        """
        root = self._root(root)
        source = look_at_given(input, False, dtype, "input") if self.rank == root else NOTHING
        target = look_at_given(output, True, dtype, "output")
        return self._blocks("scatter", source, target, counts, target.count, root=root, algorithm=algorithm)

    @collective_call
    def allgather(self, input: Any, output: Any, *, counts: Sequence[int] | None = None,
                  algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates an allgather: all ranks get the blocks of all ranks, one after the other.

        Block r has `counts[r]` elements; without `counts` all blocks have the same length. `input` may be this rank's
        block in the output.
        """
        source = look_at_given(input, False, dtype, "input")
        target = look_at_given(output, True, dtype, "output")
        return self._blocks("allgather", source, target, counts, source.count, algorithm=algorithm)

    @collective_call
    def alltoall(self, input: Any, output: Any = None, *, counts: Sequence[int] | None = None,
                 recv_counts: Sequence[int] | None = None, algorithm: str | None = None,
                 dtype: Any = None) -> Schedule:
        """Creates an all-to-all: rank s gets block s of this rank's input.

        `counts` has the number of elements that are sent to each rank. `recv_counts` has the number of elements that
        are received from each rank. Without `counts` and `recv_counts` all blocks have the same length. Without
        `output` the result replaces the input.
        """
        source = look_at_given(input, output is None, dtype, "input")
        target = source if output is None else look(output, True, dtype, "output")
        if counts is None:
            return self._collective("alltoall", source, target, count=self._share(source, "input"),
                                    algorithm=algorithm)
        return self._collective("alltoallv", source, target, counts=counts, recv_counts=recv_counts,
                                algorithm=algorithm)

    @collective_call
    def neighbor_exchange(self, input: Any, output: Any, *, destinations: Sequence[int], counts: Sequence[int],
                          sources: Sequence[int], recv_counts: Sequence[int], dtype: Any = None) -> Schedule:
        """Creates a neighbor exchange: sends a block to each of `destinations`, and gets one from each of `sources`.

        In both arrays blocks are contiguous, in the order of the lists.
        """
        source = look_at_given(input, False, dtype, "input")
        target = look_at_given(output, True, dtype, "output")
        return self._collective("neighbor_exchange", source, target, counts=counts, recv_counts=recv_counts,
                                destinations=destinations, sources=sources)

    @collective_call
    def adasum(self, input: Any, output: Any = None, *, tensors: Sequence[tuple[int, int]] | None = None,
               algorithm: str | None = None, dtype: Any = None) -> Schedule:
        """Creates an adaptive sum over all ranks (Maleki and others, MLSys 2021), separately for each tensor.

        Orthogonal gradients are added, and parallel gradients are averaged. The arrays have a floating dtype. `tensors`
        lists (begin, count) of each tensor, ascending and disjoint; None: the vector is one tensor.
        Schedule.non_finite_tensors() reports NaN and infinities. docs/reference/adasum.md has the details.
        """
        return self._elementwise("adasum", input, output, None, tensors=tensors, algorithm=algorithm, dtype=dtype)

    @collective_call
    def collective(self, name: str, input: Any = None, output: Any = None, *, dtype: Any = None,
                   **members: Any) -> Schedule:
        """Creates any collective of the table in lsched.h.

        The options are members of lsched_collective_desc: count, counts, recv_counts, destinations, sources, op,
        divisor, root, algorithm, segment_bytes, radix, tensors, depth and capacity. Counts are numbers of elements of
        the arrays, also if the elements are complex. `capacity` is for collectives whose counts and arrays come with
        each round (Schedule.start_with). `capacity` is the maximum number of elements of a block, or
        libsched.ANY_COUNT. To run in place, pass the same array twice.
        """
        source = look(input, False, dtype, "input")
        target = look(output, True, dtype, "output")
        if input is None and output is None and dtype is not None:
            members["without_arrays"] = (dtype_number(dtype), dtype_kind(dtype))
        if members.get("count") is not None and "complex" in (source.kind, target.kind):
            members["count"] = 2 * whole_number(members["count"], "count")  # real elements, as in the C interface
        return self._collective(name, source, target, **members)

    @collective_call
    def load(self, text: str, inputs: Iterable[Any] = (), outputs: Iterable[Any] = ()) -> Schedule:
        """Creates a schedule from its text (docs/reference/schedule_file.md).

        `inputs` and `outputs` have one array for each `input` and `output` buffer, with the dtype and the number of
        elements of that buffer.
        """
        sources, targets = look_all(inputs, False, name="input"), look_all(outputs, True, name="output")
        for role, given in (("input", sources), ("output", targets)):
            declared = declared_buffers(text, self.rank, self.size, role)
            if declared is not None:
                expect_declared(role + "s", [(each.count, each.dtype) for each in given], declared)
        handle = _core.load(self, text, [each.address for each in sources], [each.address for each in targets])
        return self._agreed(Schedule(self, handle, sources, targets))

    def builder(self, name: str | None = None) -> Builder:
        """Returns a builder that builds a schedule of this rank op by op. libsched.Builder has an example."""
        from ._builder import Builder  # imported here, because _builder refers to World

        return Builder(self, name)

    @collective_call
    def mailbox(self) -> Mailbox:
        """Creates a mailbox for messages between two ranks; see libsched.Mailbox.

        This method is collective.
        """
        from ._messages import Mailbox

        return Mailbox(self)

    @collective_call
    def partial(self, count: int, dtype: Any = "f32", **options: Any) -> Partial:
        """Creates a collective that does not wait for the slowest rank; see libsched.Partial for the options.

        This method is collective.
        """
        return self._agreed(make_partial(self, count, dtype, **options))

    @collective_call
    def sparse_allreduce(self, gradient: Any, update: Any, k: int, **options: Any) -> Sparse:
        """Creates an allreduce of the k largest elements with error feedback; see libsched.Sparse.

        This method is collective.
        """
        return self._agreed(make_sparse(self, gradient, update, k, **options))

    @collective_call
    def coo_allreduce(self, indices: Any, values: Any, item_count: Any, out_indices: Any, out_values: Any,
                      out_count: Any, count: int, **options: Any) -> Schedule:
        """Creates an allreduce of sparse vectors, given as indices and values; see docs/reference/sparse.md.

        This method is collective.
        """
        return self._agreed(make_coo(self, indices, values, item_count, out_indices, out_values,
                                     out_count, count, **options))

    @collective_call
    def _take_over(self, partial: Partial) -> None:
        """The collective part of Partial.carry()."""
        _core.carry(partial, self)
        partial.world._parts.discard(partial)
        partial.world = self
        self._parts.add(partial)

    # --- creation ------------------------------------------------------------------------------------------------

    def _elementwise(self, name: str, input: Any, output: Any, op: str | None, *, in_place: bool = True, dtype: Any,
                     **members: Any) -> Schedule:
        is_in_place = output is None and in_place
        source = look_at_given(input, is_in_place, dtype, "input")
        target = source if is_in_place else look(output, True, dtype, "output")
        return self._collective(name, source, target, op=op, count=source.count, **members)

    def _blocks(self, name: str, source: Memory, target: Memory, counts: Sequence[int] | None, own: int,
                **members: Any) -> Schedule:
        """Creates a collective of blocks. One of the two arrays holds all blocks.

        Block r has `counts[r]` elements; without `counts` every block has `own` elements.
        """
        return self._collective(name if counts is None else name + "v", source, target,
                                count=own if counts is None else 0, counts=counts, **members)

    def _share(self, memory: Memory, what: str) -> int:
        if memory.count % self.size:
            raise _bad(f"{what} has {memory.count} elements, which cannot be split into {self.size} equal blocks: pad "
                       "the array")
        return memory.count // self.size

    def _collective(self, name: str, source: Memory, target: Memory, *, op: str | None = None,
                    divisor: str | None = None, without_arrays: tuple[int, str] = (0, ""), tensors: Any = None,
                    counts: Any = None,
                    recv_counts: Any = None, destinations: Any = None, sources: Any = None,
                    **members: Any) -> Schedule:
        request = _core.Request()
        request.dtype, kind = without_arrays if without_arrays[0] else same_dtype(source, target)
        if name == "adasum":  # has no `op`, and accepts real numbers only
            real_dtype(name, source, target)
        if op is not None:
            request.reduction = reduction_number(op, kind)
        request.divisor = number_of(DIVISORS, divisor, "divisor")
        for member, given in (("counts", counts), ("recv_counts", recv_counts), ("destinations", destinations),
                              ("sources", sources)):
            if given is None:
                continue
            numbers = [whole_number(each, f"an entry of {member}") for each in given]
            if kind == "complex" and member in ("counts", "recv_counts"):
                numbers = [2 * each for each in numbers]  # real elements, as in the C interface
            wanted = self._entries(name, member, destinations, sources)
            if wanted is not None and len(numbers) != wanted:
                raise _bad(f"{member} has {len(numbers)} entries: expected {wanted}")
            setattr(request, member, numbers)
        if tensors is not None:
            request.tensors = tensor_numbers(tensors)
        for member, given in members.items():
            if given is not None:
                setattr(request, member, self._member(member, given))
        request.elements = kind
        self._expect_lengths(name, request, source, target)
        made = Schedule(self, _core.collective(self, name, source.address, target.address, request), [source], [target])
        made._dtype, made._kind = request.dtype, kind
        made._blocks = self._blocks_of_rounds(name, request)
        made._tensors = len(request.tensors or ()) // 2 or 1
        return self._agreed(made)

    def _root(self, given: Any) -> int:
        return whole_number(given, "root", 0, self.size - 1)

    def _member(self, name: str, given: Any) -> Any:
        """Returns the value of a member of lsched_collective_desc that is a number or a text."""
        if name == "algorithm":
            return text_of(given, name)
        if name == "root":
            return self._root(given)
        if name not in _core.LARGEST:
            raise TypeError(f"a collective has no option {name!r}")
        return whole_number(given, name, 0, _core.LARGEST[name])

    def _expect_lengths(self, name: str, request: _core.Request, source: Memory, target: Memory) -> None:
        """Raises ArgumentError if the length of an array differs from the table in lsched.h.

        In place, both arguments are the same array, whose length is the larger of the two lengths.
        """
        if request.capacity:
            return  # lengths come with each round
        own, whole = request.count, request.count * self.size
        if request.counts is not None and name != "neighbor_exchange":
            own, whole = request.counts[self.rank], sum(request.counts)
        lengths = (own, own)
        if name in ("alltoallv", "neighbor_exchange"):
            lengths = sum(request.counts or ()), sum(request.recv_counts or ())
        elif name in ("reduce_scatter", "reduce_scatter_block", "scatter", "scatterv"):
            lengths = whole, own
        elif name in ("gather", "gatherv", "allgather", "allgatherv"):
            lengths = own, whole
        elif name == "alltoall":
            lengths = whole, whole
        for memory, length in zip((source, target), lengths):
            is_in_place = source.address == target.address and memory.count == max(lengths)
            if memory is not NOTHING and memory.count != length and not is_in_place:
                width = 2 if request.elements == "complex" else 1
                raise _bad(f"input has {source.count // width} elements and output {target.count // width}: "
                           f"expected {lengths[0] // width} and {lengths[1] // width}")

    def _blocks_of_rounds(self, name: str, request: _core.Request) -> tuple[int, int]:
        """Returns the number of send counts and the number of receive counts of a round."""
        at_root = self.size if self.rank == request.root else 0
        if name == "neighbor_exchange":
            return len(request.destinations or ()), len(request.sources or ())
        return {"gatherv": (1, at_root), "allgatherv": (1, self.size), "scatterv": (at_root, 1)}.get(
            name, (self.size, self.size))

    def _entries(self, name: str, member: str, destinations: Any, sources: Any) -> int | None:
        """Returns the number of entries that the library reads from a list, and that the list must have.

        None means that the list may have any number of entries.
        """
        if name != "neighbor_exchange":
            return self.size if member in ("counts", "recv_counts") else None
        lists = {"counts": destinations, "recv_counts": sources}
        return None if member not in lists else len(lists[member] or ())

    def _agreed(self, made: _Made) -> _Made:
        """Waits until all ranks have created the schedule, unless the world is nonblocking.

        On failure, abandons the schedule.
        """
        if self.nonblocking:
            return made
        try:
            made._create_wait(self._commit_timeout)
        except BaseException:
            made._abandon()
            raise
        return made

    # --- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves the world.

        Later calls of close() have no effect. Raises Busy while schedules are open or another thread is in a call.
        While a view refers to memory from empty(), the memory stays valid, and other ranks are not notified of the
        close yet.
        """
        self._close(any(part.is_open for part in (*self._parts, *self._abandoned)))
        _open_worlds.discard(self)
        self._abandoned.clear()

    def __enter__(self) -> World:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Cancels all open objects, so that other ranks get an error. Closes the world if possible."""
        for part in (*self._parts, *self._abandoned):
            part._abandon()
        try:
            self.close()
        except Error:
            pass  # an object is still in use, so the world lives until the process ends


class _Allocation:
    """Frees memory from World.empty() once no view refers to the memory."""

    def __init__(self, world: World, address: int) -> None:
        self._world = world
        self._address = address

    def __del__(self) -> None:
        try:
            self._world._release(self._address)
        except Error:
            pass


def _bad(text: str) -> ArgumentError:
    return ArgumentError(text, "LSCHED_ERR_ARGUMENT")


@atexit.register
def _give_up_all() -> None:
    """Gives up all open worlds when the interpreter ends.

    Other ranks then get an error instead of waiting, and no thread of the library outlives the arrays.
    """
    for world in list(_open_worlds):
        world._give_up()
    for call in _at_end:
        call()
    _core.end_threads()
