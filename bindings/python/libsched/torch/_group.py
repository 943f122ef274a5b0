"""The process group of the backend: runs the calls of torch.distributed as schedules of a world."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any, Callable, Sequence

import torch
from torch._C._distributed_c10d import (AllgatherOptions, AllreduceOptions, AllToAllOptions, BarrierOptions,
                                        BroadcastOptions, GatherOptions, ProcessGroup, ReduceOp, ReduceOptions,
                                        ReduceScatterOptions, ScatterOptions)
from torch.autograd import profiler
from torch.distributed import distributed_c10d

from .._errors import ArgumentError, Error, Timeout, Unsupported
from .._messages import ANY_RANK
from .._words import DTYPES
from . import _calls, _device, _sparse
from ._calls import Calls, Round, collective_call
from ._compile import is_not_compiled
from ._lengths import ExpectedBlocks, ExpectedMessage, SentMessage
from ._profile import has_events
from ._schedules import Kind, Schedules
from ._state import error_of, not_reconfigurable
from ._stream_work import SeveralInStreams, StreamWork, UnderWay
from ._tensors import (copied_to, empty_bytes, expect_apart, expect_dtype, expect_host, expect_memory,
                       expect_together, joined, overlap, scattered_to, side_by_side, staged)
from ._work import Callbacks, Several, Work, as_torch_error, saturated, seconds
from ._worlds import forget, opened

_OWN_DTYPES = {getattr(torch, name): number for name, number in DTYPES.items()}
_DTYPES = {**_OWN_DTYPES, torch.bool: DTYPES["uint8"]}
_OPS = {
    ReduceOp.SUM: "sum", ReduceOp.AVG: "avg", ReduceOp.PRODUCT: "prod", ReduceOp.MIN: "min", ReduceOp.MAX: "max",
    ReduceOp.BAND: "band", ReduceOp.BOR: "bor", ReduceOp.BXOR: "bxor", ReduceOp.PREMUL_SUM: "premul_sum",
}
_OPS = {getattr(op, "op", op): word for op, word in _OPS.items()}
_OPS_OF_BOOL = {"sum": "lor", "prod": "land", "min": "land", "max": "lor", "band": "band", "bor": "bor", "bxor": "bxor"}
_BYTES = DTYPES["uint8"]
_BY_RANKS = 1


@is_not_compiled
@has_events
class Group(ProcessGroup):
    """A process group of torch.distributed whose collectives are schedules.

    All members open the group. The first group of a process opens a world by torch's store. Later groups are split from
    that world if possible. Each call of torch.distributed returns a Work. If the call fails, Work.wait() raises
    DistBackendError with the rank at fault. Tensors are dense, and are copied if they are not contiguous. All tensors
    of a call are on the CPU, or all are on one CUDA device, which the first such call attaches. On a device, rounds run
    in the order of the current stream, and no call blocks the host (_stream_work.py).
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options.group_rank, options.group_size)
        self._my_rank: int = options.group_rank
        self._ranks: int = options.group_size
        self._limit = saturated(options.timeout)
        self._name: str = options.group_id
        self._description = ""
        self._coalesced: list[Work] | None = None
        self._sides = _device.SideStreams()
        self._begin(options)

    def _begin(self, options: Any) -> None:
        self._enter(opened(options, self._limit))

    def _enter(self, world: Any) -> None:
        """Makes `world` the world of all later calls. The group has no kinds at first.

        Waits for all ranks. If that fails, the group stays in its old world.
        """
        self._box = world.mailbox()
        self._my_rank, self._ranks = world.rank, world.size
        self.world = world
        self._schedules = Schedules(world)
        self._known = self._schedules.kinds.get  # a direct reference saves a Python call per lookup
        self._calls = Calls(world, self._box, self._schedules, self._limit)
        self._under_way = UnderWay(self._calls.give_up_round)

    # --- attributes that torch reads -----------------------------------------------------------------------------

    def getBackendName(self) -> str:
        return "lsched"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    group_name = pg_name = property(lambda self: self._name)
    supports_coalescing = supports_splitting = supports_time_estimate = supports_reconfigure = False
    if torch.__version__ < "2.14":  # FSDP2 needs this attribute. torch 2.14 would attach a flight recorder
        _device_types = [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device: torch.device) -> Group:
        return self

    def _start_coalescing(self, device: torch.device) -> None:
        """Combines the following calls into one Work. The rounds of these calls are still started one by one."""
        self._coalesced = []

    def _end_coalescing(self, device: torch.device) -> Work:
        works, self._coalesced = self._coalesced, None
        if not works:  # all calls were synchronous
            return _DONE
        return self._together(works, [each for work in works for each in work.result()])

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def get_error(self) -> Any:
        """Returns torch's kind of the error after which the group refuses calls, or ErrorType.SUCCESS."""
        return error_of(self.world, self._schedules)

    def get_reconfigure_handle(self) -> str:
        raise not_reconfigurable()

    def reconfigure(self, opts: Any) -> Work:
        raise not_reconfigurable()

    # --- the end -------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Leaves the group. Waits for collectives in flight, unless a wait for a collective has failed.

        Cancels failed schedules and messages that have not ended, so that other ranks get an error.
        """
        forget(self.world)
        if not self.world.is_open:
            return
        try:
            self._schedules.close()
            self._calls.expect_agreed(self._calls.agreements)
            self._calls.forget_messages()
            self._box.close()
            self.world.close()
        except (Error, RuntimeError):
            self.world._give_up()
        self._under_way.forget()

    def abort(self) -> None:
        """Leaves the group at once. Collectives and messages in flight fail on the other ranks."""
        forget(self.world)
        self.world._give_up()
        self._under_way.forget()

    # --- collectives ---------------------------------------------------------------------------------------------

    # The short forms of torch's calls have one tensor as argument, and the members of the options as separate
    # arguments.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = AllreduceOptions(), timeout: Any = None, *,
                  op: Any = None) -> Work:
        place = None
        try:
            tensor = tensors[0]
            # The key has the number of the reduction, because hashing an enum of torch takes a microsecond.
            key = (tensor.numel(), tensor.dtype, opts.reduceOp.op.value)
            is_plain = tensor.is_cpu and not tensor.is_sparse and tensor.is_contiguous() and not tensor.is_neg()
            is_alone = Callbacks.threads == 0 and not profiler._is_profiler_enabled
            is_usual = tensors.__class__ is list and len(tensors) == 1 and op is None and timeout is None
            if is_plain and is_alone and is_usual and not opts.asyncOp:
                where, limit = tensor.data_ptr(), self._limit_of(opts)
                kind = self._known(key)
                if kind is not None and (where != 0 or key[0] == 0):
                    place = kind.ready_place()
        except Exception:
            pass  # _other_allreduce() raises the same exception, and refuses the call on all ranks
        if place is None:
            return self._other_allreduce(tensors, opts, timeout, op)
        calls = self._calls
        calls.number = calls.outside = calls.number + 1 if calls.is_under_way else (calls.number | _calls.PARTS) + 1
        try:
            try:
                self._finish_run(place.schedule._run_at(where, where, limit), limit)
            except BaseException as error:
                self._give_up(place, error, tensor)
                raise
        except Error as error:
            raise as_torch_error(error)
        return _DONE

    @collective_call
    def _other_allreduce(self, tensors: Any, opts: Any, timeout: Any, op: Any) -> Work:
        """Runs all calls of allreduce() that are not on its fast path.

        These are the first call of a kind, asynchronous and profiled calls, and calls whose tensor is not one dense
        block on the CPU.
        """
        if tensors.__class__ is not list or op is not None or timeout is not None:
            op = op if op is not None else opts if not hasattr(opts, "reduceOp") else opts.reduceOp
            tensors, opts = _listed(tensors), _filled(AllreduceOptions(), timeout, reduceOp=_reduce_op(op))
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        (tensor,) = tensors
        if tensor.is_sparse:
            return _sparse.allreduce(self, tensor, opts)
        key = (tensor.numel(), tensor.dtype, opts.reduceOp.op.value)
        if tensor.is_complex():
            key = ("complex", *key)  # complex tensors have separate kinds, because they may be conjugated
        kind = self._known(key)
        flat, finish = staged(tensor)
        count, dtype, op, divisor = self._reduction(flat, opts)
        if kind is not None and flat.is_cuda:
            kind = None  # the known kind is for tensors on the CPU
        if kind is None and op is not None:
            kind = self._kind(key, "allreduce", flat, count=count, dtype=dtype, op=op, divisor=divisor)
        where = flat.data_ptr()
        if kind is None:  # a premultiplied sum; its factor may differ in every call
            kind = self._kind(("premultiplied", count, flat.dtype), "allreduce", flat, count=count, dtype=dtype,
                              op="sum")
            _scale(flat, opts)
        return self._run(kind, where, where, [tensor], opts, finish, keeps=flat)

    @collective_call
    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = AllreduceOptions()) -> Work:
        return self._together([self.allreduce([each], opts) for each in tensors], tensors)

    @collective_call
    def reduce(self, tensors: list[torch.Tensor], opts: Any = ReduceOptions(), op: Any = ReduceOp.SUM,
               timeout: Any = None) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors, opts = [tensors], _filled(ReduceOptions(), timeout, rootRank=opts, reduceOp=_reduce_op(op))
        (tensor,) = tensors
        is_root = self._my_rank == opts.rootRank
        flat, finish = staged(tensor) if is_root else (side_by_side(tensor), None)
        count, dtype, op, divisor = self._reduction(flat, opts)
        if op is None:
            flat, op = _scale(flat.clone(), opts), "sum"
            finish = copied_to(tensor, flat) if is_root else None
        kind = self._kind(("reduce", count, flat.dtype, op, divisor, opts.rootRank), "reduce", flat, count=count,
                          dtype=dtype, op=op, divisor=divisor, root=opts.rootRank)
        where = flat.data_ptr()
        return self._run(kind, where, where, tensors, opts, finish, keeps=flat)

    @collective_call
    def broadcast(self, tensors: list[torch.Tensor], opts: Any = BroadcastOptions(), timeout: Any = None) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors, opts = [tensors], _filled(BroadcastOptions(), timeout, rootRank=opts)
        (tensor,) = tensors
        is_root = self._my_rank == opts.rootRank
        flat, finish = (side_by_side(tensor), None) if is_root else staged(tensor)
        kind = self._rooted_kind("bcast", flat, opts.rootRank)
        where = flat.data_ptr()
        return self._run(kind, where, where, tensors, opts, finish, keeps=flat)

    @collective_call
    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
                  opts: Any = AllgatherOptions()) -> Work:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs, opts = [outputs], [inputs], _filled(AllgatherOptions(), opts)
        ((output,), (input,)) = (outputs, inputs)
        self._expect_one_each(output, "tensor_list")
        sizes = [each.nbytes for each in output]
        expect_dtype(output, input.dtype)
        expect_apart(output, "tensor_list")
        expect_together(input, output[0])
        source = side_by_side(input)
        flat = empty_bytes(sum(sizes), source.device)
        if source.nbytes != sizes[self._my_rank]:
            raise _bad(f"the tensor has {source.nbytes} bytes, but tensor_list[{self._my_rank}] has "
                       f"{sizes[self._my_rank]}")
        kind = self._blocks_kind("allgather", sizes, source)
        work = self._run(kind, source.data_ptr(), flat.data_ptr(), output, opts, scattered_to(output, flat),
                         keeps=(source, flat))
        if work is not _DONE and all((each.shape, each.dtype) == (input.shape, input.dtype) for each in output):
            work.value = [flat.view(input.dtype).view(self._ranks, *input.shape)]  # NCCL's form, for torch's hooks
        return work

    @collective_call
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = AllgatherOptions()) -> Work:
        expect_dtype([output], input.dtype)
        expect_together(input, output)
        source = side_by_side(input)
        flat, finish = staged(output)
        if flat.nbytes != source.nbytes * self._ranks:
            raise _bad(f"output has {output.numel()} elements: expected {input.numel()} for each of "
                       f"{self._ranks} ranks")
        if overlap(source, flat):
            source = source.clone()
        kind = self._blocks_kind("allgather", [source.nbytes] * self._ranks, source)
        return self._run(kind, source.data_ptr(), flat.data_ptr(), [output], opts, finish, keeps=(source, flat))

    @collective_call
    def allgather_coalesced(self, output_lists: list[list[torch.Tensor]], inputs: list[torch.Tensor],
                            opts: Any = AllgatherOptions()) -> Work:
        """Runs one allgather for each input.

        `output_lists[r]` has one output for each input of rank r.
        """
        works = [self.allgather([[theirs[i] for theirs in output_lists]], [input], opts)
                 for i, input in enumerate(inputs)]
        outputs = [each for theirs in output_lists for each in theirs]
        work = self._together(works, outputs)
        if work is not _DONE:
            work.value = outputs
        return work

    @collective_call
    def all_gather_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                    opts: Any = AllgatherOptions()) -> Work:
        works = [self.all_gather_single(output, input, opts) for output, input in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    @collective_call
    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
               opts: Any = GatherOptions(), timeout: Any = None) -> Work:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs, opts = [outputs], [inputs], _filled(GatherOptions(), timeout, rootRank=opts)
        (input,) = inputs
        source = side_by_side(input)
        kind = self._rooted_kind("gather", source, opts.rootRank)
        if self._my_rank != opts.rootRank:
            return self._run(kind, source.data_ptr(), 0, inputs, opts, keeps=source)
        (output,) = outputs
        self._expect_one_each(output, "gather_list")
        expect_dtype(output, input.dtype)
        expect_apart(output, "gather_list")
        if any(each.nbytes != source.nbytes for each in output):
            raise _bad("a tensor of gather_list differs in size from the input tensor: pass tensors of equal size")
        expect_together(source, output[0])
        flat = empty_bytes(source.nbytes * self._ranks, source.device)
        return self._run(kind, source.data_ptr(), flat.data_ptr(), output, opts, scattered_to(output, flat),
                         keeps=(source, flat))

    @collective_call
    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]],
                opts: Any = ScatterOptions(), timeout: Any = None) -> Work:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs, opts = [outputs], [inputs], _filled(ScatterOptions(), timeout, rootRank=opts)
        (output,) = outputs
        flat, finish = staged(output)
        kind = self._rooted_kind("scatter", flat, opts.rootRank)
        source = None
        if self._my_rank == opts.rootRank:
            (input,) = inputs
            self._expect_one_each(input, "scatter_list")
            expect_dtype(input, output.dtype)
            if any(each.nbytes != flat.nbytes for each in input):
                raise _bad("a tensor of scatter_list differs in size from the output tensor: pass tensors of equal "
                           "size")
            source = joined(input)
            expect_together(source, flat)
        return self._run(kind, 0 if source is None else source.data_ptr(), flat.data_ptr(), outputs, opts, finish,
                         keeps=(source, flat))

    @collective_call
    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]],
                       opts: Any = ReduceScatterOptions(), timeout: Any = None) -> Work:
        if isinstance(outputs, torch.Tensor):
            op = ReduceOp.SUM if hasattr(opts, "reduceOp") else opts
            outputs, inputs = [outputs], [inputs]
            opts = _filled(ReduceScatterOptions(), timeout, reduceOp=_reduce_op(op))
        ((output,), (input,)) = (outputs, inputs)
        self._expect_one_each(input, "input_list")
        expect_dtype(input, output.dtype)
        counts = [each.numel() for each in input]
        if output.numel() != counts[self._my_rank]:
            raise _bad(f"output has {output.numel()} elements, but input_list[{self._my_rank}] has "
                       f"{counts[self._my_rank]}: pass tensors of equal length")
        expect_together(input[0], output)
        for each in input:
            expect_memory(each)
        joined = torch.cat([each.reshape(-1) for each in input])
        return self._reduce_scatter(output, joined, None if len(set(counts)) == 1 else counts, opts)

    @collective_call
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor,
                              opts: Any = ReduceScatterOptions()) -> Work:
        if input.numel() != output.numel() * self._ranks:
            raise _bad(f"input has {input.numel()} elements: expected {output.numel()} for each of {self._ranks} ranks")
        expect_together(input, output)
        return self._reduce_scatter(output, side_by_side(input), None, opts)

    def _reduce_scatter(self, output: torch.Tensor, source: torch.Tensor, counts: list[int] | None,
                        opts: Any) -> Work:
        flat, finish = staged(output)
        if source.dtype != flat.dtype:
            raise _bad(f"the input has dtype {source.dtype}, but the output has {flat.dtype}: pass tensors of the same "
                       "dtype")
        factor = 2 if flat.is_complex() else 1
        count, dtype, op, divisor = self._reduction(flat, opts)
        if op is None:
            source, op = _scale(source.clone(), opts), "sum"
        elif overlap(source, flat):
            source = source.clone()
        if counts is None:
            kind = self._kind(("reduce_scatter", count, flat.dtype, op, divisor), "reduce_scatter_block", source,
                              count=count, dtype=dtype, op=op, divisor=divisor)
        else:
            counts = [factor * each for each in counts]
            kind = self._kind(("reduce_scatter", *counts, flat.dtype, op, divisor), "reduce_scatter", source,
                              counts=counts, dtype=dtype, op=op, divisor=divisor)
        return self._run(kind, source.data_ptr(), flat.data_ptr(), [output], opts, finish, keeps=(source, flat))

    @collective_call
    def reduce_scatter_single_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                        opts: Any = ReduceScatterOptions()) -> Work:
        works = [self.reduce_scatter_single(output, input, opts)
                 for output, input in zip(outputs, inputs, strict=True)]
        return self._together(works, outputs)

    @collective_call
    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                 opts: Any = AllToAllOptions()) -> Work:
        self._expect_one_each(outputs, "output_tensor_list")
        self._expect_one_each(inputs, "input_tensor_list")
        expect_dtype([*outputs, *inputs], outputs[0].dtype)
        expect_apart(outputs, "output_tensor_list")
        sent, received = ([each.nbytes for each in tensors] for tensors in (inputs, outputs))
        self._expect_exchange(inputs[0], sent, outputs[0], received)
        flat = empty_bytes(sum(received), outputs[0].device)
        return self._exchange(joined(inputs), sent, flat, received, outputs, opts, scattered_to(outputs, flat))

    @collective_call
    def all_to_all_single(self, output: torch.Tensor, input: torch.Tensor, output_splits: Sequence[int],
                          input_splits: Sequence[int], opts: Any = AllToAllOptions()) -> Work:
        """Runs an all-to-all. Splits are numbers of rows. If there are no splits, all parts have the same length."""
        expect_dtype([output], input.dtype)
        sent = self._split_bytes(input, input_splits, "input")
        received = self._split_bytes(output, output_splits, "output")
        self._expect_exchange(input, sent, output, received)
        flat, finish = staged(output)
        return self._exchange(side_by_side(input), sent, flat, received, [output], opts, finish)

    def _expect_exchange(self, input: torch.Tensor, sent: list[int], output: torch.Tensor, received: list[int]) -> None:
        """Refuses blocks of different lengths on a device, because device schedules have fixed lengths."""
        expect_together(input, output)
        if input.is_cuda and len({*sent, *received}) != 1:
            raise as_torch_error(Unsupported(f"lsched has no all_to_all with blocks of different lengths for tensors "
                                             f"on {input.device}: pass copies on the CPU", "LSCHED_ERR_UNSUPPORTED"))

    def _exchange(self, source: torch.Tensor, sent: list[int], target: torch.Tensor, received: list[int],
                  tensors: list[torch.Tensor], opts: Any, finish: Callable[[], None] | None) -> Work:
        """Sends a block of sent[r] bytes to each rank r, and receives a block of received[r] bytes from each rank r.

        The lengths may differ between ranks and rounds. Only the schedule is the same on all ranks.
        """
        if source.is_cuda:
            return self._exchange_even(source, sent[0], target, tensors, opts, finish)
        if overlap(source, target):
            source = source.clone()
        dtype, width = _moved_as(tensors[0])
        kind = self._kind(("exchange", tensors[0].dtype), "alltoallv", tensors[0], dtype=dtype, capacity=2**64 - 1)
        counts = torch.tensor([sent, received, [0] * self._ranks], dtype=torch.int64, device="cpu") // width
        where = counts.data_ptr()
        step = counts.element_size() * self._ranks
        place = None
        try:
            place = self._placed(kind, 0, 0)
            ticket = place.schedule._start_with([source.data_ptr()], [target.data_ptr()],
                                                [where, 0, where + step, 0, where + 2 * step],
                                                (source, target, counts))
        except Error as error:
            raise self._failed(place, error)
        blocks = ExpectedBlocks(ticket, counts[1], counts[2], self._schedules.give_up)
        return self._begun(place, blocks, tensors, opts, finish)

    def _exchange_even(self, source: torch.Tensor, length: int, target: torch.Tensor, tensors: list[torch.Tensor],
                       opts: Any, finish: Callable[[], None] | None) -> Any:
        """Exchanges blocks of `length` bytes between tensors of a device."""
        if overlap(source, target):
            source = source.clone()
        kind = self._blocks_kind("alltoall", [length] * self._ranks, tensors[0])
        return self._run(kind, source.data_ptr(), target.data_ptr(), tensors, opts, finish, keeps=(source, target))

    @collective_call
    def barrier(self, opts: Any = BarrierOptions()) -> Work:
        """Runs a barrier, and waits for the collectives that this group has begun before, as Gloo does."""
        earlier = self._schedules.works_under_way()
        work = self._run(self._kind(("barrier",), "barrier"), 0, 0, [], opts)
        if earlier:
            work = Several([*earlier, work], [], self._limit_of(opts))
            if not opts.asyncOp:
                work.wait()
        return work

    @collective_call
    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Runs a barrier with a new schedule, and blocks. Raises a RuntimeError that names a missing rank."""
        limit = self._limit if timeout is None else timeout.total_seconds()
        step = self.world.barrier()
        self._calls.round_has_begun()
        try:
            step.run(limit)
        except Error as error:
            self._calls.settle_failed_create(error, step, self._calls.number)
            step._abandon(is_cancelled=True)
            error = as_torch_error(error)
            raise RuntimeError(f"Rank {self._my_rank} timed out in monitoredBarrier: {error}"
                               if isinstance(error.__cause__, Timeout) else str(error)) from error.__cause__
        step.close()

    # --- messages ------------------------------------------------------------------------------------------------

    def send(self, tensors: list[torch.Tensor], to: int, tag: int) -> Work:
        (tensor,) = tensors
        _expect_tag(tag)
        expect_host(tensor, "messages")
        self._expect_no_other_backend("cpu")
        flat = side_by_side(tensor)
        return self._posted(SentMessage(self._box._send(to, tag, flat.data_ptr(), flat.nbytes, flat)), tensors, None)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int) -> Work:
        (tensor,) = tensors
        _expect_tag(tag)
        expect_host(tensor, "messages")
        self._expect_no_other_backend("cpu")
        flat, finish = staged(tensor)
        message = self._box._receive(source, tag, flat.data_ptr(), flat.nbytes, flat)
        return self._posted(ExpectedMessage(message, flat.nbytes), tensors, finish)

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int) -> Work:
        return self.recv(tensors, ANY_RANK, tag)

    def _posted(self, message: Any, tensors: list[torch.Tensor], finish: Callable[[], None] | None) -> Work:
        work = Work(message, tensors, self._limit, finish)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    # --- rounds --------------------------------------------------------------------------------------------------

    def _kind(self, key: tuple, name: str, near: torch.Tensor | None = None, **members: Any) -> Kind:
        """Returns the kind (_schedules.py) of a call, and adds the kind if it is new.

        `near` is a tensor of the call, or None if there are no tensors. All tensors of the call are on the same device.
        """
        device = None
        if near is not None and near.is_cuda:
            device = near.device
            key = (*key, device)
            try:
                _device.attach(self.world, device)
            except Error as error:
                raise as_torch_error(error)
        kind = self._known(key)
        if kind is not None:
            return kind
        self._schedules.expect_in_use()
        if near is not None:
            self._expect_no_other_backend(near.device.type)
        if near is not None and near.dtype not in _OWN_DTYPES:
            self._expect_same_dtype(near.dtype)
        return self._schedules.add(key, name, device, **members)

    def _expect_no_other_backend(self, device: str) -> None:
        """Refuses tensors of a device for which init_process_group or new_group names another backend.

        Torch has dropped that backend, because this group is the whole process group.
        """
        for each in distributed_c10d._world.pg_backend_config.get(self, "").split(","):
            named, _, backend = each.partition(":")
            if named == device and backend not in ("", "lsched"):
                raise as_torch_error(Unsupported(f"the group has the backend {backend} for {device} beside lsched, but "
                                                 "lsched serves all devices of a group: create a group of each backend "
                                                 "with new_group(backend=...)", "LSCHED_ERR_UNSUPPORTED"))

    def _rooted_kind(self, name: str, flat: torch.Tensor, root: int) -> Kind:
        """Returns the kind of a call that moves a block from the root or to the root."""
        dtype, width = _moved_as(flat)
        count = flat.nbytes // width
        return self._kind((name, count, flat.dtype, root), name, flat, count=count, dtype=dtype, root=root)

    def _blocks_kind(self, name: str, sizes: list[int], near: torch.Tensor) -> Kind:
        """Returns the kind of a call that moves blocks. `sizes` has the bytes of each rank's block."""
        dtype, width = _moved_as(near)
        counts = [each // width for each in sizes]
        if len(set(counts)) == 1:
            return self._kind((name, counts[0], near.dtype), name, near, count=counts[0], dtype=dtype)
        return self._kind((name, *counts, near.dtype), name + "v", near, counts=counts, dtype=dtype)

    def _expect_same_dtype(self, dtype: torch.dtype) -> None:
        """Checks that all ranks pass the same dtype, if the library does not have this dtype. Waits for all ranks.

        Must be called before the create of the first schedule of a kind. Without this check, the library could not
        detect a mismatch, because it gets complex numbers as pairs of real numbers.
        """
        calls = self._calls
        made = calls.committed_number(zlib.crc32(str(dtype).encode()))
        try:
            made._create_wait(self._limit)
        except Error as error:
            calls.settle_failed_create(error, made, calls.number)
            if calls.may_refuse:  # the failed create was this call's commit, but did not settle the call
                calls.may_refuse = False
                self._schedules.give_up(error)
            raise as_torch_error(error)
        finally:
            made._abandon()
        calls.begin_part()

    def _run(self, kind: Kind, input: int, output: int, tensors: list[torch.Tensor], opts: Any,
             finish: Callable[[], None] | None = None, keeps: Any = None) -> Work:
        """Runs a round. Waits for its end, unless the call is asynchronous."""
        if kind.device is not None:
            return self._run_in_stream(kind, input, output, tensors, opts, finish, keeps)
        place = None
        try:
            place = self._placed(kind, input, output)
            limit = self._limit_of(opts)
            if opts.asyncOp:
                ticket = place.schedule._start_at(input, output, keeps)
                return self._begun(place, ticket, tensors, opts, finish)
            try:
                self._finish_run(place.schedule._run_at(input, output, limit), limit)
            except BaseException as error:
                self._give_up(place, error, (tensors, keeps))
                raise
        except Error as error:
            raise self._failed(place, error)
        self._calls.round_has_begun()
        if finish is not None:
            finish()
        return _DONE

    def _finish_run(self, ticket: Any, limit: float) -> None:
        """Waits for a round that has not ended in its first slice. `ticket` is None if the round has ended."""
        if ticket is not None:
            Round(self._calls, ticket).wait(limit - _calls.SLICE)
        elif self._calls.agreements:
            self._calls.expect_agreed(self._calls.agreements)

    def _placed(self, kind: Kind, input: int, output: int) -> Any:
        """Returns the place (_schedules.py) in which the next round of a kind runs.

        A call of several parts waits for each create, so that no rank begins the next part after a refusal.
        """
        calls, commits = self._calls, self.world._commits
        place = kind.place(input, output)
        is_new, is_part = self.world._commits != commits, calls.number & _calls.PARTS
        if is_new and is_part:
            try:
                place.schedule._create_wait(self._limit)
            except Error as error:
                calls.settle_failed_create(error, place.schedule, calls.number)
                raise
        calls.begin_part()
        return place

    def _failed(self, place: Any, error: Error) -> Exception:
        """Returns the exception for a round that could not be started or that has failed."""
        if place is not None:
            self._calls.settle_failed_create(error, place.schedule, self._calls.number)
            if self._calls.may_refuse and _calls.has_failed(place.schedule):  # the round has failed on another rank
                self._calls.may_refuse = False
                self._schedules.give_up(error)
        return as_torch_error(error)

    def _run_in_stream(self, kind: Kind, input: int, output: int, tensors: list[torch.Tensor], opts: Any,
                       finish: Callable[[], None] | None, keeps: Any) -> StreamWork:
        """Starts a round in the order of the current stream. A synchronous call blocks the stream, but not the host.

        If an earlier round of the group has failed, raises the error of that round.
        """
        stream = _device.current_stream(kind.device)
        try:
            self._under_way.look()
        except RuntimeError as error:
            self._schedules.give_up(error)
            raise
        try:
            place = self._placed(kind, input, output)
            self._calls.expect_agreed(self._calls.agreements)
            try:
                ticket = place.start(input, output, stream.cuda_stream, keeps)
            except (ArgumentError, Unsupported):
                raise
            except BaseException as error:
                self._give_up(place, error, keeps)
                raise
        except Error as error:
            raise as_torch_error(error)
        self._calls.round_has_begun()
        temporaries = [each for each in (keeps if isinstance(keeps, tuple) else (keeps,)) if each is not None]
        work = StreamWork(ticket, tensors, self._limit_of(opts), kind.device, stream, finish, temporaries, self._sides)
        place.add(work)
        self._under_way.add(work)
        if self._coalesced is not None:
            self._coalesced.append(work)
        if not opts.asyncOp:
            work.wait()
        return work

    def _give_up(self, place: Any, error: BaseException, keeps: Any) -> None:
        """Closes the group to further calls after a failure, unless the failure is the refusal of this call."""
        if not self._calls.has_settled(place, error, keeps):
            place.cancel(keeps)
            self._schedules.give_up(error)

    def _begun(self, place: Any, ticket: Any, tensors: list[torch.Tensor], opts: Any,
               finish: Callable[[], None] | None) -> Work:
        work = place.work = Work(Round(self._calls, ticket), tensors, self._limit_of(opts), finish)
        work.place, work.calls, work.position = place, self._calls, self._calls.position()
        self._calls.round_has_begun()
        if self._coalesced is not None:
            self._coalesced.append(work)
        if not opts.asyncOp:
            try:
                work.wait()
            except BaseException as error:
                self._give_up(place, error, ticket)
                raise
        return work

    def _limit_of(self, opts: Any) -> float:
        return seconds(opts.timeout, self._limit)

    def _together(self, works: list[Work], tensors: list[torch.Tensor]) -> Work:
        if not works:
            raise _bad("the call got no tensors: pass at least one tensor")
        if len(works) == 1:
            return works[0]
        in_streams = sum(isinstance(each, (StreamWork, SeveralInStreams)) for each in works)
        if in_streams == 0:
            return Several(works, tensors, self._limit)
        if in_streams < len(works):
            raise _bad("a coalesced call got tensors on the CPU and on a device: make a separate call for each")
        return SeveralInStreams(works, tensors)

    # --- arguments -----------------------------------------------------------------------------------------------

    def _reduction(self, flat: torch.Tensor, opts: Any) -> tuple[int, int, str | None, int]:
        """Returns count, dtype, reduction (None: a premultiplied sum) and divisor for the C interface."""
        word = _OPS.get(opts.reduceOp.op)
        count, kind = flat.numel(), flat.dtype
        if flat.is_complex():
            if word not in ("sum", "avg", "premul_sum"):
                raise _bad(f"{opts.reduceOp.op.name} is not defined for complex tensors: use SUM, AVG or PREMUL_SUM")
            count, kind = 2 * count, flat.dtype.to_real()
        elif kind == torch.bool:
            if word not in _OPS_OF_BOOL:
                raise _bad(f"{opts.reduceOp.op.name} is not defined for bool tensors: convert them to integers")
            word = _OPS_OF_BOOL[word]
        number = _DTYPES.get(kind)
        if number is None or word is None:
            raise as_torch_error(Unsupported(f"lsched cannot reduce {kind} with {opts.reduceOp.op.name}",
                                             "LSCHED_ERR_UNSUPPORTED"))
        if word == "premul_sum":
            return count, number, None, 0
        return (count, number, "sum", _BY_RANKS) if word == "avg" else (count, number, word, 0)

    def _split_bytes(self, tensor: torch.Tensor, splits: Sequence[int], what: str) -> list[int]:
        if tensor.dim() == 0:
            raise _bad(f"{what} has no dimension, so it cannot be split for {self._ranks} ranks: pass a 1-D tensor")
        rows = tensor.size(0)
        if not splits:
            if rows % self._ranks:
                raise _bad(f"{what} has {rows} rows, which cannot be split into {self._ranks} equal parts: pass split "
                           "sizes")
            return [tensor.nbytes // self._ranks] * self._ranks
        if len(splits) != self._ranks or sum(splits) != rows or min(splits) < 0:
            raise _bad(f"{what} has {rows} rows, but its split sizes are {list(splits)}: pass {self._ranks} sizes of "
                       f"sum {rows}")
        row = tensor.nbytes // rows if rows else 0
        return [row * each for each in splits]

    def _expect_one_each(self, tensors: Sequence[torch.Tensor], what: str) -> None:
        if len(tensors) != self._ranks:
            raise _bad(f"{what} has {len(tensors)} tensors: expected one for each of {self._ranks} ranks")


# Old names of methods, which torch still calls.
for _new, _old in (("all_gather_single", "_allgather_base"), ("reduce_scatter_single", "_reduce_scatter_base"),
                   ("all_to_all_single", "alltoall_base"),
                   ("all_gather_single_coalesced", "allgather_into_tensor_coalesced"),
                   ("reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced")):
    setattr(Group, _old, getattr(Group, _new))

_DONE = Work(None, [], 0.0)


# --- options ------------------------------------------------------------------------------------------------------


def _scale(flat: torch.Tensor, opts: Any) -> torch.Tensor:
    """Multiplies a tensor in place by the factor of a premultiplied sum. The dtype of the tensor is kept."""
    _, factor = opts.reduceOp.__getstate__()
    return flat.mul_(factor.reshape(()) if isinstance(factor, torch.Tensor) else factor)


def _moved_as(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the dtype in which the library moves elements of the tensor, and the bytes of an element."""
    dtype = _OWN_DTYPES.get(tensor.dtype)
    return (_BYTES, 1) if dtype is None else (dtype, tensor.element_size())


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _reduce_op(op: Any) -> ReduceOp:
    return op if isinstance(op, ReduceOp) else ReduceOp(op)


def _filled(options: Any, timeout: Any, **members: Any) -> Any:
    """Returns options of torch with these members. If `timeout` is not a timedelta, the group's timeout is used."""
    for member, given in members.items():
        setattr(options, member, given)
    if isinstance(timeout, timedelta):
        options.timeout = timeout
    return options


def _expect_tag(tag: int) -> None:
    if tag == _calls.TAG:
        raise _bad(f"the tag {tag} is reserved for the library: use another tag")


def _bad(text: str) -> ArgumentError:
    return ArgumentError(text, "LSCHED_ERR_ARGUMENT")
