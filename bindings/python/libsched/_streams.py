"""Streams of CUDA, as the objects that other packages have for them."""

from __future__ import annotations

from typing import Any

from ._errors import ArgumentError


def _told(stream: Any) -> Any:
    """By the protocol of cuda.core, which torch and cupy have too, or by their own older names. None: by none."""
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise ArgumentError(f"version {version} of __cuda_stream__ is not known", "LSCHED_ERR_ARGUMENT")
        return handle
    return getattr(stream, "cuda_stream", getattr(stream, "ptr", None))


def stream_handle(stream: Any) -> int:
    """The address of a CUstream: `stream` itself, or what an object says by __cuda_stream__, .cuda_stream or .ptr.

    Raises ArgumentError for anything else; None is no stream: say 0 for the legacy default one.
    """
    handle = stream if isinstance(stream, int) else _told(stream)
    if not isinstance(handle, int) or not 0 <= handle < 2**64:
        raise ArgumentError(f"{type(stream).__name__} is no stream: pass an address, or an object with "
                            "__cuda_stream__, cuda_stream or ptr", "LSCHED_ERR_ARGUMENT")
    return handle
