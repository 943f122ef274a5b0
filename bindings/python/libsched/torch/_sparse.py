"""The sum of sparse tensors over ranks, as a COO allreduce of their elements."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._distributed_c10d import AllreduceOptions, ReduceOp

from .._errors import Error, Unsupported
from ._tensors import expect_host
from ._work import Work, as_torch_error, seconds


def allreduce(group: Any, tensor: torch.Tensor, opts: Any) -> Work:
    """Replaces a sparse COO tensor by the coalesced sum over all ranks. Blocks.

    An extra round first finds the largest number of elements of any rank.
    """
    expect_host(tensor, "sparse sums")
    if opts.reduceOp != ReduceOp.SUM or not tensor.is_floating_point():
        raise as_torch_error(Unsupported("lsched reduces sparse tensors only by SUM, and only with a floating dtype: "
                                         "use tensor.to_dense() for other reductions and dtypes",
                                         "LSCHED_ERR_UNSUPPORTED"))
    limit = seconds(opts.timeout, group._limit)
    mine = tensor.detach().coalesce()
    indices, values = mine.indices(), mine.values().contiguous()
    dense = tuple(values.shape[1:])
    inner = values[0].numel() if values.shape[0] else torch.Size(dense).numel()
    if inner == 0:  # there are no elements to add
        return Work(None, [tensor], limit)
    rows = _rows(indices, tensor.shape[:tensor.sparse_dim()])
    places = (rows[:, None] * inner + torch.arange(inner, device="cpu")).reshape(-1).contiguous()
    room = _most(group, places.numel(), opts)
    out = min(tensor.numel(), room * group._ranks)
    found = torch.empty(out, dtype=torch.int64, device="cpu")
    sums = torch.empty(out, dtype=values.dtype, device="cpu")
    given = torch.tensor([places.numel()], device="cpu")
    number = torch.zeros(1, dtype=torch.int64, device="cpu")
    try:
        with group.world.coo_allreduce(_padded(places, room), _padded(values.reshape(-1), room), given, found, sums,
                                       number, tensor.numel()) as step:
            step.run(limit)
    except Error as error:
        raise as_torch_error(error)
    count = int(number)
    _replace(tensor, found[:count], sums[:count], inner, dense)
    return Work(None, [tensor], limit)


def _rows(indices: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Returns the index of each row in a dense tensor."""
    rows = torch.zeros(indices.shape[1], dtype=torch.int64, device="cpu")
    for place, extent in zip(indices, shape):
        rows = rows * extent + place
    return rows


def _most(group: Any, count: int, opts: Any) -> int:
    """Returns the largest `count` of all ranks."""
    number = torch.tensor([count], device="cpu")
    largest = AllreduceOptions()
    largest.reduceOp = ReduceOp.MAX
    largest.asyncOp = False
    largest.timeout = opts.timeout
    group.allreduce([number], largest)
    return int(number)


def _padded(flat: torch.Tensor, room: int) -> torch.Tensor:
    return torch.nn.functional.pad(flat, (0, room - flat.numel()))


def _replace(tensor: torch.Tensor, places: torch.Tensor, values: torch.Tensor, inner: int, dense: tuple) -> None:
    """Replaces the elements of the tensor by `values`, row by row. A row has `inner` elements."""
    rows = places[::inner] // inner
    indices = []
    for extent in reversed(tensor.shape[:tensor.sparse_dim()]):
        indices.append(rows % extent)
        rows = rows // extent
    total = torch.sparse_coo_tensor(torch.stack(indices[::-1]), values.view(-1, *dense), tensor.shape,
                                    is_coalesced=True)
    with torch.no_grad():  # a detached tensor would have its own indices
        tensor.copy_(total)
