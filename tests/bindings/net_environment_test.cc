// Tests of the environment variables that choose the network interfaces between hosts.
#include "bindings/net_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace lsched::testing {
namespace {

constexpr const char* k_ucx = "UCX_NET_DEVICES";
constexpr const char* k_gloo = "GLOO_SOCKET_IFNAME";
constexpr const char* k_nccl = "NCCL_SOCKET_IFNAME";
constexpr const char* k_own = "LSCHED_NET_INTERFACES";

network_choice chosen_by(const std::map<std::string, std::string>& set) {
  for (const char* const each : {k_ucx, k_gloo, k_nccl, k_own}) unsetenv(each);
  for (const auto& [name, value] : set) setenv(name.c_str(), value.c_str(), 1);
  const auto made = network_in_environment();
  for (const auto& [name, value] : set) unsetenv(name.c_str());
  EXPECT_TRUE(made);
  return made ? *made : network_choice();
}

bool has_loopback(const network_choice& made) {
  return std::ranges::find(made.interfaces.names, "lo") != made.interfaces.names.end();
}

TEST(net_environment, the_first_variable_that_names_an_interface_decides) {
  const std::pair<std::map<std::string, std::string>, std::string> all[] = {
      {{{k_ucx, "mlx5_0:1,lo"}, {k_gloo, "lo"}}, k_ucx},
      {{{k_ucx, "mlx5_0:1"}, {k_gloo, "none0,lo"}, {k_nccl, "lo"}}, k_gloo},
      {{{k_ucx, "all"}, {k_gloo, "none0"}, {k_nccl, "lo"}}, k_nccl},
      {{{k_nccl, "=lo"}}, k_nccl},
      {{{k_own, "lo"}, {k_ucx, "lo"}}, k_own}};
  for (const auto& [set, variable] : all) {
    const network_choice made = chosen_by(set);
    EXPECT_EQ(made.interfaces_from, variable);
    EXPECT_EQ(made.interfaces.names, std::vector<std::string>{"lo"}) << variable;
  }
}

TEST(net_environment, without_a_variable_that_names_an_interface_none_decides) {
  for (const std::map<std::string, std::string>& set :
       {std::map<std::string, std::string>{}, {{k_ucx, "mlx5_0:1"}}, {{k_gloo, "l"}}, {{k_nccl, "=l"}}}) {
    const network_choice made = chosen_by(set);
    EXPECT_EQ(made.interfaces_from, "");
    EXPECT_TRUE(made.interfaces.names.empty());
  }
}

TEST(net_environment, a_variable_whose_interfaces_have_no_address_is_skipped) {
  for (const std::string& name : names_of_interfaces()) {
    if (!addresses_of_host({.names = {name}}, 1).empty()) continue;
    EXPECT_EQ(chosen_by({{k_ucx, name}, {k_gloo, "lo"}}).interfaces_from, k_gloo) << name;
    EXPECT_EQ(chosen_by({{k_ucx, name}}).interfaces_from, "") << name;
  }
}

TEST(net_environment, the_variable_of_nccl_has_beginnings_of_names_and_exclusions) {
  EXPECT_TRUE(has_loopback(chosen_by({{k_nccl, "none,l"}})));
  for (const char* const excluded : {"^lo", "^none", "^=none0"}) {
    const network_choice made = chosen_by({{k_nccl, excluded}});
    EXPECT_FALSE(has_loopback(made)) << excluded;
    const bool has_other = !addresses_of_host({}, 1).empty() && !addresses_of_host({}, 1).front().is_loopback();
    EXPECT_EQ(made.interfaces.names.size(), has_other ? names_of_interfaces().size() - 1 : 0) << excluded;
  }
}

TEST(net_environment, addresses_have_the_names_of_their_interfaces) {
  const auto all = addresses_by_interface({.names = {"lo"}, .family = 4});
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.front(), "lo 127.0.0.1");
}

}  // namespace
}  // namespace lsched::testing
