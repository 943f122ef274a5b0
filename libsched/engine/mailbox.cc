#include "libsched/engine/mailbox.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "ops/counted.h"

namespace lsched {
namespace {

bool matches(const posted_message& wanted, rank source, std::int64_t tag) {
  return (wanted.peer == k_no_rank || wanted.peer == source) && (wanted.tag == k_any_tag || wanted.tag == tag);
}

/// Returns the offset of an edge's cookie from the mailbox's base cookie.
std::uint64_t number_of(rank peer, bool is_out) { return static_cast<std::uint64_t>(peer) << 1 | (is_out ? 1u : 0u); }

std::unique_ptr<std::byte[]> memory_for(std::uint64_t bytes) {
  return std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes]);
}

}  // namespace

mailbox::mailbox(engine& runs, membership_ptr members)
    : engine_(runs),
      net_(runs.net()),
      members_(std::move(members)),
      id_(runs.take_id()),
      lines_(static_cast<std::size_t>(members_->place().size)) {
  std::vector<edge_spec> edges;
  edges.reserve(2 * lines_.size());
  const std::uint64_t base = engine_.add_sink(*this);
  for (rank peer = 0; peer < members_->place().size; ++peer) {
    if (peer == self()) continue;
    for (const bool is_out : {true, false})
      edges.push_back({.outgoing = is_out,
                       .foreign = is_out,
                       .announced = !is_out,
                       .peer = members_->home_of(peer),
                       .capacity = k_longest_message,
                       .grows = is_out,
                       .cookie = base | number_of(peer, is_out)});
  }
  try {
    const auto links = net_.attach(id_, members_->homes(), true, edges);
    if (!links) {
      why_ = links.error();
      return;
    }
    auto next = links->begin();
    for (rank peer = 0; peer < members_->place().size; ++peer)
      if (peer != self()) line_of(peer).out = *next++, line_of(peer).in = *next++;
  } catch (...) {
    engine_.drop_sink(*this);
    throw;
  }
}

// If the transport may still write a message that is being fetched, the memory for that message is never freed.
mailbox::~mailbox() {
  engine_.drop_sink(*this);
  if (why_) return;
  if (is_linked_) {
    for (const line& to : lines_)
      if (to.out != k_no_link) net_.end_edge(to.out, to.sent);
    net_.abandon(id_);
    rank reader = k_no_rank;
    if (net_.check_readers(id_, &reader) == status::unsupported)
      for (line& from : lines_)
        if (from.is_fetching) (void)from.arriving.memory.release();
  }
  net_.detach(id_);
}

status mailbox::open(std::span<const member_address> all) {
  if (const status answer = net_.link(id_, all); answer != status::ok) return answer;
  is_linked_ = true;
  for (rank peer = 0; peer < members_->place().size; ++peer) {
    if (peer == self()) continue;
    listen(peer);
    send_waiting(peer);
  }
  return status::ok;
}

void mailbox::refuse(const failure& why) {
  if (refusal_) return;
  refusal_ = why;
  std::vector<posted_message*> all(receives_.begin(), receives_.end());
  receives_.clear();
  for (line& to : lines_) {
    all.insert(all.end(), to.waiting.begin(), to.waiting.end());
    to.waiting.clear();
  }
  for (posted_message* const one : all) one->is_refused = true, end_as_lost(*one, why.peer, why.code);
}

// --- posting --------------------------------------------------------------------------------------------------------

void mailbox::post(posted_message& one) {
  ++under_way_;
  engine_.count_messages(1);
  try {
    queue(one);
  } catch (...) {
    --under_way_;
    engine_.count_messages(-1);
    throw;
  }
}

void mailbox::queue(posted_message& one) {
  if (refusal_) {
    one.is_refused = true;
    return end_as_lost(one, refusal_->peer, refusal_->code);
  }
  if (one.is_sent) {
    if (one.peer == self()) return send_to_self(one);
    if (const status verdict = line_of(one.peer).out_verdict; verdict != status::ok)
      return end_as_lost(one, one.peer, verdict);
    line_of(one.peer).waiting.push_back(&one);
    return send_waiting(one.peer);
  }
  const auto kept =
      std::ranges::find_if(kept_, [&](const kept_message& some) { return matches(one, some.source, some.tag); });
  if (kept != kept_.end()) {
    deliver(one, *kept);
    kept_.erase(kept);
  } else if (one.peer != k_no_rank && line_of(one.peer).in_verdict != status::ok) {
    end_as_lost(one, one.peer, line_of(one.peer).in_verdict);
  } else if (one.peer == k_no_rank && last_gone_ != k_no_rank && !has_others()) {
    end_as_lost(one, last_gone_, line_of(last_gone_).in_verdict);
  } else {
    receives_.push_back(&one);
  }
}

bool mailbox::take_back(posted_message& one) {
  if (one.is_sent) {
    line& to = line_of(one.peer);
    const auto found = std::ranges::find(to.waiting, &one);
    if (found == to.waiting.end() || (to.is_sending && found == to.waiting.begin())) return false;
    to.waiting.erase(found);
  } else {
    const auto found = std::ranges::find(receives_, &one);
    if (found == receives_.end()) return false;
    receives_.erase(found);
  }
  end(one, status::cancelled);
  return true;
}

void mailbox::end(posted_message& one, status verdict) {
  --under_way_;
  engine_.count_messages(-1);
  if (verdict == status::ok)
    one.progress.finished.store(1);
  else
    one.progress.verdict.store(verdict);
  engine_.publish();
}

void mailbox::end_as_lost(posted_message& one, rank peer, status verdict) {
  one.source = verdict == status::peer ? engine_.culprit_of_loss(*members_, peer) : peer;
  end(one, verdict);
}

void mailbox::deliver(posted_message& to, const kept_message& from) {
  to.source = from.source, to.tag_received = from.tag, to.bytes_received = from.bytes;
  if (from.is_lost) return end(to, status::no_memory);
  if (from.bytes > to.bytes) return end(to, status::bounds);
  if (from.bytes > 0) std::memcpy(to.memory, from.memory.get(), from.bytes);
  end(to, status::ok);
}

/// Removes and returns the posted receive that matches a message, or nullptr.
posted_message* mailbox::take_receive(rank source, std::int64_t tag) {
  const auto found =
      std::ranges::find_if(receives_, [&](const posted_message* one) { return matches(*one, source, tag); });
  if (found == receives_.end()) return nullptr;
  posted_message* const taken = *found;
  receives_.erase(found);
  return taken;
}

void mailbox::send_to_self(posted_message& one) {
  kept_message sent{.source = self(), .tag = one.tag, .bytes = one.bytes};
  posted_message* const wanted = take_receive(self(), one.tag);
  if (wanted != nullptr) {
    wanted->source = self(), wanted->tag_received = one.tag, wanted->bytes_received = one.bytes;
    const bool fits = one.bytes <= wanted->bytes;
    if (fits && one.bytes > 0) std::memmove(wanted->memory, one.memory, one.bytes);
    end(*wanted, fits ? status::ok : status::bounds);
    return end(one, status::ok);
  }
  sent.memory = memory_for(one.bytes);
  if (sent.memory == nullptr) return end_as_lost(one, self(), status::no_memory);
  if (one.bytes > 0) std::memcpy(sent.memory.get(), one.memory, one.bytes);
  kept_.push_back(std::move(sent));
  end(one, status::ok);
}

// --- sending --------------------------------------------------------------------------------------------------------

void mailbox::send_waiting(rank peer) {
  line& to = line_of(peer);
  while (is_linked_ && !to.is_sending && !to.waiting.empty()) {
    posted_message& next = *to.waiting.front();
    const message what{next.memory, next.bytes, {.offers = static_cast<std::uint64_t>(next.tag)}, false};
    if (!net_.send(to.out, ++to.sent, what)) {
      to.is_sending = true;
      return;
    }
    to.waiting.pop_front();
    end(next, status::ok);
  }
}

// --- receiving ------------------------------------------------------------------------------------------------------

/// Handles the messages that have arrived, in order, and prepares the edge for the next message.
void mailbox::listen(rank peer) {
  line& from = line_of(peer);
  while (from.in_verdict == status::ok) {
    if (from.last == from.received) return end_receives(peer, status::peer);
    arrival news;
    if (!net_.receive(from.in, ++from.received, {}, news) || !take_announced(peer, news)) return;
  }
}

/// Fetches an announced message into the buffer of the matching receive, or into memory of the mailbox. Drops a message
/// that is longer than the buffer, or for which no memory is left. Returns true if the fetch is complete.
bool mailbox::take_announced(rank peer, const arrival& news) {
  line& from = line_of(peer);
  from.arriving = {.source = peer, .tag = static_cast<std::int64_t>(news.tally.offers), .bytes = news.bytes};
  from.target = take_receive(peer, from.arriving.tag);
  message_target into(nullptr, 0);
  if (from.target != nullptr) {
    into = {from.target->memory, from.target->bytes};
  } else if (from.arriving.memory = memory_for(news.bytes); from.arriving.memory != nullptr) {
    into = {from.arriving.memory.get(), news.bytes};
  } else {
    from.arriving.is_lost = true;
  }
  from.is_fetching = true;
  arrival brought;
  if (!net_.fetch(from.in, from.received, into, brought)) return false;
  take_fetched(peer);
  return true;
}

/// Delivers a fetched message. If no receive matched the message when it was announced, searches again, because the
/// application may have posted a receive meanwhile.
void mailbox::take_fetched(rank peer) {
  line& from = line_of(peer);
  from.is_fetching = false;
  kept_message came = std::exchange(from.arriving, {});
  if (posted_message* const target = std::exchange(from.target, nullptr)) {
    target->source = peer, target->tag_received = came.tag, target->bytes_received = came.bytes;
    end(*target, came.bytes <= target->bytes ? status::ok : status::bounds);
  } else if (posted_message* const late = take_receive(peer, came.tag)) {
    deliver(*late, came);
  } else {
    kept_.push_back(std::move(came));
  }
}

void mailbox::arrived(const completion& news) {
  const auto peer = static_cast<rank>((news.cookie & std::numeric_limits<std::uint32_t>::max()) >> 1);
  line& with = line_of(peer);
  if ((news.cookie & 1) != 0) {
    if (with.out_verdict != status::ok) return;
    with.is_sending = false;
    posted_message* const sent = with.waiting.front();
    with.waiting.pop_front();
    end(*sent, status::ok);
    return send_waiting(peer);
  }
  if (with.is_fetching)
    take_fetched(peer);
  else if (with.in_verdict != status::ok || !take_announced(peer, news.what))
    return;
  listen(peer);
}

// --- diagnosis ------------------------------------------------------------------------------------------------------

wait_note mailbox::note_of(const posted_message& one) const {
  return {.instance = wait_note::k_message,
          .round = 1,
          .peer = members_->home_of(one.peer),
          .kind = one.is_sent ? op_kind::send : op_kind::recv,
          .tag = static_cast<std::uint32_t>(one.tag)};
}

/// Returns all ranks that could end the wait for a message.
std::vector<rank> mailbox::ranks_awaited_by(const posted_message& one) const {
  if (one.peer != k_no_rank) return {one.peer};
  std::vector<rank> all;
  for (rank peer = 0; peer < members_->place().size; ++peer)
    if (peer != self() && lines_[static_cast<std::size_t>(peer)].in_verdict == status::ok) all.push_back(peer);
  return all;
}

std::string mailbox::describe_wait(const posted_message& one, rank* waits_for) const {
  const std::vector<rank> awaited = ranks_awaited_by(one);
  std::string text;
  if (one.peer == k_no_rank && !awaited.empty()) text = "; no message was sent by " + listed(awaited, "rank");
  *waits_for = engine_.find_late(*members_, awaited, text);
  return text;
}

// --- lost ranks -----------------------------------------------------------------------------------------------------

/// Returns true if any other member may still send.
bool mailbox::has_others() const {
  for (rank peer = 0; peer < members_->place().size; ++peer)
    if (peer != self() && lines_[static_cast<std::size_t>(peer)].in_verdict == status::ok) return true;
  return false;
}

void mailbox::end_sends(rank peer, status verdict) {
  line& to = line_of(peer);
  if (to.out_verdict != status::ok) return;
  to.out_verdict = verdict;
  if (to.is_sending) net_.disarm(to.out);
  for (posted_message* const one : std::exchange(to.waiting, {})) end_as_lost(*one, peer, verdict);
}

/// Ends the receives from a rank that no longer sends. If the transport may still write to a receive buffer, this
/// receive ends only when the transfer completes.
void mailbox::end_receives(rank peer, status verdict) {
  line& from = line_of(peer);
  if (from.in_verdict != status::ok) return;
  from.in_verdict = verdict;
  last_gone_ = peer;
  rank reader = k_no_rank;
  const bool is_written = from.is_fetching && net_.check_readers(id_, &reader) == status::unsupported;
  if (!is_written) {
    net_.disarm(from.in);
    from.is_fetching = false;
    if (posted_message* const one = std::exchange(from.target, nullptr)) end_as_lost(*one, peer, verdict);
  }
  std::erase_if(receives_, [&](posted_message* one) {
    const bool is_from_it = one->peer == peer;
    if (is_from_it) end_as_lost(*one, peer, verdict);
    return is_from_it;
  });
  if (!has_others()) end_receives_from_anybody(peer, verdict);
}

/// Ends the receives from any sender with an error. Returns true if such a receive was posted.
bool mailbox::end_receives_from_anybody(rank culprit, status verdict) {
  return std::erase_if(receives_, [&](posted_message* one) {
           const bool is_from_anybody = one->peer == k_no_rank;
           if (is_from_anybody) end_as_lost(*one, culprit, verdict);
           return is_from_anybody;
         }) > 0;
}

/// Handles messages that have arrived but have not been reported by poll() yet.
void mailbox::take_what_has_come(rank peer) {
  line& from = line_of(peer);
  if (from.in_verdict != status::ok || from.is_fetching || from.received == 0) return;
  net_.disarm(from.in);
  arrival news;
  if (net_.receive(from.in, from.received, {}, news) && take_announced(peer, news)) listen(peer);
}

// The driver repeats this call as long as a lost rank is on record. If the member has left the world but is alive, its
// last messages may still arrive. Receives from any sender fail once, too, because they may have waited for a message
// from the lost rank. If no such receive is posted when the rank is lost, the next posted receive from any sender
// fails. Later receives wait for the other members.
void mailbox::lose(rank member) {
  if (!is_linked_) {
    const rank first = engine_.culprit_of_loss(*members_, member);
    return refuse({status::peer,
                   "rank " + std::to_string(first) + " died, or closed its world, before all ranks had a mailbox",
                   first});
  }
  line& with = line_of(member);
  end_sends(member, status::peer);
  const bool is_alive = !net_.liveness().is_lost(members_->home_of(member));
  if (is_alive && with.last && with.in_verdict == status::ok) return;
  end_receives(member, status::peer);
  if (!with.is_reported) with.is_reported = end_receives_from_anybody(member, status::peer);
}

// A member that leaves has sent all its messages. Receives from any sender stay posted as long as another member can
// send.
void mailbox::leave(rank member, std::optional<round_no> last) {
  line& with = line_of(member);
  end_sends(member, status::peer);
  if (last && with.received <= *last) {
    with.last = last;
    return;
  }
  if (!last) take_what_has_come(member);
  end_receives(member, status::peer);
}

bool mailbox::fail(status why, rank culprit) {
  const rank blamed = culprit == k_no_rank ? k_no_rank : members_->rank_of(culprit);
  if (!is_linked_) {
    refuse({why, std::string(text_of(why)), blamed});
    return true;
  }
  net_.close_to_readers(id_, {net_.place().self, status::cancelled});
  rank reader = k_no_rank;
  const bool is_unread = net_.check_readers(id_, &reader) != status::pending;
  end_all(why, blamed, is_unread);
  return is_unread;
}

void mailbox::give_up(status why) {
  net_.close_to_readers(id_, {net_.place().self, status::cancelled});
  end_all(why, k_no_rank, true);
}

void mailbox::end_all(status why, rank blamed, bool with_sends) {
  for (rank peer = 0; peer < members_->place().size; ++peer) {
    if (peer == self()) continue;
    if (with_sends) end_sends(peer, why);
    end_receives(peer, why);
  }
  end_receives_from_anybody(blamed, why);
}

}  // namespace lsched
