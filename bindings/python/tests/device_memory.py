"""Device memory for tests without a GPU: arrays and streams of the fake driver (tests/support/fake_cuda), by ctypes.

In a build with CUDA, ctest adds the fake driver to LD_LIBRARY_PATH. Otherwise `missing` has the reason why there is no
driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p, py_object

import numpy as np


def _load() -> tuple[ctypes.CDLL | None, str]:
    if "fake_cuda" not in os.environ.get("LD_LIBRARY_PATH", ""):
        return None, "needs the fake driver: a build with CUDA, and LD_LIBRARY_PATH=build/tests/fake_cuda"
    library = ctypes.CDLL("libcuda.so.1")
    for name, takes in (("cuDevicePrimaryCtxRetain", [POINTER(c_void_p), c_int]),
                        ("cuDevicePrimaryCtxRelease_v2", [c_int]), ("cuCtxPushCurrent_v2", [c_void_p]),
                        ("cuCtxPopCurrent_v2", [POINTER(c_void_p)]), ("cuMemAlloc_v2", [POINTER(c_uint64), c_size_t]),
                        ("cuMemFree_v2", [c_uint64]), ("cuMemAllocManaged", [POINTER(c_uint64), c_size_t, c_uint]),
                        ("cuMemHostAlloc", [POINTER(c_uint64), c_size_t, c_uint]), ("cuMemFreeHost", [c_uint64]),
                        ("cuMemcpyAsync", [c_uint64, c_uint64, c_size_t, c_void_p]),
                        ("cuStreamCreateWithPriority", [POINTER(c_void_p), c_uint, c_int]),
                        ("cuStreamDestroy_v2", [c_void_p]), ("cuStreamSynchronize", [c_void_p]),
                        ("cuStreamBeginCapture_v2", [c_void_p, c_int]),
                        ("cuStreamEndCapture", [c_void_p, POINTER(c_void_p)]), ("cuGraphDestroy", [c_void_p]),
                        ("fake_cuda_leaks", [c_char_p, c_size_t]), ("fake_cuda_fail", [c_char_p]),
                        ("fake_cuda_hold_stream", [c_void_p, c_int]), ("fake_cuda_pending", [c_void_p]),
                        ("fake_cuda_read", [c_void_p, c_uint64, c_size_t]),
                        ("fake_cuda_write", [c_uint64, c_void_p, c_size_t])):
        getattr(library, name).argtypes = takes
    library.fake_cuda_pending.restype = c_size_t
    return library, ""


cuda, missing = _load()


def call(name: str, *arguments) -> None:
    answer = getattr(cuda, name)(*arguments)
    assert answer == 0, f"{name}: CUDA error {answer}"


def leaks() -> str:
    """Returns one line for each object of the driver that was not freed."""
    text = ctypes.create_string_buffer(1 << 16)
    return text.value.decode() if cuda.fake_cuda_leaks(text, len(text)) else ""


class Device:
    """The context of a device. Inside of `with`, the context is current in the thread."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def __enter__(self) -> Device:
        context = c_void_p()
        call("cuInit", 0)
        call("cuDevicePrimaryCtxRetain", byref(context), self.number)
        call("cuCtxPushCurrent_v2", context)
        return self

    def __exit__(self, *_) -> None:
        call("cuCtxPopCurrent_v2", byref(c_void_p()))
        call("cuDevicePrimaryCtxRelease_v2", self.number)

    def array(self, content, kind: str = "device", **options) -> "DeviceArray":
        made = DeviceArray(np.asarray(content).shape, np.asarray(content).dtype, kind, self.number, **options)
        made.write(content)
        return made

    @contextlib.contextmanager
    def stream(self):
        made = c_void_p()
        call("cuStreamCreateWithPriority", byref(made), 1, 0)
        yield made.value
        call("cuStreamSynchronize", made)
        call("cuStreamDestroy_v2", made)


KINDS = {"device": 2, "pinned": 3, "managed": 13}  # device types of DLPack


class DeviceArray:
    """An array in memory of the driver: "device", "pinned" or "managed". The array must not be used after free().

    `offers` selects the protocol: __dlpack__ or __cuda_array_interface__. `strides` are in elements. `looks` lists the
    `stream` argument of each call of __dlpack__.
    """

    def __init__(self, shape, dtype, kind: str = "device", device: int = 0, *, offers: str = "dlpack",
                 strides=None, is_read_only: bool = False, is_versioned: bool = True) -> None:
        self.shape, self.dtype, self.kind, self.device = tuple(shape), np.dtype(dtype), kind, device
        self.strides, self.is_read_only, self.is_versioned = strides, is_read_only, is_versioned
        self.bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        self.looks: list = []
        self.exports = 0  # number of exports that consumers have not deleted
        address = c_uint64()
        if kind == "device":
            call("cuMemAlloc_v2", byref(address), max(1, self.bytes))
        elif kind == "managed":
            call("cuMemAllocManaged", byref(address), max(1, self.bytes), 1)
        else:
            call("cuMemHostAlloc", byref(address), max(1, self.bytes), 0)
        self.address = address.value
        if offers == "dlpack":
            self.__class__ = WithDlpack
        elif offers == "interface":
            self.__class__ = WithInterface

    def free(self) -> None:
        if self.address:
            call("cuMemFreeHost" if self.kind == "pinned" else "cuMemFree_v2", self.address)
        self.address = 0

    def write(self, content) -> None:
        content = np.ascontiguousarray(content, self.dtype)
        if self.kind == "pinned":
            ctypes.memmove(self.address, content.ctypes.data, content.nbytes)
        elif self.bytes:
            assert cuda.fake_cuda_write(self.address, content.ctypes.data, content.nbytes) == 1

    def read(self) -> np.ndarray:
        content = np.empty(self.shape, self.dtype)
        if self.kind == "pinned":
            ctypes.memmove(content.ctypes.data, self.address, self.bytes)
        elif self.bytes:
            assert cuda.fake_cuda_read(content.ctypes.data, self.address, self.bytes) == 1
        return content


class WithInterface(DeviceArray):
    @property
    def __cuda_array_interface__(self) -> dict:
        strides = None if self.strides is None else tuple(each * self.dtype.itemsize for each in self.strides)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, self.is_read_only),
                "strides": strides, "version": 3, "stream": None}


class WithDlpack(DeviceArray):
    def __dlpack_device__(self) -> tuple[int, int]:
        return KINDS[self.kind], self.device

    def __dlpack__(self, stream=None, **more):
        if more and not self.is_versioned:
            raise TypeError("max_version came with DLPack 1.0")
        self.looks.append(stream)
        return _capsule(self, bool(more))


# --- structs of DLPack --------------------------------------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", _Tensor)]


_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_exported: dict[int, tuple] = {}  # key: address of an export; removed when the consumer deletes the export


@ctypes.CFUNCTYPE(None, c_void_p)
def _delete(managed: int) -> None:
    array = _exported.pop(managed)[0]
    array.exports -= 1


def _capsule(array: DeviceArray, is_versioned: bool):
    ndim = len(array.shape)
    strides = array.strides or [int(np.prod(array.shape[i + 1:])) for i in range(ndim)]
    shape, steps = (c_int64 * ndim)(*array.shape), (c_int64 * ndim)(*strides)
    tensor = _Tensor(array.address, KINDS[array.kind], array.device, ndim, _CODES[array.dtype.kind],
                     8 * array.dtype.itemsize, 1, ctypes.cast(shape, POINTER(c_int64)),
                     ctypes.cast(steps, POINTER(c_int64)), 0)
    deleter = ctypes.cast(_delete, c_void_p)
    managed = (_Versioned(1, 0, None, deleter, int(array.is_read_only), tensor) if is_versioned
               else _Managed(tensor, None, deleter))
    array.exports += 1
    _exported[ctypes.addressof(managed)] = (array, managed, shape, steps)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
    return make(ctypes.addressof(managed), b"dltensor_versioned" if is_versioned else b"dltensor", None)
