#include "microbench/soak/soak_ledger.h"

#include <algorithm>
#include <utility>

#include "libsched/schedule/draw.h"

namespace lsched::cli {
namespace {

constexpr std::uint64_t k_untouched = 0x5eed'0000'dead'0001;

void add(std::vector<std::uint64_t>& sum, const std::vector<std::uint64_t>& more) {
  std::transform(sum.begin(), sum.end(), more.begin(), sum.begin(),
                 [](std::uint64_t x, std::uint64_t y) { return x + y; });
}

constexpr std::uint64_t wide(rank value) { return static_cast<std::uint64_t>(value); }

}  // namespace

soak_ledger::soak_ledger(world where, std::uint64_t count, std::uint64_t seed, const activation& starts,
                         std::uint64_t together, std::uint32_t fragments,
                         std::function<void(std::uint64_t, const std::string&)> complain)
    : where_(where), seed_(seed), starts_(starts), together_(together), complain_(std::move(complain)) {
  last_.resize(fragments);
  const std::uint64_t size = std::max(count, k_least_count);
  for (std::uint64_t j = k_least_count; j < size; ++j)
    coefficients_.push_back({mix(3 * j) | 1, mix(3 * j + 1), mix(3 * j + 2)});
  for (auto* elements : {&mine_, &result_, &offered_, &delivered_, &expected_, &one_})
    elements->assign(static_cast<std::size_t>(size), 0);
}

void soak_ledger::fill(std::vector<std::uint64_t>& elements, rank from, std::uint64_t call) const {
  elements[0] = 1;
  elements[1] = wide(from) + 1;
  elements[2] = mix(mix(mix(seed_) ^ wide(from)) ^ call);
  for (std::size_t j = 0; j < coefficients_.size(); ++j) {
    const coefficients& it = coefficients_[j];
    elements[k_least_count + j] = it.of_hash * elements[2] + it.of_rank * elements[1] + it.of_one;
  }
}

const std::vector<std::uint64_t>& soak_ledger::contribute() {
  fill(mine_, where_.self, ++calls_);
  add(offered_, mine_);
  return mine_;
}

std::uint64_t* soak_ledger::result() {
  result_[0] = k_untouched;
  return result_.data();
}

bool soak_ledger::check(const lsched_report& report, std::uint64_t round) {
  const bool is_new = report.to != report.from;
  check_interval(report, round);
  check_counts(report);
  if (report.has_result != 0) {
    check_elements(report);
    add(delivered_, result_);
  } else {
    expect(result_[0] == k_untouched, "a collect without a result wrote to its buffer", result_[0], k_untouched);
  }
  check_policy(report);
  const bool is_full = starts_.policy == activation_policy::full;
  if (is_full && is_new && round != 0 && report.to <= together_) check_full_round(report);
  last_[report.fragment] = report.to;
  mine_delivered_ += report.mine;
  if (!is_new || round == 0) return is_new;  // only results of this rank's calls count for the mean
  ++results_;
  contributors_ += report.last.contributors;
  return true;
}

void soak_ledger::check_interval(const lsched_report& report, std::uint64_t round) {
  const std::uint64_t fragment = report.to == 0 ? report.fragment : (report.to - 1) % last_.size();
  expect(report.fragment == fragment, "the report names a wrong fragment", report.fragment, fragment);
  const std::uint64_t last = last_[fragment];
  expect(report.from == last, "the report does not continue the previous report of its fragment", report.from, last);
  expect(report.to >= report.from, "the report's interval runs backwards", report.to, report.from);
  if (last_.size() > 1 && report.to != report.from) return;  // may be an earlier result of another fragment
  const std::uint64_t to = std::max(report.to, last_round());
  expect(to >= round, "collect returned before the ticket's round was over", to, round);
}

void soak_ledger::check_counts(const lsched_report& report) {
  const std::uint64_t outstanding = calls_ - mine_delivered_;
  const std::uint64_t size = wide(where_.size);
  expect(report.last.ranks == size, "the report has a wrong number of ranks", report.last.ranks, size);
  expect(report.last.contributors <= wide(where_.size), "more contributors than ranks", report.last.contributors,
         wide(where_.size));
  expect(report.mine <= outstanding, "more offers of this rank were delivered than made", report.mine, outstanding);
  expect(report.mine <= report.offers, "more offers of this rank than of all ranks", report.mine, report.offers);
  expect(report.last.contributors <= report.last.offers, "fewer offers than contributors", report.last.offers,
         report.last.contributors);
  const bool has_offers = report.offers != 0;
  expect(has_offers == (report.has_result != 0), "has_result contradicts the number of offers", report.offers,
         static_cast<std::uint64_t>(report.has_result));
  const bool is_empty = report.from == report.to;
  expect(!is_empty || !has_offers, "the report covers no round but has offers", report.offers, 0);
}

void soak_ledger::check_elements(const lsched_report& report) {
  expect(result_[0] == report.offers, "element 0, the number of contributions, differs from the report", result_[0],
         report.offers);
  const std::uint64_t others = report.offers - report.mine;
  const std::uint64_t own = report.mine * (wide(where_.self) + 1);
  expect(result_[1] >= own + others, "element 1, ranks, is below what is possible", result_[1], own + others);
  expect(result_[1] <= own + others * wide(where_.size), "element 1, ranks, is above what is possible", result_[1],
         own + others * wide(where_.size));
  for (std::size_t j = 0; j < coefficients_.size(); ++j) {
    const coefficients& it = coefficients_[j];
    const std::uint64_t wanted = it.of_hash * result_[2] + it.of_rank * result_[1] + it.of_one * result_[0];
    const std::uint64_t got = result_[k_least_count + j];
    if (got == wanted) continue;
    expect(false, ("element " + std::to_string(k_least_count + j) + " does not match elements 0 to 2").c_str(), got,
           wanted);
    return;  // reports at most one violation for each result
  }
}

/// Checks staleness and the number of contributors. A rank that calls for a round has a pending offer, so all ranks
/// whose calls start a round contribute to that round.
void soak_ledger::check_policy(const lsched_report& report) {
  // An offer that is late for its call waits for the next round of its fragment.
  const std::uint64_t fragments = last_.size(), late = starts_.full_every + fragments - 2;
  const std::uint64_t oldest = starts_.full_every == 0 ? UINT64_MAX : late / fragments * fragments;
  expect(report.staleness <= oldest, "an offer is older than the policy allows", report.staleness, oldest);
  if (report.to == report.from || report.to > together_) return;
  const bool is_full = starts_.is_full(report.to);
  const std::uint64_t least = wide(is_full ? where_.size : quota_of(starts_, where_.size).arrivals);
  expect(report.last.contributors >= least, "fewer contributors than it takes to start a round",
         report.last.contributors, least);
}

/// Checks that the round has exactly one offer of every rank.
void soak_ledger::check_full_round(const lsched_report& report) {
  expect(report.to == calls_, "policy full: the round differs from the number of calls of this rank", report.to,
         calls_);
  expect(report.last.contributors == wide(where_.size), "policy full: a rank is missing", report.last.contributors,
         wide(where_.size));
  expect(report.mine == 1, "policy full: not exactly one offer of this rank", report.mine, 1);
  std::fill(expected_.begin(), expected_.end(), 0);
  for (rank r = 0; r < where_.size; ++r) {
    fill(one_, r, calls_);
    add(expected_, one_);
  }
  const auto wrong = std::mismatch(expected_.begin(), expected_.end(), result_.begin());
  if (wrong.first == expected_.end()) return;
  const auto place = std::to_string(wrong.first - expected_.begin());
  expect(false, ("policy full: element " + place + " is wrong").c_str(), *wrong.second, *wrong.first);
}

void soak_ledger::check_mine() {
  expect(mine_delivered_ == calls_, "the number of delivered offers of this rank differs from the number of calls",
         mine_delivered_, calls_);
}

void soak_ledger::check_totals(const std::vector<std::uint64_t>& of_world) {
  const auto wrong = std::mismatch(delivered_.begin(), delivered_.end(), of_world.begin());
  if (wrong.first == delivered_.end()) return;
  const auto place = std::to_string(wrong.first - delivered_.begin());
  expect(false, ("the total of element " + place + " in the results differs from the offers").c_str(), *wrong.first,
         *wrong.second);
}

double soak_ledger::mean_contributors() const {
  return results_ == 0 ? 0 : static_cast<double>(contributors_) / static_cast<double>(results_);
}

void soak_ledger::expect(bool holds, const char* what, std::uint64_t got, std::uint64_t wanted) {
  if (holds) return;
  ++violations_;
  complain_(calls_, std::string(what) + " (" + std::to_string(got) + ", not " + std::to_string(wanted) + ")");
}

}  // namespace lsched::cli
