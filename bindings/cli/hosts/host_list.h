// The hosts of `lsched run --hosts`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/status.h"

namespace lsched::cli {

struct host {
  std::string name;
  std::int32_t ranks = 1;
  std::int32_t first = 0;  ///< lowest rank of this host
};

/// Reads a list such as "a:4,b:4". A host without a number has one rank. The address of a host may be IPv6 in brackets,
/// such as "[fe80::1]:4". Returns ARGUMENT if the list has another form, or names a host twice.
result<std::vector<host>> parse_hosts(const std::string& list);

/// Returns true if the name is "localhost" or the name of this host, with or without its domain.
bool is_this_host(const std::string& name);

/// Returns the name of this host.
std::string own_host_name();

}  // namespace lsched::cli
