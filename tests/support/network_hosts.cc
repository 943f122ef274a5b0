#include "tests/support/network_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>

#include "tests/support/shell.h"

namespace lsched::testing {
namespace {

bool succeeds(const std::string& command) { return run_shell("(" + command + ") 2>&1").status == 0; }

std::string address_of(int host) { return "10.9.0." + std::to_string(host + 1); }

std::string next_prefix() {
  static std::atomic<int> number = 0;
  return "lsched-" + std::to_string(getpid()) + "-" + std::to_string(++number) + "-";
}

}  // namespace

network_hosts::network_hosts(int hosts) : hosts_(hosts), prefix_(next_prefix()) {
  if (geteuid() != 0) return;
  const std::string at = "ip -n " + switch_name() + " link ";
  std::string all = "ip netns add " + switch_name() + " && " + at + "add br0 type bridge && " + at + "set br0 up";
  for (int host = 0; host < hosts; ++host) {
    const std::string link = "v" + std::to_string(host), name = name_of(host), here = " && ip -n " + name;
    all += " && ip netns add " + name + " && " + at + "add " + link + " type veth peer name eth0 netns " + name;
    all += " && " + at + "set " + link + " master br0 up" + here + " link set lo up" + here + " link set eth0 up";
    all += here + " address add " + address_of(host) + "/24 dev eth0";
  }
  exist_ = succeeds(all);
}

network_hosts::~network_hosts() {
  std::string all = "ip netns delete " + switch_name();
  for (int host = 0; host < hosts_; ++host) all += "; ip netns delete " + name_of(host);
  if (geteuid() == 0) (void)succeeds(all);
}

bool network_hosts::enter(int host) const {
  const int space = open(("/run/netns/" + name_of(host)).c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_there = space >= 0 && setns(space, CLONE_NEWNET) == 0;
  if (space >= 0) close(space);
  return is_there;
}

void network_hosts::add_equal_interface(int host) const {
  const std::string at = "ip -n " + name_of(host);
  (void)succeeds(at + " link add docker0 type bridge && " + at + " link add d0 type veth peer name d1 && " + at +
                 " link set d0 master docker0 up && " + at + " link set d1 up && " + at + " link set docker0 up && " +
                 at + " address add 172.17.0.1/16 dev docker0");
}

void network_hosts::cut(int host) const {
  (void)succeeds("ip -n " + switch_name() + " link set v" + std::to_string(host) + " down");
}

void network_hosts::heal(int host) const {
  (void)succeeds("ip -n " + switch_name() + " link set v" + std::to_string(host) + " up");
}

void network_hosts::set_rules(const std::string& what, int host, int other) const {
  const std::string rule = " rule " + what + " blackhole to ";
  (void)succeeds("ip -n " + name_of(host) + rule + address_of(other) + "; ip -n " + name_of(other) + rule +
                 address_of(host));
}

// Installs a queue that accepts only packets of at most one byte. Therefore the queue drops all packets.
void network_hosts::drop_frames_to(int host) const {
  (void)succeeds("ip netns exec " + switch_name() + " tc qdisc replace dev v" + std::to_string(host) +
                 " root tbf rate 8bit burst 1 limit 1");
}

}  // namespace lsched::testing
