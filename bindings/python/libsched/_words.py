"""The words that options of the package accept, with the numbers of the C interface."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from ._errors import ArgumentError

# Keys are the names of dtypes in Python. "i8" and "u8" are absent, because these names mean one byte in the C interface
# and eight bytes in numpy.
DTYPES = {"int8": 1, "uint8": 2, "int32": 3, "int64": 4, "uint64": 5, "float16": 6, "bfloat16": 7, "float32": 8,
          "float64": 9}
DTYPE_NAMES = {number: name for name, number in DTYPES.items()}
ITEM_BYTES = {1: 1, 2: 1, 3: 4, 4: 8, 5: 8, 6: 2, 7: 2, 8: 4, 9: 8}
_OTHER_DTYPES = {
    "bool": "uint8", "bool_": "uint8",
    "half": "float16", "double": "float64", "i1": "int8", "u1": "uint8", "i4": "int32", "i32": "int32",
    "i64": "int64", "u64": "uint64", "f2": "float16", "f16": "float16", "bf16": "bfloat16", "f4": "float32",
    "f32": "float32", "f8": "float64", "f64": "float64",
}

REDUCTIONS = {"sum": 2, "prod": 3, "min": 4, "max": 5, "land": 6, "lor": 7, "lxor": 8, "band": 9, "bor": 10,
              "bxor": 11}
# Reductions of bools are those of numpy: a sum is "or", and a product is "and".
REDUCTIONS_OF_BOOL = {"sum": 7, "prod": 6, "min": 6, "max": 7, "land": 6, "lor": 7, "lxor": 8, "band": 6, "bor": 7,
                      "bxor": 8}
REDUCTION_NAMES = {number: name for name, number in REDUCTIONS.items()}
DIVISORS = {None: 0, "none": 0, "ranks": 1, "contributors": 2, "offers": 3}
LAGS = {"latest": 0, "accumulate": 1, "history": 2}
PROGRESS = {"thread": 0, "caller": 1}
IDLE = {"auto": 0, "spin": 1, "yield": 2, "park": 3}
LANES = {"auto": 0, "inline": -1, "tbb": -2}
NANS = {"propagate": 0, "ignore": 1, "error": 2}
CAPACITIES = {"strict": 0, "defer": 1}
BOUNDARIES = {"pooled": 0, "averaged": 1}
BALANCES = {"cost": 0, "published": 1, "always": 2, "never": 3}
SELECTIONS = {"exact": 0, "reused": 1}
REGIONS = {"equal": 0, "balanced": 1}


def number_of(words: dict, word, what: str) -> int:
    """Returns the number of a word. Raises ArgumentError, which lists the valid words, if the word is unknown."""
    if isinstance(word, (str, type(None))) and word in words:
        return words[word]
    known = ", ".join(repr(each) for each in words)
    raise ArgumentError(f"{what} is {word!r}: choose one of {known}", "LSCHED_ERR_ARGUMENT")


def whole_number(given: Any, what: str, least: int = 0, most: int = 2**64 - 1) -> int:
    """Returns the value of an int, or of any object that Python accepts as an index, such as numpy.int64.

    Raises ArgumentError for other values, floats included, and for a number below `least` or above `most`.
    """
    try:
        number = operator.index(given)
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        raise ArgumentError(f"{what} is {given!r}: give a whole number from {least} to {most}", "LSCHED_ERR_ARGUMENT")
    return number


def tensor_numbers(tensors: Iterable[Any]) -> list[int]:
    """Returns the numbers of (begin, count) pairs as one list. Raises ArgumentError for an entry of another form."""
    numbers = []
    for pair in tensors:
        try:
            begin, count = pair
        except (TypeError, ValueError):
            raise ArgumentError(f"an entry of tensors is {pair!r}: give a pair (begin, count)",
                                "LSCHED_ERR_ARGUMENT") from None
        numbers += [whole_number(each, "an entry of tensors") for each in (begin, count)]
    return numbers


def age_numbers(age: Any) -> tuple[int, list[float]]:
    """Returns the number of an age rule, and the factors of a table. Raises ArgumentError for other values."""
    if age is None:
        return 0, []
    if isinstance(age, str) and age == "inverse":
        return 2, []
    try:
        factors = [] if isinstance(age, str) else [float(each) for each in age]
    except (TypeError, ValueError):
        factors = []
    if not factors:
        raise ArgumentError(f"age is {age!r}: give 'inverse', a list of factors, or None", "LSCHED_ERR_ARGUMENT")
    return 1, factors


def text_of(given: Any, what: str) -> str | None:
    """Returns `given`, which must be a text or None. Raises ArgumentError for other values."""
    if given is not None and not isinstance(given, str):
        raise ArgumentError(f"{what} is {given!r}: give a str, or None", "LSCHED_ERR_ARGUMENT")
    return given


def reduction_number(op, kind: str) -> int:
    """Returns the number of a reduction. `kind` is the kind of the elements: "bool", "complex", or "" for real numbers.

    Raises ArgumentError for an unknown word. Complex elements can only be added, because real and imaginary parts are
    combined separately. Raises ArgumentError for all other reductions of complex elements.
    """
    number = number_of(REDUCTIONS, op, "op")
    if kind == "complex" and op != "sum":
        raise ArgumentError(f"op is {op!r}, but complex elements can only be added: use 'sum'", "LSCHED_ERR_ARGUMENT")
    return REDUCTIONS_OF_BOOL[op] if kind == "bool" else number


def _dtype_name(given) -> str:
    name = getattr(given, "name", None) or getattr(given, "__name__", None) or str(given)
    return name.rpartition(".")[2]


def dtype_kind(given) -> str:
    """Returns the kind of a dtype for reduction_number(): "bool" or "". The library has no word for a complex dtype."""
    return "bool" if _dtype_name(given) in ("bool", "bool_") else ""


def dtype_number(given) -> int:
    """Returns the number of a dtype.

    The dtype is "float32", "f32", "f4", numpy.float32, numpy.dtype("f4"), torch.float32 or the like. Raises
    ArgumentError if the dtype is ambiguous or not supported.
    """
    name = _dtype_name(given)
    if name in ("i8", "u8"):
        sign = "" if name == "i8" else "u"
        raise ArgumentError(f"dtype {name!r} is ambiguous: use {sign}int8 or {sign}int64", "LSCHED_ERR_ARGUMENT")
    return number_of(DTYPES, _OTHER_DTYPES.get(name, name), "dtype")
