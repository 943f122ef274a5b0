// Access to structs of callers that may have been compiled with an older or a newer lsched.h. The member `struct_size`
// is the size of the struct in the caller's header.
//
// lsched.h must keep these rules: `struct_size` is the first member. A struct grows only at its end, and never into
// padding, because older callers do not set padding. If a new member is zero, or has the default that is passed to
// read_struct, the library behaves as if the member did not exist.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "bindings/c/lsched.h"
#include "bindings/c/lsched_cuda.h"
#include "ops/status.h"

namespace lsched {

/// The name of a public struct and its minimum size `least`, which is the size when the struct was first published.
struct published {
  std::string_view name;
  std::size_t least;
};
constexpr published published_as(const lsched_diagnostic*) { return {"lsched_diagnostic", 544}; }
constexpr published published_as(const lsched_user_op*) { return {"lsched_user_op", 48}; }
constexpr published published_as(const lsched_config*) { return {"lsched_config", 40}; }
constexpr published published_as(const lsched_node*) { return {"lsched_node", 32}; }
constexpr published published_as(const lsched_stats*) { return {"lsched_stats", 64}; }
constexpr published published_as(const lsched_collective_desc*) { return {"lsched_collective_desc", 144}; }
constexpr published published_as(const lsched_counts*) { return {"lsched_counts", 48}; }
constexpr published published_as(const lsched_arrival*) { return {"lsched_arrival", 24}; }
constexpr published published_as(const lsched_sparse_desc*) { return {"lsched_sparse_desc", 96}; }
constexpr published published_as(const lsched_sparse_stats*) { return {"lsched_sparse_stats", 64}; }
constexpr published published_as(const lsched_coo_desc*) { return {"lsched_coo_desc", 96}; }
constexpr published published_as(const lsched_partial_desc*) { return {"lsched_partial_desc", 120}; }
constexpr published published_as(const lsched_groups*) { return {"lsched_groups", 24}; }
constexpr published published_as(const lsched_report*) { return {"lsched_report", 96}; }
constexpr published published_as(const lsched_partial_stats*) { return {"lsched_partial_stats", 1960}; }
constexpr published published_as(const lsched_verification*) { return {"lsched_verification", 112}; }
constexpr published published_as(const lsched_verify_desc*) { return {"lsched_verify_desc", 72}; }
constexpr published published_as(const lsched_simulate_desc*) { return {"lsched_simulate_desc", 112}; }
constexpr published published_as(const lsched_cuda_config*) { return {"lsched_cuda_config", 32}; }
constexpr published published_as(const lsched_simulation*) { return {"lsched_simulation", 56}; }

/// The maximum valid struct_size. A larger value means that the caller did not initialise struct_size.
inline constexpr std::size_t k_most_struct_bytes = 4096;

constexpr bool is_size_of(const published& what, std::size_t bytes) {
  return bytes >= what.least && bytes <= k_most_struct_bytes;
}

/// Returns whether the pointer is not null and the struct has a valid struct_size.
template <class Struct>
bool is_there(const Struct* to) {
  return to != nullptr && is_size_of(published_as(to), to->struct_size);
}

/// Returns ARGUMENT with the reason why is_there() is false.
template <class Struct>
failure refusal_of(const Struct* to) {
  const auto [name, least] = published_as(to);
  if (to == nullptr) return {status::argument, std::string(name) + " is null"};
  return {status::argument, std::string(name) + ".struct_size is " + std::to_string(to->struct_size) +
                                ": set struct_size to sizeof(" + std::string(name) + "), at least " +
                                std::to_string(least)};
}

/// Returns a copy of a caller's struct. Members that the caller's header lacks keep the values of `known`. Returns
/// ARGUMENT if is_there() is false, and VERSION if members that this library does not know are not zero.
template <class Struct>
result<Struct> read_struct(const Struct* caller, Struct known = {}) {
  if (!is_there(caller)) return refusal_of(caller);
  const std::span bytes(reinterpret_cast<const std::byte*>(caller), caller->struct_size);
  const auto is_set = [](std::byte one) { return one != std::byte{0}; };
  if (bytes.size() > sizeof known && std::ranges::any_of(bytes.subspan(sizeof known), is_set))
    return failure{
        status::version,
        std::string(published_as(caller).name) +
            " has non-zero members that this library does not know: set these to 0, or install a newer libsched"};
  std::memcpy(&known, caller, std::min(caller->struct_size, sizeof known));
  known.struct_size = sizeof known;
  return known;
}

/// Copies `from` to a caller's struct, as far as the caller's struct_size allows. Members that this library does not
/// know become zero. is_there(to) must be true.
template <class Struct>
void write_struct(Struct* to, Struct from) {
  const std::size_t theirs = from.struct_size = to->struct_size;
  std::memcpy(to, &from, std::min(theirs, sizeof from));
  if (theirs > sizeof from) std::memset(reinterpret_cast<std::byte*>(to) + sizeof from, 0, theirs - sizeof from);
}

/// Sets struct_size to `bytes`, the size of the struct in the caller's header, and fills in the struct. Does nothing if
/// `to` is null or the size is invalid.
template <class Struct>
void init_struct(Struct* to, std::size_t bytes, const Struct& from) {
  if (to == nullptr || !is_size_of(published_as(to), bytes)) return;
  to->struct_size = bytes;
  write_struct(to, from);
}

/// Writes a failure to the diagnostic, unless the caller passed no diagnostic. Returns the failure's code.
inline lsched_status report(lsched_diagnostic* diagnostic, const failure& why, round_no round = 0) {
  if (is_there(diagnostic)) {
    lsched_diagnostic told{
        .status = static_cast<lsched_status>(why.code), .rank = why.peer, .op = why.op, .round = round};
    std::memcpy(told.text, why.text.data(), std::min(why.text.size(), sizeof told.text - 1));
    write_struct(diagnostic, told);
  }
  return static_cast<lsched_status>(why.code);
}

/// Returns the diagnostic to which functions without a diagnostic parameter report failures (lsched_last_failure).
lsched_diagnostic* kept_diagnostic();

/// Reports a failure in a function without a diagnostic parameter, and returns `code` as lsched_status.
inline lsched_status fail(status code, const char* reason) { return report(kept_diagnostic(), {code, reason}); }

}  // namespace lsched
