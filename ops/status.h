// Results of calls: a status code on the data path, and a failure with details on all other paths (cold paths).
//
// Status codes have the same numbers as in the C API (`lsched_status`). New codes are appended, and numbers never
// change. The function that detects a fault fills in the details (op, peer, text). Its callers pass the details on
// unchanged.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "ops/base.h"

namespace lsched {

enum class [[nodiscard]] status : int{
    ok = 0,
    pending = 1,       ///< not an error: the operation is still in progress
    argument = -1,     ///< a parameter is null, negative or meaningless
    bounds = -2,       ///< a region exceeds its buffer, or a list exceeds its capacity
    state = -3,        ///< the call is not valid in the object's current state
    cycle = -4,        ///< the deps of a schedule form a cycle
    unmatched = -5,    ///< sends and receives of the world do not pair up
    mismatch = -6,     ///< requests of ranks differ, such as different collectives
    constraint = -7,   ///< the algorithm does not support this number of ranks, count, dtype or kernel
    unsupported = -8,  ///< the request is valid, but this build or transport does not implement it
    no_memory = -9,
    transport = -10,  ///< the network or shared memory below the transport failed
    peer = -11,       ///< a peer died, or closed its world without leaving first
    timeout = -12,
    busy = -13,        ///< refused because the object is still in use; may succeed later
    version = -14,     ///< caller and library disagree about the ABI
    internal = -15,    ///< an invariant of the library is broken
    not_finite = -16,  ///< the result of a round is not finite, and the caller asked to refuse such results
    cancelled = -17,   ///< a rank has cancelled the schedule
    device = -18,      ///< a GPU or its driver has failed
};

/// Returns the name, such as "LSCHED_ERR_PEER".
std::string_view name_of(status code);

/// Returns a short description for users.
std::string_view text_of(status code);

/// A failed cold-path call. `op` is k_no_op if no op is concerned, and `peer` is k_no_rank if no peer is concerned.
struct failure {
  status code = status::internal;
  std::string text{};
  rank peer = k_no_rank;
  op_id op = k_no_op;
};

/// A value or a failure. For cold paths only: functions on the data path return plain status codes.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : content_(std::move(value)) {}    // NOLINT(google-explicit-constructor)
  result(failure why) : content_(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  bool has_value() const { return content_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const failure& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, failure> content_;
};

}  // namespace lsched
