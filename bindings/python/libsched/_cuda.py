"""Arrays of CUDA devices: by DLPack, and by __cuda_array_interface__ where an object has nothing else."""

from __future__ import annotations

import math
from typing import Any

from ._errors import ArgumentError
from ._words import DTYPES

_DEVICES_WITH_STREAMS = (2, 13)  # kDLCUDA, kDLCUDAManaged
_IN_NO_ORDER = -1  # of DLPack: the producer need not wait, since rounds begin where the application says

# By typestr without the byte order: the dtype of the C interface, and how many elements of it one of these is.
_DTYPES = {
    "i1": (DTYPES["int8"], 1), "u1": (DTYPES["uint8"], 1), "b1": (DTYPES["uint8"], 1), "i4": (DTYPES["int32"], 1),
    "i8": (DTYPES["int64"], 1), "u8": (DTYPES["uint64"], 1), "f2": (DTYPES["float16"], 1),
    "f4": (DTYPES["float32"], 1), "f8": (DTYPES["float64"], 1), "c8": (DTYPES["float32"], 2),
    "c16": (DTYPES["float64"], 2),
}


def has_streams(array: Any) -> bool:
    """Whether its __dlpack__ puts elements into the order of a stream."""
    told = getattr(array, "__dlpack_device__", None)
    return told is not None and told()[0] in _DEVICES_WITH_STREAMS


def capsule_of(array: Any) -> Any:
    """What __dlpack__ gives of an array for which has_streams(), without waiting for any stream. Says whether it is
    read-only, where the producer knows of that."""
    try:
        return array.__dlpack__(stream=_IN_NO_ORDER, max_version=(1, 1))
    except TypeError:
        return array.__dlpack__(stream=_IN_NO_ORDER)


def interface_of(array: Any) -> dict[str, Any] | None:
    """Its __cuda_array_interface__. None: it has none, or does not give its memory away."""
    try:
        return array.__cuda_array_interface__
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def look(array: Any, interface: dict[str, Any], is_written: bool) -> tuple[int, int, int, int, int, Any, bool]:
    """As _core.look(): (address, elements, dtype, elements of the C interface in one of its own, bytes of an element,
    what keeps them, whether they are in the memory of a device), which is said of managed memory too."""
    address, is_read_only = interface["data"]
    if is_written and is_read_only:
        raise _bad("this array is read-only, and a result is written to it")
    if interface.get("mask") is not None:
        raise _bad("this array has a mask")
    order, kind = interface["typestr"][0], interface["typestr"][1:]
    if order == ">":
        raise _bad("this array has the byte order of another machine")
    number, factor = _DTYPES.get(kind, (0, 1))
    item = int(kind[1:])
    shape = interface["shape"]
    count = math.prod(shape)
    if count != 0 and not _is_contiguous(shape, interface.get("strides"), item):
        raise _bad("this array is not contiguous in C order")
    return address or 0, count * factor, number, factor, item // factor, array, count != 0


def _is_contiguous(shape: Any, strides: Any, item: int) -> bool:
    """`strides`: bytes, or None."""
    step = item
    for extent, stride in zip(reversed(shape), reversed(strides or ())):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def _bad(text: str) -> ArgumentError:
    return ArgumentError(text, "LSCHED_ERR_ARGUMENT")
