#include "bindings/cli/verify_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "bindings/cli/commands.h"
#include "collectives/registry.h"
#include "libsched/schedule_file.h"

namespace lsched::cli {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || !text) throw command_failure("cannot read " + path + ": " + std::strerror(errno));
  return std::move(text).str();
}

/// What the collective was asked for, as far as a schedule tells: the first input, and how it is combined.
shape shape_of(const schedule& program) {
  shape data;
  for (const buffer& it : program.buffers())
    if (it.role == buffer_role::input) {
      data = {.count = it.count, .type = it.type};
      break;
    }
  for (const op& it : program.ops())
    if (it.kind == op_kind::capture || (it.kind == op_kind::compute && it.what != kernel::copy)) {
      data.what = it.what;
      break;
    }
  return data;
}

/// The algorithm of this name, or any of this collective; nullptr where there is none.
const algorithm* find_promise(std::string_view collective, std::string_view name) {
  if (const algorithm* it = find(collective, name)) return it;
  const auto all = algorithms();
  const auto place = std::find_if(all.begin(), all.end(), [&](const auto& it) { return it.collective == collective; });
  return place == all.end() ? nullptr : &*place;
}

}  // namespace

world_file read_world(const std::string& path, const std::string& promised) {
  auto parsed = parse_world(content_of(path));
  if (!parsed) throw command_failure(static_cast<lsched_status>(parsed.error().code), path + ": " + parsed.error().text);
  world_file read{.world = std::move(*parsed), .promise = {}, .title = {}};
  const schedule& first = *read.world.front();
  const auto size = static_cast<rank>(read.world.size());
  const std::string_view name = first.name();
  const std::string_view collective = promised.empty() ? name.substr(0, name.find('/')) : std::string_view(promised);
  const std::string_view after = name.find('/') == name.npos ? std::string_view() : name.substr(name.find('/') + 1);
  read.title = std::string(name) + ", " + std::to_string(size) + (size == 1 ? " rank" : " ranks");
  const algorithm* how = find_promise(collective, promised.empty() ? after : std::string_view());
  if (how == nullptr) {
    read.title += ", nothing promised of its outputs";
    return read;
  }
  const bool has_price = promised.empty() && how->name == after;
  read.promise = has_price ? promise_of(*how, size, shape_of(first), first.starts().policy)
                           : how->contents_of(size, shape_of(first));
  read.title += ", promised as " + std::string(how->collective) + (has_price ? "/" + std::string(how->name) : "");
  return read;
}

}  // namespace lsched::cli
