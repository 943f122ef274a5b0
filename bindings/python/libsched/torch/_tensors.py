"""Tensors of torch as the memory of a round: contiguous, and all on the CPU or all on one CUDA device."""

from __future__ import annotations

from typing import Callable, Sequence

import torch

from .._errors import ArgumentError, Unsupported
from ._work import as_torch_error


def _expect_here(tensor: torch.Tensor) -> None:
    if not tensor.is_cpu and not tensor.is_cuda:
        raise as_torch_error(Unsupported(f"lsched supports tensors on the CPU and on CUDA, not on {tensor.device}: "
                                         "pass a copy on the CPU",
                                         "LSCHED_ERR_UNSUPPORTED"))
    if tensor.layout != torch.strided:
        raise as_torch_error(Unsupported(f"this call supports dense tensors, not {tensor.layout}: pass "
                                         "tensor.to_dense()",
                                         "LSCHED_ERR_UNSUPPORTED"))


def expect_host(tensor: torch.Tensor, what: str) -> None:
    """Refuses a tensor on a device for an operation that supports only host memory.

    The tensor is not copied to the host.
    """
    if not tensor.is_cpu:
        raise as_torch_error(Unsupported(f"lsched has no {what} for tensors on {tensor.device}: pass a copy on the CPU",
                                         "LSCHED_ERR_UNSUPPORTED"))


def expect_together(one: torch.Tensor, other: torch.Tensor) -> None:
    if one.device != other.device:
        raise _refused(f"the tensors of a call are on {one.device} and on {other.device}: move them to the same device")


def expect_dtype(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> None:
    """Refuses tensors whose dtype is not `dtype`, because bytes are moved without conversion."""
    for each in tensors:
        if each.dtype != dtype:
            raise _refused(f"the tensors of a call have the dtypes {dtype} and {each.dtype}: convert them to the same "
                           "dtype")


def expect_memory(tensor: torch.Tensor) -> None:
    """Refuses a tensor without memory: its storage was freed, or it is a wrapper of a tensor that has the memory."""
    if tensor.numel() and tensor.data_ptr() == 0:
        raise _refused(f"a tensor of {tensor.numel()} elements has no memory, because its storage was freed or is a "
                       "wrapper: pass a tensor with memory")


def expect_writable(tensor: torch.Tensor) -> None:
    """Refuses an output whose elements share memory, such as an expanded tensor, because torch cannot write it."""
    if torch._debug_has_internal_overlap(tensor) == _OVERLAPS:
        raise _refused(f"elements of an output of shape {tuple(tensor.shape)} and strides {tensor.stride()} share "
                       "memory: pass a contiguous tensor")


_OVERLAPS = 1  # a result of _debug_has_internal_overlap(); 0: no, 2: not known


def expect_apart(tensors: Sequence[torch.Tensor], what: str) -> None:
    """Refuses a list in which two tensors share memory, because each tensor of the list is written.

    All tensors have one dtype.
    """
    written = sorted((each for each in tensors if each.numel() and each.data_ptr()), key=torch.Tensor.data_ptr)
    ends = [each.data_ptr() + _span(each) * each.element_size() for each in written]
    is_near = [each.data_ptr() < end for each, end in zip(written[1:], ends)]
    if any(is_near) and _share_elements(written, max(ends)):
        raise _refused(f"tensors of {what} share memory: pass tensors that do not overlap")


def _span(tensor: torch.Tensor) -> int:
    """Returns the number of elements in memory from the first to the last element of the tensor, both included."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _share_elements(tensors: Sequence[torch.Tensor], end: int) -> bool:
    """Returns true if two tensors contain the same element of memory.

    `tensors` are in the order of their addresses, and the memory ends at `end`. Counts the tensors that contain each
    element, because strided tensors may interleave, like columns of a matrix.
    """
    begin, width = tensors[0].data_ptr(), tensors[0].element_size()
    if any((each.data_ptr() - begin) % width for each in tensors):
        return True
    uses = torch.zeros((end - begin) // width, dtype=torch.int32, device="cpu")
    for each in tensors:
        uses.as_strided(each.shape, each.stride(), (each.data_ptr() - begin) // width).add_(1)
    return bool((uses > 1).any())


def _refused(text: str) -> ArgumentError:
    return ArgumentError(text, "LSCHED_ERR_ARGUMENT")


def side_by_side(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a contiguous copy.

    Copies conjugate and negative views, whose values torch computes only when they are read.
    """
    _expect_here(tensor)
    expect_memory(tensor)
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def staged(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable[[], None] | None]:
    """Returns side_by_side(tensor), and a function that copies the result back, or None in place of the function."""
    flat = side_by_side(tensor)
    expect_writable(tensor)
    return flat, None if flat.data_ptr() == tensor.data_ptr() else copied_to(tensor, flat)


def copied_to(tensor: torch.Tensor, flat: torch.Tensor) -> Callable[[], None]:
    def finish() -> None:
        tensor.detach().copy_(flat.view_as(tensor))

    return finish


def empty_bytes(bytes: int, device: torch.device) -> torch.Tensor:
    return torch.empty(bytes, dtype=torch.uint8, device=device)


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the bytes of the tensors, one after the other."""
    for each in tensors:
        _expect_here(each)
        expect_memory(each)
    flat = empty_bytes(sum(each.nbytes for each in tensors), tensors[0].device)
    for part, each in zip(parts(tensors, flat), tensors):
        part.copy_(each.detach())
    return flat


def parts(tensors: Sequence[torch.Tensor], flat: torch.Tensor) -> list[torch.Tensor]:
    """Splits contiguous bytes into views in the shapes of the tensors. All tensors have one dtype."""
    parts, begin = [], 0
    for each in tensors:
        _expect_here(each)
        expect_together(each, flat)
        end = begin + each.nbytes
        parts.append(flat[begin:end].view(each.dtype).view(each.shape))
        begin = end
    return parts


def scattered_to(tensors: Sequence[torch.Tensor], flat: torch.Tensor) -> Callable[[], None]:
    for each in tensors:
        _expect_here(each)
        expect_memory(each)
        expect_writable(each)
        expect_together(each, flat)

    def finish() -> None:
        for part, each in zip(parts(tensors, flat), tensors):
            each.detach().copy_(part)

    return finish


def overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    begin, end = other.data_ptr(), other.data_ptr() + other.nbytes
    return one.data_ptr() < end and begin < one.data_ptr() + one.nbytes
