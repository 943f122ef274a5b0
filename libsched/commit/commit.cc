#include "libsched/commit/commit.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "libsched/analysis/edge_balance.h"
#include "ops/hash.h"

namespace lsched {
namespace {

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

static_assert(std::is_trivially_copyable_v<edge_balance> && sizeof(edge_balance) <= sizeof(commit_record::detail));

std::string rank_text(rank r) { return "rank " + std::to_string(r); }

// --- reductions --------------------------------------------------------------------------------------------

/// The reductions of a rank are encoded in four bits per dtype. If the rank applies only one reduction to a dtype, the
/// four bits hold number_of(reduction). Otherwise the four bits hold one of the following two values.
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

/// Returns a text such as "f32 by sum, i64 by several reductions".
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

/// Two ranks whose reductions differ.
struct two_ranks {
  rank first, other;
};

/// Returns two ranks that apply different reductions to the same dtype. Ranks with several reductions of the dtype are
/// ignored.
std::optional<two_ranks> find_other_reduction(const std::vector<commit_record>& all) {
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

/// Returns two ranks whose sets of reductions differ and are not empty. Such a difference is a likely cause of
/// unmatched edges.
std::optional<two_ranks> find_difference(const std::vector<commit_record>& all) {
  const auto combines = [](const commit_record& one) { return one.reductions != 0; };
  const auto first = std::ranges::find_if(all, combines);
  const auto other = std::find_if(
      first, all.end(), [&](const commit_record& one) { return combines(one) && one.reductions != first->reductions; });
  if (other == all.end()) return std::nullopt;
  return two_ranks{static_cast<rank>(first - all.begin()), static_cast<rank>(other - all.begin())};
}

std::string text_of(const two_ranks& pair, const std::vector<commit_record>& all) {
  const auto side = [&](rank r) {
    return rank_text(r) + " reduces " + text_of(all[static_cast<std::size_t>(r)].reductions);
  };
  return side(pair.first) + ", but " + side(pair.other);
}

}  // namespace

// --- the base of all commits -------------------------------------------------------------------------------

commitment::commitment(membership_ptr members, std::uint64_t number, const std::string& agreement)
    : members_(std::move(members)) {
  record_.number = number;
  fnv_hash hash;
  hash.add(agreement);
  record_.agreement_hash = hash.value();
  copy_text(record_.agreement, agreement);
}

void commitment::write_error(const failure& why) {
  record_.code = static_cast<std::int32_t>(why.code);
  copy_text(record_.detail, why.text);
}

void commitment::refuse(failure why) {
  write_error(why);
  refused_ = std::move(why);
}

void commitment::end(const std::optional<failure>& why) {
  if (!why) return progress_.finished.store(1);
  withdraw(*why);
  why_ = *why;
  progress_.verdict.store(why->code);
}

// --- the exchanges of a commit ---

void commitment::write_record(std::span<std::byte> record) const {
  if (texts_) return texts_->write_page(record);
  std::memcpy(record.data(), &record_, sizeof record_);
}

commitment::after_exchange commitment::read_records(std::span<const std::byte> records) {
  if (texts_) return read_texts(records);
  std::vector<commit_record> all(records.size() / board::record_bytes);
  for (std::size_t r = 0; r < all.size(); ++r)
    std::memcpy(&all[r], records.data() + r * board::record_bytes, sizeof all[r]);
  if (auto why = find_disagreement(all)) return {.why = std::move(why)};
  const bool is_proof_due =
      !has_proved_ && std::ranges::any_of(all, [](const commit_record& one) { return one.asks_for_proof != 0; });
  if (!is_proof_due) return {.why = conclude(all)};
  begin_proof(all.size());
  return {.is_last = false};
}

/// Reads a page of each text. All ranks read the same lengths, so all ranks refuse texts that are too long.
commitment::after_exchange commitment::read_texts(std::span<const std::byte> records) {
  const bool is_complete = texts_->read_pages(records);
  if (texts_->bytes() > k_most_proof_bytes)
    return {.why = failure{status::unsupported,
                           "verification was requested, but the schedules of all ranks have " +
                               std::to_string(texts_->bytes()) + " bytes of text, and commit proves at most " +
                               std::to_string(k_most_proof_bytes) + ". Verify the schedules with `lsched verify`"}};
  if (is_complete) end_proof();
  return {.is_last = false};
}

void commitment::begin_proof(std::size_t members) {
  std::string mine;
  try {
    mine = describe_part();
  } catch (const std::exception& error) {
    fault_ = failure{status::no_memory,
                     std::string("the schedule could not be written as text for its proof: ") + error.what()};
  }
  texts_.emplace(std::move(mine), members);
}

/// Proves the schedule. If only this rank runs out of memory, the record carries that error to the other ranks.
void commitment::end_proof() {
  if (!fault_) try {
      fault_ = texts_->texts().empty()
                   ? failure{status::no_memory, "out of memory for the ranks' schedules, which the proof needs as text"}
                   : find_fault(texts_->texts());
    } catch (const std::exception& error) {
      fault_ = failure{status::no_memory, std::string("the proof of the schedule was not completed: ") + error.what()};
    }
  texts_.reset();
  has_proved_ = true;
  if (fault_) write_error(*fault_);
}

// Returns the error if the records do not agree. All ranks have the same records and find the same status. A rank whose
// own part was refused returns the text of that refusal.
std::optional<failure> commitment::find_disagreement(const std::vector<commit_record>& all) const {
  if (refused_) return refused_;
  if (fault_) return fault_;
  const commit_record& own = all[static_cast<std::size_t>(self())];
  const auto number_of = [&](const commit_record& one) { return static_cast<rank>(&one - all.data()); };
  const auto agreed = [](const commit_record& one) {
    return std::tuple(one.agreement_hash, one.number, one.is_synchronising);
  };
  const auto describe = [](const commit_record& one) {
    return std::string(text_of(one.agreement)) + " as #" + std::to_string(one.number);
  };
  for (const commit_record& one : all)
    if (one.code != 0)
      return failure{static_cast<status>(one.code),
                     rank_text(number_of(one)) + " could not commit: " + std::string(text_of(one.detail)),
                     number_of(one)};
  for (const commit_record& one : all) {
    if (agreed(one) == agreed(all.front())) continue;
    const commit_record& other =
        agreed(one) == agreed(own) ? all.front() : one;  // a record that differs from this rank's record
    const bool looks_equal = text_of(other.agreement) == text_of(own.agreement);
    return failure{status::mismatch,
                   rank_text(self()) + " commits " + describe(own) + ", but " + rank_text(number_of(other)) +
                       " commits " + describe(other) +
                       (looks_equal ? " (their difference is not part of these descriptions)" : "") +
                       ". Create equal schedules in the same order on all ranks",
                   number_of(other)};
  }
  return std::nullopt;
}

// --- a schedule --------------------------------------------------------------------------------------------

schedule_commit::schedule_commit(engine& where, membership_ptr members, std::uint64_t number,
                                 const commit_request& request)
    : commitment(std::move(members), number, request.agreement), engine_(where), proof_(request.proof) {
  auto why = request.program ? reserve(request) : std::optional(request.program.error());
  if (!why) return;
  for (std::size_t i = 0; i < count_; ++i) {
    engine_.refuse(*made_[i], *why);
    (void)engine_.remove(*made_[i]);
  }
  count_ = 0;
  refuse(std::move(*why));
}

std::optional<failure> schedule_commit::reserve(const commit_request& request) {
  const schedule_ptr& program = *request.program;
  edge_balance edges;
  edges.add(*program);
  std::memcpy(record_.detail, &edges, sizeof edges);
  record_.reductions = reductions_of(*program);
  record_.is_synchronising = program->is_synchronising() ? 1 : 0;
  record_.asks_for_proof = request.proof.is_asked ? 1 : 0;
  std::optional<failure> why;
  for (std::size_t i = 0; i < request.flights && !why; ++i)
    why = add(program, request.memory, request.options,
              i == 0 ? std::string() : made_[0]->label + " flight " + std::to_string(i));
  for (const companion& one : request.companions)
    if (!why)
      why = add(one.program, {}, {.predecessor = one.predecessor, .rounds_before = one.rounds_before},
                one.purpose + " of " + made_[0]->label);
  return why;
}

std::optional<failure> schedule_commit::add(schedule_ptr program, const binding& memory,
                                            const instance_options& options, std::string label) {
  auto added = engine_.add(std::move(program), memory, options,
                           {members_, record_.number, static_cast<std::uint32_t>(count_), std::move(label)});
  if (!added) return added.error();
  record_.addresses[count_] = engine_.net().address_of((*added)->id);
  made_[count_++] = *added;
  return std::nullopt;
}

std::optional<failure> schedule_commit::conclude(const std::vector<commit_record>& all) {
  if (const auto pair = find_other_reduction(all))
    return failure{status::mismatch, text_of(*pair, all), pair->first == self() ? pair->other : pair->first};
  edge_balance world;
  for (const commit_record& one : all) {
    edge_balance edges;
    std::memcpy(&edges, one.detail, sizeof edges);
    world.add(edges);
  }
  if (!world.is_even()) {
    const auto pair = find_difference(all);
    return failure{status::unmatched,
                   world.odd_end().value_or(
                       "several sends and receives of the ranks do not match in peer, tag, kind, dtype and size") +
                       (pair ? "; " + text_of(*pair, all) : "")};
  }
  std::vector<member_address> addresses(all.size());
  for (std::size_t i = 0; i < count_; ++i) {
    std::ranges::transform(all, addresses.begin(), [i](const commit_record& one) { return one.addresses[i]; });
    if (const status answer = engine_.link(*made_[i], addresses); answer != status::ok)
      return failure{answer, "the ranks could not be connected for the messages of " + made_[i]->label +
                                 ": create equal schedules on all ranks, or open the world again"};
  }
  for (instance* const one : made()) engine_.open(*one);
  remove_orphans();
  return std::nullopt;
}

void schedule_commit::withdraw(const failure& why) {
  for (std::size_t i = 0; i < count_; ++i) engine_.refuse(*made_[i], why);
  remove_orphans();
  count_ = 0;
}

void schedule_commit::remove_orphans() {
  const auto is_gone = [this](instance* one) {
    const bool is_orphan = one->is_orphan;
    if (is_orphan) (void)engine_.remove(*one);
    return is_orphan;
  };
  const auto all = made_.begin();
  count_ = static_cast<std::size_t>(std::remove_if(all, all + static_cast<std::ptrdiff_t>(count_), is_gone) - all);
}

void schedule_commit::abandon() {
  for (instance* const one : made()) engine_.abandon(*one);
}

}  // namespace lsched
