// The C interface of the builder, of schedule_file.h and of algorithm files.
#include "libsched/schedule/builder.h"

#include <array>
#include <span>

#include "bindings/c/sized.h"
#include "bindings/c/words.h"
#include "bindings/c/world.h"
#include "collectives/written/written.h"
#include "libsched/schedule/schedule_file.h"
#include "ops/counted.h"

struct lsched_builder {
  lsched::builder content;
  std::string name;
  std::optional<lsched::failure> refusal{};  ///< the builder's first error, unless `content` has recorded that error
  lsched::user_kernel user{};                ///< the reduction of all ops that combine by a user_op
};

namespace lsched {
namespace {

/// Returns the status of the builder's first error, and reports the error.
lsched_status state_of(const lsched_builder& b) {
  const failure* error = b.refusal ? &*b.refusal : b.content.error();
  return error == nullptr ? LSCHED_OK : report(kept_diagnostic(), *error);
}

/// Refuses an argument that `content` cannot represent. Records the failure `why` if the builder has no earlier error.
/// Commit then fails instead of making a schedule without the op. Returns the status of the builder's first error.
lsched_status refuse(lsched_builder& b, failure why) {
  if (state_of(b) == LSCHED_OK) b.refusal = std::move(why);
  return state_of(b);
}

result<buffer_role> read_use(lsched_slot_use use) {
  switch (use) {
    case LSCHED_INPUT: return buffer_role::input;
    case LSCHED_OUTPUT: return buffer_role::output;
    case LSCHED_SCRATCH: return buffer_role::scratch;
  }
  return argument("use is not an lsched_slot_use: choose LSCHED_INPUT, LSCHED_OUTPUT or LSCHED_SCRATCH");
}

/// Returns ARGUMENT for regions in a slot that does not exist, regions above the maximum count, and regions of
/// different lengths. Commit makes all other checks.
std::optional<failure> validate_regions(const lsched_builder& b, const char* whose,
                                        std::initializer_list<lsched_region> regions) {
  const std::size_t slots = b.content.buffer_count();
  for (const lsched_region& one : regions) {
    if (one.slot.id >= slots)
      return argument("slot " + std::to_string(one.slot.id) + " of " + whose + " does not exist: this builder has " +
                      counted(slots, "slot") + ". Use a slot from lsched_add_slot");
    if (one.offset > k_max_count || one.count > k_max_count)
      return argument(std::string("a region of ") + whose +
                      " has an offset or a count above 2^48-1, the largest number of elements");
    if (one.count != regions.begin()->count)
      return argument(std::string("the regions of ") + whose +
                      " have different counts: all regions of an op need the same count");
  }
  return std::nullopt;
}

region packed(const lsched_region& where) { return {static_cast<std::uint16_t>(where.slot.id), where.offset}; }

template <class Append>
lsched_status add_op(lsched_builder* b, const char* whose, std::initializer_list<lsched_region> regions, lsched_op* op,
                     Append&& append) {
  if (b == nullptr) return fail(status::argument, "builder is null");
  return guarded(kept_diagnostic(), [&] {
    if (auto why = validate_regions(*b, whose, regions)) return refuse(*b, std::move(*why));
    const result<op_id> id = append(*b);
    if (!id) return refuse(*b, id.error());
    if (const lsched_status answer = state_of(*b); answer != LSCHED_OK) return answer;
    if (op != nullptr) op->id = *id;
    return LSCHED_OK;
  });
}

bool is_whole(const lsched_region& where, std::uint64_t unit) {
  return where.offset % unit == 0 && where.count % unit == 0;
}

/// Returns null if an op can combine these regions by `user`, else the reason why not. All ops of a schedule use the
/// same user_op.
const char* validate_user(const lsched_builder& b, dtype type, const user_kernel& user,
                          std::span<const lsched_region> regions) {
  const bool is_same = user.run == b.user.run && user.context == b.user.context && user.unit == b.user.unit;
  if (b.user.run != nullptr && !is_same)
    return "a reduce has another user_op than an earlier reduce: all reduces of a schedule must use the same user_op";
  for (const lsched_region& one : regions) {
    if (b.content.at(static_cast<std::uint16_t>(one.slot.id)).type != type)
      return "a slot of a reduce has another dtype than its user_op: add a slot with the dtype of the user_op";
    if (!is_whole(one, user.unit))
      return "a region of a reduce is not whole units of its user_op: use multiples of the unit as offset and count";
  }
  return nullptr;
}

/// Appends a reduce op that combines by the caller's user_op. `regions` are the lower operand, the higher operand and
/// the target.
result<op_id> reduce_by_user(lsched_builder& to, lsched_reduction reduction, const lsched_user_op& user_op,
                             const std::array<lsched_region, 3>& regions) {
  if (static_cast<int>(reduction) != 0)
    return argument("a reduce has both a reduction and a user_op: set reduction to 0");
  const auto what = read_struct(&user_op);
  if (!what) return what.error();
  const auto user = read_user_op(*what);
  if (!user) return user.error();
  if (const char* why = validate_user(to, user->type, user->with, regions)) return failure{status::argument, why};
  to.user = user->with;
  const auto& [lower, higher, target] = regions;
  return to.content.reduce(kernel::user, packed(lower), packed(higher), packed(target), target.count);
}

result<schedule_ptr> compile(const lsched_builder& b) { return b.refusal ? *b.refusal : b.content.compile(); }

/// Returns ARGUMENT if a builder is for another rank, or for another number of ranks, than the world.
std::optional<failure> validate_place(const world& of_builder, const world& of_world) {
  if (of_builder.self == of_world.self && of_builder.size == of_world.size) return std::nullopt;
  const auto words = [](const world& place) {
    return "rank " + std::to_string(place.self) + " of " + std::to_string(place.size);
  };
  return argument("the builder is for " + words(of_builder) + ", but in the world the caller is " + words(of_world) +
                  ": create the builder with the rank and the size of the world");
}

result<schedule_ptr> read(const char* text, std::uint64_t bytes, world place) {
  if (text == nullptr) return failure{status::argument, "text is null"};
  auto program = parse_part({text, bytes}, place);
  if (program && (*program)->is_partial())
    return failure{status::unsupported,
                   "a partial schedule cannot be loaded from its text: create the schedule with lsched_partial_create"};
  return program;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" {

lsched_status lsched_builder_create(int32_t rank, int32_t ranks, const char* name, lsched_builder** builder) {
  if (builder == nullptr || rank < 0 || rank >= ranks)
    return fail(status::argument, "builder is null, or rank is not from 0 to ranks - 1");
  return guarded(kept_diagnostic(), [&] {
    const std::string called = name == nullptr ? "custom" : name;
    *builder = new lsched_builder{lsched::builder({.self = rank, .size = ranks}, called), called};
    return LSCHED_OK;
  });
}

void lsched_builder_destroy(lsched_builder* builder) { delete builder; }

lsched_status lsched_add_slot(lsched_builder* b, lsched_slot_use use, lsched_dtype dtype, uint64_t count,
                              lsched_slot* slot) {
  if (b == nullptr) return fail(status::argument, "builder is null");
  return guarded(kept_diagnostic(), [&] {
    if (slot == nullptr) return refuse(*b, argument("slot is null"));
    const auto role = read_use(use);
    if (!role) return refuse(*b, role.error());
    const auto element = read_dtype(dtype);
    if (!element) return refuse(*b, argument("a slot's " + element.error().text));
    const buffer_id id = b->content.declare(*role, *element, count);
    if (const lsched_status answer = state_of(*b); answer != LSCHED_OK) return answer;
    slot->id = id;
    return LSCHED_OK;
  });
}

lsched_status lsched_add_nop(lsched_builder* b, lsched_op* op) {
  return add_op(b, "a nop", {}, op, [](lsched_builder& to) { return to.content.nop(); });
}

lsched_status lsched_add_send(lsched_builder* b, int32_t peer, uint32_t tag, lsched_region source, lsched_op* op) {
  return add_op(b, "a send", {source}, op,
                [&](lsched_builder& to) { return to.content.send(peer, tag, packed(source), source.count); });
}

lsched_status lsched_add_recv(lsched_builder* b, int32_t peer, uint32_t tag, lsched_region target, lsched_op* op) {
  return add_op(b, "a receive", {target}, op,
                [&](lsched_builder& to) { return to.content.recv(peer, tag, packed(target), target.count); });
}

lsched_status lsched_add_reduce(lsched_builder* b, lsched_reduction reduction, const lsched_user_op* user_op,
                                lsched_region lower, lsched_region higher, lsched_region target, lsched_op* op) {
  return add_op(b, "a reduce", {lower, higher, target}, op, [&](lsched_builder& to) -> result<op_id> {
    if (user_op != nullptr) return reduce_by_user(to, reduction, *user_op, {lower, higher, target});
    const auto what = read_reduction(reduction);
    if (!what) return argument(what.error().text + ", and user_op is null: set one of the two");
    return to.content.reduce(*what, packed(lower), packed(higher), packed(target), target.count);
  });
}

lsched_status lsched_add_copy(lsched_builder* b, lsched_region source, lsched_region target, lsched_op* op) {
  return add_op(b, "a copy", {source, target}, op,
                [&](lsched_builder& to) { return to.content.copy(packed(source), packed(target), target.count); });
}

lsched_status lsched_add_dep(lsched_builder* b, lsched_op before, lsched_op after) {
  if (b == nullptr) return fail(status::argument, "builder is null");
  return guarded(kept_diagnostic(), [&] {
    b->content.dep(before.id, after.id);
    return state_of(*b);
  });
}

lsched_status lsched_set_need(lsched_builder* b, lsched_op op, uint32_t tokens) {
  if (b == nullptr) return fail(status::argument, "builder is null");
  return guarded(kept_diagnostic(), [&] {
    b->content.set_need(op.id, tokens);
    return state_of(*b);
  });
}

lsched_status lsched_builder_print(const lsched_builder* builder, char* text, size_t bytes, size_t* needed,
                                   lsched_diagnostic* diagnostic) {
  if (builder == nullptr || (text == nullptr && bytes > 0))
    return report(diagnostic, {status::argument, "builder or text is null"});
  return guarded(diagnostic, [&] {
    const auto program = compile(*builder);
    if (!program) return report(diagnostic, program.error());
    copy_out(to_text(**program), text, bytes, needed);
    return LSCHED_OK;
  });
}

lsched_status lsched_builder_commit(lsched_builder* builder, lsched_world* world, const void* const* inputs,
                                    void* const* outputs, lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  if (builder == nullptr) return report(diagnostic, {status::argument, "builder is null"});
  const std::unique_ptr<lsched_builder> owned(builder);
  if (world == nullptr)
    return report(diagnostic, {status::argument,
                               "a builder without a world cannot commit: pass a world, or load the text from "
                               "lsched_builder_print into a world"});
  return create(world, schedule, diagnostic, [&](lsched_world& w) -> result<creation> {
    if (auto why = validate_place(owned->content.place(), w.place())) return *why;
    auto made = bind_program("hand-written schedule " + owned->name, compile(*owned), inputs, outputs);
    if (made) made->request.options.user = owned->user;
    return made;
  });
}

lsched_status lsched_schedule_load(lsched_world* world, const char* text, uint64_t bytes, const void* const* inputs,
                                   void* const* outputs, lsched_schedule** schedule, lsched_diagnostic* diagnostic) {
  return create(world, schedule, diagnostic, [&](lsched_world& w) {
    auto program = read(text, bytes, w.place());
    const std::string name = program ? (*program)->name() : "";
    return bind_program("loaded schedule " + name, std::move(program), inputs, outputs);
  });
}

lsched_status lsched_algorithm_load(const char* text, uint64_t bytes, lsched_diagnostic* diagnostic) {
  if (text == nullptr) return report(diagnostic, {status::argument, "text is null"});
  return guarded(diagnostic, [&] {
    const auto made = add_written({text, bytes});
    return made ? LSCHED_OK : report(diagnostic, made.error());
  });
}

}  // extern "C"
