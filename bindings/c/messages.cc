// Mailboxes and messages of the C interface.
#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"

struct lsched_mailbox {
  lsched_world* world = nullptr;
  std::shared_ptr<lsched::mailbox_commit> commit{};
  std::atomic<std::uint64_t> messages{0};  ///< messages whose end has not been reported
};

struct lsched_message {
  lsched_mailbox* in;
  lsched::posted_message what;
};

namespace lsched {
namespace {

driver& drives(const lsched_mailbox& some) { return some.world->process.driver(); }

lsched_status post(lsched_mailbox* mailbox, const posted_message& wanted, bool is_any_allowed,
                   lsched_message** message) {
  if (mailbox == nullptr || message == nullptr) return fail(status::argument, "mailbox or message is null");
  const rank size = mailbox->world->place().size;
  const bool is_rank = (wanted.peer >= 0 && wanted.peer < size) || (is_any_allowed && wanted.peer == LSCHED_ANY_RANK);
  const bool is_tag = wanted.tag >= 0 || (is_any_allowed && wanted.tag == k_any_tag);
  const bool is_too_long = wanted.is_sent && wanted.bytes > k_longest_message;
  if (!is_rank)
    return report(kept_diagnostic(),
                  argument("the peer is rank " + std::to_string(wanted.peer) +
                           ", which is not a rank of the world: use 0 to " + std::to_string(size - 1)));
  if (!is_tag)
    return report(kept_diagnostic(),
                  argument("the tag is negative, " + std::to_string(wanted.tag) + ": use 0 or more"));
  if (is_too_long)
    return fail(status::argument, "the message is longer than 2^45 bytes: send the data in several messages");
  if (wanted.memory == nullptr && wanted.bytes > 0)
    return fail(status::argument,
                "the memory of the message is null, but the message has bytes: pass memory, or 0 bytes");
  if (wanted.bytes > 0 && is_on_device(wanted.memory))
    return fail(status::unsupported, "messages cannot be in device memory: copy the data to the host first");
  return guarded(kept_diagnostic(), [&] {
    auto made = std::unique_ptr<lsched_message>(new lsched_message{.in = mailbox, .what{}});
    made->what.is_sent = wanted.is_sent;
    made->what.peer = wanted.peer == LSCHED_ANY_RANK ? k_no_rank : wanted.peer;
    made->what.tag = wanted.tag;
    made->what.memory = wanted.memory;
    made->what.bytes = wanted.bytes;
    drives(*mailbox).with_engine([&] { mailbox->commit->made().post(made->what); });
    ++mailbox->messages;
    *message = made.release();
    return LSCHED_OK;
  });
}

/// Reports the end of a message to the caller, and destroys the message.
void conclude(lsched_message** message, lsched_arrival* what) {
  const posted_message& ended = (*message)->what;
  if (is_there(what)) {
    const bool is_sent = ended.is_sent;
    write_struct(what, lsched_arrival{.struct_size = sizeof *what,
                                      .rank = is_sent ? ended.peer : ended.source,
                                      .tag = static_cast<std::int32_t>(is_sent ? ended.tag : ended.tag_received),
                                      .bytes = is_sent ? ended.bytes : ended.bytes_received});
  }
  --(*message)->in->messages;
  delete *message;
  *message = nullptr;
}

std::string words_for(const posted_message& one) {
  const std::string tag = one.tag == k_any_tag ? "" : " with tag " + std::to_string(one.tag);
  const std::string who = one.peer == k_no_rank ? "any rank" : "rank " + std::to_string(one.peer);
  return one.is_sent ? "the message to " + who + tag : "a message from " + who + tag;
}

failure timeout_of(const lsched_mailbox& in, const posted_message& one) {
  failure why{status::timeout, words_for(one) + (one.is_sent ? " was not received in time" : " did not arrive in time"),
              one.peer};
  drives(in).with_engine([&] {
    if (!one.progress.has_ended()) why.text += in.commit->made().describe_wait(one, &why.peer);
  });
  return why;
}

failure failure_of(const lsched_mailbox& in, const posted_message& one, status verdict) {
  if (one.is_refused) return in.commit->made().refusal();
  const std::string words = words_for(one);
  const auto bytes = [](std::uint64_t number) { return std::to_string(number) + " bytes"; };
  if (verdict == status::bounds)
    return {verdict,
            words + " has " + bytes(one.bytes_received) + ", but there is room for " + bytes(one.bytes) +
                ": post a longer receive",
            one.source};
  if (verdict == status::peer)
    return {verdict, words + ": rank " + std::to_string(one.source) + " died, or has closed its world or mailbox",
            one.source};
  return {verdict, words + ": " + std::string(text_of(verdict)), one.source};
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_mailbox_create(lsched_world* world, lsched_mailbox** mailbox, lsched_diagnostic* diagnostic) {
  if (world == nullptr) return report(diagnostic, {status::argument, "world is null"});
  return guarded(diagnostic, [&] {
    auto made = std::make_unique<lsched_mailbox>();
    made->world = world;
    look_for_gpu();
    std::optional<failure> unable;
    if (mailbox == nullptr) unable = failure{status::argument, "mailbox is null"};
    made->commit = world->joined.queue_mailbox(unable);
    std::optional<failure> why;
    if (world->creates_wait.load()) why = world->joined.await(*made->commit);
    if (!why) why = made->commit->refused();
    if (why) {
      (void)world->joined.remove(made->commit);
      return report(diagnostic, with_details_of_rank(*world, std::move(*why)));
    }
    *mailbox = made.release();
    return LSCHED_OK;
  });
}

lsched_status lsched_send_post(lsched_mailbox* mailbox, int32_t to, int32_t tag, const void* data, uint64_t bytes,
                               lsched_message** message) {
  std::byte* const memory = static_cast<std::byte*>(const_cast<void*>(data));
  return post(mailbox, {.is_sent = true, .peer = to, .tag = tag, .memory = memory, .bytes = bytes}, false, message);
}

lsched_status lsched_receive_post(lsched_mailbox* mailbox, int32_t from, int32_t tag, void* data, uint64_t room,
                                  lsched_message** message) {
  return post(mailbox, {.peer = from, .tag = tag, .memory = static_cast<std::byte*>(data), .bytes = room}, true,
              message);
}

lsched_status lsched_message_wait(lsched_message** message, uint64_t timeout_ns, lsched_arrival* what,
                                  lsched_diagnostic* diagnostic) {
  if (message == nullptr || *message == nullptr) return report(diagnostic, {status::argument, "message is null"});
  if (what != nullptr && !is_there(what)) return report(diagnostic, refusal_of(what));
  const posted_message& one = (*message)->what;
  const lsched_mailbox& in = *(*message)->in;
  const common_step& progress = one.progress;
  if (!progress.has_ended()) {
    const wait_note note = in.commit->made().note_of(one);
    (void)drives(in).wait(progress, deadline_after(timeout_ns), &note);
  }
  // The result of the wait is ignored, because the message may have ended after the wait.
  if (progress.finished.load() != 0) return conclude(message, what), LSCHED_OK;
  return guarded(diagnostic, [&] {
    const status verdict = progress.verdict.load();
    const failure why =
        with_details_of_rank(*in.world, verdict == status::ok ? timeout_of(in, one) : failure_of(in, one, verdict));
    if (verdict != status::ok) conclude(message, what);
    return report(diagnostic, why);
  });
}

lsched_status lsched_message_test(lsched_message** message, lsched_arrival* what) {
  if (message == nullptr || *message == nullptr) return fail(status::argument, "message is null");
  if (what != nullptr && !is_there(what)) return report(kept_diagnostic(), refusal_of(what));
  const common_step& progress = (*message)->what.progress;
  if (!progress.has_ended()) (void)drives(*(*message)->in).progress();
  if (!progress.has_ended()) return LSCHED_PENDING;
  const status outcome = progress.verdict.load();
  if (outcome == status::ok) return conclude(message, what), LSCHED_OK;
  return guarded(kept_diagnostic(), [&] {
    const failure why = failure_of(*(*message)->in, (*message)->what, outcome);
    conclude(message, what);
    return report(kept_diagnostic(), why);
  });
}

lsched_status lsched_message_cancel(lsched_message** message) {
  if (message == nullptr || *message == nullptr) return fail(status::argument, "message is null");
  return guarded(kept_diagnostic(), [&] {
    posted_message& one = (*message)->what;
    mailbox& in = (*message)->in->commit->made();
    bool is_back = false;
    drives(*(*message)->in).with_engine([&] { is_back = !one.progress.has_ended() && in.take_back(one); });
    if (!is_back)
      return fail(status::busy,
                  "the message cannot be cancelled, because its transfer has begun or ended: call lsched_message_wait");
    conclude(message, nullptr);
    return LSCHED_OK;
  });
}

lsched_status lsched_mailbox_destroy(lsched_mailbox* mailbox) {
  if (mailbox == nullptr) return LSCHED_OK;
  if (mailbox->messages.load() != 0)
    return fail(status::busy, "messages of the mailbox are outstanding: wait for each of them, or cancel them");
  return guarded(kept_diagnostic(), [&] {
    const status answer = mailbox->world->joined.remove(mailbox->commit);
    if (answer != status::ok)
      return fail(answer,
                  "the mailbox still transfers a message to or from a peer: call lsched_mailbox_destroy again later");
    delete mailbox;
    return LSCHED_OK;
  });
}

}  // extern "C"
