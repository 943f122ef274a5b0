// What a call answers: a status code, and for cold paths a failure with its detail.
//
// The numbers are the C API's (`lsched_status`); they are append-only. The first function to notice a
// fault fills in the detail (op, peer, text); the others pass it on unchanged.
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
    bounds = -2,       ///< a region leaves its buffer, or a list its room
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
    busy = -13,        ///< refused now, something still uses the object
    version = -14,     ///< caller and library disagree about the ABI
    internal = -15,    ///< a broken invariant of our own
    not_finite = -16,  ///< a round's result is not, and that was asked to be refused
    cancelled = -17,   ///< a rank has given the schedule up
    device = -18,      ///< a GPU or its driver has failed
};

/// "LSCHED_ERR_PEER" and the like.
std::string_view name_of(status code);

/// One sentence for people.
std::string_view text_of(status code);

/// A failed cold-path call. `op` and `peer` are k_no_op / k_no_rank where they do not apply.
struct failure {
  status code = status::internal;
  std::string text{};
  rank peer = k_no_rank;
  op_id op = k_no_op;
};

/// A value, or why there is none. For cold paths only: the data path returns plain statuses.
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
