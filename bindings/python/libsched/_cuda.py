"""Arrays on CUDA devices, read by DLPack, or by __cuda_array_interface__ if an object does not have DLPack."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

from ._errors import ArgumentError
from ._words import DTYPES

_TYPESTR = re.compile(r"([<>|=])([A-Za-z](\d+))(\[.*\])?")

_DEVICES_WITH_STREAMS = (2, 13)  # kDLCUDA, kDLCUDAManaged
# The argument `stream` of __dlpack__. With this value, the producer of the array does no synchronisation. The
# application orders the rounds instead.
_IN_NO_ORDER = -1

# Keys are typestrs (of the array interface) without byte order. Each value has a dtype of the C interface, and the
# number of elements of that dtype in one element of the array.
_DTYPES = {
    "i1": (DTYPES["int8"], 1), "u1": (DTYPES["uint8"], 1), "b1": (DTYPES["uint8"], 1), "i4": (DTYPES["int32"], 1),
    "i8": (DTYPES["int64"], 1), "u8": (DTYPES["uint64"], 1), "f2": (DTYPES["float16"], 1),
    "f4": (DTYPES["float32"], 1), "f8": (DTYPES["float64"], 1), "c8": (DTYPES["float32"], 2),
    "c16": (DTYPES["float64"], 2),
}


def has_streams(array: Any) -> bool:
    """Returns true if the array is on a CUDA device. The method __dlpack__ of such an array accepts a stream."""
    told = getattr(array, "__dlpack_device__", None)
    return told is not None and told()[0] in _DEVICES_WITH_STREAMS


def capsule_of(array: Any) -> Any:
    """Returns the DLPack capsule of an array for which has_streams() is true. Does not wait for any stream.

    The capsule marks a read-only array if the producer supports versioned capsules.
    """
    try:
        return array.__dlpack__(stream=_IN_NO_ORDER, max_version=(1, 1))
    except TypeError:
        return array.__dlpack__(stream=_IN_NO_ORDER)


def interface_of(array: Any) -> dict[str, Any] | None:
    """Returns the array's __cuda_array_interface__; None if the array does not have it or does not export memory."""
    try:
        return array.__cuda_array_interface__
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None


def look(array: Any, interface: dict[str, Any], is_written: bool) -> tuple[int, int, int, int, int, Any, bool, bool]:
    """Returns the same tuple as _core.look().

    The tuple is (address, number of C elements, dtype, C elements in an array element, bytes of a C element, the object
    that keeps the memory alive, true if the memory is on a device, true if the elements are bools). A C element is an
    element of the C interface. Managed memory is treated as memory of a device.
    """
    told = _read(interface)
    if is_written and told["is_read_only"]:
        raise _bad("this array is read-only, but a result is written to the array: pass a writable array")
    if interface.get("mask") is not None:
        raise _bad("this array has a mask, which is not supported: pass an array without a mask")
    if told["order"] == ">":
        raise _bad("this array is not in the byte order of this machine: pass a converted copy")
    number, factor = _DTYPES.get(told["kind"], (0, 1))
    item, shape = told["item"], told["shape"]
    count = math.prod(shape)
    if count != 0 and not _is_contiguous(shape, told["strides"], item):
        raise _bad("this array is not contiguous in C order: pass a contiguous copy")
    return told["address"], count * factor, number, factor, item // factor, array, count != 0, \
        told["kind"] == "b1"


def _read(interface: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of a __cuda_array_interface__. Raises ArgumentError if they violate the protocol."""
    field = "data"
    try:
        address, is_read_only = interface[field]
        address = operator.index(0 if address is None else address)
        _need(0 <= address < 2**64)
        field = "typestr"
        order, kind, item, _ = _TYPESTR.fullmatch(interface[field]).groups()
        field = "shape"
        shape = tuple(map(operator.index, interface[field]))
        _need(min(shape, default=0) >= 0 and math.prod(shape) * int(item) < 2**64)
        field = "strides"
        strides = interface.get(field)
        strides = None if strides is None else tuple(map(operator.index, strides))
        _need(strides is None or len(strides) == len(shape))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _bad(f"{field} in this array's __cuda_array_interface__ does not follow the protocol") from None
    return {"address": address, "is_read_only": is_read_only, "order": order, "kind": kind, "item": int(item),
            "shape": shape, "strides": strides}


def _need(is_right: bool) -> None:
    if not is_right:
        raise ValueError


def _is_contiguous(shape: Any, strides: Any, item: int) -> bool:
    """Returns true if the array is contiguous in C order. `strides` are in bytes; None means contiguous."""
    step = item
    for extent, stride in zip(reversed(shape), reversed(strides or ())):
        if extent > 1 and stride != step:
            return False
        step *= extent
    return True


def _bad(text: str) -> ArgumentError:
    return ArgumentError(text, "LSCHED_ERR_ARGUMENT")
