#include "collectives/sparse/steps/device_vectors.h"

#include <cstring>

#include "ops/sparse/sparse.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_line = 256;  // alignment in staging memory, in bytes

/// Copies the items of `sent` whose indices also occur in `arrived`. Returns the number of copied items.
std::uint64_t copy_common(dtype type, item_list sent, item_list arrived, std::byte* to) {
  const std::size_t bytes = item_size(type);
  std::uint64_t copied = 0, other = 0;
  for (std::uint64_t i = 0; i < sent.count; ++i) {
    const std::uint32_t index = index_at(type, sent.items, i);
    while (other < arrived.count && index_at(type, arrived.items, other) < index) ++other;
    if (other == arrived.count) break;
    if (index_at(type, arrived.items, other) != index) continue;
    std::memcpy(to + copied++ * bytes, sent.items + i * bytes, bytes);
  }
  return copied;
}

}  // namespace

std::uint64_t device_vectors::bytes_of(std::uint64_t items) const {
  return (items * item_size(problem_.type) + k_line - 1) / k_line * k_line;
}

device_vectors::layout device_vectors::places() const {
  layout all{.found = bytes_of(most_items(problem_))};
  all.leaving = all.found + k_line;
  all.results = all.leaving + bytes_of(most_selected(problem_));
  all.end = all.results + 2 * bytes_of(room_);
  return all;
}

std::byte* device_vectors::result_place(std::size_t which) const {
  return staging_ + places().results + which * bytes_of(room_);
}

function_memory device_vectors::memory(const void* residual) const {
  return {.device_bytes = problem_.count * size_of(residual_of(problem_.type)),
          .contents = static_cast<const std::byte*>(residual),
          .staging_bytes = places().end};
}

void device_vectors::use(std::byte* device, std::byte* staging) {
  residual_ = device;
  staging_ = staging;
}

const sparse_job* device_vectors::select(const std::byte* gradient) {
  job_ = sparse_selection{.type = problem_.type,
                          .residual = residual_,
                          .gradient = gradient,
                          .scale = problem_.scale,
                          .count = problem_.count,
                          .k = most_items(problem_),
                          .ignores_nan = problem_.nans == nan_policy::ignore,
                          .items = staging_,
                          .found = reinterpret_cast<std::uint64_t*>(staging_ + places().found)};
  return &job_;
}

item_list device_vectors::selected() const {
  std::uint64_t found = 0;
  std::memcpy(&found, staging_ + places().found, sizeof found);
  return {staging_, found};
}

const sparse_job* device_vectors::settle(item_list sent, item_list arrived, item_list result,
                                         std::uint64_t least_dropped, std::byte* update) {
  std::byte* const leaving = staging_ + places().leaving;
  const sparse_settlement::list last{result_place(turn_), last_count_};
  turn_ = 1 - turn_;
  std::byte* const next = result_place(turn_);
  if (result.count != 0) std::memcpy(next, result.items, result.count * item_size(problem_.type));
  job_ = sparse_settlement{.type = problem_.type,
                           .residual = residual_,
                           .update = update,
                           .count = problem_.count,
                           .least_dropped = least_dropped,
                           .clears_all = update != last_update_,
                           .cleared = last,
                           .result = {next, result.count},
                           .leaving = {leaving, copy_common(problem_.type, sent, arrived, leaving)},
                           .divisor = problem_.ranks()};
  last_count_ = result.count;
  last_update_ = update;
  return &job_;
}

}  // namespace lsched
