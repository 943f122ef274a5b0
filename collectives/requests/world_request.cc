#include "collectives/requests/world_request.h"

#include <bit>
#include <string>

#include "collectives/requests/sample_requests.h"
#include "ops/rules.h"

namespace lsched {
namespace {

constexpr std::uint64_t k_activation_seed = 1;

/// Returns the activation. A collective that activates must have one.
result<activation> read_start(const collective* kind, const collective_request& request) {
  const bool is_used = kind != nullptr && (kind->activates || request.starts);
  if (!is_used) return activation{.seed = k_activation_seed};
  if (!request.starts) return argument("activation is null");
  auto starts = *request.starts;
  if (starts) starts->seed = k_activation_seed;
  return starts;
}

}  // namespace

std::optional<failure> validate_ranks(rank ranks, rank most) {
  if (ranks >= 1 && ranks <= most) return std::nullopt;
  return argument("ranks is " + std::to_string(ranks) + ", not from 1 to 2^" +
                  std::to_string(std::countr_zero(static_cast<unsigned>(most))));
}

result<world_choice> choose_for_world(const collective_request& request, rank ranks, rank most_ranks, bool in_place) {
  if (request.collective.data() == nullptr) return argument("collective is null");
  if (auto why = validate_ranks(ranks, most_ranks)) return std::move(*why);
  const collective* const kind = find_collective(request.collective);
  const rank root = request.root.value_or(0);
  if (root < 0 || root >= ranks || (root != 0 && kind != nullptr && !kind->is_rooted))
    return argument("root is " + std::to_string(root) +
                    ": use a rank of the world, or 0 for a collective without a root");
  result<shape> data = shape{.count = request.count};
  if (kind != nullptr && kind->moves_data) {
    data = read_shape(*kind, request);
    if (!data) return data.error();
    data->root = root;
    data->in_place = in_place;
  }
  const auto starts = read_start(kind, request);
  if (!starts) return starts.error();
  const auto how = choose(request.collective, algorithm_of(request), {0, ranks}, *data, *starts);
  if (!how) return how.error();
  return world_choice{*how, *data, *starts};
}

shape shape_of(const collective& of, rank ranks, const collective_request& request) {
  shape data = typical_shape(of, ranks, request.count, *request.type, *request.reduction);
  if (of.moves_data) data.nodes = request.nodes;
  if (request.root && of.is_rooted) data.root = *request.root;
  data.is_mean = *request.is_mean && of.has_means;
  if (of.adapts) data.tensors = *request.tensors;
  return data;
}

std::vector<rank> nodes_of_neighbors(rank ranks, rank ranks_per_node) {
  std::vector<rank> nodes;
  for (rank r = 0; r < ranks; ++r) nodes.push_back(r / ranks_per_node);
  return nodes;
}

}  // namespace lsched
