// Results of calls: a status code, and for cold paths a failure with details.
//
// The numbers are those of the C API (`lsched_status`). New codes are appended, and numbers never change. The first
// function that detects a fault fills in the details (op, peer, text). Its callers pass them on unchanged.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "ops/base.h"

namespace lsched {

enum class [[nodiscard]] status : int{
    ok = 0,
    pending = 1,       ///< not an error: not finished yet
    argument = -1,     ///< a parameter is null, negative or meaningless
    bounds = -2,       ///< a region exceeds its buffer, or a list its room
    state = -3,        ///< the call does not fit the object's present state
    cycle = -4,        ///< the deps of a schedule form a cycle
    unmatched = -5,    ///< sends and receives of the world do not pair up
    mismatch = -6,     ///< ranks committed different things
    constraint = -7,   ///< the generator cannot do this P, count, dtype or op
    unsupported = -8,  ///< meaningful, but not offered by this build or transport
    no_memory = -9,
    transport = -10,  ///< the medium below failed
    peer = -11,       ///< a peer died or closed without leaving
    timeout = -12,
    busy = -13,        ///< refused for now: the object is still in use
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

/// A failed cold-path call. `op` and `peer` are k_no_op and k_no_rank if they do not apply.
struct failure {
  status code = status::internal;
  std::string text{};
  rank peer = k_no_rank;
  op_id op = k_no_op;
};

/// A value or a failure. For cold paths only, because the data path returns plain status codes.
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
