// The two ends of a partial schedule, and what its ranks do together: the C face of libsched/session/session.h.
#include "bindings/c/sized.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

bool is_partial(const lsched_schedule* schedule) { return schedule != nullptr && schedule->is_partial(); }

/// Why there cannot be such a call: the schedule is none of a session, or the report is no struct.
std::optional<failure> validate_call(const lsched_schedule* schedule, const char* wanted, const lsched_report* into) {
  if (!is_partial(schedule)) return failure{static_cast<status>(refuse(schedule)), wanted};
  if (into != nullptr && !is_there(into)) return refusal_of(published_as(into), &into->struct_size);
  return std::nullopt;
}

constexpr const char k_no_ticket[] = "not a partial schedule's ticket";
constexpr const char k_no_schedule[] = "not a partial schedule";

lsched_report told(const lsched_schedule& schedule, const collect_report& report) {
  const delivered& what = report.what;
  return {.last = {.round = what.to,
                   .contributors = what.contributors,
                   .offers = what.last_offers,
                   .ranks = static_cast<std::uint64_t>(schedule.world->joined.place().size)},
          .from = what.from,
          .to = what.to,
          .round = report.round,
          .offers = what.offers,
          .mine = what.mine,
          .staleness = what.staleness,
          .has_result = what.null ? 0 : 1};
}

/// Makes a call of the schedule's session, waiting in between, and reports of it to a caller who wants that.
template <class Call>
lsched_status make(lsched_schedule& schedule, std::uint64_t timeout_ns, lsched_report* report_to,
                   lsched_diagnostic* diagnostic, const Call& call) {
  collect_report report;
  const call_progress made = complete(schedule.world->process.driver(), deadline_after(timeout_ns),
                                      [&] { return call(*schedule.session, &report); });
  if (made.answer != status::ok) return explain(schedule, made, diagnostic);
  if (report_to != nullptr) write_struct(report_to, told(schedule, report));
  return LSCHED_OK;
}

/// A result in one piece; none: the data is dropped.
class whole_result {
 public:
  whole_result(const lsched_schedule& schedule, void* result)
      : whole_{static_cast<std::byte*>(result), schedule.session->result_buffer().count} {}
  std::span<const target_part> parts() const { return std::span(&whole_, whole_.data == nullptr ? 0 : 1); }

 private:
  target_part whole_;
};

lsched_status deposit(lsched_schedule& schedule, std::span<const source_part> contribution, lsched_ticket* ticket) {
  round_no round = 0;
  const status answer = offer(schedule.world->process.driver(), *schedule.session, contribution, &round);
  if (answer == status::ok) *ticket = {&schedule, round};
  return static_cast<lsched_status>(answer);
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_offer(lsched_schedule* schedule, const void* contribution, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse(schedule);
  const source_part whole{static_cast<const std::byte*>(contribution), schedule->session->contribution_buffer().count};
  if (ticket == nullptr || (contribution == nullptr && whole.count > 0)) return LSCHED_ERR_ARGUMENT;
  return deposit(*schedule, std::span(&whole, 1), ticket);
}

lsched_status lsched_offer_buckets(lsched_schedule* schedule, const void* const* buckets, lsched_ticket* ticket) {
  if (!is_partial(schedule)) return refuse(schedule);
  std::span<const source_part> parts;
  if (ticket == nullptr || buckets == nullptr || schedule->session->parts_of(buckets, &parts) != status::ok)
    return LSCHED_ERR_ARGUMENT;
  return deposit(*schedule, parts, ticket);
}

lsched_status lsched_collect(lsched_ticket ticket, void* result, uint64_t timeout_ns, lsched_report* report_to,
                             lsched_diagnostic* diagnostic) {
  if (const auto why = validate_call(ticket.schedule, k_no_ticket, report_to)) return report(diagnostic, *why);
  const whole_result whole(*ticket.schedule, result);
  return make(*ticket.schedule, timeout_ns, report_to, diagnostic,
              [&](session& one, collect_report* into) { return one.collect(ticket.round, whole.parts(), into); });
}

lsched_status lsched_collect_buckets(lsched_ticket ticket, void* const* buckets, uint64_t timeout_ns,
                                     lsched_report* report_to, lsched_diagnostic* diagnostic) {
  if (const auto why = validate_call(ticket.schedule, k_no_ticket, report_to)) return report(diagnostic, *why);
  std::span<const target_part> parts;
  if (buckets == nullptr || ticket.schedule->session->parts_of(buckets, &parts) != status::ok)
    return report(diagnostic, {status::argument, "buckets is null, or the pointer to one that is not empty"});
  return make(*ticket.schedule, timeout_ns, report_to, diagnostic,
              [&](session& one, collect_report* into) { return one.collect(ticket.round, parts, into); });
}

lsched_status lsched_collect_view(lsched_ticket ticket, void** result, uint64_t timeout_ns, lsched_report* report_to,
                                  lsched_diagnostic* diagnostic) {
  if (result == nullptr) return report(diagnostic, {status::argument, "result is null"});
  if (const auto why = validate_call(ticket.schedule, k_no_ticket, report_to)) return report(diagnostic, *why);
  std::byte* data = nullptr;
  const lsched_status answer =
      make(*ticket.schedule, timeout_ns, report_to, diagnostic,
           [&](session& one, collect_report* into) { return one.collect_view(ticket.round, &data, into); });
  if (answer == LSCHED_OK) *result = data;
  return answer;
}

lsched_status lsched_withdraw(lsched_schedule* schedule, uint64_t* offers) {
  if (!is_partial(schedule)) return refuse(schedule);
  std::uint64_t taken = 0;
  const status answer = schedule->session->withdraw(&taken);
  if (answer == status::ok && offers != nullptr) *offers = taken;
  return static_cast<lsched_status>(answer);
}

lsched_status lsched_flush(lsched_schedule* schedule, void* result, uint64_t timeout_ns, lsched_report* report_to,
                           lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (const auto why = validate_call(schedule, k_no_schedule, report_to)) return report(diagnostic, *why);
    const whole_result whole(*schedule, result);
    return make(*schedule, timeout_ns, report_to, diagnostic,
                [&](session& one, collect_report* into) { return one.flush(whole.parts(), into); });
  });
}

lsched_status lsched_model_sync(lsched_schedule* schedule, void* weights, uint64_t timeout_ns, lsched_report* report_to,
                                lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (const auto why = validate_call(schedule, k_no_schedule, report_to)) return report(diagnostic, *why);
    const bool may_be_null =
        !schedule->session->averages_weights() || schedule->session->contribution_buffer().count == 0;
    if (weights == nullptr && !may_be_null) return report(diagnostic, {status::argument, "weights is null"});
    return make(*schedule, timeout_ns, report_to, diagnostic,
                [&](session& one, collect_report* into) { return one.model_sync(weights, into); });
  });
}

lsched_status lsched_leave(lsched_schedule* schedule) {
  if (!is_partial(schedule)) return refuse(schedule);
  leave(schedule->world->process.driver(), *schedule->session);
  return LSCHED_OK;
}

}  // extern "C"
