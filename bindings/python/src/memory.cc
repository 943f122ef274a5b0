// Finds the memory of arrays that Python passes.
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

/// Returns the dtype of the C interface, and the number of elements of that dtype in each element of the Python array.
/// The dtype is 0 if `type` is not supported.
std::pair<int, std::uint64_t> dtype_of(nb::dlpack::dtype type) {
  using code = nb::dlpack::dtype_code;
  if (type.lanes != 1) return {0, 1};
  switch (static_cast<code>(type.code)) {
    case code::Int:
      switch (type.bits) {
        case 8: return {LSCHED_I8, 1};
        case 32: return {LSCHED_I32, 1};
        case 64: return {LSCHED_I64, 1};
        default: return {0, 1};
      }
    case code::UInt:
      switch (type.bits) {
        case 8: return {LSCHED_U8, 1};
        case 64: return {LSCHED_U64, 1};
        default: return {0, 1};
      }
    case code::Float:
      switch (type.bits) {
        case 16: return {LSCHED_F16, 1};
        case 32: return {LSCHED_F32, 1};
        case 64: return {LSCHED_F64, 1};
        default: return {0, 1};
      }
    case code::Bfloat: return {type.bits == 16 ? LSCHED_BF16 : 0, 1};
    case code::Bool: return {type.bits == 8 ? LSCHED_U8 : 0, 1};
    case code::Complex:
      switch (type.bits) {
        case 64: return {LSCHED_F32, 2};
        case 128: return {LSCHED_F64, 2};
        default: return {0, 1};
      }
    default: return {0, 1};
  }
}

bool is_contiguous(const nb::ndarray<nb::ro>& array) {
  std::int64_t step = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != step) return false;
    step *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

[[noreturn]] void refuse(const char* text) { throw call_failure(told(LSCHED_ERR_ARGUMENT, text)); }

/// An array that __dlpack__ has exported. This object keeps the memory alive, because the producer may have no other
/// reference to the memory.
struct given {
  nb::ndarray<nb::ro> array;
};

/// Returns an object that keeps the elements of the array at their address. For objects such as bytearrays this is a
/// memoryview, because objects with a memoryview cannot be resized.
nb::object keeper_of(nb::handle object, const nb::ndarray<nb::ro>& array) {
  if (nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()))) return view;
  PyErr_Clear();
  return nb::cast(given{array});
}

/// Returns true for memory that the host can access, including pinned and managed memory of CUDA.
bool is_of_host(int device) {
  return device == nb::device::cpu::value || device == nb::device::cuda_host::value ||
         device == nb::device::cuda_managed::value;
}

/// Returns the tuple (address, number of C elements, dtype, C elements in an array element, bytes of a C element,
/// keeper, true if on a device, true if bools). A C element is an element of the C interface. The keeper is an object
/// that keeps the memory alive.
nb::tuple look(nb::handle object, bool is_written) {
  nb::ndarray<nb::ro> array;
  if (nb::ndarray<> writable; nb::try_cast(object, writable, false))
    array = nb::ndarray<nb::ro>(writable);
  else if (!nb::try_cast(object, array, false))
    refuse(
        "this is not an array, because the object has neither __dlpack__ nor the buffer protocol, or does not export "
        "its memory: pass an array of numpy, torch or cupy");
  else if (is_written)
    refuse("this array is read-only, but a result is written to the array: pass a writable array");
  const bool is_on_device = array.device_type() == nb::device::cuda::value;
  if (!is_on_device && !is_of_host(array.device_type()))
    refuse("this array is neither in the memory of the CPU nor in that of a CUDA device: pass a copy on one of them");
  if (array.size() != 0 && !is_contiguous(array))
    refuse("this array is not contiguous in C order: pass a contiguous copy");
  const auto [type, factor] = dtype_of(array.dtype());
  return nb::make_tuple(reinterpret_cast<address>(array.data()), array.size() * factor, type, factor,
                        array.itemsize() / factor, keeper_of(object, array), is_on_device,
                        array.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool));
}

/// Returns a memoryview of bytes over memory of the library. The view keeps `owner` alive.
nb::object bytes_at(address where, std::uint64_t bytes, nb::handle owner) {
  return nb::cast(nb::ndarray<nb::memview, std::uint8_t>(at(where), {static_cast<std::size_t>(bytes)}, owner));
}

std::vector<std::int64_t> numbers_at(address where, std::uint64_t count) {
  const auto* const all = static_cast<const std::int64_t*>(at(where));
  return {all, all + count};
}

}  // namespace

void add_memory(nb::module_& module) {
  nb::class_<given>(module, "Given");
  module.def("look", look, nb::arg("object"), nb::arg("is_written"));
  module.def("bytes_at", bytes_at);
  module.def("numbers_at", numbers_at);
}

}  // namespace lsched::python
