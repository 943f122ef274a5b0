#include "collectives/requests/tuning_text.h"

#include <charconv>
#include <limits>

namespace lsched {
namespace {

std::string text_of(double value) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
}

std::string text_of(std::uint64_t bytes) {
  return bytes == std::numeric_limits<std::uint64_t>::max() ? "max" : std::to_string(bytes);
}

std::string text_of(const std::string& name, const std::optional<wire_costs>& wire) {
  if (!wire) return {};
  return "wire " + name + " " + text_of(wire->hop) + " " + text_of(wire->message) + " " + text_of(wire->byte) + "\n";
}

std::string text_of(const tuning_rule& rule) {
  return rule.collective + " ranks " + std::to_string(rule.ranks) + (rule.is_near ? " near" : " far") +
         (rule.is_crowded ? " crowded" : " roomy") + " bytes " + text_of(rule.least_bytes) + " " +
         text_of(rule.most_bytes) + " " + rule.algorithm +
         (rule.segment_bytes == 0 ? "" : " segment " + std::to_string(rule.segment_bytes)) +
         (rule.radix == 0 ? "" : " radix " + std::to_string(rule.radix)) + "\n";
}

}  // namespace

std::string to_text(const tuning_table& table) {
  std::string text = "libsched tuning 1\n" + text_of("near", table.near) + text_of("far", table.far);
  if (table.turn) text += "turn " + text_of(*table.turn) + "\n";
  for (const tuning_rule& rule : table.rules) text += text_of(rule);
  return text;
}

}  // namespace lsched
