// Returns attributes of the memory at an address.
#include "tests/support/fake_cuda/process.h"

using namespace fake_cuda;

namespace {

template <class Value>
void store(void* into, Value value) {
  *static_cast<Value*>(into) = value;
}

unsigned type_of(const range& of) {
  return of.kind == space::device || of.kind == space::managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

/// Stores an attribute of a range. Returns false if the fake driver does not support the attribute.
bool describe(const range& of, CUpointer_attribute attribute, CUdeviceptr at, void* into) {
  const bool is_host_readable = of.kind != space::device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: store<CUcontext>(into, of.context); return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: store<unsigned>(into, type_of(of)); return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: store<CUdeviceptr>(into, at); return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: store<CUdeviceptr>(into, is_host_readable ? at : 0); return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: store<std::uint64_t>(into, of.id); return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: store<unsigned>(into, of.kind == space::managed); return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: store<int>(into, of.device); return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: store<unsigned>(into, of.is_exportable()); return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: store<CUdeviceptr>(into, of.start); return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: store<std::size_t>(into, of.size); return true;
    case CU_POINTER_ATTRIBUTE_MAPPED: store<unsigned>(into, of.bytes != nullptr); return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      store<std::uint64_t>(into, of.backing ? std::uint64_t{of.backing->handle_types} : 0);
      return true;
    default: return false;
  }
}

/// Stores zero as an attribute of memory that the driver does not know. As in a real driver, RANGE_SIZE stays
/// unchanged.
bool describe_nothing(CUpointer_attribute attribute, void* into) {
  range nothing;
  nothing.kind = space::device;
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) return true;
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
    store<unsigned>(into, 0);
    return true;
  }
  return describe(nothing, attribute, 0, into);
}

}  // namespace

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** into, CUdeviceptr at) {
  return call("cuPointerGetAttributes", k_anywhere, [&](process& p, lock&) {
    if (attributes == nullptr || into == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const range* const of = p.memory.find(at);
    for (unsigned i = 0; i < count; ++i)
      if (!(of != nullptr ? describe(*of, attributes[i], at, into[i]) : describe_nothing(attributes[i], into[i])))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttribute(void* into, CUpointer_attribute attribute, CUdeviceptr at) {
  return call("cuPointerGetAttribute", k_anywhere, [&](process& p, lock&) {
    const range* const of = p.memory.find(at);
    if (into == nullptr || of == nullptr || !describe(*of, attribute, at, into)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}
