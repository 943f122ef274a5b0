// Opens a world whose ranks find each other by an exchange that the caller provides (lsched_world_open_with).
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "bindings/c/build_id.h"
#include "bindings/c/sized.h"
#include "bindings/c/world.h"
#include "libsched/transport/shm/segment_source.h"
#include "offload/cores.h"

namespace lsched {
namespace {

/// The record that each rank sends to all other ranks, as plain bytes. Only ranks of the same build have the same
/// layout of this record, so `build` is compared first.
struct introduction {
  std::array<char, 32> build;  ///< LSCHED_BUILD, truncated
  std::int32_t size;
  std::int32_t code;             ///< status of the sender; its failure is `text`
  std::array<char, 40> machine;  ///< boot id, which identifies the machine
  std::uint64_t processes;       ///< inode of the process name space
  std::uint32_t user;
  segment_source segment;     ///< the shared segment; only rank 0 sets it
  std::array<char, 48> host;  ///< host name, for error texts
  std::array<char, 88> text;  ///< reason of `code`, for error texts
};
// The size is the same in every build, so that ranks of different builds can exchange records and compare `build`.
static_assert(sizeof(introduction) == LSCHED_EXCHANGE_BYTES);

template <std::size_t N>
void copy_text(std::array<char, N>& into, std::string_view text) {
  into.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), into.begin());
}

template <std::size_t N>
std::string text_of(const std::array<char, N>& from) {
  return {from.data(), strnlen(from.data(), N)};
}

introduction introduce(rank size, const std::optional<failure>& why) {
  introduction own{};
  copy_text(own.build, LSCHED_BUILD);
  own.size = size;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  copy_text(own.machine, boot);
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) own.processes = space.st_ino;
  own.user = geteuid();
  std::array<char, 48> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) own.host = host;
  if (why) {
    own.code = static_cast<std::int32_t>(why->code);
    copy_text(own.text, why->text);
  }
  return own;
}

/// The introductions of all ranks of a world that is being opened, and the exchange that gathers them.
class acquaintance {
 public:
  acquaintance(const world& place, lsched_exchange by, void* context)
      : place_(place), exchange_(by), context_(context), all_(static_cast<std::size_t>(place.size)) {}

  /// Gathers the introductions of all ranks. Returns TRANSPORT if the caller's exchange has failed.
  std::optional<failure> exchange(const introduction& own) {
    const int answer = exchange_(&own, all_.data(), sizeof own, context_);
    if (answer == 0) return std::nullopt;
    return failure{status::transport, "the exchange failed: it returned " + std::to_string(answer)};
  }

  /// Returns the reason why the ranks cannot share a world, or nothing. All ranks get the same result.
  std::optional<failure> find_obstacle() const {
    for (rank r = 0; r < place_.size; ++r) {
      const introduction& one = of(r);
      const auto differs = [&](const std::string& what) {
        return failure{status::mismatch, "ranks 0 and " + std::to_string(r) + " disagree about " + what, r};
      };
      const auto unshared = [&](const std::string& what) {
        return failure{status::unsupported,
                       "ranks 0 and " + std::to_string(r) + " " + what +
                           ": this call connects processes of one user on one host; C and C++ programs reach several "
                           "hosts with lsched_world_open_mpi, the Python package reaches one",
                       r};
      };
      if (one.build != of(0).build) return differs("libsched: they have loaded different builds");
      if (one.size != of(0).size) return differs("the size of the world");
      if (one.machine != of(0).machine || (one.machine.front() == '\0' && one.host != of(0).host))
        return unshared("are on the hosts " + text_of(of(0).host) + " and " + text_of(one.host));
      if (one.processes != of(0).processes) return unshared("live in different process name spaces");
      if (one.user != of(0).user) return unshared("are processes of different users");
    }
    return find_failure();
  }

  /// Returns ARGUMENT if the exchange did not return this rank's own record. Other ranks may get another result.
  std::optional<failure> find_distortion(const introduction& own) const {
    if (std::memcmp(&of(place_.self), &own, sizeof own) == 0) return std::nullopt;
    return failure{status::argument, "the exchange did not return this rank's bytes at the rank's own place"};
  }

  /// Returns the failure of the first rank that has failed, or nothing. All ranks get the same result.
  std::optional<failure> find_failure() const {
    for (rank r = 0; r < place_.size; ++r)
      if (of(r).code != 0)
        return failure{static_cast<status>(of(r).code), "rank " + std::to_string(r) + ": " + text_of(of(r).text), r};
    return std::nullopt;
  }

  const introduction& of(rank r) const { return all_[static_cast<std::size_t>(r)]; }

 private:
  const world place_;
  const lsched_exchange exchange_;
  void* const context_;
  std::vector<introduction> all_;
};

/// Creates the segment on rank 0 and opens it on the other ranks. A rank that has failed still takes part in both
/// exchanges, so that no rank waits for it:
///   1. all introductions and rank 0's segment, from which each rank decides whether the ranks can share a world;
///   2. the outcome of opening the segment on each rank.
result<std::shared_ptr<shm_segment>> share_segment(const world& place, acquaintance& ranks,
                                                   const result<open_options>& options,
                                                   std::unique_ptr<shm_endpoint>& net) {
  std::optional<failure> why = options ? std::nullopt : std::optional(options.error());
  result<std::shared_ptr<shm_segment>> segment = failure{status::internal};
  if (!why && place.self == 0) {
    segment = shm_segment::create(place.size, options->region_bytes, usable_cores(), options->recorder);
    if (!segment) why = segment.error();
  }
  introduction own = introduce(place.size, why);
  if (segment) own.segment = source_of(**segment);
  if (auto failed = ranks.exchange(own)) return *failed;
  if (auto obstacle = ranks.find_obstacle()) return why ? *why : *obstacle;

  if (place.self != 0) segment = open_segment(ranks.of(0).segment, place.size);
  auto opened = segment ? shm_endpoint::open(*segment, place.self, options->shm)
                        : result<std::unique_ptr<shm_endpoint>>(segment.error());
  why = opened ? ranks.find_distortion(own) : std::optional(opened.error());
  if (auto failed = ranks.exchange(introduce(place.size, why))) return *failed;
  if (auto obstacle = ranks.find_failure()) return why ? *why : *obstacle;
  if (!is_seen_by_all(**segment)) return failure{status::transport, "a rank maps a different segment"};
  net = std::move(*opened);
  return segment;
}

}  // namespace
}  // namespace lsched

using namespace lsched;

extern "C" lsched_status lsched_world_open_with_abi(int abi, int32_t rank, int32_t size, lsched_exchange exchange,
                                                    void* context, const lsched_config* config, lsched_world** world,
                                                    lsched_diagnostic* diagnostic) {
  return guarded(diagnostic, [&] {
    if (abi != LSCHED_ABI) return report(diagnostic, wrong_abi(abi));
    if (exchange == nullptr || size < 1 || rank < 0 || rank >= size)
      return report(diagnostic, {status::argument, "exchange is null, or rank is not from 0 to size - 1"});
    auto options = read_config(config);
    if (world == nullptr) options = failure{status::argument, "world is null"};
    acquaintance ranks({rank, size}, exchange, context);
    std::unique_ptr<shm_endpoint> net;
    const auto segment = share_segment({rank, size}, ranks, options, net);
    if (!segment) return report(diagnostic, segment.error());
    *world = new lsched_world(std::move(net), *options, neighbourhood_of(**segment, options->ranks_per_node));
    return LSCHED_OK;
  });
}
