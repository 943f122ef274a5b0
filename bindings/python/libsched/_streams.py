"""Converts stream objects of other packages to CUDA streams."""

from __future__ import annotations

from typing import Any

from ._errors import ArgumentError


def _told(stream: Any) -> Any:
    """Returns the handle of a stream object, or None if the object has no handle.

    Supports the protocol of cuda.core, which torch and cupy also have, and the older attributes of torch and cupy.
    """
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise ArgumentError(f"version {version} of __cuda_stream__ is not supported: pass the address of the "
                                "stream", "LSCHED_ERR_ARGUMENT")
        return handle
    return getattr(stream, "cuda_stream", getattr(stream, "ptr", None))


def stream_handle(stream: Any) -> int:
    """Returns the address of a CUstream: `stream` itself, or the handle of its __cuda_stream__, .cuda_stream or .ptr.

    Raises ArgumentError for anything else, including None. 0 is the legacy default stream.
    """
    handle = stream if isinstance(stream, int) else _told(stream)
    if not isinstance(handle, int) or not 0 <= handle < 2**64:
        raise ArgumentError(f"{type(stream).__name__} is not a stream: pass an address, or an object with "
                            "__cuda_stream__, cuda_stream or ptr", "LSCHED_ERR_ARGUMENT")
    return handle
