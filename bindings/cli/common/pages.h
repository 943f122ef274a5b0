// Error texts and help texts refer to pages of the documentation, for example docs/start.md. The functions below return
// a sentence that names the folder of these pages.
#pragma once

#include <string>
#include <string_view>

namespace lsched::cli {

/// Returns a sentence that names the folder of the pages that `text` mentions. If the pages are not installed with the
/// command, the sentence refers to the sources of libsched. Returns an empty string if `text` names no page.
std::string place_of_pages(std::string_view text);

/// Like place_of_pages(), but for a text that is written before the command is installed. The sentence gives the folder
/// relative to the command's file.
std::string place_of_installed_pages(std::string_view text);

}  // namespace lsched::cli
