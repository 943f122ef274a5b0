#include "bindings/cli/common/errors.h"

namespace lsched::cli {
namespace {

std::string text_of_failure(lsched_status code, std::string_view detail) {
  std::string text = lsched_status_name(code);
  text += ": ";
  return text.append(detail);
}

}  // namespace

command_failure::command_failure(lsched_status code, std::string_view detail)
    : std::runtime_error(text_of_failure(code, detail)) {}

command_failure::command_failure(const failure& why)
    : command_failure(static_cast<lsched_status>(why.code), why.text) {}

void require(lsched_status code, std::string_view call, const lsched_diagnostic* diagnostic) {
  if (code == LSCHED_OK) return;
  const bool has_detail = diagnostic != nullptr && diagnostic->status == code && diagnostic->text[0] != '\0';
  const std::string plain = std::string(call) + ": " + lsched_status_text(code);
  throw command_failure(code, has_detail ? diagnostic->text : plain.c_str());
}

}  // namespace lsched::cli
