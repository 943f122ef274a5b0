#include "microbench/exercise.h"

#include <algorithm>
#include <array>

namespace lsched::bench {
namespace {

constexpr std::array k_kinds{
    exercise_kind{"allreduce", pattern::allreduce, false, true},
    exercise_kind{"bcast", pattern::bcast, true, false},
    exercise_kind{"reduce", pattern::reduce, true, true},
    exercise_kind{"reduce_scatter_block", pattern::reduce_scatter, false, true},
    exercise_kind{"reduce_scatter", pattern::reduce_scatter, false, true},
    exercise_kind{"allgather", pattern::allgather, false, true},
    exercise_kind{"allgatherv", pattern::allgather, false, true},
    exercise_kind{"alltoall", pattern::alltoall, false, true},
    exercise_kind{"alltoallv", pattern::alltoall, false, true, false},
    exercise_kind{"gather", pattern::gather, true, true},
    exercise_kind{"gatherv", pattern::gather, true, true},
    exercise_kind{"scatter", pattern::scatter, true, true},
    exercise_kind{"scatterv", pattern::scatter, true, true},
    exercise_kind{"scan", pattern::scan, true, true},
    exercise_kind{"exscan", pattern::exscan, true, true},
    exercise_kind{"barrier", pattern::barrier, false, false},
};

// Element i of the input of rank r is base_of(i) + share_of(r).
float base_of(std::uint64_t element, std::uint64_t salt) {
  return static_cast<float>((static_cast<std::uint32_t>(element + salt * 977) * 2654435761u) >> 26);
}
float share_of(std::uint64_t rank) { return static_cast<float>(rank % 97); }

float shares_of_ranks(int from, int to) {
  float sum = 0;
  for (int r = from; r < to; ++r) sum += share_of(static_cast<std::uint64_t>(r));
  return sum;
}

/// Returns the number of elements i of `output` that differ from factor * base_of(first + i, salt) + term.
std::uint64_t count_unlike(const float* output, std::uint64_t count, std::uint64_t first, std::uint64_t salt,
                           float factor, float term) {
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i) wrong += output[i] == factor * base_of(first + i, salt) + term ? 0u : 1u;
  return wrong;
}

}  // namespace

std::span<const exercise_kind> exercises() { return k_kinds; }

const exercise_kind& exercise_named(std::string_view name) {
  return *std::find_if(k_kinds.begin(), k_kinds.end(), [&](const exercise_kind& kind) { return kind.name == name; });
}

exercise::exercise(const exercise_kind& kind, int rank, int size, std::uint64_t bytes)
    : kind_(&kind), rank_(rank), size_(size), count_(bytes / sizeof(float)) {
  const auto ranks = static_cast<std::uint64_t>(size);
  if (kind.movement == pattern::reduce_scatter) count_ = (count_ + ranks - 1) / ranks;
  if (kind.movement == pattern::barrier) count_ = 0;
}

std::uint64_t exercise::inputs() const {
  const std::uint64_t all = count_ * static_cast<std::uint64_t>(size_);
  switch (kind_->movement) {
    case pattern::bcast: return is_root() ? count_ : 0;
    case pattern::scatter: return is_root() ? all : 0;
    case pattern::alltoall:
    case pattern::reduce_scatter: return all;
    default: return count_;
  }
}

std::uint64_t exercise::outputs() const {
  const std::uint64_t all = count_ * static_cast<std::uint64_t>(size_);
  switch (kind_->movement) {
    case pattern::bcast: return is_root() ? 0 : count_;
    case pattern::reduce: return is_root() ? count_ : 0;
    case pattern::gather: return is_root() ? all : 0;
    case pattern::alltoall:
    case pattern::allgather: return all;
    default: return count_;
  }
}

// MPI's rules for collectives in place: a rank's own block of an allgather, gather or scatter is at the block's
// position in the whole buffer. The result of a reduce_scatter is at the beginning of the input.
std::uint64_t exercise::input_offset() const {
  const bool gathers = kind_->movement == pattern::allgather || (kind_->movement == pattern::gather && is_root());
  return gathers ? count_ * static_cast<std::uint64_t>(rank_) : 0;
}

std::uint64_t exercise::output_offset() const {
  return kind_->movement == pattern::scatter && is_root() ? count_ * static_cast<std::uint64_t>(rank_) : 0;
}

void exercise::fill(float* input, std::uint64_t salt) const {
  const float share = share_of(static_cast<std::uint64_t>(rank_));
  const std::uint64_t floats = inputs();
  for (std::uint64_t i = 0; i < floats; ++i) input[i] = base_of(i, salt) + share;
}

std::uint64_t exercise::count_wrong(const float* output, std::uint64_t salt) const {
  if (outputs() == 0) return 0;
  const auto all = static_cast<float>(size_);
  const auto own = static_cast<std::uint64_t>(rank_) * count_;
  switch (kind_->movement) {
    case pattern::barrier: return 0;
    case pattern::bcast: return count_unlike(output, count_, 0, salt, 1, share_of(0));
    case pattern::scatter: return count_unlike(output, count_, own, salt, 1, share_of(0));
    case pattern::allreduce:
    case pattern::reduce: return count_unlike(output, count_, 0, salt, all, shares_of_ranks(0, size_));
    case pattern::reduce_scatter: return count_unlike(output, count_, own, salt, all, shares_of_ranks(0, size_));
    case pattern::scan:
      return count_unlike(output, count_, 0, salt, static_cast<float>(rank_ + 1), shares_of_ranks(0, rank_ + 1));
    case pattern::exscan:  // the output of rank 0 is undefined
      return rank_ == 0 ? 0
                        : count_unlike(output, count_, 0, salt, static_cast<float>(rank_), shares_of_ranks(0, rank_));
    case pattern::allgather:
    case pattern::gather:
    case pattern::alltoall: break;
  }
  const std::uint64_t first = kind_->movement == pattern::alltoall ? own : 0;
  std::uint64_t wrong = 0;
  for (std::uint64_t from = 0; from < static_cast<std::uint64_t>(size_); ++from)
    wrong += count_unlike(output + from * count_, count_, first, salt, 1, share_of(from));
  return wrong;
}

}  // namespace lsched::bench
