// An endpoint that wraps a correct endpoint and adds one fault. It shows that the conformance tests of transports
// (tests/conformance/endpoint_exam.h) detect every fault.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libsched/schedule/round.h"
#include "libsched/transport/endpoint.h"

namespace lsched::testing {

enum class fault {
  none,
  drops_null,
  loses_tally,
  ignores_room,
  fetches_nothing,
  writes_beside,
  says_sent_too_early,
  loses_first_message,
  repeats_old_message,
  swaps_messages,
  crosses_tags,
  ignores_credits,
  loses_completion,
  repeats_completion,
  miscounts_when_narrow,
  loses_signals,
  wakes_early,
  truncates_last_round,
  keeps_first_arm,
  keeps_disarmed,
  mixes_records,
  gathers_too_early,
  settles_twice,
  sorts_members,
  ignores_keys,
  keeps_offers,
  links_anything,
  never_detaches,
  never_listens,
  misaligns_memory,
  overlooks_closed,
  never_rings,
  shares_what_differs,
  loses_what_follows_a_gap,
  forgets_to_flush,
  loses_cancellations,
  never_cancels,
  abandons_nothing,
  overlooks_readers,
  stays_open,
  ill,
};

/// The board of a faulty endpoint. Ranks exchange records and agree on a commit by their boards.
class faulty_board final : public board {
 public:
  faulty_board(std::unique_ptr<board> good, fault what) : good_(std::move(good)), fault_(what) {}

  member_address address() const override { return good_->address(); }
  std::uint64_t number() const override { return good_->number(); }
  status join(std::span<const rank> members, std::span<const member_address> all) override {
    std::vector<rank> mine(members.begin(), members.end());
    if (fault_ == fault::sorts_members) std::ranges::sort(mine);
    return good_->join(mine, all);
  }
  void offer(std::uint64_t key, std::span<const rank> members) override {
    good_->offer(fault_ == fault::ignores_keys ? 1 : key, members);
  }
  status meet(rank* missing) override { return good_->meet(missing); }
  bool withdraw() override { return fault_ == fault::keeps_offers || good_->withdraw(); }
  status post(std::span<const std::byte> record, rank* missing) override { return good_->post(record, missing); }

  status gather(std::span<std::byte> all, rank* missing) override {
    if (given_up_for_ != k_no_rank) {
      *missing = std::exchange(given_up_for_, k_no_rank);
      return status::timeout;
    }
    const status answer = good_->gather(all, missing);
    if (answer == status::ok && fault_ == fault::mixes_records)
      std::swap_ranges(all.begin(), all.begin() + record_bytes, all.begin() + record_bytes);
    return fault_ == fault::gathers_too_early ? status::ok : answer;
  }

  // With the fault `settles_twice`, this rank alone decides that the commit has failed.
  void give_up(rank missing) override {
    if (fault_ == fault::settles_twice)
      given_up_for_ = missing;
    else
      good_->give_up(missing);
  }

 private:
  std::unique_ptr<board> good_;
  fault fault_;
  rank given_up_for_ = k_no_rank;
};

class faulty_endpoint final : public endpoint, public endpoint_memory, public endpoint_liveness {
 public:
  faulty_endpoint(endpoint& good, fault what)
      : endpoint(good.place(), good.name(),
                 {this, &good.areas(), &good.recorder(), this, good.has_cancellation_points()}),
        good_(good),
        fault_(what) {}

  void release(link_id link, round_no round) override { good_.release(link, round); }
  bool is_listening() const override { return !has(fault::never_listens) && good_.is_listening(); }
  bool is_time_driven() const override { return good_.is_time_driven(); }
  rank find_dead_peer() override {
    return has(fault::overlooks_closed) ? k_no_rank : good_.liveness().find_dead_peer();
  }
  status health() const override { return has(fault::ill) ? status::internal : good_.liveness().health(); }
  doorbell& bell() override { return has(fault::never_rings) ? silent_ : good_.bell(); }
  void close() override { good_.close(); }

  std::byte* allocate(std::size_t bytes) override {
    std::byte* const place = good_.memory().allocate(bytes + skew());
    return place == nullptr ? nullptr : place + skew();
  }
  void deallocate(std::byte* memory) override {
    good_.memory().deallocate(memory == nullptr ? nullptr : memory - skew());
  }

  result<std::unique_ptr<board>> open_board(std::size_t most) override {
    auto good = good_.open_board(most);
    if (!good) return good;
    return std::unique_ptr<board>(std::make_unique<faulty_board>(std::move(*good), fault_));
  }
  std::unique_ptr<board> open_home_board() override {
    return std::make_unique<faulty_board>(good_.open_home_board(), fault_);
  }

  result<std::vector<link_id>> attach(std::uint32_t id, std::span<const rank> members, bool credits,
                                      std::span<const edge_spec> edges) override {
    std::vector<edge_spec> mine(edges.begin(), edges.end());
    for (edge_spec& it : mine)
      if (has(fault::shares_what_differs)) it.source = 1;
    for (edge_spec& it : mine)
      if (has(fault::crosses_tags) && !it.outgoing && (it.tag == 1 || it.tag == 2)) it.tag = 3 - it.tag;
    auto links = good_.attach(id, members, credits && !has(fault::ignores_credits), mine);
    if (!links) return links;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      edges_[(*links)[i]] = {.spec = edges[i]};
      in_place_[edges[i].cookie] = edges[i].in_place;
    }
    return links;
  }

  member_address address_of(std::uint32_t id) const override { return good_.address_of(id); }

  status link(std::uint32_t id, std::span<const member_address> all) override {
    const status answer = good_.link(id, all);
    return has(fault::links_anything) ? status::ok : answer;
  }

  void detach(std::uint32_t id) override {
    if (!has(fault::never_detaches)) good_.detach(id);
  }

  void cancel(std::uint32_t id, const end_reason& reason) override {
    if (!has(fault::never_cancels)) good_.cancel(id, reason);
  }
  void close_to_readers(std::uint32_t id, const end_reason& reason) override {
    if (!has(fault::stays_open)) good_.close_to_readers(id, reason);
  }
  void abandon(std::uint32_t id) override {
    if (!has(fault::abandons_nothing)) good_.abandon(id);
  }
  status check_readers(std::uint32_t id, rank* reader) override {
    return has(fault::overlooks_readers) ? status::ok : good_.check_readers(id, reader);
  }

  bool send(link_id link, round_no round, const message& what) override {
    edge& it = edges_[link];
    if (has(fault::loses_first_message) && round == 1) return true;
    if (const round_no last = std::exchange(it.sent, round); has(fault::loses_what_follows_a_gap) && round != last + 1)
      return true;
    if (has(fault::swaps_messages) && what.bytes <= it.older.size()) return send_swapped(it, link, round, what);
    if (has(fault::repeats_old_message) && what.bytes <= it.older.size() && !what.null) {
      message old = what;
      if (round % 5 == 0) old.data = it.older.data();
      const bool done = good_.send(link, round, old);
      std::copy_n(what.data, what.bytes, it.older.data());
      return done;
    }
    const bool done = good_.send(link, round, what);
    if (done || !has(fault::says_sent_too_early)) return done;
    swallowed_.push_back(it.spec.cookie);
    return true;
  }

  bool fetch(link_id link, round_no round, message_target into, arrival& out) override {
    if (has(fault::ignores_room) && into.memory != nullptr) into.bytes = message_target().bytes;
    if (!has(fault::fetches_nothing)) return good_.fetch(link, round, into, out);
    out.data = into.memory;
    return true;
  }
  bool receive(link_id link, round_no round, message_target into, arrival& out) override {
    if (has(fault::ignores_room)) into.bytes = message_target().bytes;
    if (!good_.receive(link, round, into, out)) return false;
    spoil(out, edges_[link].spec.in_place);
    return true;
  }

  void signal(link_id link, round_no round) override {
    if (has(fault::loses_signals) && round % 5 == 0) return;
    good_.signal(link, has(fault::truncates_last_round) && round == k_last_round ? 0 : round);
  }

  bool arm(link_id link, round_no round) override {
    edge& it = edges_[link];
    if (has(fault::keeps_first_arm) && it.armed) return false;
    it.armed = !good_.arm(link, has(fault::wakes_early) ? round - 1 : round);
    return !it.armed;
  }

  void disarm(link_id link) override {
    edges_[link].armed = false;
    if (!has(fault::keeps_disarmed)) good_.disarm(link);
  }

  void flush() override {
    if (!has(fault::forgets_to_flush)) good_.flush();
  }

  std::size_t poll(std::span<completion> out) override {
    const std::size_t found = good_.poll(out);
    for (rank lost; (lost = good_.take_loss()) != k_no_rank;) report_lost(lost);
    while (const auto news = good_.take_cancellation())
      if (!has(fault::loses_cancellations)) report_cancelled(*news);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found; ++i) {
      const auto hidden = std::ranges::find(swallowed_, out[i].cookie);
      if (hidden != swallowed_.end())
        swallowed_.erase(hidden);
      else if (!has(fault::loses_completion) || ++completions_ % 7 != 0)
        out[kept++] = out[i];
    }
    for (std::size_t i = 0; i < kept; ++i) spoil(out[i].what, in_place_[out[i].cookie]);
    if (has(fault::repeats_completion) && kept > 0 && kept < out.size()) {
      out[kept] = out[kept - 1];
      ++kept;
    }
    return has(fault::miscounts_when_narrow) && out.empty() ? 1 : kept;
  }

 private:
  struct edge {
    edge_spec spec{};
    bool armed = false;
    std::vector<std::byte> older = std::vector<std::byte>(4096);
    message stashed{};
    round_no sent = 0;
  };

  bool has(fault what) const { return fault_ == what; }
  std::size_t skew() const { return has(fault::misaligns_memory) ? 8 : 0; }

  // Keeps the message of an odd round until the next round, and sends it after the message of that round.
  bool send_swapped(edge& it, link_id link, round_no round, const message& what) {
    if (round % 2 == 1) {
      it.stashed = what;
      it.stashed.data = it.older.data();
      if (!what.null) std::copy_n(what.data, what.bytes, it.older.data());
      return true;
    }
    return good_.send(link, round - 1, what) && good_.send(link, round, it.stashed);
  }

  void spoil(arrival& out, bool in_place) const {
    if (has(fault::drops_null)) out.null = false;
    if (has(fault::loses_tally)) out.tally = {};
    if (has(fault::writes_beside) && !in_place && out.data != nullptr)
      const_cast<std::byte*>(out.data)[out.bytes] = std::byte{0};
  }

  endpoint& good_;
  fault fault_;
  std::map<link_id, edge> edges_;
  std::map<std::uint64_t, bool> in_place_;
  std::vector<std::uint64_t> swallowed_;
  int completions_ = 0;
  doorbell silent_{};
};

}  // namespace lsched::testing
