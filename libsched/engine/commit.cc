#include "libsched/engine/commit.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "libsched/analysis/edge_balance.h"

namespace lsched {
namespace {

/// What a rank tells the others. Plain bytes: it crosses process and node borders.
struct record {
  std::uint64_t number;  ///< instance id: catches ranks that commit in different orders
  std::int32_t code;     ///< this rank's own status of its arguments
  std::int32_t is_synchronising;
  std::uint64_t agreement_hash;  ///< of all of it
  std::uint64_t reductions;      ///< as reductions_of packs them
  instance_address address;      ///< of this rank's end
  char agreement[144];           ///< as much as there is room for
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

// --- reductions --------------------------------------------------------------------------------------------

/// Four bits for each dtype: the one reduction by which a rank combines its elements, or none of these.
constexpr std::uint64_t k_no_reduction = 0, k_several = 15;
constexpr std::uint64_t number_of(kernel what) { return static_cast<std::uint64_t>(what) - 1; }
static_assert(number_of(kernel::sum) > k_no_reduction && number_of(kernel::user) < k_several);
static_assert(4 * k_all_dtypes.size() <= 64);

constexpr int shift_of(dtype type) { return 4 * static_cast<int>(type); }
constexpr std::uint64_t reduction_of(std::uint64_t all, dtype type) { return all >> shift_of(type) & 15; }

std::uint64_t reductions_of(const schedule& program) {
  std::uint64_t all = 0;
  for (const op& o : program.ops()) {
    if (o.kind != op_kind::compute || !is_reduction(o.what)) continue;
    const std::uint64_t known = reduction_of(all, o.type);
    const bool is_first = known == k_no_reduction || known == number_of(o.what);
    all |= (is_first ? number_of(o.what) : k_several) << shift_of(o.type);
  }
  return all;
}

/// "f32 by sum, i64 by several reductions"
std::string text_of(std::uint64_t reductions) {
  std::string text;
  for (const dtype type : k_all_dtypes) {
    const std::uint64_t number = reduction_of(reductions, type);
    if (number == k_no_reduction) continue;
    text += (text.empty() ? "" : ", ") + std::string(name_of(type)) + " by " +
            (number == k_several ? "several reductions" : std::string(name_of(static_cast<kernel>(number + 1))));
  }
  return text;
}

/// A rank, and the first one of the world that does otherwise.
struct two_ranks {
  rank first, other;
};

/// Two ranks each of which combines elements of the same dtype by one reduction alone, and not by the same.
std::optional<two_ranks> find_disagreement(const std::vector<record>& all) {
  for (const dtype type : k_all_dtypes) {
    rank first = k_no_rank;
    for (rank r = 0; r < static_cast<rank>(all.size()); ++r) {
      const std::uint64_t number = reduction_of(all[static_cast<std::size_t>(r)].reductions, type);
      if (number == k_no_reduction || number == k_several) continue;
      if (first == k_no_rank) first = r;
      if (number != reduction_of(all[static_cast<std::size_t>(first)].reductions, type)) return two_ranks{first, r};
    }
  }
  return std::nullopt;
}

/// Two ranks that combine, but different things: likely why their edges do not pair up.
std::optional<two_ranks> find_difference(const std::vector<record>& all) {
  const auto combines = [](const record& one) { return one.reductions != 0; };
  const auto first = std::ranges::find_if(all, combines);
  const auto other = std::find_if(
      first, all.end(), [&](const record& one) { return combines(one) && one.reductions != first->reductions; });
  if (other == all.end()) return std::nullopt;
  return two_ranks{static_cast<rank>(first - all.begin()), static_cast<rank>(other - all.begin())};
}

std::string text_of(const two_ranks& pair, const std::vector<record>& all) {
  const auto side = [&](rank r) {
    return rank_text(r) + " reduces " + text_of(all[static_cast<std::size_t>(r)].reductions);
  };
  return side(pair.first) + ", but " + side(pair.other);
}

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
    mine.reductions = reductions_of(**request.program);
    mine.is_synchronising = (*request.program)->is_synchronising() ? 1 : 0;
    auto added = engine_.add(*request.program, request.memory, request.options);
    if (added) {
      instance_ = *added;
      mine.address = engine_.net().address_of(instance_->id);
    } else {
      why_ = added.error();
    }
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
  return check();
}

// All ranks see the same records and come to the same status.
status commitment::check() {
  const rank self = engine_.net().place().self;
  std::vector<record> all(records_.size() / endpoint::record_bytes);
  edge_balance world;
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::memcpy(&all[r], records_.data() + r * endpoint::record_bytes, sizeof all[r]);
    edge_balance edges;
    std::memcpy(&edges, all[r].detail, sizeof edges);
    world.add(edges);  // not looked at if any rank has an error there instead
  }
  const record& own = all[static_cast<std::size_t>(self)];
  const auto number_of = [&](const record& one) { return static_cast<rank>(&one - all.data()); };
  const auto agreed = [](const record& one) {
    return std::tuple(one.agreement_hash, one.number, one.is_synchronising);
  };
  const auto describe = [](const record& one) {
    return std::string(text_of(one.agreement)) + " as #" + std::to_string(one.number);
  };
  for (const record& one : all)
    if (why_.code == status::ok && one.code != 0)
      undo({static_cast<status>(one.code),
            rank_text(number_of(one)) + " could not commit: " + std::string(text_of(one.detail)), number_of(one)});
  for (const record& one : all) {
    if (why_.code != status::ok || agreed(one) == agreed(all.front())) continue;
    const record& other = agreed(one) == agreed(own) ? all.front() : one;  // one of the two differs from this rank's
    const bool looks_equal = text_of(other.agreement) == text_of(own.agreement);
    undo({status::mismatch,
          rank_text(self) + " commits " + describe(own) + ", but " + rank_text(number_of(other)) + " commits " +
              describe(other) + (looks_equal ? " (what differs is not shown)" : ""),
          number_of(other)});
  }
  if (const auto pair = find_disagreement(all); pair && why_.code == status::ok)
    undo({status::mismatch, text_of(*pair, all), pair->first == self ? pair->other : pair->first});
  if (why_.code == status::ok && !world.is_even()) {
    const auto pair = find_difference(all);
    undo({status::unmatched,
          world.odd_end().value_or(
              "many sends and receives of the world do not pair up in peer, tag, kind, dtype and size") +
              (pair ? "; " + text_of(*pair, all) : "")});
  }
  std::vector<instance_address> addresses;
  for (const record& one : all) addresses.push_back(one.address);
  if (why_.code == status::ok)
    if (const status answer = engine_.open(*instance_, addresses); answer != status::ok)
      undo({answer, "the edges of " + instance_->label + " could not be connected"});
  if (why_.code != status::ok) undo(why_);
  return why_.code;
}

void commitment::undo(failure why) {
  why_ = std::move(why);
  if (instance_ != nullptr) (void)engine_.remove(*instance_);
  instance_ = nullptr;
}

// The instance stays with the engine: others, whose records were complete, may write to its edges.
void commitment::abandon() {
  const std::string who = missing_ == k_no_rank ? "some rank" : rank_text(missing_);
  instance_ = nullptr;
  undo({status::timeout, who + " did not commit in time", missing_});
}

}  // namespace lsched
