#include "tests/support/lockstep_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "libsched/schedule/draw.h"

namespace lsched::testing {

lockstep_world::lockstep_world(rank ranks, std::uint64_t seed, inproc_options net, lanes which)
    : seed_(seed), net_(ranks, mix(seed), net), pace_(static_cast<std::size_t>(ranks), 1), is_dead_(pace_.size()) {
  for (rank r = 0; r < ranks; ++r) {
    ends_.push_back(std::move(*net_.open(r)));
    const std::uint64_t lot = mix(mix(seed) ^ static_cast<std::uint64_t>(r));
    const bool has_lane = which == lanes::all || (which == lanes::drawn && lot % 2 == 0);
    lanes_.push_back(has_lane ? std::make_unique<fake_lane>(lot) : nullptr);
    engines_.push_back(std::make_unique<engine>(*ends_.back(), lanes_.back().get()));
    commits_.push_back(std::make_unique<home_commits>(*engines_.back()));
  }
}

stepped_device& lockstep_world::give_device(rank r) {
  const auto i = static_cast<std::size_t>(r);
  devices_.push_back(std::make_unique<stepped_device>(*ends_[i], mix(seed_ + 2) ^ i));
  at(r).use(*devices_.back());
  return *devices_.back();
}

// Drains all lanes before the engines are destroyed. A job of a lane may read another rank's memory, which the
// destructor of that rank's engine frees. A real process keeps the memory of other ranks mapped until its own lane has
// ended.
lockstep_world::~lockstep_world() {
  EXPECT_EQ(net_.first_fault(), "") << "seed " << seed_;
  for (const auto& lane : lanes_)
    if (lane != nullptr) lane->drain();
}

std::uint64_t lockstep_world::draw() { return mix(mix(seed_ + 1) ^ ++draws_); }

std::vector<lockstep_world::outcome> lockstep_world::try_commit(const request_of& what) {
  const auto ranks = engines_.size();
  std::vector<std::shared_ptr<schedule_commit>> commits(ranks);
  std::vector<outcome> outcomes(ranks);
  std::vector<bool> is_settled(ranks);
  std::size_t settled = 0;
  for (std::uint64_t turn = 0; settled < ranks; ++turn) {
    if (turn > 1000 * ranks + 100'000) {
      ADD_FAILURE() << "the commit does not end; " << describe();
      return {};
    }
    step();
    const auto r = static_cast<std::size_t>(draw_rank());
    if (is_settled[r]) continue;
    if (commits[r] == nullptr) commits[r] = commits_[r]->add(what(static_cast<rank>(r)));
    if (!has_ended(*commits[r])) continue;
    is_settled[r] = true;
    ++settled;
    outcomes[r] = {commits[r]->committed(), commits[r]->why()};
  }
  std::vector<instance*> its;
  for (const outcome& one : outcomes) its.push_back(one.it);
  committed_.push_back(std::move(its));
  return outcomes;
}

std::vector<instance*> lockstep_world::commit(const request_of& what) {
  std::vector<instance*> its;
  for (const outcome& one : try_commit(what)) {
    if (one.it == nullptr) {
      ADD_FAILURE() << "commit: " << name_of(one.why.code) << ": " << one.why.text << "; seed " << seed_;
      return {};
    }
    its.push_back(one.it);
  }
  return its;
}

void lockstep_world::step() {
  const rank r = draw_rank();
  moved_ = false;
  const std::uint32_t pace = pace_[static_cast<std::size_t>(r)];
  if (is_dead_[static_cast<std::size_t>(r)] || (pace > 1 && draw_below(pace) != 0)) return net_.tick();
  moved_ = at(r).step();
}

bool lockstep_world::run_until(const std::function<bool()>& is_done, std::uint64_t most_steps) {
  if (most_steps == 0) most_steps = 2'000'000 + 20 * engines_.size() * engines_.size();
  for (std::uint64_t n = 0; !is_done(); ++n) {
    if (n == most_steps || !net_.first_fault().empty()) {
      ADD_FAILURE() << (n == most_steps ? "hangs" : net_.first_fault()) << "; " << describe();
      return false;
    }
    step();
  }
  return true;
}

void lockstep_world::settle() {
  std::uint64_t quiet = 0;
  const std::uint64_t slowest = *std::max_element(pace_.begin(), pace_.end());
  for (std::uint64_t n = 0; quiet < 40 * engines_.size() * slowest; ++n) {
    if (n == 2'000'000) {
      ADD_FAILURE() << "the world does not become quiet; " << describe();
      return;
    }
    step();
    quiet = moved_ || net_.in_flight() != 0 ? 0 : quiet + 1;
  }
}

void lockstep_world::start(engine& where, instance& it) {
  it.called.fetch_add(1);
  where.post(it);
}

bool lockstep_world::run_round(const std::vector<instance*>& its) {
  std::vector<rank> order(its.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[draw_below(left)]);
  for (const rank r : order) {
    start(at(r), *its[static_cast<std::size_t>(r)]);
    for (std::uint64_t steps = draw_below(6); steps > 0; --steps) step();
  }
  return run_until([&] {
    return std::ranges::all_of(its, [](const instance* it) { return it->finished.load() == it->called.load(); });
  });
}

void lockstep_world::remove(const std::vector<instance*>& its) {
  for (auto& known : committed_)
    if (known == its) known.clear();
  for (std::size_t r = 0; r < its.size(); ++r) {
    // This step removes the engine's request for the instance, if there is a request. Messages that no rank awaits may
    // still be in flight.
    engines_[r]->step();
    EXPECT_EQ(engines_[r]->remove(*its[r]), status::ok) << "rank " << r << "; " << describe();
  }
}

void lockstep_world::kill(rank r) {
  is_dead_[static_cast<std::size_t>(r)] = true;
  net_.kill(r);
}

void lockstep_world::forget(rank r, const instance* it) {
  for (auto& its : committed_)
    if (!its.empty() && its[static_cast<std::size_t>(r)] == it) its[static_cast<std::size_t>(r)] = nullptr;
}

std::string lockstep_world::describe() const {
  std::string text = "seed " + std::to_string(seed_) + ", " + std::to_string(engines_.size()) + " ranks";
  for (const auto& its : committed_)
    for (std::size_t r = 0; r < its.size(); ++r)
      if (its[r] != nullptr)
        text += "\n  rank " + std::to_string(r) + ": " + engines_[r]->describe_wait(*its[r], nullptr);
  return text;
}

}  // namespace lsched::testing
