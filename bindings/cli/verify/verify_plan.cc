#include "bindings/cli/verify/verify_plan.h"

#include <algorithm>
#include <iterator>

#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/requests/sparse_promises.h"
#include "collectives/requests/world_request.h"
#include "libsched/schedule/draw.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_large_count = 1000;
constexpr std::uint64_t k_seed = 1;
constexpr rank k_most_quadratic = 129;
constexpr rank k_most_with_all_variants = 17;

template <class Value>
std::vector<Value> given_or(const std::vector<Value>& given, std::vector<Value> usual) {
  return given.empty() ? std::move(usual) : given;
}

std::vector<rank> sizes_for(const verify_wish& wish, rank most) {
  if (!wish.sizes.empty()) return wish.sizes;
  std::vector<rank> sizes;
  for (rank size = 1; size <= 65; ++size) sizes.push_back(size);
  sizes.insert(sizes.end(), {96, 100, 127, 128, 129, 255, 256, 1000, 1024, 4096});
  std::erase_if(sizes, [&](rank size) { return size > most; });
  return sizes;
}

/// Returns the activations to verify. They differ in the number of calls that start a round, and in whether some rounds
/// wait for all ranks.
std::vector<activation> activations_for(const std::string& words, rank size) {
  if (!words.empty()) return {activation_of(words, k_seed)};
  const auto ranks = static_cast<std::uint32_t>(size);
  return {{.policy = activation_policy::full, .seed = k_seed},
          {.policy = activation_policy::solo, .seed = k_seed},
          {.policy = activation_policy::majority, .seed = k_seed, .full_every = 8},
          {.policy = activation_policy::quorum, .seed = k_seed, .number = (ranks + 1) / 2},
          {.policy = activation_policy::quorum, .seed = k_seed, .number = (ranks + 1) / 2, .grace_us = 1000},
          {.policy = activation_policy::all_of, .seed = k_seed, .number = ranks, .full_every = 8},
          {.policy = activation_policy::deadline, .seed = k_seed, .number = 1000}};
}

bool is_partial(const verify_case& world) { return world.starts.policy != activation_policy::none; }

// --- dense algorithms --------------------------------------------------------------------------------------

/// Returns true if a round has about P^2 messages and signals. Returns false for an algorithm from a file, whose cost
/// is unknown.
bool has_quadratic_cost(const algorithm& how, rank size, const shape& data, const activation& starts) {
  if (how.custom != nullptr) return false;
  const cost total = cost_of_round(how, size, data, starts);
  return total.messages + total.signals >= wide(size) * wide(size) / 4;
}

/// Considers a world of P = 1024 ranks. Returns true if a round has about P^2 messages, or if the input or output of a
/// rank has about P blocks. Also returns true for an algorithm from a file, because its cost is unknown.
bool is_quadratic(const algorithm& how) {
  constexpr rank k_size = 1024;
  const auto with = [&](std::uint64_t count) { return typical_shape(*how.of, k_size, count, dtype::f32, kernel::sum); };
  const extents of_one = how.of->extents_of({.self = k_size - 1, .size = k_size}, with(1));
  return how.custom != nullptr || has_quadratic_cost(how, k_size, with(k_size), {}) ||
         std::max(of_one.input.value_or(0), of_one.output.value_or(0)) >= k_size / 4;
}

template <class Value>
std::vector<Value> distinct(std::vector<Value> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<std::uint64_t> counts_for(const verify_wish& wish, const algorithm& how, rank size) {
  if (!how.of->moves_data) return {0};
  const std::uint64_t ranks = wide(size);
  std::vector<std::uint64_t> usual{0, 1, ranks - 1, ranks, ranks + 1, k_large_count};
  for (std::uint64_t& count : usual) count = usual_count(how.of->name, how.name, size, count);
  return distinct(given_or(wish.counts, std::move(usual)));
}

/// Returns the roots to verify: the first, a middle and the last rank of a small world, but only a middle rank of a
/// large world. Returns rank 0 if the collective has no root.
std::vector<rank> roots_for(const algorithm& how, rank size) {
  constexpr rank k_small = 16;
  if (!how.of->is_rooted) return {0};
  return size > k_small ? std::vector{size / 2} : distinct<rank>({0, size / 2, size - 1});
}

/// Adds `why` to the objections, unless they already contain it. If the list is full, the new objection replaces the
/// last.
void object(verify_plan& all, const std::string& why) {
  constexpr std::size_t k_most = 8;
  if (std::ranges::find(all.objections, why) != all.objections.end()) return;
  if (all.objections.size() < k_most)
    all.objections.push_back(why);
  else
    all.objections.back() = why;
}

/// Returns all variants of request `next` that its algorithm supports: not in place, and in place if the algorithm can
/// work in place. If validate() refuses a variant, adds the reason to all.objections.
std::vector<verify_case> variants_of(verify_case next, verify_plan& all) {
  std::vector<verify_case> variants;
  for (const bool in_place : {false, true}) {
    if (in_place && !(next.dense->needs.in_place && next.dense->of->moves_data)) continue;
    next.data.in_place = in_place;
    for (shape& data : lsched::variants_of(*next.dense, next.size, next.data)) {
      if (const auto why = validate(*next.dense, {.self = 0, .size = next.size}, data, next.starts)) {
        object(all, why->text);
        continue;
      }
      variants.push_back(next);
      variants.back().data = std::move(data);
    }
  }
  return variants;
}

/// Adds all variants for a small world, and for a world whose size the user has requested. For any other world, adds
/// one variant, which depends on the size, so that every variant is verified at many sizes. If the user has requested
/// no size, variants with quadratic cost are left out above k_most_quadratic ranks.
void add_variants(verify_plan& all, const verify_wish& wish, const verify_case& next) {
  std::vector<verify_case> variants = variants_of(next, all);
  if (wish.sizes.empty() && next.size > k_most_quadratic)
    std::erase_if(variants, [](const verify_case& one) {
      return has_quadratic_cost(*one.dense, one.size, one.data, one.starts);
    });
  if (wish.sizes.empty() && next.size > k_most_with_all_variants && !variants.empty())
    variants = {variants[mix(wide(next.size)) % variants.size()]};
  std::ranges::move(variants, std::back_inserter(all.worlds));
}

/// Returns the requested sizes, or else the usual sizes. For an algorithm from a file, returns only the usual sizes
/// that the algorithm supports, but all usual sizes if it supports none of them.
std::vector<rank> sizes_of(const verify_wish& wish, const algorithm& how) {
  std::vector<rank> all = sizes_for(wish, is_quadratic(how) ? k_most_quadratic : 4096);
  if (how.custom == nullptr || !wish.sizes.empty()) return all;
  std::vector<rank> allowed;
  for (const rank size : all) {
    shape nothing = shape_of(*how.of, size, wish.request_of(0, 0));
    const auto serves = [&](rank root) {
      nothing.root = root;
      return !how.custom->validate(size, nothing);
    };
    if (std::ranges::any_of(roots_for(how, size), serves)) allowed.push_back(size);
  }
  return allowed.empty() ? all : allowed;
}

void plan_dense(verify_plan& all, const verify_wish& wish, const algorithm& how) {
  if (!how.of->activates && !wish.activation.empty()) {
    object(all, std::string(how.of->name) + " has no activation policy");
    return;
  }
  for (const rank size : sizes_of(wish, how))
    for (const std::uint64_t count : counts_for(wish, how, size))
      for (const activation& starts :
           how.of->activates ? activations_for(wish.activation, size) : std::vector<activation>{{}})
        for (const rank root : roots_for(how, size)) {
          verify_case next{.dense = &how, .size = size, .count = count, .starts = starts};
          next.data = shape_of(*how.of, size, wish.request_of(count, root));
          add_variants(all, wish, next);
        }
}

// --- sparse algorithms -------------------------------------------------------------------------------------

/// Adds three cases: `plain`, `plain` with capacity `defer`, and `plain` with reused thresholds and buckets of lists.
/// Omits the second or the third case if its schedules are equal to those of the first.
void add_sparse_variants(std::vector<verify_case>& all, const verify_case& plain) {
  all.push_back(plain);
  verify_case defers = plain, reuses = plain;
  defers.problem.capacity = capacity_policy::defer;
  reuses.problem.selection = selection_rule::reused;
  reuses.problem.bucket = 2;
  for (const verify_case& next : {defers, reuses}) {
    const auto one = next.sparse->generate(plain.problem), other = next.sparse->generate(next.problem);
    if (one && other && **one != **other) all.push_back(next);
  }
}

void plan_sparse(verify_plan& all, const verify_wish& wish, const sparse_algorithm& how, bool is_partial) {
  using counts = std::vector<std::uint64_t>;
  constexpr rank k_size = 1024;
  const bool is_quadratic = how.cost_of({.count = 1000, .k = 10, .place = {0, k_size}}).messages >= k_size;
  for (const rank size : sizes_for(wish, is_partial || is_quadratic ? k_most_quadratic : 1024))
    for (const activation& starts : is_partial ? activations_for(wish.activation, size) : std::vector<activation>{{}}) {
      if (const auto objection = is_partial ? validate(starts, size) : std::nullopt) {
        object(all, objection->text);
        continue;
      }
      for (const std::uint64_t count : given_or(wish.counts, is_partial ? counts{k_large_count} : counts{0, 1, 1000}))
        for (const std::uint64_t k : given_or(wish.items, is_partial ? counts{10} : counts{0, 1, 10})) {
          const sparse_problem problem{.count = count, .k = k, .place = {0, size}};
          add_sparse_variants(
              all.worlds,
              {.sparse = &how, .problem = problem, .size = size, .count = count, .data = {}, .starts = starts});
        }
    }
}

}  // namespace

std::vector<rank> sample_sizes() { return {1, 2, 3, 5, 6, 7, 8, 13, 33}; }

bool includes(const verify_wish& wish, std::string_view collective, std::string_view algorithm) {
  return (wish.collective.empty() || wish.collective == collective) &&
         (wish.algorithm == "all" || wish.algorithm == algorithm);
}

verify_plan plan(const verify_wish& wish) {
  verify_plan all;
  for (const algorithm& how : algorithms())
    if (includes(wish, how.of->name, how.name)) plan_dense(all, wish, how);
  for (const sparse_algorithm& how : sparse_algorithms()) {
    const bool is_meant = includes(wish, k_sparse_allreduce, how.name);
    if (is_meant && wish.activation.empty()) plan_sparse(all, wish, how, false);
    if (is_meant && !wish.activation.empty())
      object(all, std::string(k_sparse_allreduce) + " has no activation policy");
    if (includes(wish, k_partial_sparse_allreduce, how.name)) plan_sparse(all, wish, how, true);
  }
  return all;
}

std::string_view collective_of(const verify_case& world) {
  if (world.sparse == nullptr) return world.dense->of->name;
  return is_partial(world) ? k_partial_sparse_allreduce : k_sparse_allreduce;
}

std::string text_of(const verify_case& world) {
  std::string text(collective_of(world));
  text.append("/").append(world.sparse != nullptr ? world.sparse->name : world.dense->name);
  if (is_partial(world)) text.append(" ").append(words_for(world.starts));
  text += ", " + counted(world.size, "rank");
  if (world.sparse != nullptr)
    return text + ", count " + std::to_string(world.count) + ", k " + std::to_string(world.problem.k) +
           (world.problem.capacity == capacity_policy::defer ? ", defer" : "") +
           (world.problem.selection == selection_rule::reused ? ", reused" : "");
  const shape& data = world.data;
  if (world.dense->of->moves_data) text += ", count " + std::to_string(world.count);
  if (world.dense->of->is_rooted) text += ", root " + std::to_string(data.root);
  if (data.segment != 0) text += ", segments of " + std::to_string(data.segment);
  if (data.radix != 0) text += ", radix " + std::to_string(data.radix);
  if (data.room != 0) text += ", lists of at most " + std::to_string(data.room) + " items";
  if (!data.nodes.empty()) text += std::ranges::is_sorted(data.nodes) ? ", nodes of neighbours" : ", scattered nodes";
  if (!data.buckets.empty()) text += ", " + std::to_string(data.buckets.size()) + " buckets";
  if (data.is_mean) text += ", means";
  if (!data.is_visible) text += ", staged";
  return text + (data.in_place ? ", in place" : "");
}

postcondition promise_of(const verify_case& world) {
  if (world.sparse == nullptr) return lsched::promise_of(*world.dense, world.size, world.data, world.starts);
  return is_partial(world) ? promise_of_partial_sparse(world.problem, world.starts) : promise_of_sparse(world.problem);
}

verify_options options_of(const verify_case& world) {
  if (world.sparse != nullptr) return {};
  return {.in_place = aliasing_of(*world.dense->of, world.size, world.data)};
}

result<std::vector<schedule_ptr>> generate_world(const verify_case& world) {
  if (world.sparse == nullptr) return lsched::generate_world(*world.dense, world.size, world.data, world.starts);
  std::vector<schedule_ptr> ranks;
  sparse_problem problem = world.problem;
  for (rank self = 0; self < world.size; ++self) {
    problem.place.self = self;
    auto made = is_partial(world) ? partial_sparse_allreduce(*world.sparse, problem, world.starts)
                                  : world.sparse->generate(problem);
    if (!made) return made.error();
    ranks.push_back(std::move(*made));
  }
  return ranks;
}

}  // namespace lsched::cli
