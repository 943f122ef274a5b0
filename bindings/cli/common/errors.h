// Failures of subcommands. A subcommand that fails prints one line to standard error, and exits with status 1.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/c/lsched.h"
#include "ops/status.h"

namespace lsched::cli {

/// The reason why a command failed. what() is the line for the user, without the leading "lsched: ".
class command_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Sets what() to a text such as "LSCHED_ERR_PEER: rank 3 …".
  command_failure(lsched_status code, std::string_view detail)
      : std::runtime_error(lsched_status_name(code) + std::string(": ").append(detail)) {}
  explicit command_failure(const failure& why) : command_failure(static_cast<lsched_status>(why.code), why.text) {}
};

/// Throws command_failure unless `code` is LSCHED_OK. If the call has filled in `diagnostic`, the error text is the
/// text of the diagnostic. Otherwise the error text has `call` and the meaning of `code`.
inline void require(lsched_status code, std::string_view call, const lsched_diagnostic* diagnostic = nullptr) {
  if (code == LSCHED_OK) return;
  const bool has_detail = diagnostic != nullptr && diagnostic->status == code && diagnostic->text[0] != '\0';
  throw command_failure(code, has_detail ? diagnostic->text : std::string(call) + ": " + lsched_status_text(code));
}

/// Returns the value of `outcome`, or throws command_failure. `path` is the file from which the value was read. The
/// error text begins with `path` unless `path` is empty.
template <class T>
T require(result<T> outcome, const std::string& path = {}) {
  if (outcome) return std::move(*outcome);
  const failure& why = outcome.error();
  throw command_failure(static_cast<lsched_status>(why.code), (path.empty() ? "" : path + ": ") + why.text);
}

}  // namespace lsched::cli
