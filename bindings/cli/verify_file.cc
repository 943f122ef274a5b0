#include "bindings/cli/verify_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "bindings/cli/commands.h"
#include "collectives/promise.h"
#include "libsched/schedule_file.h"

namespace lsched::cli {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.is_open() && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();  // nothing is a content
  if (!file.is_open() || file.bad() || !text) throw command_failure("cannot read " + path + ": " + std::strerror(errno));
  return std::move(text).str();
}

}  // namespace

world_file read_world(const std::string& path, const std::string& promised) {
  auto parsed = parse_world(content_of(path));
  if (!parsed) throw command_failure(static_cast<lsched_status>(parsed.error().code), path + ": " + parsed.error().text);
  auto promise = require(promise_for(*parsed, promised));
  const auto size = parsed->size();
  std::string title = escaped(parsed->front()->name());
  title += ", " + std::to_string(size) + (size == 1 ? " rank" : " ranks");
  if (promise.by == nullptr)
    title += ", nothing promised of its outputs";
  else
    title += ", promised as " + std::string(promise.by->collective) +
             (promise.has_price ? "/" + std::string(promise.by->name) : "");
  return {.world = std::move(*parsed), .promise = std::move(promise.what), .title = std::move(title)};
}

}  // namespace lsched::cli
