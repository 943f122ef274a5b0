// Kernels of sparse vectors, each on data of its own making.
//
// The bytes of `select` and `exact_kth`, the exact top k by the hint of the pass before, are those of the residual; of
// `merge_add` those of both lists and their sum; of `scatter_add` those of its list, whose region is what lies in a
// level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "microbench/engine/memory_levels.h"
#include "ops/base.h"

namespace lsched::bench {

/// What a kernel of sparse vectors works in.
struct sparse_memory {
  explicit sparse_memory(std::size_t bytes) : inputs(bytes), outputs(bytes) {}
  sparse_memory(std::size_t input_bytes, std::size_t output_bytes) : inputs(input_bytes), outputs(output_bytes) {}

  arena inputs;
  arena outputs;
  std::vector<std::byte> items;
  std::vector<std::uint64_t> touched;
};

/// A kernel on one piece of memory after the other, and a loop that moves the bytes that count.
struct sparse_cell {
  std::size_t bytes;  ///< of a piece
  std::size_t pieces;
  std::function<void(std::size_t piece)> kernel;
  std::function<void(std::size_t piece)> loop;
};

struct sparse_kind {
  const char* name;
  sparse_cell (*of)(sparse_memory& in, dtype type, double density, const level& at);
};

std::span<const sparse_kind> sparse_kernels();

}  // namespace lsched::bench
