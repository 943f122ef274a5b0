#include "bindings/mpi/mpi_world.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/mpi/mpi_calls.h"
#include "libsched/transport/hybrid/hybrid_endpoint.h"
#include "libsched/transport/shm/segment_source.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched {
namespace {

class owned_comm {
 public:
  owned_comm() = default;
  owned_comm(const owned_comm&) = delete;
  owned_comm& operator=(const owned_comm&) = delete;
  ~owned_comm() {
    if (comm != MPI_COMM_NULL) (void)MPI_Comm_free(&comm);
  }
  MPI_Comm comm = MPI_COMM_NULL;
};

/// Validates the options, and compares them with those of rank 0. All ranks return the same status.
std::optional<failure> validate(MPI_Comm all, const mpi_options& options) {
  constexpr std::array<const char*, 4> names{"the transport", "the region size", "the ranks per node",
                                             "the use of a recorder"};
  const std::array<std::int64_t, names.size()> own{options.uses_mpi_alone,
                                                   static_cast<std::int64_t>(options.region_bytes),
                                                   options.ranks_per_node, !options.recorder.empty()};
  std::array<std::int64_t, names.size()> first = own;
  if (!broadcast(first.data(), sizeof first, all, 0)) return mpi_failure("MPI_Ibcast");
  std::optional<failure> why;
  if (options.ranks_per_node < 0)
    why = failure{status::argument,
                  "the number of ranks per node is " + std::to_string(options.ranks_per_node) + ": give 0 or more"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (own[i] != first[i])
      why = failure{status::mismatch,
                    std::string("the ranks disagree about ") + names[i] + ": give the same value on all ranks"};
  return agree(all, why);
}

// --- locality ----------------------------------------------------------------------------------------------

/// Returns the number of cores that at least one rank of the machine may use. (Launchers often bind each rank to a
/// different core.)
std::optional<unsigned> count_cores(MPI_Comm machine) {
  std::array<std::uint64_t, 64> own{};
  for (const unsigned core : allowed_cores())
    if (core < own.size() * 64) own[core / 64] |= std::uint64_t{1} << core % 64;
  std::array<std::uint64_t, 64> any{};
  if (!reduce_all(own.data(), any.data(), static_cast<int>(any.size()), MPI_UINT64_T, MPI_BOR, machine))
    return std::nullopt;
  int cores = 0;
  for (const std::uint64_t word : any) cores += std::popcount(word);
  return within_quota(static_cast<unsigned>(cores));
}

/// Finds the ranks that share memory with this rank according to MPI. With emulated nodes, finds the ranks of this
/// rank's emulated node instead. Also counts the ranks and cores of the machine.
std::optional<failure> find_candidates(MPI_Comm all, rank self, rank ranks_per_node, owned_comm& node,
                                       neighbourhood& found) {
  owned_comm real;
  if (MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, self, MPI_INFO_NULL, &real.comm) != MPI_SUCCESS)
    return mpi_failure("MPI_Comm_split_type");
  int ranks = 1;
  if (MPI_Comm_size(real.comm, &ranks) != MPI_SUCCESS) return mpi_failure("MPI_Comm_size");
  const auto cores = count_cores(real.comm);
  if (!cores) return mpi_failure("MPI_Iallreduce");
  found.ranks = static_cast<unsigned>(ranks);
  found.cores = *cores;
  const auto own = static_cast<rank>(ranks_per_core(found.ranks, *cores));
  if (!reduce_all(&own, &found.ranks_per_core, 1, MPI_INT32_T, MPI_MAX, all)) return mpi_failure("MPI_Iallreduce");
  const int colour = ranks_per_node > 0 ? self / ranks_per_node : 0;
  if (MPI_Comm_split(real.comm, colour, self, &node.comm) != MPI_SUCCESS) return mpi_failure("MPI_Comm_split");
  return std::nullopt;
}

/// Returns the world ranks of the ranks of the node.
std::optional<std::vector<rank>> members_of(MPI_Comm node, rank self) {
  int size = 0;
  if (MPI_Comm_size(node, &size) != MPI_SUCCESS) return std::nullopt;
  std::vector<rank> members(static_cast<std::size_t>(size));
  return gather_all(self, members.data(), node) ? std::optional(std::move(members)) : std::nullopt;
}

/// Finds the nodes of all ranks. `lowest`: the lowest rank that shares memory with this rank, possibly this rank
/// itself.
std::optional<failure> find_nodes(MPI_Comm all, rank size, rank lowest, neighbourhood& found) {
  found.nodes.resize(static_cast<std::size_t>(size));
  if (!gather_all(lowest, found.nodes.data(), all)) return mpi_failure("MPI_Iallgather");
  if (std::ranges::count(found.nodes, found.nodes.front()) == size) found.nodes.clear();
  return std::nullopt;
}

std::string sharing_in_words(std::size_t local, std::size_t size) {
  const std::string near = "shared memory with " + counted(local - 1, "rank");
  return local == size ? near : near + ", MPI with " + counted(size - local, "rank");
}

// --- shared memory -----------------------------------------------------------------------------------------

/// Returns the name of the recorder's file. If there are several nodes, each node has its own file.
std::string recorder_of(const mpi_options& options, const std::vector<rank>& members, rank size) {
  const bool is_one_node = static_cast<rank>(members.size()) == size;
  return options.recorder.empty() || is_one_node ? options.recorder
                                                 : options.recorder + "." + std::to_string(members.front());
}

/// Creates a segment that the ranks of `node` share, and opens this rank's endpoint in it. `members` are the world
/// ranks of the ranks in `node`. `all` is the number of ranks of the world. Collective. All ranks return the same
/// status. On failure, all ranks return the same text, with the first failed rank of `node` as `peer`.
result<std::unique_ptr<shm_endpoint>> share_segment(MPI_Comm node, const std::vector<rank>& members, rank all,
                                                    const mpi_options& options) {
  const auto size = static_cast<rank>(members.size());
  rank self = 0;
  if (MPI_Comm_rank(node, &self) != MPI_SUCCESS) return mpi_failure("MPI_Comm_rank");
  result<std::shared_ptr<shm_segment>> segment(
      failure{status::transport, "the first rank of the node could not create the shared memory"});
  if (self == 0) segment = shm_segment::create(size, options.region_bytes, 0, recorder_of(options, members, all));
  segment_source source = segment ? source_of(**segment) : segment_source{};
  if (!broadcast(&source, static_cast<int>(sizeof source), node, 0)) return mpi_failure("MPI_Ibcast");
  if (self != 0 && source.process != 0) segment = open_segment(source, size);

  std::optional<failure> why;
  std::unique_ptr<shm_endpoint> near;
  if (!segment) {
    why = segment.error();
  } else if (auto opened = shm_endpoint::open(*segment, self, options.shm); opened) {
    near = std::move(*opened);
    (*segment)->record(self).rank_in_world.store(members[static_cast<std::size_t>(self)]);
  } else {
    why = opened.error();
  }
  if (auto agreed = agree(node, why)) return *agreed;
  if (!is_seen_by_all(**segment))
    why = failure{status::transport, "a rank has mapped other shared memory than the first rank of the node"};
  if (auto agreed = agree(node, why)) return *agreed;
  return near;
}

// --- together ----------------------------------------------------------------------------------------------

using opened_endpoint = result<std::unique_ptr<endpoint>>;

/// Opens the suitable endpoint. If other ranks share memory with this rank, sets `lowest` to the lowest rank that has
/// this memory.
opened_endpoint open_suitable(std::unique_ptr<mpi_endpoint> far, const mpi_options& options, neighbourhood& found,
                              rank& lowest) {
  const auto [self, size] = far->place();
  owned_comm node;
  auto why = find_candidates(far->communicator(), self, options.ranks_per_node, node, found);
  if (why) return *why;
  if (options.uses_mpi_alone) {
    found.description = "MPI with all ranks, as requested";
    return std::unique_ptr<endpoint>(std::move(far));
  }
  auto members = members_of(node.comm, self);
  if (!members) return mpi_failure("MPI_Iallgather");
  if (members->size() == 1) {
    found.description = "MPI with all ranks: no other rank on this node";
    return std::unique_ptr<endpoint>(std::move(far));
  }
  auto near = share_segment(node.comm, *members, size, options);
  if (!near) {
    found.is_reduced = true;
    found.description =
        "MPI with all ranks: " + counted(members->size(), "rank") + " cannot share memory because of rank " +
        std::to_string((*members)[static_cast<std::size_t>(std::max(near.error().peer, 0))]) + ": " + near.error().text;
    return std::unique_ptr<endpoint>(std::move(far));
  }
  lowest = std::ranges::min(*members);
  // If no edge uses MPI, a progress thread is possible, because only application threads call MPI (in commits and
  // close).
  found.may_have_thread = found.may_have_thread || static_cast<rank>(members->size()) == size;
  found.description = sharing_in_words(members->size(), static_cast<std::size_t>(size));
  return std::unique_ptr<endpoint>(
      std::make_unique<hybrid_endpoint>(std::move(*near), std::move(far), std::move(*members), "shm+mpi"));
}

}  // namespace

result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options, neighbourhood* found,
                                                    mpi_endpoint** far_part) {
  auto far = mpi_endpoint::open(comm, options.limits);
  if (!far) return far.error();
  if (far_part != nullptr) *far_part = far->get();
  const MPI_Comm all = (*far)->communicator();  // valid as long as the endpoint (`far`, later `opened`)
  if (auto why = validate(all, options)) return *why;

  neighbourhood discovered;
  discovered.may_have_thread = (*far)->allows_auxiliary_thread();
  const world place = (*far)->place();
  rank lowest = place.self;
  auto opened = open_suitable(std::move(*far), options, discovered, lowest);
  if (!opened) return opened;  // MPI has failed
  if (!options.recorder.empty()) {
    const bool has_recording = (*opened)->name() != "mpi";
    if (auto why = agree(all, has_recording
                                  ? std::nullopt
                                  : std::optional(failure{status::unsupported,
                                                          "LSCHED_RECORDER needs shared memory, but the transport is " +
                                                              discovered.description + ": unset the variable"})))
      return *why;
  }
  if (auto why = find_nodes(all, place.size, lowest, discovered)) return *why;
  if (found != nullptr) *found = std::move(discovered);
  return opened;
}

}  // namespace lsched
