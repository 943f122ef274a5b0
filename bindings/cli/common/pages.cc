#include "bindings/cli/common/pages.h"

#include <filesystem>
#include <system_error>

namespace lsched::cli {
namespace {

constexpr const char* k_from_command = LSCHED_PAGES_FROM_COMMAND;  // depends on the system's installation folders

bool names_a_page(std::string_view text) { return text.find("docs/") != text.npos; }

}  // namespace

std::string place_of_pages(std::string_view text) {
  if (!names_a_page(text)) return "";
  std::error_code why;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", why);
  const auto folder = (command.parent_path() / k_from_command).lexically_normal();
  if (std::filesystem::exists(folder / "docs/index.md", why)) return "Pages (docs/...) are in " + folder.string();
  return "Pages (docs/...) are in the sources of libsched.";
}

std::string place_of_installed_pages(std::string_view text) {
  if (!names_a_page(text)) return "";
  return std::string("Pages (docs/...) are in ") + k_from_command + ", relative to the folder of the command.";
}

}  // namespace lsched::cli
