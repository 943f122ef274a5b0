#include "tests/verify_oracle/mutant.h"
#include "collectives/requests/sample_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "collectives/registry.h"
#include "libsched/verify/world_key.h"
#include "tests/support/list_gather.h"
#include "tests/support/sampling.h"
#include "tests/verify_oracle/interleavings.h"
#include "tests/verify_oracle/mutant_trial.h"

namespace lsched::testing {
namespace {

struct subject {
  std::string name;
  std::vector<schedule_ptr> world;
  postcondition promise;
  verify_options options;
};

enum class breadth { usual, every_variant };

/// Returns the cache of proof results that all worlds share. A cached result of one world must not hide a fault in
/// another world.
verify_memo& known_of_all() {
  static verify_memo known;
  return known;
}

/// Returns one world for each kind of request for which the algorithm generates different ops.
std::vector<subject> subjects_of(const algorithm& it, rank size, dtype type = dtype::f32,
                                 breadth how_many = breadth::usual) {
  std::vector<subject> all;
  const auto add_one = [&](const activation& starts, const shape& data, std::size_t variant) {
    subject one{std::string(it.of->name) + "/" + std::string(it.name) + " " + words_for(starts) +
                    (data.in_place ? " in place" : "") + " P=" + std::to_string(size) + " variant " +
                    std::to_string(variant),
                {},
                promise_of(it, size, data, starts),
                {.in_place = aliasing_of(*it.of, size, data), .known = &known_of_all()}};
    for (rank self = 0; self < size; ++self) one.world.push_back(*it.generate({self, size}, data, starts));
    all.push_back(std::move(one));
  };
  const auto add = [&](const activation& starts, bool in_place) {
    shape data = typical_shape(*it.of, size, static_cast<std::uint64_t>(size) + 2, type, kernel::sum);
    data.in_place = in_place;
    if (how_many == breadth::usual) return add_one(starts, data, 0);
    const std::vector<shape> variants = variants_of(it, size, data);
    for (std::size_t i = 0; i < variants.size(); ++i)
      if (!validate(it, {0, size}, variants[i], starts)) add_one(starts, variants[i], i);
  };
  if (!it.of->activates) add({}, false);
  if (!it.of->activates && it.of->moves_data && it.needs.in_place) add({}, true);
  if (it.of->activates)
    for (const char* words : {"full", "solo+every(3)", "all_of(2)+every(3)"})
      if (const auto starts = read_activation(words); !validate(*starts, size)) add(*starts, false);
  if (it.of->activates && how_many == breadth::every_variant)
    for (const char* words : {"solo", "majority+every(8)", "quorum(2)", "quorum(1)+grace(9)", "quorum(2)+grace(9)"})
      if (const auto starts = read_activation(words); !validate(*starts, size)) add(*starts, false);
  return all;
}

std::vector<subject> all_subjects(rank size, breadth how_many = breadth::usual) {
  std::vector<subject> all;
  for (const algorithm& it : algorithms())
    for (subject& one : subjects_of(it, size, dtype::f32, how_many)) all.push_back(std::move(one));
  all.push_back({"list_gather P=" + std::to_string(size), list_gather_world(size), all_lists(size), {}});
  return all;
}

subject recursive_doubling(rank size, bool in_place) {
  return subjects_of(*find("allreduce", "recursive_doubling"), size)[in_place ? 1 : 0];
}

/// Returns a draft without the fields that are derived from other fields.
draft plain(const schedule& from) {
  draft it = draft_of(from);
  for (op& what : it.head.ops) {
    what.in_place = false;
    what.releases_a = what.releases_b = k_no_op;
  }
  return it;
}

/// Restores the fields of a mutant's op that the mutation may change. If the op then equals the original, the mutation
/// has changed no other field.
void forget(mutation how, op& it, const op& original) {
  if (how == mutation::drop_dep || how == mutation::lose_signal || how == mutation::change_need)
    it.need = original.need;
  if (how == mutation::change_guard) it.guard = original.guard;
  if (how == mutation::swap_peers) it.peer = original.peer;
  if (how == mutation::merge_tags) it.tag = original.tag;
  if (how == mutation::change_kernel && is_function(it.what))
    it.b = original.b, it.s = original.s, it.tag = original.tag;
  if (how == mutation::change_kernel) it.what = original.what;
  if (how == mutation::change_extent) it.count = original.count;
  if (how == mutation::shift_offset) it.a = original.a, it.b = original.b, it.c = original.c, it.s = original.s;
}

std::size_t changed_ops(mutation how, const draft& before, draft after) {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.head.ops.size(); ++i) {
    if (after.head.ops[i] != before.head.ops[i]) ++changed;
    forget(how, after.head.ops[i], before.head.ops[i]);
    const bool is_comparable = how != mutation::exchange_order && after.head.ops[i].kind == before.head.ops[i].kind;
    EXPECT_TRUE(!is_comparable || after.head.ops[i] == before.head.ops[i]) << "op " << i;
  }
  return changed;
}

/// Checks that the change in a rank's schedule is allowed for this mutation.
void expect_what_it_says(mutation how, const draft& before, const draft& after) {
  if (how == mutation::insert_op || how == mutation::multiply) {
    const std::size_t extra = after.head.ops.size() - before.head.ops.size();
    EXPECT_EQ(after.deps.size(), before.deps.size() + extra);
    EXPECT_EQ(after.head.buffers.size(), before.head.buffers.size() + (extra == 1 || extra == 61 ? 0 : 1));
    EXPECT_TRUE(how == mutation::multiply ? extra == 61 || extra == 1 + 64 + 2 * 61 : extra == 1 || extra == 2);
    return;
  }
  if (how == mutation::duplicate) {
    EXPECT_EQ(after.head.ops.size(), before.head.ops.size() + 1);
    EXPECT_GE(after.deps.size(), before.deps.size());
    return;
  }
  ASSERT_EQ(after.head.ops.size(), before.head.ops.size());
  const std::size_t lost_deps = before.deps.size() - after.deps.size();
  const std::size_t changed = changed_ops(how, before, after);
  switch (how) {
    case mutation::drop_dep:
      EXPECT_EQ(lost_deps, 1u);
      EXPECT_LE(changed, 1u);
      break;
    case mutation::lose_signal: EXPECT_EQ(lost_deps + (changed == 1 && lost_deps == 0 ? 1 : 0), 1u); break;
    case mutation::swap_peers:
      EXPECT_EQ(lost_deps, 0u);
      EXPECT_EQ(changed, 2u);
      break;
    case mutation::exchange_order:
      EXPECT_EQ(lost_deps, 0u);
      EXPECT_LE(changed, 2u);
      break;
    case mutation::change_extent:  // may change an op, or the lists in a buffer
      EXPECT_EQ(lost_deps, 0u);
      EXPECT_EQ(changed + (before.head.buffers != after.head.buffers ? 1 : 0), 1u);
      break;
    case mutation::change_kernel:  // may change an op, the parameters of a compute, or, for a function, both
      EXPECT_EQ(lost_deps, 0u);
      EXPECT_TRUE(changed == 1 || (changed == 0 && before.head.parameters != after.head.parameters));
      break;
    default:
      EXPECT_EQ(lost_deps, 0u);
      EXPECT_EQ(changed + (before.head.parameters != after.head.parameters ? 1 : 0), 1u);
  }
}

TEST(mutant, a_draft_is_the_schedule_it_was_made_of) {
  for (const rank size : {1, 2, 3, 5, 8})
    for (const subject& it : all_subjects(size))
      for (const schedule_ptr& program : it.world) EXPECT_EQ(*schedule_of(draft_of(*program)), *program) << it.name;
}

TEST(mutant, each_operator_changes_what_it_says_and_nothing_else) {
  std::map<mutation, std::size_t> seen;
  for (const subject& it : all_subjects(5)) {
    const mutant_list list(it.world);
    for (std::size_t k = 0; k < list.size(); ++k) {
      SCOPED_TRACE(it.name + ": " + list.name(k));
      const auto world = list.world(k);
      ++seen[list.how(k)];
      for (std::size_t r = 0; r < world.size(); ++r)
        if (world[r] != it.world[r]) expect_what_it_says(list.how(k), plain(*it.world[r]), plain(*world[r]));
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(seen.size(), k_all_mutations.size());
}

TEST(mutant, the_enumeration_is_the_same_every_time_and_names_are_unique) {
  for (std::size_t i = 0; i < all_subjects(3).size(); ++i) {
    const mutant_list once(all_subjects(3)[i].world), again(all_subjects(3)[i].world);
    std::set<std::string> names;
    ASSERT_EQ(once.size(), again.size());
    for (std::size_t k = 0; k < once.size(); ++k) {
      EXPECT_EQ(once.name(k), again.name(k));
      EXPECT_TRUE(names.insert(once.name(k)).second) << once.name(k);
      const auto content = [](const schedule_ptr& it) -> const schedule& { return *it; };
      EXPECT_TRUE(std::ranges::equal(once.world(k), again.world(k), {}, content, content));
    }
  }
}

TEST(mutant, has_another_key_than_the_world_it_was_made_of) {
  std::size_t keys = 0;
  for (const rank size : {3, 5})
    for (const subject& it : all_subjects(size)) {
      const auto original = key_of(it.world, it.promise, it.options.in_place);
      const mutant_list list(it.world);
      for (std::size_t k = 0; original && k < list.size(); ++k) {
        const auto world = list.world(k);
        const auto content = [](const schedule_ptr& program) -> const schedule& { return *program; };
        if (std::ranges::equal(world, it.world, {}, content, content)) continue;  // equal ops were exchanged
        const auto changed = key_of(world, it.promise, it.options.in_place);
        ++keys;
        EXPECT_TRUE(!changed || changed->hash != original->hash) << it.name << ": " << list.name(k);
      }
    }
  EXPECT_GT(keys, 1000u);
}

// --- the trial ---------------------------------------------------------------------------------------------

trial try_changed(const subject& it, rank who, const std::function<void(draft&)>& change) {
  std::vector<schedule_ptr> world = it.world;
  draft changed = draft_of(*world[static_cast<std::size_t>(who)]);
  change(changed);
  world[static_cast<std::size_t>(who)] = schedule_of(std::move(changed));
  return try_mutant(world, it.world, it.promise, it.options);
}

TEST(mutant_trial, no_change_is_equivalent) {
  EXPECT_EQ(try_changed(recursive_doubling(3, false), 1, [](draft&) {}).what, fate::equivalent);
}

TEST(mutant_trial, a_dep_that_others_imply_is_equivalent) {
  const trial verdict = try_changed(recursive_doubling(2, false), 0, [](draft& it) {
    it.deps.emplace_back(0, it.head.exit);
    std::sort(it.deps.begin(), it.deps.end());
    it.deps.erase(std::unique(it.deps.begin(), it.deps.end()), it.deps.end());
    it.head.ops[it.head.exit].need =
        static_cast<std::uint32_t>(std::ranges::count(it.deps, it.head.exit, &std::pair<op_id, op_id>::second));
  });
  EXPECT_EQ(verdict.what, fate::equivalent) << verdict.why;
}

TEST(mutant_trial, another_kernel_is_killed) {
  const trial verdict = try_changed(recursive_doubling(2, false), 1, [](draft& it) {
    for (op& what : it.head.ops)
      if (what.kind == op_kind::compute) what.what = kernel::max;
  });
  EXPECT_EQ(verdict.what, fate::killed);
  EXPECT_FALSE(verdict.why.empty());
}

/// An earlier version of verify() accepted this mutant. If no op waits for a signal receive, the round may end before
/// the signal has arrived.
TEST(mutant_trial, an_exit_that_does_not_wait_for_a_signal_is_killed) {
  const subject barrier = subjects_of(*find("barrier", "dissemination"), 2).front();
  const trial verdict = try_changed(barrier, 0, [](draft& it) {
    std::erase(it.deps, std::pair<op_id, op_id>(1, it.head.exit));
    it.head.ops[it.head.exit].need = 1;
  });
  EXPECT_EQ(verdict.what, fate::killed);
  EXPECT_NE(verdict.why.find("may end its round before rank 1 has entered the round"), std::string::npos)
      << verdict.why;
}

/// An earlier version of verify() accepted this mutant, too.
TEST(mutant_trial, a_gate_that_does_not_wait_for_the_call_is_killed) {
  const subject full = subjects_of(*find("partial_allreduce", "tree"), 3).front();
  const trial verdict = try_changed(full, 2, [](draft& it) { it.head.ops[0] = {}; });
  EXPECT_EQ(verdict.what, fate::killed);
  EXPECT_NE(verdict.why.find("may capture before the application has called"), std::string::npos) << verdict.why;
}

/// Tries every mutant with other deps on the coordinator, which alone has ops for the grace.
TEST(mutant_trial, no_fault_of_a_grace_survives) {
  std::map<fate, std::size_t> fates;
  for (const auto& [size, words] :
       {std::pair(2, "quorum(1)+grace(9)"), {3, "quorum(1)+grace(9)+every(2)"}, {3, "quorum(2)+grace(9)"}}) {
    const algorithm& tree = *find("partial_allreduce", "tree");
    const shape data = typical_shape(*tree.of, size, 2, dtype::f32, kernel::sum);
    const activation starts = *read_activation(words);
    const auto world = *generate_world(tree, size, data, starts);
    const postcondition promise = promise_of(tree, size, data, starts);
    const mutant_list list(world);
    for (std::size_t k = 0; k < list.size(); ++k) {
      const auto mutated = list.world(k);
      const bool is_deps = list.how(k) == mutation::drop_dep || list.how(k) == mutation::change_need ||
                           list.how(k) == mutation::lose_signal;
      if (!is_deps || mutated[k_coordinator] == world[k_coordinator]) continue;
      const trial verdict = try_mutant(mutated, world, promise, {});
      ++fates[verdict.what];
      EXPECT_TRUE(verdict.what == fate::killed || verdict.what == fate::equivalent)
          << words << ": " << list.name(k) << ": " << verdict.why;
    }
  }
  EXPECT_GT(fates[fate::killed], 60u);
  std::cout << fates[fate::killed] << " killed, " << fates[fate::equivalent] << " equivalent\n";
}

/// If verify() accepted a mutant that breaks the postcondition, the check of all interleavings would still reject the
/// mutant.
TEST(mutant_trial, what_breaks_the_promise_is_never_equivalent) {
  const subject it = recursive_doubling(2, true);
  const mutant_list list(it.world);
  std::size_t broken = 0;
  for (std::size_t k = 0; k < list.size(); ++k) {
    const auto world = list.world(k);
    if (play(world, it.promise, {.in_place = true}).what != conclusion::fails) continue;
    ++broken;
    EXPECT_EQ(try_mutant(world, it.world, it.promise, it.options).what, fate::killed) << list.name(k);
  }
  EXPECT_GT(broken, 20u);
}

/// Tries every `step`-th mutant in which ops are inserted or replaced by functions. Expects that verify() rejects the
/// mutants whose outputs have additional or repeated content. Returns the number of mutants that are wrong in at least
/// one order of events.
std::size_t expect_no_inserted_op_unseen(const std::vector<rank>& sizes, std::size_t step) {
  std::size_t wrong = 0, number = 0;
  for (const rank size : sizes)
    for (const algorithm& of : algorithms())
      for (const dtype type : {dtype::f32, dtype::f64, dtype::i32, dtype::u64}) {
        if (of.of->adapts && !is_floating(type)) continue;
        for (const subject& it : subjects_of(of, size, type)) {
          const mutant_list list(it.world);
          for (std::size_t k = 0; k < list.size(); ++k) {
            const bool is_by_function =
                list.how(k) == mutation::change_kernel && list.name(k).find(" is a ") != std::string::npos;
            const bool is_new =
                list.how(k) == mutation::insert_op || list.how(k) == mutation::multiply || is_by_function;
            if (!is_new || number++ % step != 0) continue;
            const auto world = list.world(k);
            if (play(world, it.promise, {.in_place = it.options.in_place}).what != conclusion::fails) continue;
            ++wrong;
            EXPECT_FALSE(verify(world, it.promise, it.options).holds()) << it.name << ", " << list.name(k);
          }
        }
      }
  std::cout << wrong << " of " << (number + step - 1) / step << " mutants are wrong\n";
  return wrong;
}

TEST(mutant_trial, no_op_is_inserted_unseen) { EXPECT_GT(expect_no_inserted_op_unseen({3, 2}, 101), 500u); }

TEST(mutant_trial, soak_no_op_is_inserted_unseen) { EXPECT_GT(expect_no_inserted_op_unseen({3, 5, 2}, 1), 300000u); }

/// Tries every `step`-th mutant of every subject of these sizes. Mutants with inserted ops are numerous, so the test
/// tries only one of 16.
void expect_no_survivor(const std::vector<rank>& sizes, std::size_t step, breadth how_many = breadth::usual) {
  std::map<fate, std::size_t> fates;
  for (const rank size : sizes)
    for (const subject& it : all_subjects(size, how_many)) {
      const mutant_list list(it.world);
      for (std::size_t k = 0; k < list.size(); k += step) {
        const bool is_one_of_many = list.how(k) == mutation::insert_op || list.how(k) == mutation::multiply;
        if (is_one_of_many && k % 16 != 0) continue;
        const trial verdict = try_mutant(list.world(k), it.world, it.promise, it.options);
        ++fates[verdict.what];
        EXPECT_NE(verdict.what, fate::survived)
            << it.name << ", mutant " << k << ", " << list.name(k) << ": " << verdict.why;
      }
    }
  EXPECT_GT(2 * fates[fate::killed], fates[fate::equivalent]);  // other deps imply most deps of an exit
}

TEST(mutant_trial, a_sample_has_no_survivor) { expect_no_survivor({2, 3, 5, 8}, 307); }

TEST(mutant_trial, soak_all_have_no_survivor) { expect_no_survivor({2, 3, 5, 6, 7, 8}, 1); }

TEST(mutant_trial, soak_all_of_every_variant_of_few_ranks_have_no_survivor) {
  expect_no_survivor({2, 3, 5}, 1, breadth::every_variant);
}

TEST(mutant_trial, soak_some_of_every_variant_of_8_ranks_have_no_survivor) {
  expect_no_survivor({8}, 11, breadth::every_variant);
}

}  // namespace
}  // namespace lsched::testing
