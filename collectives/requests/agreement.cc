#include "collectives/requests/agreement.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ops/counted.h"
#include "ops/hash.h"

namespace lsched {
namespace {

constexpr std::string_view k_segment = " segment ";

/// Returns a hash of a list, for agreement texts, which must be short.
std::string digest_of(std::span<const std::uint64_t> numbers) {
  fnv_hash hash;
  for (const std::uint64_t number : numbers) hash.add(number);
  return " (" + std::to_string(hash.value()) + ")";
}

std::string text_of_counts(std::span<const std::uint64_t> counts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return " counts of " + std::to_string(sum) + " in all" + digest_of(counts);
}

std::string text_of_tensors(std::span<const tensor> tensors) {
  std::vector<std::uint64_t> cuts;
  for (const tensor& one : tensors) cuts.insert(cuts.end(), {one.begin, one.count});
  return " in " + counted(tensors.size(), "tensor") + digest_of(cuts);
}

}  // namespace

std::string agreement_of(const collective& kind, const shape& data, std::string_view algorithm,
                         std::string_view elements) {
  std::string text = std::string(kind.name) + " " + std::string(algorithm);
  if (data.radix != 0) text += " radix " + std::to_string(data.radix);
  if (!kind.moves_data) return text;
  if (kind.reduces) text += " " + std::string(name_of(data.what));
  if (data.is_mean) text += " divided by ranks";
  if (data.what == kernel::user)
    text += std::string(data.commutes ? " commutative" : " ordered") + " unit " + std::to_string(data.unit);
  if (!elements.empty()) text += " " + std::string(elements) + " as";
  text += " " + std::string(name_of(data.type));
  if (data.room != 0) text += " capacity " + std::to_string(data.room);
  if (!kind.has_blocks && !kind.has_counts && data.room == 0) text += " count " + std::to_string(data.count);
  if (kind.has_counts) text += text_of_counts(data.counts);
  if (!data.tensors.empty()) text += text_of_tensors(data.tensors);
  if (kind.is_rooted) text += " root " + std::to_string(data.root);
  if (data.segment != 0) text += std::string(k_segment) + std::to_string(data.segment);
  return text;
}

std::string agreement_of(const sparse_problem& problem, std::string_view algorithm) {
  const auto named = [](auto value, std::initializer_list<const char*> names) {
    return std::string(names.begin()[static_cast<std::size_t>(value)]);
  };
  std::string text = "sparse_allreduce " + std::string(algorithm) + " " + std::string(name_of(problem.type)) +
                     " count " + std::to_string(problem.count) + " k " + std::to_string(problem.k) + ", nans " +
                     named(problem.nans, {"propagate", "ignore", "error"});
  if (algorithm != "oktopk") return text;
  text += ", " + named(problem.capacity, {"strict", "defer"}) + ", " +
          named(problem.boundaries, {"pooled", "averaged"}) + " every " + std::to_string(problem.period) +
          ", balance " + named(problem.balance, {"cost", "published", "always", "never"}) + ", " +
          named(problem.selection, {"exact", "reused"});
  if (problem.selection == selection_rule::reused) text += " " + std::to_string(problem.reuse);
  return text + ", bucket " + std::to_string(problem.bucket);
}

std::string agreement_of(const coo_problem& problem) {
  return "coo_allreduce " + std::string(name_of(problem.type)) + " count " + std::to_string(problem.count) + " room " +
         std::to_string(problem.room) + " out_room " + std::to_string(problem.result_room) +
         (problem.is_balanced ? " balanced" : "");
}

std::string agreement_of(const activation& starts) {
  return " " + words_for(starts) + " seed " + std::to_string(starts.seed);
}

failure with_advice(failure why) {
  const std::size_t first = why.code == status::mismatch ? why.text.find(k_segment) : std::string::npos;
  if (first != std::string::npos && why.text.find(k_segment, first + 1) == std::string::npos)
    why.text += ": set segment_bytes on all ranks (vectors in device memory have other segments by default)";
  return why;
}

}  // namespace lsched
