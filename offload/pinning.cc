
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "build_options.h"
#include "offload/cores.h"

#if LSCHED_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace lsched {

bool bind_this_thread(unsigned core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  return pthread_setaffinity_np(pthread_self(), sizeof only, &only) == 0;
}

#if LSCHED_HAVE_HWLOC

namespace {

using topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

/// Returns the part of the machine's topology that this process may use, or null on failure.
topology load_topology() {
  hwloc_topology_t tree = nullptr;
  if (hwloc_topology_init(&tree) != 0) tree = nullptr;
  topology loaded(tree, &hwloc_topology_destroy);
  if (tree != nullptr && hwloc_topology_load(tree) != 0) loaded.reset();
  return loaded;
}

}  // namespace

std::optional<unsigned> core_near_caller(unsigned local_ranks) {
  const std::vector<unsigned> allowed = allowed_cores();
  const int here = sched_getcpu();
  // If there are fewer than two cores per rank, every core may run the application thread of another rank.
  if (here < 0 || allowed.size() < 2 * local_ranks) return std::nullopt;

  const topology machine = load_topology();
  if (machine == nullptr) return std::nullopt;
  hwloc_obj_t mine = hwloc_get_pu_obj_by_os_index(machine.get(), static_cast<unsigned>(here));
  for (hwloc_obj_t around = mine; around != nullptr; around = around->parent) {
    hwloc_obj_t near = nullptr;
    while ((near = hwloc_get_next_obj_inside_cpuset_by_type(machine.get(), around->cpuset, HWLOC_OBJ_PU, near)) !=
           nullptr)
      if (near->os_index != static_cast<unsigned>(here) && std::ranges::binary_search(allowed, near->os_index))
        return near->os_index;
  }
  return std::nullopt;
}

std::string topology_library() {
  const unsigned version = hwloc_get_api_version();
  return "hwloc API " + std::to_string(version >> 16) + "." + std::to_string((version >> 8) & 0xff) + "." +
         std::to_string(version & 0xff);
}

#else

std::optional<unsigned> core_near_caller(unsigned) { return std::nullopt; }

std::string topology_library() { return "none"; }

#endif

}  // namespace lsched
