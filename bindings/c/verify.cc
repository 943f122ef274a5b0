// Proofs: the C face of verify.h.
#include "libsched/verify/verify.h"

#include <algorithm>
#include <cstring>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/promise.h"
#include "libsched/schedule/schedule_file.h"

namespace lsched {
namespace {

constexpr std::int32_t k_most_ranks = 1 << 20;

/// A world and what it is held against.
struct question {
  std::vector<schedule_ptr> world;
  world_promise promise;
  aliasing in_place{};
};

failure argument(std::string text) { return {status::argument, std::move(text)}; }

// --- reading -----------------------------------------------------------------------------------------------

result<question> read(const lsched_verify_text_desc& desc) {
  if (desc.text == nullptr) return argument("text is null");
  auto world = parse_world({desc.text, desc.bytes});
  if (!world) return world.error();
  auto promise = promise_for(*world, desc.collective == nullptr ? "" : desc.collective);
  if (!promise) return promise.error();
  const aliasing in_place = desc.in_place != 0 ? promise->in_place : aliasing(false);
  return question{std::move(*world), std::move(*promise), in_place};
}

result<question> read(const lsched_verify_collective_desc& desc) {
  const auto asked = read_collective({.collective = desc.collective,
                                      .algorithm = desc.algorithm,
                                      .ranks = desc.ranks,
                                      .root = 0,
                                      .count = desc.count,
                                      .dtype = desc.dtype,
                                      .reduction = desc.reduction,
                                      .activation = desc.activation,
                                      .in_place = desc.in_place != 0},
                                     k_most_ranks);
  if (!asked) return asked.error();
  const auto& [how, data, starts] = *asked;
  auto world = generate_world(*how, desc.ranks, data, starts);
  if (!world) return world.error();
  const aliasing in_place = aliasing_of(*how->of, desc.ranks, data);
  return question{std::move(*world), {how->of, how, promise_of(*how, desc.ranks, data, starts), in_place}, in_place};
}

// --- telling -----------------------------------------------------------------------------------------------

void write(lsched_finding& to, const finding& it) {
  to = {.property = name_of(it.what).data(),
        .rank = it.where,
        .peer = it.peer,
        .op = it.op,
        .buffer = it.buffer == k_no_buffer ? UINT32_MAX : it.buffer,
        .begin = it.begin,
        .end = it.end,
        .text = {}};
  std::memcpy(to.text, it.text.data(), std::min(it.text.size(), sizeof to.text - 1));
}

lsched_verification figures_of(const question& asked, const verification& answer) {
  const unexpected_bound worst = worst_unexpected(answer);
  return {.holds = answer.holds() ? 1 : 0,
          .ranks = static_cast<std::int32_t>(asked.world.size()),
          .collective = asked.promise.of == nullptr ? nullptr : asked.promise.of->name.data(),
          .algorithm = asked.promise.by == nullptr ? nullptr : asked.promise.by->name.data(),
          .is_synchronising = answer.is_synchronising ? 1 : 0,
          .is_eager_safe = answer.is_eager_safe ? 1 : 0,
          .messages = answer.price.messages,
          .bytes = answer.price.bytes,
          .signals = answer.price.signals,
          .signals_of_one = answer.price.signals_of_one,
          .hops = answer.price.hops,
          .unexpected_messages = worst.messages,
          .unexpected_bytes = worst.bytes,
          .findings = 0,
          .notes = 0};
}

template <class Desc>
lsched_status prove(const Desc* desc, lsched_verification* to, lsched_finding* findings, std::uint64_t most,
                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (desc == nullptr || to == nullptr || (findings == nullptr && most > 0))
      return report(diagnostic, argument("desc, verification or findings is null"));
    if (!is_there(to)) return report(diagnostic, refusal_of(published_as(to), &to->struct_size));
    const auto known = read_struct(desc);
    if (!known) return report(diagnostic, known.error());
    const auto asked = read(*known);
    if (!asked) return report(diagnostic, asked.error());
    const verification answer =
        verify(asked->world, asked->promise.what, {.in_place = asked->in_place, .most_findings = most});
    lsched_verification figures = figures_of(*asked, answer);
    for (const finding& it : answer.findings)
      if (figures.findings < most) write(findings[figures.findings++], it);
    for (const finding& it : answer.notes)
      if (figures.findings + figures.notes < most) write(findings[figures.findings + figures.notes++], it);
    write_struct(to, figures);
    return LSCHED_OK;
  });
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_verify_text(const lsched_verify_text_desc* desc, lsched_verification* verification,
                                 lsched_finding* findings, uint64_t most_findings, lsched_diagnostic* diagnostic) {
  return prove(desc, verification, findings, most_findings, diagnostic);
}

lsched_status lsched_verify_collective(const lsched_verify_collective_desc* desc, lsched_verification* verification,
                                       lsched_finding* findings, uint64_t most_findings,
                                       lsched_diagnostic* diagnostic) {
  return prove(desc, verification, findings, most_findings, diagnostic);
}

}  // extern "C"
