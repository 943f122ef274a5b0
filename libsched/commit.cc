#include "libsched/commit.h"

#include <algorithm>
#include <cstring>

#include "libsched/draw.h"

namespace lsched {
namespace {

/// What a rank tells the others. Plain bytes: it crosses process and node borders.
struct record {
  std::uint64_t number;    ///< instance id: catches ranks that commit in different orders
  std::uint64_t sends;
  std::uint64_t receives;
  std::int32_t code;       ///< this rank's own verdict on its arguments
  std::int32_t is_synchronising;
  char agreement[224];
  char error[224];
};
static_assert(sizeof(record) <= endpoint::record_bytes);

template <std::size_t N>
void copy_text(char (&into)[N], std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(into, text.data(), length);
  into[length] = '\0';
}

template <std::size_t N>
std::string_view text_of(const char (&from)[N]) {
  return {from, strnlen(from, N)};
}

std::string rank_text(rank r) { return "rank " + std::to_string(r); }

}  // namespace

edge_sums sums_of(const schedule& program) {
  edge_sums sums;
  const world place = program.place();
  for (const op& what : program.ops()) {
    if (!is_communication(what.kind) || what.peer == place.self) continue;
    const bool outgoing = what.kind == op_kind::send || what.kind == op_kind::signal_send;
    const rank from = outgoing ? place.self : what.peer;
    const rank to = outgoing ? what.peer : place.self;
    std::uint64_t hash = mix(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to));
    hash = mix(hash ^ (std::uint64_t{what.tag} << 1 | (is_signal(what.kind) ? 1u : 0u)));
    hash = mix(hash ^ (is_signal(what.kind) ? 0 : max_count(program, what) * size_of(what.type)));
    (outgoing ? sums.sends : sums.receives) += hash;
  }
  return sums;
}

commitment::commitment(engine& where, const commit_request& request)
    : engine_(where), records_(static_cast<std::size_t>(where.net().place().size) * endpoint::record_bytes) {
  record mine{};
  copy_text(mine.agreement, request.agreement);
  if (request.program) {
    const edge_sums sums = sums_of(**request.program);
    mine.sends = sums.sends;
    mine.receives = sums.receives;
    mine.is_synchronising = (*request.program)->is_synchronising() ? 1 : 0;
    auto added = engine_.add(*request.program, request.memory, request.options);
    if (added)
      it_ = *added;
    else
      why_ = added.error();
  } else {
    engine_.skip();
    why_ = request.program.error();
  }
  mine.number = engine_.last_id();
  mine.code = static_cast<std::int32_t>(why_.code);
  copy_text(mine.error, why_.text);
  std::byte bytes[endpoint::record_bytes]{};
  std::memcpy(bytes, &mine, sizeof mine);
  if (const status answer = engine_.net().post_record(bytes); answer != status::ok) undo({answer, "posting the commit record failed"});
}

status commitment::advance() {
  if (why_.code == status::transport) return why_.code;
  const status answer = engine_.net().gather_records(records_, &missing_);
  if (answer == status::pending) return answer;
  if (answer != status::ok) {
    undo({answer, "exchanging the commit records failed", missing_});
    return answer;
  }
  return judge();
}

// All ranks see the same records and reach the same verdict.
status commitment::judge() {
  const rank size = engine_.net().place().size;
  const rank self = engine_.net().place().self;
  std::vector<record> all(static_cast<std::size_t>(size));
  edge_sums total;
  for (rank r = 0; r < size; ++r) {
    record& of = all[static_cast<std::size_t>(r)];
    std::memcpy(&of, records_.data() + static_cast<std::size_t>(r) * endpoint::record_bytes, sizeof of);
    total.sends += of.sends;
    total.receives += of.receives;
  }
  for (rank r = 0; r < size && why_.code == status::ok; ++r)
    if (const record& of = all[static_cast<std::size_t>(r)]; of.code != 0)
      undo({static_cast<status>(of.code), rank_text(r) + " could not commit: " + std::string(text_of(of.error)), r});
  for (rank r = 0; r < size && why_.code == status::ok; ++r) {
    const record& of = all[static_cast<std::size_t>(r)];
    const record& mine = all[static_cast<std::size_t>(self)];
    const record& first = all[0];
    if (text_of(of.agreement) == text_of(first.agreement) && of.number == first.number &&
        of.is_synchronising == first.is_synchronising)
      continue;
    const bool is_mine = text_of(of.agreement) == text_of(mine.agreement) && of.number == mine.number;
    const rank other = is_mine ? 0 : r;  // one of the two differs from this rank's
    undo({status::mismatch, rank_text(self) + " commits " + std::string(text_of(mine.agreement)) + " as #" + std::to_string(mine.number) + ", but " +
                                rank_text(other) + " commits " + std::string(text_of(all[static_cast<std::size_t>(other)].agreement)) +
                                " as #" + std::to_string(all[static_cast<std::size_t>(other)].number),
          other});
  }
  if (why_.code == status::ok && total.sends != total.receives)
    undo({status::unmatched, "the sends and receives of all ranks do not pair up in peer, tag, kind and size"});
  if (why_.code == status::ok)
    if (const status answer = engine_.open(*it_); answer != status::ok)
      undo({answer, "the edges of " + it_->label + " could not be connected"});
  if (why_.code != status::ok) undo(why_);
  return why_.code;
}

void commitment::undo(failure why) {
  why_ = std::move(why);
  if (it_ != nullptr) (void)engine_.remove(*it_);
  it_ = nullptr;
}

void commitment::abandon() {
  const std::string who = missing_ == k_no_rank ? "some rank" : rank_text(missing_);
  undo({status::timeout, who + " did not commit in time", missing_});
}

}  // namespace lsched
