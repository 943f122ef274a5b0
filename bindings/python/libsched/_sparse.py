"""Sparse allreduces: the k largest elements with error feedback, and the sum of vectors given as indices and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _core
from ._errors import ArgumentError, Unsupported
from ._memory import NOTHING, look, look_at_host, numbers, real_dtype
from ._schedule import Schedule
from ._words import (BALANCES, BOUNDARIES, CAPACITIES, ITEM_BYTES, NANS, REGIONS, SELECTIONS, number_of, text_of,
                     whole_number)

if TYPE_CHECKING:
    from ._world import World


class Sparse(Schedule):
    """An allreduce of the k largest elements with error feedback (Li and Hoefler, PPoPP 2022).

    In each round every rank adds scale * gradient to its residual, and sends the k elements of the residual with the
    largest magnitudes. The update contains the k elements of the sum with the largest magnitudes, divided by the number
    of ranks P, and zeros elsewhere. The update has the same bits on every rank. Each rank then subtracts its own
    contribution to the update from its residual.

    World.sparse_allreduce(gradient, update, k, ...) accepts two arrays of a floating dtype, both in host memory or both
    on a device (a device requires selection "exact"). Options:
        algorithm   "oktopk", "topka" or "sparseloco" (chunks of 4096 elements, values of 2 bits); None: one of the
                    first two, with the least expected time
        scale       factor of the gradient: 1, or the learning rate
        nans        "propagate", "ignore" or "error"; with "error" a round raises NotFinite
        capacity    "strict" or "defer"; with "defer" a rank sends and receives at most 6 k (P-1)/P words.
                    An index or a value is a word
        period, boundaries, balance, selection, reuse, bucket    as in lsched_sparse_desc
        image       result of save(): rounds continue from this state; all ranks must pass images of the same round
    The first round writes the whole update. Later rounds write only the elements that change, so do not write to the
    update.
    """

    _count: int
    _is_on_device: bool

    def residual(self) -> memoryview:
        """Returns a writable view of the residual, the elements that this rank keeps. Call between rounds.

        The elements are float64 for a float64 gradient, and otherwise float32. Raises Unsupported if the residual is in
        memory of a device. In that case save() returns a copy.
        """
        if self._is_on_device:
            raise Unsupported("the residual is in the memory of a device: call save(), which returns a copy",
                              "LSCHED_ERR_UNSUPPORTED")
        address, number = _core.sparse_residual(self)
        return self._viewed(address, self._count * ITEM_BYTES[number], "d" if ITEM_BYTES[number] == 8 else "f")

    def save(self) -> bytes:
        """Returns all state that later rounds depend on, for a checkpoint of this rank. Call between rounds."""
        return _core.sparse_save(self)

    def statistics(self) -> dict[str, int]:
        """Returns counters of sent and received data of this rank, named as the members of lsched_sparse_stats."""
        return _core.sparse_stats(self)


_MOST_UINT32 = 2**32 - 1


def _real_number(given: Any, what: str) -> float:
    try:
        return float(given)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is {given!r}: give a number", "LSCHED_ERR_ARGUMENT") from None


def request_of(k: int, *, algorithm: str | None = None, scale: float = 0.0, nans: str = "propagate",
               capacity: str = "strict", period: int = 0, boundaries: str = "pooled", balance: str = "cost",
               selection: str = "exact", reuse: int = 0, bucket: int = 0,
               image: bytes | None = None) -> _core.SparseRequest:
    request = _core.SparseRequest()
    request.k = whole_number(k, "k")
    request.algorithm = text_of(algorithm, "algorithm")
    request.scale = _real_number(scale, "scale")
    request.nans = number_of(NANS, nans, "nans")
    request.capacity = number_of(CAPACITIES, capacity, "capacity")
    request.period = whole_number(period, "period", 0, _MOST_UINT32)
    request.boundaries = number_of(BOUNDARIES, boundaries, "boundaries")
    request.balance = number_of(BALANCES, balance, "balance")
    request.selection = number_of(SELECTIONS, selection, "selection")
    request.reuse = whole_number(reuse, "reuse", 0, _MOST_UINT32)
    request.bucket = whole_number(bucket, "bucket", 0, _MOST_UINT32)
    if image is not None:
        if not isinstance(image, bytes):
            raise ArgumentError(f"image is of type {type(image).__name__}: give the bytes of save()",
                                "LSCHED_ERR_ARGUMENT")
        request.image = image
    return request


def make_sparse(world: World, gradient: Any, update: Any, k: int, **options: Any) -> Sparse:
    source = look(gradient, False, name="gradient")
    target = look(update, True, name="update")
    if source.count != target.count:
        raise ArgumentError(f"gradient has {source.count} elements, but update has {target.count}: pass arrays of "
                            "equal length",
                            "LSCHED_ERR_ARGUMENT")
    request = request_of(k, **options)
    request.gradient, request.update = source.address, target.address
    request.count, request.dtype = source.count, real_dtype("a sparse sum", source, target)
    made = Sparse(world, _core.sparse(world, request), [source], [target])
    made._count = source.count
    made._is_on_device = source.is_on_device
    return made


def make_coo(world: World, indices: Any, values: Any, item_count: Any, out_indices: Any, out_values: Any,
             out_count: Any, count: int, *, dense: Any = None, regions: str = "equal") -> Schedule:
    places, items = numbers(indices, name="indices"), look_at_host(values, False, name="values")
    given = numbers(item_count, name="item_count")
    found, sums = numbers(out_indices, True, "out_indices"), look_at_host(out_values, True, name="out_values")
    number = numbers(out_count, True, "out_count")
    vector = look_at_host(dense, True, name="dense") if dense is not None else NOTHING
    count = whole_number(count, "count")
    for name, length, wanted in (("item_count", given.count, 1), ("out_count", number.count, 1),
                                 ("values", items.count, places.count), ("out_values", sums.count, found.count),
                                 ("dense", vector.count, 0 if dense is None else count)):
        if length != wanted:
            raise ArgumentError(f"{name} has {length} elements: expected {wanted}", "LSCHED_ERR_ARGUMENT")
    handle = _core.coo(world, places.address, items.address, given.address, places.count, found.address, sums.address,
                       number.address, found.count, vector.address, count,
                       real_dtype("a sparse sum", items, sums, vector),
                       number_of(REGIONS, regions, "regions") == 1)
    return Schedule(world, handle, [places, items, given], [found, sums, number, vector])
