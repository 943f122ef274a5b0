#include "bindings/cli/hosts/host_list.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "bindings/cli/common/words.h"
#include "ops/number_text.h"

namespace lsched::cli {
namespace {

/// Reads one host of the list. If the text is not a host, the name in the result is empty.
host parse_host(const std::string& text) {
  const auto bracket = text.find(']');
  const bool is_bracketed = text.starts_with('[') && bracket != std::string::npos;
  const auto colon = text.find(':', is_bracketed ? bracket : 0);
  host one{.name = is_bracketed ? text.substr(1, bracket - 1) : text.substr(0, colon)};
  if (is_bracketed && bracket + 1 != std::min(colon, text.size())) return {};
  if (one.name.starts_with('-') || one.name.find_first_of(" \t\n") != std::string::npos) return {};
  if (colon == std::string::npos) return one;
  const auto ranks = parse_number<std::int32_t>(text.substr(colon + 1));
  if (!ranks || *ranks < 1 || *ranks > static_cast<std::int32_t>(k_most_ranks)) return {};
  one.ranks = *ranks;
  return one;
}

}  // namespace

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

bool is_this_host(const std::string& name) {
  const std::string own = own_host_name();
  return name == "localhost" || name == own || name == own.substr(0, own.find('.'));
}

result<std::vector<host>> parse_hosts(const std::string& list) {
  std::vector<host> hosts;
  std::int32_t ranks = 0;
  std::istringstream texts(list + ",");
  for (std::string text; std::getline(texts, text, ',');) {
    host one = parse_host(text);
    if (one.name.empty())
      return failure{status::argument,
                     "\"" + text + "\" does not name a host and its number of ranks: write for example node1:4"};
    const bool is_own = is_this_host(one.name);
    const auto is_same = [&](const host& other) {
      return other.name == one.name || (is_own && is_this_host(other.name));
    };
    if (std::ranges::any_of(hosts, is_same))
      return failure{status::argument,
                     "the host " + one.name + " occurs twice: name each host once, with all of its ranks"};
    one.first = ranks;
    ranks += one.ranks;
    if (ranks > static_cast<std::int32_t>(k_most_ranks))
      return failure{status::argument,
                     "the list has more than " + std::to_string(k_most_ranks) + " ranks: use fewer ranks"};
    hosts.push_back(std::move(one));
  }
  return hosts;
}

}  // namespace lsched::cli
