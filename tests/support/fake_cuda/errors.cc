#include "tests/support/fake_cuda/errors.h"

#include <cctype>
#include <map>

#include "tests/support/fake_cuda/options.h"

namespace fake_cuda {
namespace {

#define FAKE_CUDA_ANSWERS(NAME)                   \
  NAME(CUDA_SUCCESS)                              \
  NAME(CUDA_ERROR_INVALID_VALUE)                  \
  NAME(CUDA_ERROR_OUT_OF_MEMORY)                  \
  NAME(CUDA_ERROR_NOT_INITIALIZED)                \
  NAME(CUDA_ERROR_DEINITIALIZED)                  \
  NAME(CUDA_ERROR_PROFILER_DISABLED)              \
  NAME(CUDA_ERROR_PROFILER_NOT_INITIALIZED)       \
  NAME(CUDA_ERROR_PROFILER_ALREADY_STARTED)       \
  NAME(CUDA_ERROR_PROFILER_ALREADY_STOPPED)       \
  NAME(CUDA_ERROR_STUB_LIBRARY)                   \
  NAME(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER)     \
  NAME(CUDA_ERROR_DEVICE_UNAVAILABLE)             \
  NAME(CUDA_ERROR_NO_DEVICE)                      \
  NAME(CUDA_ERROR_INVALID_DEVICE)                 \
  NAME(CUDA_ERROR_DEVICE_NOT_LICENSED)            \
  NAME(CUDA_ERROR_INVALID_IMAGE)                  \
  NAME(CUDA_ERROR_INVALID_CONTEXT)                \
  NAME(CUDA_ERROR_CONTEXT_ALREADY_CURRENT)        \
  NAME(CUDA_ERROR_MAP_FAILED)                     \
  NAME(CUDA_ERROR_UNMAP_FAILED)                   \
  NAME(CUDA_ERROR_ARRAY_IS_MAPPED)                \
  NAME(CUDA_ERROR_ALREADY_MAPPED)                 \
  NAME(CUDA_ERROR_NO_BINARY_FOR_GPU)              \
  NAME(CUDA_ERROR_ALREADY_ACQUIRED)               \
  NAME(CUDA_ERROR_NOT_MAPPED)                     \
  NAME(CUDA_ERROR_NOT_MAPPED_AS_ARRAY)            \
  NAME(CUDA_ERROR_NOT_MAPPED_AS_POINTER)          \
  NAME(CUDA_ERROR_ECC_UNCORRECTABLE)              \
  NAME(CUDA_ERROR_UNSUPPORTED_LIMIT)              \
  NAME(CUDA_ERROR_CONTEXT_ALREADY_IN_USE)         \
  NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)        \
  NAME(CUDA_ERROR_INVALID_PTX)                    \
  NAME(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT)       \
  NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE)           \
  NAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND)         \
  NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION)        \
  NAME(CUDA_ERROR_JIT_COMPILATION_DISABLED)       \
  NAME(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY)      \
  NAME(CUDA_ERROR_INVALID_SOURCE)                 \
  NAME(CUDA_ERROR_FILE_NOT_FOUND)                 \
  NAME(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND) \
  NAME(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)      \
  NAME(CUDA_ERROR_OPERATING_SYSTEM)               \
  NAME(CUDA_ERROR_INVALID_HANDLE)                 \
  NAME(CUDA_ERROR_ILLEGAL_STATE)                  \
  NAME(CUDA_ERROR_NOT_FOUND)                      \
  NAME(CUDA_ERROR_NOT_READY)                      \
  NAME(CUDA_ERROR_ILLEGAL_ADDRESS)                \
  NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)        \
  NAME(CUDA_ERROR_LAUNCH_TIMEOUT)                 \
  NAME(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING)  \
  NAME(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)    \
  NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)        \
  NAME(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)         \
  NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED)           \
  NAME(CUDA_ERROR_ASSERT)                         \
  NAME(CUDA_ERROR_TOO_MANY_PEERS)                 \
  NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) \
  NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)     \
  NAME(CUDA_ERROR_HARDWARE_STACK_ERROR)           \
  NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION)            \
  NAME(CUDA_ERROR_MISALIGNED_ADDRESS)             \
  NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE)          \
  NAME(CUDA_ERROR_INVALID_PC)                     \
  NAME(CUDA_ERROR_LAUNCH_FAILED)                  \
  NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)   \
  NAME(CUDA_ERROR_NOT_PERMITTED)                  \
  NAME(CUDA_ERROR_NOT_SUPPORTED)                  \
  NAME(CUDA_ERROR_SYSTEM_NOT_READY)               \
  NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)         \
  NAME(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) \
  NAME(CUDA_ERROR_MPS_CONNECTION_FAILED)          \
  NAME(CUDA_ERROR_MPS_RPC_FAILURE)                \
  NAME(CUDA_ERROR_MPS_SERVER_NOT_READY)           \
  NAME(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)        \
  NAME(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED)    \
  NAME(CUDA_ERROR_MPS_CLIENT_TERMINATED)          \
  NAME(CUDA_ERROR_CDP_NOT_SUPPORTED)              \
  NAME(CUDA_ERROR_CDP_VERSION_MISMATCH)           \
  NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)     \
  NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)     \
  NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE)           \
  NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)       \
  NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED)        \
  NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION)       \
  NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)        \
  NAME(CUDA_ERROR_CAPTURED_EVENT)                 \
  NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)    \
  NAME(CUDA_ERROR_TIMEOUT)                        \
  NAME(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)      \
  NAME(CUDA_ERROR_EXTERNAL_DEVICE)                \
  NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE)           \
  NAME(CUDA_ERROR_UNKNOWN)

std::string words_of(const std::string& name) {
  const std::string prefix = "CUDA_ERROR_";
  std::string words = name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : "no error";
  for (char& letter : words)
    letter = letter == '_' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return words;
}

const std::map<CUresult, error_text>& all_texts() {
  static const auto* const texts = new std::map<CUresult, error_text>{
#define FAKE_CUDA_TEXT(answer) {answer, {#answer, words_of(#answer)}},
      FAKE_CUDA_ANSWERS(FAKE_CUDA_TEXT)
#undef FAKE_CUDA_TEXT
  };
  return *texts;
}

}  // namespace

const error_text* text_of(CUresult answer) {
  const auto found = all_texts().find(answer);
  return found == all_texts().end() ? nullptr : &found->second;
}

std::optional<CUresult> answer_of(const std::string& text) {
  for (const auto& [answer, texts] : all_texts())
    if (texts.name == text || std::to_string(answer) == text) return answer;
  return std::nullopt;
}

}  // namespace fake_cuda
