#include "bindings/mpi/mpi_world.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/mpi/hybrid_endpoint.h"
#include "bindings/mpi/mpi_calls.h"
#include "bindings/mpi/node_segment.h"
#include "offload/cores.h"
#include "ops/counted.h"

namespace lsched {
namespace {

/// A communicator that we made.
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

failure mpi_failure(const char* what) { return {status::transport, std::string(what) + " failed"}; }

/// The smallest of everybody's values.
template <std::size_t N>
bool minimise(MPI_Comm all, std::array<std::int64_t, N>& values) {
  std::array<std::int64_t, N> mine = values;
  return combine_all(mine.data(), values.data(), static_cast<int>(N), MPI_INT64_T, MPI_MIN, all);
}

/// An option is equal everywhere if its minimum is its maximum.
std::optional<failure> validate(MPI_Comm all, const mpi_options& options) {
  const auto transport = static_cast<std::int64_t>(options.transport);
  const auto region = static_cast<std::int64_t>(options.region_bytes);
  const std::int64_t per_node = options.ranks_per_node;
  const std::int64_t tags = options.limits.highest_tag;
  const auto chunk = static_cast<std::int64_t>(options.limits.chunk_bytes);
  std::array<std::int64_t, 10> ends{transport, -transport, region, -region, per_node,
                                    -per_node, tags,       -tags,  chunk,   -chunk};
  if (!minimise(all, ends)) return mpi_failure("MPI_Iallreduce");
  constexpr std::array<const char*, 5> names{"the transport", "the region size", "the ranks per node",
                                             "the highest tag", "the chunk size"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (ends[2 * i] != -ends[2 * i + 1])
      return failure{status::mismatch, std::string("the ranks disagree about ") + names[i]};
  if (per_node < 0) return failure{status::argument, "the number of ranks per node is negative"};
  return std::nullopt;
}

/// The cores of a machine that any of its ranks may use: launchers like to bind each rank to one of its own.
std::optional<unsigned> count_cores(MPI_Comm machine) {
  std::array<std::uint64_t, 64> mine{};
  for (const unsigned core : allowed_cores())
    if (core < mine.size() * 64) mine[core / 64] |= std::uint64_t{1} << core % 64;
  std::array<std::uint64_t, 64> any{};
  if (!combine_all(mine.data(), any.data(), static_cast<int>(any.size()), MPI_UINT64_T, MPI_BOR, machine))
    return std::nullopt;
  int cores = 0;
  for (const std::uint64_t word : any) cores += std::popcount(word);
  return within_quota(static_cast<unsigned>(cores));
}

/// The ranks that MPI believes to share memory; of those, where nodes are emulated, the neighbours in rank. Finds
/// out about the machine on the way.
std::optional<failure> find_candidates(MPI_Comm all, rank self, rank ranks_per_node, owned_comm& node,
                                       mpi_info& found) {
  owned_comm real;
  if (MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, self, MPI_INFO_NULL, &real.comm) != MPI_SUCCESS)
    return mpi_failure("MPI_Comm_split_type");
  if (MPI_Comm_size(real.comm, &found.node_ranks) != MPI_SUCCESS) return mpi_failure("MPI_Comm_size");
  const auto cores = count_cores(real.comm);
  if (!cores) return mpi_failure("MPI_Iallreduce");
  found.node_cores = *cores;
  const auto ranks = static_cast<unsigned>(found.node_ranks);
  std::array<std::int64_t, 1> least{-std::int64_t{ranks_per_core(ranks, *cores)}};
  if (!minimise(all, least)) return mpi_failure("MPI_Iallreduce");
  found.ranks_per_core = static_cast<rank>(-least[0]);
  const int colour = ranks_per_node > 0 ? self / ranks_per_node : 0;
  if (MPI_Comm_split(real.comm, colour, self, &node.comm) != MPI_SUCCESS) return mpi_failure("MPI_Comm_split");
  return std::nullopt;
}

/// The world's rank of each rank of the node.
std::optional<std::vector<rank>> members_of(MPI_Comm node, rank self) {
  int size = 0;
  if (MPI_Comm_size(node, &size) != MPI_SUCCESS) return std::nullopt;
  std::vector<rank> members(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  static_assert(sizeof(rank) == sizeof(std::int32_t));
  if (MPI_Iallgather(&self, 1, MPI_INT32_T, members.data(), 1, MPI_INT32_T, node, &request) != MPI_SUCCESS ||
      await_request(request) != MPI_SUCCESS)
    return std::nullopt;
  return members;
}

std::string sharing_in_words(std::size_t local, std::size_t size) {
  const std::string near = "shared memory with " + counted(local - 1, "rank");
  return local == size ? near : near + ", MPI with " + counted(size - local, "rank");
}

/// With whom every rank shares memory. `lowest`: of those this one shares with, itself included.
std::optional<failure> find_nodes(MPI_Comm all, rank size, rank lowest, mpi_info& found) {
  found.nodes.resize(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Iallgather(&lowest, 1, MPI_INT32_T, found.nodes.data(), 1, MPI_INT32_T, all, &request) != MPI_SUCCESS ||
      await_request(request) != MPI_SUCCESS)
    return mpi_failure("MPI_Iallgather");
  if (std::ranges::count(found.nodes, found.nodes.front()) == size) found.nodes.clear();
  return std::nullopt;
}

using opened_endpoint = result<std::unique_ptr<endpoint>>;

/// `lowest`: of the ranks that share memory with this one.
opened_endpoint open_suitable(std::unique_ptr<mpi_endpoint> far, const mpi_options& options, mpi_info& found,
                              rank& lowest) {
  const auto [self, size] = far->place();
  owned_comm node;
  auto why = find_candidates(far->communicator(), self, options.ranks_per_node, node, found);
  if (why) return *why;
  if (options.transport == mpi_transport::mpi_only) {
    found.text = "MPI with everybody, as asked for";
    return std::unique_ptr<endpoint>(std::move(far));
  }
  auto members = members_of(node.comm, self);
  if (!members) return mpi_failure("MPI_Iallgather");
  if (members->size() == 1) {
    found.text = "MPI with everybody: no other rank on this node";
    return std::unique_ptr<endpoint>(std::move(far));
  }
  auto near = share_segment(node.comm, options.region_bytes, options.shm);
  if (!near) {
    found.text = "MPI with everybody: " + counted(members->size(), "rank") + " cannot share memory, rank " +
                 std::to_string((*members)[static_cast<std::size_t>(std::max(near.error().peer, 0))]) +
                 " says: " + near.error().text;
    return std::unique_ptr<endpoint>(std::move(far));
  }
  found.sharing_ranks = static_cast<rank>(members->size());
  lowest = std::ranges::min(*members);
  // Without an edge that is MPI's, MPI is called by commit and close alone: by the application's own thread.
  found.allows_auxiliary_thread = found.allows_auxiliary_thread || found.sharing_ranks == size;
  found.text = sharing_in_words(members->size(), static_cast<std::size_t>(size));
  return std::unique_ptr<endpoint>(
      std::make_unique<hybrid_endpoint>(std::move(*near), std::move(far), std::move(*members)));
}

}  // namespace

result<rank> find_unready(MPI_Comm all, bool is_ready) {
  int self = 0;
  int size = 0;
  if (MPI_Comm_rank(all, &self) != MPI_SUCCESS || MPI_Comm_size(all, &size) != MPI_SUCCESS)
    return mpi_failure("MPI_Comm_rank");
  std::array<std::int64_t, 1> lowest{is_ready ? size : self};
  if (!minimise(all, lowest)) return mpi_failure("MPI_Iallreduce");
  return lowest[0] == size ? k_no_rank : static_cast<rank>(lowest[0]);
}

result<std::unique_ptr<endpoint>> open_mpi_endpoint(MPI_Comm comm, const mpi_options& options, mpi_info* info) {
  auto far = mpi_endpoint::open(comm, options.limits);
  if (!far) return far.error();
  const MPI_Comm all = (*far)->communicator();  // lives as long as the endpoint, which only success hands on
  if (auto why = validate(all, options)) return *why;

  mpi_info found;
  found.allows_auxiliary_thread = (*far)->allows_auxiliary_thread();
  const world place = (*far)->place();
  rank lowest = place.self;
  auto opened = open_suitable(std::move(*far), options, found, lowest);
  if (!opened) return opened;  // MPI has failed
  if (auto why = find_nodes(all, place.size, lowest, found)) return *why;
  if (info != nullptr) *info = std::move(found);
  return opened;
}

}  // namespace lsched
