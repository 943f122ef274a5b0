// The folder of the pages that texts of the command name, such as docs/start.md.
#pragma once

#include <string>
#include <string_view>

namespace lsched::cli {

/// A sentence with the folder that contains the pages which `text` names. Pages that are not installed beside the
/// command are in the sources of libsched. Empty if `text` names no page.
std::string place_of_pages(std::string_view text);

/// The sentence for a text that is written before the command is installed. Its folder is relative to the command.
std::string place_of_installed_pages(std::string_view text);

}  // namespace lsched::cli
