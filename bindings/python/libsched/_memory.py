"""Arrays of the application: where their elements lie, and who keeps them there."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _core, _cuda
from ._errors import ArgumentError, Unsupported
from ._words import DTYPE_NAMES, DTYPES, ITEM_BYTES, dtype_kind, dtype_number


class Memory(NamedTuple):
    """Elements of the C interface, and the object that owns them."""

    address: int
    count: int
    dtype: int  # 0: this library has none
    keeps: Any
    is_on_device: bool = False  # in the memory of a CUDA device, where the host cannot go
    kind: str = ""  # of Python's elements: "bool", "complex" (two elements of the C interface), or "": real numbers

    @property
    def dtype_name(self) -> str:
        """The dtype for people: "float32", "complex of float32", "bool"."""
        name = DTYPE_NAMES.get(self.dtype, "?")
        return {"bool": "bool", "complex": f"complex of {name}"}.get(self.kind, name)

    def is_alike(self, other: Memory) -> bool:
        """Whether elements of both are of one dtype."""
        return (self.dtype, self.kind) == (other.dtype, other.kind)


NOTHING = Memory(0, 0, 0, None)


def _given(array: Any) -> Any:
    """By its own __dlpack__, called here: the interpreter may end a thread in it, which C++ would not survive."""
    if isinstance(array, memoryview):
        return array
    try:
        return _cuda.capsule_of(array) if _cuda.has_streams(array) else array.__dlpack__()
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return array  # perhaps by the buffer protocol; the library says what is wrong with it


def _looked_at(array: Any, is_written: bool) -> tuple[int, int, int, int, int, Any, bool, bool]:
    given = _given(array)
    if given is array and not isinstance(array, memoryview):
        interface = _cuda.interface_of(array)
        if interface is not None:
            return _cuda.look(array, interface, is_written)
    return _core.look(given, is_written)


def _flaw_of_dtype(array: Any) -> str | None:
    """Returns why numpy does not export elements of this dtype, and what to do; None if numpy does."""
    dtype = getattr(array, "dtype", None)
    kind = getattr(dtype, "kind", None)  # which dtypes of torch and others do not have
    if getattr(dtype, "names", None):
        return f"the dtype {dtype} is structured: give each field as an array of its own"
    if getattr(dtype, "isnative", True) is False:
        return f"the dtype {dtype.str!r} is not in the byte order of this machine: give array.astype(" \
               f"{dtype.newbyteorder('=').str!r})"
    if kind == "V":
        return f"numpy does not export the dtype {dtype}: give a view of integers of the same size, and name the dtype"
    if kind is not None and kind not in "biufc":
        return f"the dtype {dtype} is not supported: use one of {', '.join(DTYPES)}"
    return None


def _expect_plain_values(array: Any, name: str) -> None:
    """Refuses arrays whose memory holds other values than the array."""
    if hasattr(array, "is_conj") and (array.is_conj() or array.is_neg()):
        raise ArgumentError(f"{name} is a conjugate or negative view of torch, whose memory holds other values: pass "
                            "tensor.resolve_conj().resolve_neg()", "LSCHED_ERR_ARGUMENT")
    if hasattr(array, "mask") and hasattr(array, "filled"):
        raise ArgumentError(f"{name} is a masked array of numpy, and the mask would be ignored: pass "
                            "array.filled(value) or array.data", "LSCHED_ERR_ARGUMENT")


def look(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """The memory of an array, of anything with __dlpack__, the buffer protocol or __cuda_array_interface__; None:
    nothing. No stream is waited for: see Schedule.start_on_stream().

    `dtype` says what the elements are where the array cannot: numpy has no bf16, so pass its bits as an array of
    16-bit elements. A complex element counts as two of its parts, a bool is a uint8 of the kind "bool".
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
            raise ArgumentError(f"{name}: an element has {item * factor} bytes, one of {DTYPE_NAMES[number]} {bytes}",
                                "LSCHED_ERR_ARGUMENT")
        count //= factor
    elif number == 0:
        raise ArgumentError(f"{name}: the dtype of {type(array).__name__} is none of {', '.join(DTYPES)}",
                            "LSCHED_ERR_ARGUMENT")
    return Memory(address, count, number, keeps, is_on_device, kind)


def look_at_given(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """Returns look(), but raises ArgumentError for None."""
    if array is None:
        raise ArgumentError(f"{name} must be an array, not None", "LSCHED_ERR_ARGUMENT")
    return look(array, is_written, dtype, name)


def look_at_host(array: Any, is_written: bool, dtype: Any = None, name: str = "array") -> Memory:
    """The same where the library reads and writes by the host. Raises Unsupported for memory of a device."""
    memory = look(array, is_written, dtype, name)
    if memory.is_on_device:
        raise Unsupported(f"{name} is in the memory of a device, and the host reads or writes it here: pass a copy",
                          "LSCHED_ERR_UNSUPPORTED")
    return memory


def look_all(arrays: Any, is_written: bool, dtype: Any = None, name: str = "array") -> list[Memory]:
    """The memory of several arrays."""
    return [look(each, is_written, dtype, f"{name} {i}") for i, each in enumerate(arrays)]


def expect_declared(what: str, given: list[tuple], declared: list[tuple]) -> None:
    """Raises ArgumentError if arrays are not those that a schedule declares.

    A tuple describes an array: its number of elements, its dtype, and what else must be equal.
    """
    lengths, wanted = [each[0] for each in given], [each[0] for each in declared]
    if lengths != wanted:
        raise ArgumentError(f"the {what} have {lengths} elements, and the schedule declares {wanted}",
                            "LSCHED_ERR_ARGUMENT")
    if given != declared:
        raise ArgumentError(f"the {what} have other dtypes than the schedule declares", "LSCHED_ERR_ARGUMENT")


def numbers(array: Any, is_written: bool = False, name: str = "counts") -> Memory:
    """Of unsigned 64-bit numbers, read by the library while a round runs; a list is copied."""
    if array is None:
        return NOTHING
    if isinstance(array, (list, tuple)):
        from array import array as flat

        array = flat("Q", array)
    memory = look_at_host(array, is_written, name=name)
    if memory.dtype not in (DTYPES["uint64"], DTYPES["int64"]):
        raise ArgumentError(f"{name}: numbers of 64 bits are wanted", "LSCHED_ERR_ARGUMENT")
    return memory


def values(memory: Memory) -> list[int]:
    """What numbers() has looked at."""
    return [] if memory.keeps is None else _core.numbers_at(memory.address, memory.count)


def same_dtype(*memories: Memory) -> tuple[int, str]:
    """Returns the dtype that the memories share, and its kind; 0 and "" if all of them are NOTHING."""
    there = [each for each in memories if each is not NOTHING]
    if any(not each.is_alike(there[0]) for each in there):
        names = " and ".join(sorted({each.dtype_name for each in there}))
        raise ArgumentError(f"arrays of different dtypes: {names}", "LSCHED_ERR_ARGUMENT")
    return (there[0].dtype, there[0].kind) if there else (0, "")


def real_dtype(what: str, *memories: Memory) -> int:
    """Returns the dtype that the memories share. Raises ArgumentError if the elements are no real numbers."""
    number, kind = same_dtype(*memories)
    if kind:
        raise ArgumentError(f"the elements are {kind}, and {what} is of real numbers", "LSCHED_ERR_ARGUMENT")
    return number
