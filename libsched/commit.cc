#include "libsched/commit.h"

#include <algorithm>
#include <cstring>

#include "libsched/edge_balance.h"

namespace lsched {
namespace {

/// What a rank tells the others. Plain bytes: it crosses process and node borders.
struct record {
  std::uint64_t number;  ///< instance id: catches ranks that commit in different orders
  std::int32_t code;     ///< this rank's own verdict on its arguments
  std::int32_t is_synchronising;
  std::uint64_t agreement_hash;  ///< of all of it
  char agreement[168];           ///< as much as there is room for
  char detail[320];              ///< the text that goes with an error, or the edge_balance
};
static_assert(sizeof(record) <= endpoint::record_bytes);

template <std::size_t N>
void copy_text(char (&into)[N], std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(into, text.data(), length);
  into[length] = '\0';
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char one : text) hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3;
  return hash;
}

template <std::size_t N>
std::string_view text_of(const char (&from)[N]) {
  return {from, strnlen(from, N)};
}

static_assert(std::is_trivially_copyable_v<edge_balance> && sizeof(edge_balance) <= sizeof(record::detail));

std::string rank_text(rank r) { return "rank " + std::to_string(r); }

}  // namespace

commitment::commitment(engine& where, const commit_request& request)
    : engine_(where), records_(static_cast<std::size_t>(where.net().place().size) * endpoint::record_bytes) {
  record mine{};
  copy_text(mine.agreement, request.agreement);
  mine.agreement_hash = hash_of(request.agreement);
  if (request.program) {
    edge_balance edges;
    edges.add(**request.program);
    std::memcpy(mine.detail, &edges, sizeof edges);
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
  if (why_.code != status::ok) copy_text(mine.detail, why_.text);
  std::byte bytes[endpoint::record_bytes]{};
  std::memcpy(bytes, &mine, sizeof mine);
  if (const status answer = engine_.net().post_record(bytes); answer != status::ok)
    undo({answer, "posting the commit record failed"});
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
  edge_balance world;
  for (rank r = 0; r < size; ++r) {
    record& of = all[static_cast<std::size_t>(r)];
    std::memcpy(&of, records_.data() + static_cast<std::size_t>(r) * endpoint::record_bytes, sizeof of);
    edge_balance edges;
    std::memcpy(&edges, of.detail, sizeof edges);
    world.add(edges);  // not looked at if any rank has an error there instead
  }
  for (rank r = 0; r < size && why_.code == status::ok; ++r)
    if (const record& of = all[static_cast<std::size_t>(r)]; of.code != 0)
      undo({static_cast<status>(of.code), rank_text(r) + " could not commit: " + std::string(text_of(of.detail)), r});
  for (rank r = 0; r < size && why_.code == status::ok; ++r) {
    const record& of = all[static_cast<std::size_t>(r)];
    const record& mine = all[static_cast<std::size_t>(self)];
    const record& first = all[0];
    if (of.agreement_hash == first.agreement_hash && of.number == first.number &&
        of.is_synchronising == first.is_synchronising)
      continue;
    const bool is_mine = of.agreement_hash == mine.agreement_hash && of.number == mine.number;
    const rank other = is_mine ? 0 : r;  // one of the two differs from this rank's
    undo({status::mismatch,
          rank_text(self) + " commits " + std::string(text_of(mine.agreement)) + " as #" + std::to_string(mine.number) +
              ", but " + rank_text(other) + " commits " +
              std::string(text_of(all[static_cast<std::size_t>(other)].agreement)) + " as #" +
              std::to_string(all[static_cast<std::size_t>(other)].number) +
              (text_of(all[static_cast<std::size_t>(other)].agreement) == text_of(mine.agreement)
                   ? " (what differs is not shown)"
                   : ""),
          other});
  }
  if (why_.code == status::ok && !world.is_even())
    undo({status::unmatched,
          world.odd_end().value_or("many sends and receives of the world do not pair up in peer, tag, kind and size")});
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
