// Tests the real engine over the transport inproc, in random orders that a seed determines. The tests cover every
// registered algorithm, ordinary and partial, on up to 1024 ranks. Most worlds are small, because small worlds show the
// same bugs and run fast.
//
// A failure prints the seed of the run. LSCHED_TEST_MODEL_SEED=<seed> runs only that seed.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "bindings/environment.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "libsched/schedule/draw.h"
#include "tests/support/enough_callers.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/promised_outputs.h"
#include "tests/support/symbolic_world.h"

namespace lsched {
namespace {

using testing::lockstep_world;
using value = std::int64_t;

/// The random numbers that a seed determines.
struct draws {
  explicit draws(std::uint64_t from) : seed(from) {}
  std::uint64_t below(std::uint64_t limit) { return mix(mix(seed) + ++count) % limit; }
  std::uint64_t seed;
  std::uint64_t count = 0;
};

/// Returns a random number of ranks, usually up to 8. In one of 100 cases, the result is up to 64, and in one of
/// `one_in` cases up to 1024.
rank draw_size(draws& of, std::uint64_t one_in) {
  if (of.below(one_in) == 0) return static_cast<rank>(65 + of.below(960));
  if (of.below(100) == 0) return static_cast<rank>(9 + of.below(56));
  return static_cast<rank>(1 + of.below(8));
}

activation draw_activation(draws& of, rank size) {
  constexpr activation_policy k_policies[] = {activation_policy::full,     activation_policy::solo,
                                              activation_policy::majority, activation_policy::first_of,
                                              activation_policy::all_of,   activation_policy::quorum};
  activation starts{.policy = k_policies[of.below(std::size(k_policies))], .seed = of.seed};
  if (has_number(starts.policy))
    starts.number = static_cast<std::uint32_t>(1 + of.below(static_cast<std::uint64_t>(size)));
  if (of.below(2) == 0) starts.full_every = 1 + of.below(3);
  if (starts.policy == activation_policy::quorum && of.below(2) == 0)
    starts.grace_us = static_cast<std::uint32_t>(1 + of.below(50));
  return starts;
}

/// Returns the algorithms that combine integers. tests/collectives/adasum_test.cc tests adaptive sums.
const std::vector<const algorithm*>& whole_number_algorithms() {
  static const std::vector<const algorithm*> all = [] {
    std::vector<const algorithm*> some;
    for (const algorithm& it : algorithms())
      if (!it.of->adapts) some.push_back(&it);
    return some;
  }();
  return all;
}

/// A schedule of one algorithm on every rank, the data of all ranks, and a record of all offers.
class random_run {
 public:
  /// `spoil`, if not null, replaces the schedule of every rank.
  random_run(draws& of, rank size, schedule_ptr (*spoil)(const schedule_ptr&) = nullptr)
      : draws_(of),
        spoil_(spoil),
        what_(*whole_number_algorithms()[of.below(whole_number_algorithms().size())]),
        shared_(index(size)),
        world_(size, of.seed),
        pending_(index(size)),
        sums_(index(size)) {
    data_ = typical_shape(*what_.of, size, of.below(4), dtype::i64, kernel::sum);
    if (what_.of->is_rooted) data_.root = static_cast<rank>(of.below(static_cast<std::uint64_t>(size)));
    if (what_.of->activates) {
      starts_ = draw_activation(of, size);
    } else {
      data_.in_place = what_.of->moves_data && what_.needs.in_place && of.below(2) == 0;
    }
    in_place_ = aliasing_of(*what_.of, size, data_);
    for (rank r = 0; r < size; ++r) {
      const extents buffers = what_.of->extents_of({r, size}, data_);
      inputs_.emplace_back(buffers.input.value_or(0));
      outputs_.emplace_back(buffers.output.value_or(0));
      if (in_place_.exists() && buffers.input && buffers.output)
        shared_[index(r)].emplace(std::max(input_begin(r) + *buffers.input, output_begin(r) + *buffers.output));
    }
    promise_ = what_.of->contents_of(size, data_);
  }

  std::string name() const {
    return std::string(what_.of->name) + "/" + std::string(what_.name) + " " + words_for(starts_) + ", " +
           std::to_string(world_.size()) + " ranks, count " + std::to_string(data_.count) +
           (data_.in_place ? ", in place" : "");
  }

  rank size() const { return world_.size(); }
  const algorithm& which() const { return what_; }
  std::uint64_t rounds() const { return its_[0]->finished.load(); }

  bool run() {
    if (const auto why = validate(what_, {0, world_.size()}, data_, starts_)) return blame(why->text.c_str());
    its_ = world_.commit([this](rank r) { return request(r); });
    if (its_.empty()) return false;
    if (world_.size() > 2 && draws_.below(2) == 0) world_.set_pace(draw_rank(), 8);  // slows a random rank down
    const std::uint64_t rounds = world_.size() > 64 ? 2 : 3;
    for (round_no round = 1; round <= rounds; ++round)
      if (!(what_.of->activates ? partial_round(round) : ordinary_round())) return false;
    return !what_.of->activates || check_ledger();
  }

 private:
  static std::byte* bytes_at(value* from) { return reinterpret_cast<std::byte*>(from); }
  static std::byte* bytes_of(std::vector<value>& from) { return bytes_at(from.data()); }
  static std::size_t index(std::int64_t r) { return static_cast<std::size_t>(r); }
  rank draw_rank() { return static_cast<rank>(draws_.below(its_.size())); }

  // --- memory: in an in-place run, input and output of a rank share memory ---------------------------------

  std::size_t input_begin(rank r) const { return index(std::max<std::int64_t>(0, in_place_.offset_at(r))); }
  std::size_t output_begin(rank r) const { return index(std::max<std::int64_t>(0, -in_place_.offset_at(r))); }
  value* input_at(rank r) {
    auto& shared = shared_[index(r)];
    return shared ? shared->data() + input_begin(r) : inputs_[index(r)].data();
  }
  value* output_at(rank r) {
    auto& shared = shared_[index(r)];
    return shared ? shared->data() + output_begin(r) : outputs_[index(r)].data();
  }

  commit_request request(rank r) {
    commit_request wanted{"random", what_.generate({r, world_.size()}, data_, starts_)};
    wanted.options.lag = lag_policy::accumulate;
    if (spoil_ != nullptr && wanted.program) wanted.program = spoil_(*wanted.program);
    if (wanted.program && !(*wanted.program)->is_partial()) {
      const schedule& program = **wanted.program;
      if (count_of(program, buffer_role::input) > 0) wanted.memory.inputs = {bytes_at(input_at(r))};
      if (count_of(program, buffer_role::output) > 0) wanted.memory.outputs = {bytes_at(output_at(r))};
    }
    return wanted;
  }

  // --- ordinary: all ranks start, and all results fulfil the postcondition -----------------------------------

  bool ordinary_round() {
    for (auto& input : inputs_)
      for (value& one : input) one = static_cast<value>(draws_.below(1000));
    for (rank r = 0; r < world_.size(); ++r)
      if (shared_[index(r)]) std::ranges::copy(inputs_[index(r)], input_at(r));
    if (!world_.run_round(its_)) return false;
    for (rank r = 0; r < world_.size(); ++r)
      if (shared_[index(r)]) std::copy_n(output_at(r), outputs_[index(r)].size(), outputs_[index(r)].begin());
    const std::string broken = testing::broken_promise(promise_, inputs_, outputs_);
    return broken.empty() || blame(broken.c_str());
  }

  // --- partial: offers and calls at any time, and in the end each offer was included in exactly one round ---

  bool partial_round(round_no round) {
    const std::vector<bool> sure =
        testing::enough_callers(starts_, round, world_.size(), its_[0]->present, draw_rank());
    for (rank r = 0; r < world_.size(); ++r) {
      if (draws_.below(2) == 0) offer(r);
      if (sure[index(r)] || draws_.below(3) == 0) call(r, round);
      for (std::uint64_t steps = draws_.below(4); steps > 0; --steps) world_.step();
      if (draws_.below(8) == 0) offer(r);
      if (draws_.below(4) == 0) collect(r);
    }
    const auto is_over = [round](const instance* it) { return it->finished >= round; };
    return world_.run_until([&] { return std::ranges::all_of(its_, is_over); });
  }

  void call(rank r, round_no round) {
    instance& it = *its_[index(r)];
    if (it.called < round) it.called.store(round);
    world_.at(r).post(it);
  }

  void offer(rank r) {
    const auto drawn = static_cast<value>(draws_.below(1000));
    std::ranges::fill(inputs_[index(r)], drawn);
    its_[index(r)]->partial->fragments.front().offers->offer(bytes_of(inputs_[index(r)]));
    offered_ += drawn;
    ++pending_[index(r)];
  }

  void collect(rank r) {
    auto& output = outputs_[index(r)];
    std::ranges::fill(output, 0);
    if (const auto what = its_[index(r)]->partial->fragments.front().results->collect(bytes_of(output))) {
      pending_[index(r)] -= what->mine;
      for (std::size_t i = 0; i < output.size(); i += data_.count) sums_[index(r)] += output[i];  // one item per block
    }
  }

  bool check_ledger() {
    value withdrawn = 0;
    for (rank r = 0; r < world_.size(); ++r) {
      collect(r);
      if (const auto rest = its_[index(r)]->partial->fragments.front().offers->capture().buffer) {
        const auto& left = its_[index(r)]->partial->fragments.front().offers->at(*rest);
        pending_[index(r)] -= left.offers;
        if (data_.count > 0) withdrawn += *reinterpret_cast<const value*>(left.data);
      }
      if (pending_[index(r)] != 0) return blame("offers are lost or counted twice");
    }
    if (data_.count == 0) return true;
    for (const value sum : sums_)
      if (sum != offered_ - withdrawn) return blame("not the sum of what was offered");
    return true;
  }

  bool blame(const char* what) {
    ADD_FAILURE() << what << "; " << world_.describe();
    return false;
  }

  draws& draws_;
  schedule_ptr (*spoil_)(const schedule_ptr&);
  const algorithm& what_;
  shape data_{};
  activation starts_{};
  aliasing in_place_{};
  std::vector<std::vector<value>> inputs_, outputs_;       ///< input and output of each rank
  std::vector<std::optional<std::vector<value>>> shared_;  ///< memory that the input and the output of each rank share;
                                                           ///< empty without sharing
  postcondition promise_;
  lockstep_world world_;
  std::vector<instance*> its_;
  std::vector<std::uint64_t> pending_;  ///< number of each rank's offers that no result includes yet
  std::vector<value> sums_;             ///< sum of all results of each rank
  value offered_ = 0;
};

/// Figures about the completed runs. A test checks that the runs cover all algorithms.
struct coverage {
  rank largest = 0;
  std::map<const algorithm*, std::uint64_t> rounds;
};

bool run_seed(std::uint64_t seed, std::uint64_t one_in, coverage& of_all) {
  draws of(seed);
  random_run one(of, draw_size(of, one_in));
  const std::string text = "LSCHED_TEST_MODEL_SEED=" + std::to_string(seed) + ": " + one.name();
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, text);
  if (!one.run() || ::testing::Test::HasFailure()) return false;
  of_all.largest = std::max(of_all.largest, one.size());
  of_all.rounds[&one.which()] += one.rounds();
  return true;
}

void run_seeds(std::uint64_t first, std::uint64_t count, std::uint64_t one_in) {
  coverage of_all;
  const auto wish = number_in_environment("LSCHED_TEST_MODEL_SEED", 1);
  ASSERT_TRUE(wish) << wish.error().text;
  if (*wish) {
    EXPECT_TRUE(run_seed(static_cast<std::uint64_t>(**wish), one_in, of_all));
    return;
  }
  for (std::uint64_t seed = first; seed < first + count; ++seed) ASSERT_TRUE(run_seed(seed, one_in, of_all));
  EXPECT_GT(of_all.largest, 512);
  const std::size_t algorithms = whole_number_algorithms().size();
  EXPECT_EQ(of_all.rounds.size(), algorithms);
  for (const auto& [which, rounds] : of_all.rounds) EXPECT_GT(rounds, count / algorithms) << which->name;
}

TEST(random_engine, runs_every_algorithm_in_thousands_of_orders) { run_seeds(1, 4'000, 1000); }

// Both tests draw the same sizes from a seed, so either test can replay a seed.
TEST(random_engine_soak, runs_every_algorithm_in_a_million_orders) { run_seeds(10'001, 1'000'000, 1000); }

void run_a_seed_that_is_none() {
  const char* const before = std::getenv("LSCHED_TEST_MODEL_SEED");
  const std::string kept = before == nullptr ? "" : before;
  setenv("LSCHED_TEST_MODEL_SEED", "abc", 1);
  run_seeds(1, 1, 1000);
  before == nullptr ? unsetenv("LSCHED_TEST_MODEL_SEED") : setenv("LSCHED_TEST_MODEL_SEED", kept.c_str(), 1);
}

TEST(random_engine, a_seed_that_is_no_number_is_an_error) {
  EXPECT_FATAL_FAILURE(run_a_seed_that_is_none(), "LSCHED_TEST_MODEL_SEED is \"abc\", not a whole number");
}

// --- planted bugs ----------------------------------------------------------------------------------------------------

/// Returns a copy of the schedule in which the last sum is replaced by a maximum.
schedule_ptr with_a_maximum(const schedule_ptr& good) {
  for (op_id id = static_cast<op_id>(good->ops().size()); id-- > 0;)
    if (good->ops()[id].what == kernel::sum && good->ops()[id].kind == op_kind::compute)
      return testing::with_op(*good, id, [](op& it) { it.what = kernel::max; });
  return good;
}

void run_non_finite_seeds() {
  for (std::uint64_t seed = 1; seed < 100; ++seed) {
    draws of(seed);
    random_run one(of, static_cast<rank>(2 + of.below(4)), with_a_maximum);
    if (!one.run()) return;
  }
}

TEST(random_engine_bug, a_wrong_result_is_caught) { EXPECT_NONFATAL_FAILURE(run_non_finite_seeds(), ", not "); }

}  // namespace
}  // namespace lsched
