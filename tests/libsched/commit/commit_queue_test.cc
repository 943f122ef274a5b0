// Tests of commits that this rank gives up. As with several hosts, the board decides the commit only some time after
// give_up().
#include "libsched/commit/commit_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "libsched/schedule/builder.h"
#include "tests/support/lockstep_world.h"

namespace lsched {
namespace {

using testing::lockstep_world;

/// The board of a world with one rank. After give_up(), gather() returns `pending` for `calls` calls, and then the
/// decision.
class late_board final : public board {
 public:
  late_board(status decision, int calls) : decision_(decision), left_(calls) {}

  member_address address() const override { return {}; }
  std::uint64_t number() const override { return 1; }
  status join(std::span<const rank>, std::span<const member_address>) override { return status::ok; }
  void offer(std::uint64_t, std::span<const rank>) override {}
  status meet(rank*) override { return status::ok; }
  bool withdraw() override { return true; }
  status post(std::span<const std::byte> record, rank*) override {
    std::ranges::fill(record_, std::byte{});
    std::ranges::copy(record, record_.begin());
    return status::ok;
  }
  status gather(std::span<std::byte> all, rank* missing) override {
    *missing = 0;
    if (!is_given_up_ || left_-- > 0) return status::pending;
    std::ranges::copy(record_, all.begin());
    return decision_;
  }
  void give_up(rank) override { is_given_up_ = true; }

 private:
  status decision_;
  int left_;
  bool is_given_up_ = false;
  std::array<std::byte, record_bytes> record_{};
};

struct commit_bench {
  commit_bench(status decision, int calls)
      : queue(world.at(0), std::make_shared<const membership>(world.at(0).net().place()),
              std::make_unique<late_board>(decision, calls)) {}

  std::shared_ptr<schedule_commit> add(std::size_t flights) {
    builder b({0, 1});
    const buffer_id in = b.input(dtype::i32, 4), out = b.output(dtype::i32, 4);
    b.divide({in, 0}, {out, 0}, 4, 2);
    const commit_request what{"copy", b.compile(), {{memory}, {memory + 16}}, {}, {}, flights};
    auto made = std::make_shared<schedule_commit>(world.at(0), queue.members(), queue.next_number(), what);
    queue.add(made);
    return made;
  }
  /// Gives up a commit as joined_world does.
  void give_up(schedule_commit& late) {
    (void)queue.give_up(late);
    if (!late.progress().has_ended()) late.abandon();
  }
  bool end_all() {
    return world.run_until([this] { return queue.is_over(); });
  }
  std::size_t instances() { return world.at(0).instance_count(); }

  std::byte memory[32]{};
  lockstep_world world{1, 1};
  commit_queue queue;
};

TEST(commit_queue, a_commit_that_was_given_up_frees_its_instances_in_every_step_in_which_it_may_end) {
  for (const status decision : {status::timeout, status::ok})
    for (int calls = 1; calls < 8; ++calls) {
      commit_bench it(decision, calls);
      const auto made = it.add(4);
      EXPECT_EQ(it.instances(), 4u);
      it.give_up(*made);
      ASSERT_TRUE(it.end_all());
      EXPECT_EQ(it.instances(), 0u) << name_of(decision) << " in call " << calls;
    }
}

TEST(commit_queue, a_commit_that_was_given_up_behind_another_one_frees_its_instances) {
  for (const std::size_t flights : {1u, 2u, 3u}) {
    commit_bench it(status::ok, 3);
    const auto first = it.add(1);
    for (int again = 0; again < 2; ++again) it.give_up(*it.add(flights));
    EXPECT_FALSE(first->progress().has_ended());
    it.give_up(*first);
    ASSERT_TRUE(it.end_all());
    EXPECT_EQ(it.instances(), 0u) << flights;
  }
}

}  // namespace
}  // namespace lsched
