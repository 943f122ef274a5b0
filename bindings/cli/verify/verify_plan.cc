#include "bindings/cli/verify/verify_plan.h"

#include <algorithm>
#include <set>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/words.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_large_count = 1000;
constexpr std::uint64_t k_seed = 1;

/// About P^2 messages where every rank has a block of the vector, or a block for every pair of ranks. Judged by a world
/// of some size.
bool is_quadratic(const algorithm& it) {
  constexpr rank k_size = 1024;
  const auto with = [&](std::uint64_t count) { return typical_shape(*it.of, k_size, count, dtype::f32, kernel::sum); };
  const cost price = price_of(it, k_size, with(k_size), {});
  const extents of_one = it.of->extents_of({.self = k_size - 1, .size = k_size}, with(1));
  return price.messages + price.signals >= std::uint64_t{k_size} * k_size / 4 ||
         std::max(of_one.input.value_or(0), of_one.output.value_or(0)) >= k_size / 4;
}

/// Ops differ by how many arrivals it takes, and by whether some rounds wait for everybody.
std::vector<activation> activations_for(const std::string& words, rank size) {
  if (!words.empty()) return {activation_of(words, k_seed)};
  return {{.policy = activation_policy::full, .seed = k_seed},
          {.policy = activation_policy::solo, .seed = k_seed},
          {.policy = activation_policy::majority, .seed = k_seed, .full_every = 8},
          {.policy = activation_policy::quorum, .seed = k_seed, .number = static_cast<std::uint32_t>(size + 1) / 2},
          {.policy = activation_policy::all_of,
           .seed = k_seed,
           .number = static_cast<std::uint32_t>(size),
           .full_every = 8}};
}

std::vector<activation> activations_for(const algorithm& it, const std::string& words, rank size) {
  if (it.of->activates) return activations_for(words, size);
  return words.empty() ? std::vector<activation>{{}} : std::vector<activation>{};
}

std::vector<rank> sizes_for(const verify_wish& wish, const algorithm& it) {
  if (!wish.sizes.empty()) return wish.sizes;
  std::vector<rank> sizes = all_sizes();
  if (is_quadratic(it)) std::erase_if(sizes, [](rank size) { return size > 129; });
  return sizes;
}

std::set<std::uint64_t> counts_for(const verify_wish& wish, const algorithm& it, rank size) {
  if (!it.of->moves_data) return {0};
  if (!wish.counts.empty()) return {wish.counts.begin(), wish.counts.end()};
  const auto ranks = static_cast<std::uint64_t>(size);
  return {0, 1, ranks - 1, ranks, ranks + 1, k_large_count};
}

/// The first, the last, and one of the others, of small worlds.
std::set<rank> roots_for(const algorithm& it, rank size) {
  constexpr rank k_small = 16;
  if (!it.of->is_rooted) return {0};
  if (size > k_small) return {size / 2};
  return {0, size / 2, size - 1};
}

/// The same data, in place and not, in all variants.
void add(std::vector<verify_case>& to, verify_case next) {
  for (const bool in_place : {false, true}) {
    if (in_place && !(next.what->needs.in_place && next.what->of->moves_data)) continue;
    next.data.in_place = in_place;
    for (shape& data : variants_of(*next.what, next.size, next.data)) {
      if (validate(*next.what, {.self = 0, .size = next.size}, data, next.starts)) continue;
      to.push_back(next);
      to.back().data = std::move(data);
    }
  }
}

std::vector<rank> sizes_for(const verify_wish& wish, const sparse_algorithm& it) {
  if (!wish.sizes.empty()) return wish.sizes;
  constexpr rank k_size = 1024;
  std::vector<rank> sizes = all_sizes();
  const bool is_quadratic = it.cost_of({.count = 1000, .k = 10, .place = {0, k_size}}).messages >= k_size;
  std::erase_if(sizes, [&](rank size) { return size > (is_quadratic ? 129 : 1024); });
  return sizes;
}

/// Their bodies are proved of more ranks without an activation.
std::vector<rank> sizes_for_partial(const verify_wish& wish, const sparse_algorithm& it) {
  std::vector<rank> sizes = sizes_for(wish, it);
  if (wish.sizes.empty()) std::erase_if(sizes, [](rank size) { return size > 129; });
  return sizes;
}

std::vector<std::uint64_t> given_or(const std::vector<std::uint64_t>& given, std::vector<std::uint64_t> usual) {
  return given.empty() ? std::move(usual) : given;
}

/// With `defer`, too, and with reused thresholds and buckets of lists, unless these ask for the same.
void add_sparse(std::vector<verify_case>& to, verify_case plain) {
  to.push_back(plain);
  verify_case defers = plain, reuses = plain;
  defers.problem.capacity = capacity_policy::defer;
  reuses.problem.selection = selection_rule::reused;
  reuses.problem.bucket = 2;
  for (const verify_case& next : {defers, reuses}) {
    const auto one = next.sparse->generate(plain.problem), other = next.sparse->generate(next.problem);
    if (one && other && **one != **other) to.push_back(next);
  }
}

std::vector<schedule_ptr> sparse_world(const verify_case& it) {
  std::vector<schedule_ptr> world;
  sparse_problem problem = it.problem;
  for (rank self = 0; self < it.size; ++self) {
    problem.place.self = self;
    const bool is_partial = it.starts.policy != activation_policy::none;
    world.push_back(
        require(is_partial ? partial_sparse_allreduce(*it.sparse, problem, it.starts) : it.sparse->generate(problem)));
  }
  return world;
}

std::string text_of(const sparse_problem& it) {
  return ", k " + std::to_string(it.k) + (it.capacity == capacity_policy::defer ? ", defer" : "") +
         (it.selection == selection_rule::reused ? ", reused" : "");
}

}  // namespace

std::vector<rank> all_sizes() {
  std::vector<rank> sizes;
  for (rank size = 1; size <= 65; ++size) sizes.push_back(size);
  sizes.insert(sizes.end(), {96, 100, 127, 128, 129, 255, 256, 1000, 1024, 4096});
  return sizes;
}

std::vector<rank> sample_sizes() { return {1, 2, 3, 5, 6, 7, 8, 13, 33}; }

std::vector<verify_case> plan(const verify_wish& wish) {
  std::vector<verify_case> all;
  for (const algorithm& it : algorithms()) {
    if (!wish.collective.empty() && wish.collective != it.of->name) continue;
    if (!wish.algorithm.empty() && wish.algorithm != it.name) continue;
    for (const rank size : sizes_for(wish, it))
      for (const activation& starts : activations_for(it, wish.activation, size))
        for (const std::uint64_t count : counts_for(wish, it, size)) {
          verify_case next{.what = &it, .size = size, .count = count, .starts = starts};
          next.data = typical_shape(*it.of, size, count, dtype::f32, kernel::sum);
          for (const rank root : roots_for(it, size)) {
            next.data.root = root;
            add(all, next);
          }
        }
  }
  return all;
}

namespace {

void plan_ordinary_sparse(const verify_wish& wish, const sparse_algorithm& it, std::vector<verify_case>& all) {
  for (const rank size : sizes_for(wish, it))
    for (const std::uint64_t count : given_or(wish.counts, {0, 1, k_large_count}))
      for (const std::uint64_t k : given_or(wish.items, {0, 1, 10})) {
        const sparse_problem problem{.count = count, .k = k, .place = {0, size}};
        add_sparse(all, {.sparse = &it, .problem = problem, .size = size, .count = count});
      }
}

void plan_partial_sparse(const verify_wish& wish, const sparse_algorithm& it, std::vector<verify_case>& all) {
  for (const rank size : sizes_for_partial(wish, it))
    for (const activation& starts : activations_for(wish.activation, size)) {
      if (validate(starts, size)) continue;
      for (const std::uint64_t count : given_or(wish.counts, {k_large_count}))
        for (const std::uint64_t k : given_or(wish.items, {10})) {
          const sparse_problem problem{.count = count, .k = k, .place = {0, size}};
          add_sparse(all, {.sparse = &it, .problem = problem, .size = size, .count = count, .starts = starts});
        }
    }
}

}  // namespace

std::vector<verify_case> plan_sparse(const verify_wish& wish) {
  std::vector<verify_case> all;
  const auto is_wanted = [&](std::string_view name) { return wish.collective.empty() || wish.collective == name; };
  for (const sparse_algorithm& it : sparse_algorithms()) {
    if (!wish.algorithm.empty() && wish.algorithm != it.name) continue;
    if (is_wanted(k_sparse_allreduce) && wish.activation.empty()) plan_ordinary_sparse(wish, it, all);
    if (is_wanted(k_partial_sparse_allreduce)) plan_partial_sparse(wish, it, all);
  }
  return all;
}

std::string_view collective_of(const verify_case& it) {
  if (it.sparse == nullptr) return it.what->of->name;
  return it.starts.policy == activation_policy::none ? k_sparse_allreduce : k_partial_sparse_allreduce;
}

std::string text_of(const verify_case& it) {
  if (it.sparse != nullptr)
    return std::string(collective_of(it)) + "/" + std::string(it.sparse->name) +
           (it.starts.policy == activation_policy::none ? "" : " " + words_for(it.starts)) + ", " +
           counted(it.size, "rank") + ", count " + std::to_string(it.count) + text_of(it.problem);
  std::string text(it.what->of->name);
  text.append("/").append(it.what->name);
  if (it.starts.policy != activation_policy::none) text.append(" ").append(words_for(it.starts));
  text += ", " + counted(it.size, "rank");
  if (it.what->of->moves_data) text += ", count " + std::to_string(it.count);
  if (it.what->of->is_rooted) text += ", root " + std::to_string(it.data.root);
  if (it.data.segment != 0) text += ", segments of " + std::to_string(it.data.segment);
  if (it.data.radix != 0) text += ", radix " + std::to_string(it.data.radix);
  if (!it.data.nodes.empty())
    text += std::ranges::is_sorted(it.data.nodes) ? ", nodes of neighbours" : ", scattered nodes";
  if (!it.data.buckets.empty()) text += ", " + std::to_string(it.data.buckets.size()) + " buckets";
  if (!it.data.is_visible) text += ", staged";
  return text + (it.data.in_place ? ", in place" : "");
}

postcondition promise_of(const verify_case& it) {
  if (it.sparse != nullptr && it.starts.policy == activation_policy::none) return promise_of_sparse(it.problem);
  if (it.sparse != nullptr) return promise_of_partial_sparse(it.problem, it.starts);
  return lsched::promise_of(*it.what, it.size, it.data, it.starts);
}

verify_options options_of(const verify_case& it) {
  if (it.sparse != nullptr) return {};
  return {.in_place = aliasing_of(*it.what->of, it.size, it.data)};
}

std::vector<schedule_ptr> generate_world(const verify_case& it) {
  if (it.sparse != nullptr) return sparse_world(it);
  return require(lsched::generate_world(*it.what, it.size, it.data, it.starts));
}

}  // namespace lsched::cli
