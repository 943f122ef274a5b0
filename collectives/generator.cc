#include "collectives/generator.h"

#include <bit>
#include <string>
#include <utility>

#include "collectives/activation.h"

namespace lsched {
namespace {

failure argument(std::string text) { return {.code = status::argument, .text = std::move(text)}; }
failure constraint(std::string text) { return {.code = status::constraint, .text = std::move(text)}; }

std::string name(std::string_view text) { return std::string(text); }

std::optional<failure> objection_to_place(const constraints& needs, world place) {
  if (place.size < 1) return argument("a world has at least one rank, not " + std::to_string(place.size));
  if (place.self < 0 || place.self >= place.size)
    return argument("rank " + std::to_string(place.self) + " is outside its world: use 0 to " +
                    std::to_string(place.size - 1));
  if (needs.power_of_two && !std::has_single_bit(static_cast<std::uint32_t>(place.size)))
    return constraint("this algorithm serves 2^k ranks only, not " + std::to_string(place.size) +
                      ": choose another, or \"auto\"");
  return std::nullopt;
}

std::optional<failure> objection_to_data(const constraints& needs, const shape& data) {
  if (!needs.moves_data) {
    if (data.count == 0 && data.what == kernel::none) return std::nullopt;
    return argument("this collective moves no data: set count to 0 and the kernel to none");
  }
  if (data.count > k_max_count)
    return argument("a count of " + std::to_string(data.count) + " is above the largest, " +
                    std::to_string(k_max_count));
  if (!is_reduction(data.what))
    return argument("\"" + name(name_of(data.what)) +
                    "\" is not a reduction: choose sum, min, max or another");
  if (!supports(data.what, data.type))
    return argument("\"" + name(name_of(data.what)) + "\" is not defined for " + name(name_of(data.type)) +
                    ": choose an integer type or an arithmetic reduction");
  if (data.count < needs.min_count)
    return constraint("this algorithm needs a count of at least " + std::to_string(needs.min_count) +
                      ", not " + std::to_string(data.count) + ": choose another, or \"auto\"");
  if (data.in_place && !needs.in_place)
    return constraint("input and output are separate here: clear in_place");
  return std::nullopt;
}

std::optional<failure> objection_to_start(const constraints& needs, const activation& starts) {
  if (needs.activates && starts.policy == activation_policy::none)
    return argument("a partial collective needs an activation policy: full, solo or majority");
  if (!needs.activates && starts.policy != activation_policy::none)
    return argument(
        "only partial collectives have an activation policy: choose one, or set the policy to none");
  return std::nullopt;
}

}  // namespace

std::optional<failure> objection(const constraints& needs, world place, const shape& data,
                                 const activation& starts) {
  if (auto why = objection_to_place(needs, place)) return why;
  if (auto why = objection_to_data(needs, data)) return why;
  return objection_to_start(needs, starts);
}

result<schedule_ptr> make_collective(const constraints& needs, world place, const shape& data,
                                     const activation& starts, std::string name, add_collective body) {
  if (auto why = objection(needs, place, data, starts)) return std::move(*why);
  builder to(place, std::move(name));
  const buffer_id input = to.input(data.type, data.count);
  const buffer_id output = to.output(data.type, data.count);
  op_id entry = k_no_op;
  if (starts.policy != activation_policy::none)
    entry = add_activation(to, starts.policy, data.what, input, extent::imm(data.count)).exit;
  to.set_activation(starts);
  const fragment collective = body(to, data, input, output, entry);
  to.set_exit(collective.exit);
  if (collective.holding) to.declare_holding();
  to.declare_synchronising();
  return to.compile();
}

}  // namespace lsched
