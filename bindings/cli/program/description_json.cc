// Descriptions of command lines as JSON. A tool such as lsched-bench prints this JSON for `lsched help`.
#include <nlohmann/json.hpp>

#include "bindings/cli/program/description.h"

namespace lsched::cli {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(described_option, names, value, text, choices, group, is_positional, is_required,
                                   is_repeated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(described_command, name, text, footer, options, commands)

std::string to_json(const described_command& command) { return nlohmann::json(command).dump(); }

described_command from_json(const std::string& text) { return nlohmann::json::parse(text).get<described_command>(); }

}  // namespace lsched::cli
