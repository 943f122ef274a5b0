// The folder of the pages that texts of the command mention, such as docs/start.md.
#pragma once

#include <string>
#include <string_view>

namespace lsched::cli {

/// Returns a sentence with the folder of the pages that `text` names. Pages that are not installed with the command are
/// in the sources of libsched. Returns an empty string if `text` names no page.
std::string place_of_pages(std::string_view text);

/// Returns the sentence for a text that is written before the command is installed. The folder is relative to the
/// command.
std::string place_of_installed_pages(std::string_view text);

}  // namespace lsched::cli
