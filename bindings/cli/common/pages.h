// Texts of the command name pages of the documentation, for example docs/start.md. This file finds their folder.
#pragma once

#include <string>
#include <string_view>

namespace lsched::cli {

/// Returns a sentence that names the folder of the pages that `text` mentions. If the pages are not installed with the
/// command, the sentence refers to the sources of libsched. Returns an empty string if `text` names no page.
std::string place_of_pages(std::string_view text);

/// Like place_of_pages(), for a text that is written before the command is installed: the folder is relative to the
/// command's file.
std::string place_of_installed_pages(std::string_view text);

}  // namespace lsched::cli
