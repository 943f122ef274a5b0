#include "ops/status.h"

#include <array>

namespace lsched {
namespace {

struct entry {
  status code;
  std::string_view name;
  std::string_view text;
};

constexpr std::array k_table{
    entry{status::ok, "LSCHED_OK", "done"},
    entry{status::pending, "LSCHED_PENDING", "not finished yet"},
    entry{status::argument, "LSCHED_ERR_ARGUMENT", "an argument is null, negative or meaningless"},
    entry{status::bounds, "LSCHED_ERR_BOUNDS", "a region exceeds its buffer"},
    entry{status::state, "LSCHED_ERR_STATE", "the call does not fit the object's present state"},
    entry{status::cycle, "LSCHED_ERR_CYCLE", "the dependencies form a cycle"},
    entry{status::unmatched, "LSCHED_ERR_UNMATCHED", "sends and receives of the world do not match"},
    entry{status::mismatch, "LSCHED_ERR_MISMATCH", "ranks made different requests"},
    entry{status::constraint, "LSCHED_ERR_CONSTRAINT", "the algorithm does not support this world, count, dtype or op"},
    entry{status::unsupported, "LSCHED_ERR_UNSUPPORTED", "this build or transport does not support the request"},
    entry{status::no_memory, "LSCHED_ERR_NOMEM", "out of memory"},
    entry{status::transport, "LSCHED_ERR_TRANSPORT", "the transport failed"},
    entry{status::peer, "LSCHED_ERR_PEER", "a peer died or closed its world without leaving"},
    entry{status::timeout, "LSCHED_ERR_TIMEOUT", "the time limit passed"},
    entry{status::busy, "LSCHED_ERR_BUSY", "the object is still in use"},
    entry{status::version, "LSCHED_ERR_VERSION", "caller and library disagree about the ABI"},
    entry{status::internal, "LSCHED_ERR_INTERNAL", "an invariant of the library is broken"},
    entry{status::not_finite, "LSCHED_ERR_NOT_FINITE", "the result is not finite and was refused"},
    entry{status::cancelled, "LSCHED_ERR_CANCELLED", "a rank has cancelled the schedule"},
    entry{status::device, "LSCHED_ERR_DEVICE", "a GPU or its driver has failed"},
};

const entry& row_of(status code) {
  static constexpr entry unknown{status::internal, "LSCHED_ERR_UNKNOWN", "unknown status code"};
  for (const entry& row : k_table)
    if (row.code == code) return row;
  return unknown;
}

}  // namespace

std::string_view name_of(status code) { return row_of(code).name; }
std::string_view text_of(status code) { return row_of(code).text; }

}  // namespace lsched
