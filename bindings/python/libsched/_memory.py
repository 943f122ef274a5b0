"""Memory of the application's arrays: addresses of elements, and objects that keep the elements alive."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core, _cuda
from ._errors import ArgumentError, Unsupported
from ._words import DTYPE_NAMES, DTYPES, ITEM_BYTES, dtype_kind, dtype_number, whole_number


class Memory(NamedTuple):
    """The memory of an array, as the C interface describes it, and the object that keeps the memory alive."""

    address: int
    count: int
    dtype: int  # number in the C interface; 0: not supported
    keeps: Any
    # True for memory of a CUDA device. Managed memory is device memory if it was read through
    # __cuda_array_interface__, and host memory if it was read through DLPack.
    is_on_device: bool = False
    kind: str = ""  # "bool", "complex" (each element is two elements of the C interface), or "" for real numbers

    @property
    def dtype_name(self) -> str:
        """The dtype as error texts name it: "float32", "complex of float32", "bool"."""
        name = DTYPE_NAMES.get(self.dtype, "?")
        return {"bool": "bool", "complex": f"complex of {name}"}.get(self.kind, name)

    def is_alike(self, other: Memory) -> bool:
        """Returns true if the elements of both memories have the same dtype."""
        return (self.dtype, self.kind) == (other.dtype, other.kind)


NOTHING = Memory(0, 0, 0, None)


def _given(array: Any) -> Any:
    """Returns the DLPack capsule of an array, or the array itself if it exports no capsule.

    __dlpack__ is called from Python and not from C++. The interpreter may end this thread within the call. With C++
    code on the stack, this would terminate the process.
    """
    if isinstance(array, memoryview):
        return array
    try:
        return _cuda.capsule_of(array) if _cuda.has_streams(array) else array.__dlpack__()
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return array  # _core.look() tries the buffer protocol, and raises if that fails


def _looked_at(array: Any, is_written: bool) -> tuple[int, int, int, int, int, Any, bool, bool]:
    given = _given(array)
    if given is array and not isinstance(array, memoryview):
        interface = _cuda.interface_of(array)
        if interface is not None:
            return _cuda.look(array, interface, is_written)
    return _core.look(given, is_written)


def _flaw_of_dtype(array: Any) -> str | None:
    """Returns the reason why numpy cannot export the dtype, and a remedy. Returns None if numpy can export it."""
    dtype = getattr(array, "dtype", None)
    kind = getattr(dtype, "kind", None)  # absent from dtypes of torch and other libraries
    if getattr(dtype, "names", None):
        return f"the dtype {dtype} is structured: give each field as a separate array"
    if getattr(dtype, "isnative", True) is False:
        return f"the dtype {dtype.str!r} is not in the byte order of this machine: give array.astype(" \
               f"{dtype.newbyteorder('=').str!r})"
    if kind == "V":
        return f"numpy does not export the dtype {dtype}: give a view of integers of the same size, and name the dtype"
    if kind is not None and kind not in "biufc":
        return f"the dtype {dtype} is not supported: use one of {', '.join(DTYPES)}"
    return None


def _expect_plain_values(array: Any, name: str) -> None:
    """Raises ArgumentError if the values of the elements differ from the bits in memory, as in lazy views."""
    if hasattr(array, "is_conj") and (array.is_conj() or array.is_neg()):
        raise ArgumentError(f"{name} is a lazy conjugate or negative view of torch: the stored values differ from the "
                            "values that the tensor shows. Pass tensor.resolve_conj().resolve_neg()",
                            "LSCHED_ERR_ARGUMENT")
    if hasattr(array, "mask") and hasattr(array, "filled"):
        raise ArgumentError(f"{name} is a masked array of numpy, and the mask would be ignored: pass "
                            "array.filled(value) or array.data", "LSCHED_ERR_ARGUMENT")


def look(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """Returns the memory of an array, or NOTHING for None. Does not wait for streams: see Schedule.start_on_stream().

    The array must have __dlpack__, the buffer protocol or __cuda_array_interface__. `dtype` overrides the dtype of the
    array. For example, numpy has no bfloat16, so elements of bfloat16 are passed as an array of 16-bit integers. A
    complex element is treated as two real elements. A bool is treated as a uint8 of kind "bool".
    """
    if array is None:
        return NOTHING
    _expect_plain_values(array, name)
    try:
        address, count, number, factor, item, keeps, is_on_device, is_bool = _looked_at(array, is_written)
    except ArgumentError as error:
        raise ArgumentError(f"{name}: {_flaw_of_dtype(array) or error.text}", error.status) from None
    kind = "bool" if is_bool else "complex" if factor == 2 else ""
    if dtype is not None:
        number, kind = dtype_number(dtype), dtype_kind(dtype)
        bytes = ITEM_BYTES[number]
        if item * factor != bytes:
            raise ArgumentError(f"{name}: an element has {item * factor} bytes, but {DTYPE_NAMES[number]} has {bytes}",
                                "LSCHED_ERR_ARGUMENT")
        count //= factor
    elif number == 0:
        raise ArgumentError(f"{name}: the dtype of {type(array).__name__} is not one of {', '.join(DTYPES)}",
                            "LSCHED_ERR_ARGUMENT")
    return Memory(address, count, number, keeps, is_on_device, kind)


def look_at_given(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """Does the same as look(), but raises ArgumentError for None."""
    if array is None:
        raise ArgumentError(f"{name} must be an array, not None", "LSCHED_ERR_ARGUMENT")
    return look(array, is_written, dtype, name)


def look_at_host(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """Does the same as look(), but raises Unsupported for memory of a device."""
    memory = look(array, is_written, dtype, name)
    if memory.is_on_device:
        raise Unsupported(f"{name} is in the memory of a device, but this call needs host memory: pass a copy on the "
                          "host",
                          "LSCHED_ERR_UNSUPPORTED")
    return memory


def look_all(arrays: Any, is_written: bool, dtype: Any = None, name: str = "array") -> list[Memory]:
    """Returns the result of look() for each array."""
    return [look(each, is_written, dtype, f"{name} {i}") for i, each in enumerate(arrays)]


def expect_declared(what: str, given: list[tuple], declared: list[tuple]) -> None:
    """Raises ArgumentError if the arrays do not match the arrays that a schedule declares.

    A tuple describes an array: its number of elements, its dtype, and anything else that must be equal.
    """
    lengths, wanted = [each[0] for each in given], [each[0] for each in declared]
    if lengths != wanted:
        raise ArgumentError(f"the {what} have {lengths} elements, but the schedule declares {wanted}: pass arrays of "
                            f"{wanted} elements",
                            "LSCHED_ERR_ARGUMENT")
    if given != declared:
        raise ArgumentError(f"the {what} have other dtypes than the schedule declares: pass arrays of the declared "
                            "dtypes", "LSCHED_ERR_ARGUMENT")


def numbers(array: Any, is_written: bool = False, name: str = "counts") -> Memory:
    """Returns the memory of an array of 64-bit integers that the library uses during a round.

    A list that the library only reads is copied. The library cannot write to a list.
    """
    if array is None:
        return NOTHING
    if isinstance(array, (list, tuple)):
        from array import array as flat

        if is_written:
            raise ArgumentError(f"{name} is a {type(array).__name__}, to which the library cannot write: give an array "
                                "of 64-bit integers",
                                "LSCHED_ERR_ARGUMENT")
        array = flat("Q", [whole_number(each, f"an entry of {name}") for each in array])
    memory = look_at_host(array, is_written, name=name)
    if memory.dtype not in (DTYPES["uint64"], DTYPES["int64"]):
        raise ArgumentError(f"{name} has the dtype {memory.dtype_name}: give integers of 64 bits",
                            "LSCHED_ERR_ARGUMENT")
    return memory


def values(memory: Memory) -> list[int]:
    """Returns the elements of memory that numbers() has returned."""
    return [] if memory.keeps is None else _core.numbers_at(memory.address, memory.count)


def same_dtype(*memories: Memory) -> tuple[int, str]:
    """Returns the common dtype of the memories, and its kind. Returns 0 and "" if all memories are NOTHING."""
    there = [each for each in memories if each is not NOTHING]
    if any(not each.is_alike(there[0]) for each in there):
        names = " and ".join(sorted({each.dtype_name for each in there}))
        raise ArgumentError(f"the arrays have different dtypes: {names}. Convert all arrays to the same dtype",
                            "LSCHED_ERR_ARGUMENT")
    return (there[0].dtype, there[0].kind) if there else (0, "")


def real_dtype(what: str, *memories: Memory) -> int:
    """Returns the common dtype of the memories. Raises ArgumentError if the elements are not real numbers."""
    number, kind = same_dtype(*memories)
    if kind:
        raise ArgumentError(f"the elements are {kind}, but {what} needs real numbers: convert the elements",
                            "LSCHED_ERR_ARGUMENT")
    return number
