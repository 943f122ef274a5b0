#include "bindings/cli/hosts/shell_connection.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>

#include "bindings/environment.h"

namespace lsched::cli {
namespace {

/// Converts the text of an address to its binary form. The text may end with the name of an interface. Returns false if
/// the text is not an address.
bool read_address(const std::string& text, inet_diag_req_v2& into, std::uint32_t* address) {
  const auto interface = text.find('%');
  if (interface != std::string::npos) into.id.idiag_if = if_nametoindex(text.c_str() + interface + 1);
  into.sdiag_family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  return inet_pton(into.sdiag_family, text.substr(0, interface).c_str(), address) == 1;
}

/// If sent bytes or several probes are unacknowledged, returns the time since the last segment arrived. Otherwise
/// returns zero. A single unanswered probe does not count, because TCP probes a full receive window at intervals of up
/// to minutes.
std::chrono::milliseconds silence_in(const tcp_info& of) {
  const bool is_unanswered = (of.tcpi_unacked != 0 && of.tcpi_retransmits != 0) || of.tcpi_probes >= 3;
  return std::chrono::milliseconds(is_unanswered ? std::min(of.tcpi_last_ack_recv, of.tcpi_last_data_recv) : 0);
}

/// Finds the state of the connection in an answer of the kernel. The answer has two headers, followed by attributes at
/// multiples of 4 bytes.
std::chrono::milliseconds silence_in(std::span<const char> answer) {
  nlmsghdr head{};
  if (answer.size() < sizeof head + sizeof(inet_diag_msg)) return {};
  std::memcpy(&head, answer.data(), sizeof head);
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  rtattr next{};
  for (auto rest = answer.subspan(sizeof head + sizeof(inet_diag_msg)); rest.size() >= sizeof next;) {
    std::memcpy(&next, rest.data(), sizeof next);
    if (next.rta_len < sizeof next || next.rta_len > rest.size()) break;
    if (next.rta_type == INET_DIAG_INFO) {
      tcp_info info{};
      std::memcpy(&info, rest.data() + sizeof next, std::min(next.rta_len - sizeof next, sizeof info));
      return silence_in(info);
    }
    rest = rest.subspan(std::min<std::size_t>((next.rta_len + 3u) & ~3u, rest.size()));
  }
  return {};
}

}  // namespace

shell_connection::shell_connection() {
  const char* const set = text_in_environment("SSH_CONNECTION");
  std::istringstream text(set != nullptr ? set : "");
  std::string theirs, their_port_text, mine;
  std::uint16_t their_port = 0, my_port = 0;
  inet_diag_req_v2 made{};
  if (!(text >> theirs >> their_port_text >> mine)) return;
  addresses_ = theirs + " " + mine;
  if (!(std::istringstream(their_port_text) >> their_port) || !(text >> my_port)) return;
  if (!read_address(theirs, made, made.id.idiag_dst) || !read_address(mine, made, made.id.idiag_src)) return;
  made.sdiag_protocol = IPPROTO_TCP;
  made.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  made.idiag_states = ~0u;
  made.id.idiag_sport = htons(my_port);
  made.id.idiag_dport = htons(their_port);
  for (auto& each : made.id.idiag_cookie) each = INET_DIAG_NOCOOKIE;
  request_ = made;
}

std::chrono::milliseconds shell_connection::silence() const {
  if (!request_) return {};
  const int kernel = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  struct {
    nlmsghdr head;
    inet_diag_req_v2 request;
  } question{{.nlmsg_len = sizeof question,
              .nlmsg_type = SOCK_DIAG_BY_FAMILY,
              .nlmsg_flags = NLM_F_REQUEST,
              .nlmsg_seq = 0,
              .nlmsg_pid = 0},
             *request_};
  std::array<char, 4096> answer{};
  const bool is_asked = send(kernel, &question, sizeof question, 0) == sizeof question;
  const ssize_t got = is_asked ? recv(kernel, answer.data(), answer.size(), MSG_DONTWAIT) : -1;
  if (kernel >= 0) close(kernel);
  return silence_in(std::span(answer).first(static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
}

}  // namespace lsched::cli
