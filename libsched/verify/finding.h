// A finding consists of the property that does not hold, the location of the fault, and the reason as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace lsched {

/// The properties that verify() proves.
enum class property : std::uint8_t {
  form,           ///< each schedule alone: ids, regions, peers, deps, declarations
  matching,       ///< every send and signal has one receive of the same peer, tag, type and extent
  progress,       ///< with rendezvous sends, every payload and compute op fires, and every round ends
  holding,        ///< as `progress`; if schedules declare holding, sends also wait until their payloads are read
  activation,     ///< if enough ranks call, the round starts on all ranks, with the required number of signals
  hazard,         ///< conflicting accesses to memory are ordered
  contents,       ///< every output range has the required content, with each contribution once
  expression,     ///< operands are combined in the required order, and in the same way on all ranks with the result
  cost,           ///< the numbers of messages, bytes, signals and hops are as required
  synchronising,  ///< if declared or promised: every rank's entry happens before every rank's exit
};

std::string_view name_of(property what);

inline std::string range_text(std::uint64_t begin, std::uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

struct element_range {
  std::uint16_t buffer = k_no_buffer;
  std::uint64_t begin = 0, end = 0;
  std::string text() const { return "elements " + range_text(begin, end) + " of buffer " + std::to_string(buffer); }
};

/// A violation of a property. Members that do not apply are k_no_rank, k_no_op or k_no_buffer.
struct finding {
  property what = property::form;
  rank where = k_no_rank;
  op_id op = k_no_op;
  rank peer = k_no_rank;
  std::uint16_t buffer = k_no_buffer;
  std::uint64_t begin = 0;  ///< first element of the range [begin, end) in the buffer
  std::uint64_t end = 0;
  std::string text{};  ///< readable sentence, which also names rank and op
};

/// A list of findings with a maximum length, because one fault in a schedule can cause very many findings.
class finding_list {
 public:
  explicit finding_list(std::size_t most) : most_(most) {}
  void add(finding added) {
    if (!is_full()) all_.push_back(std::move(added));
  }
  bool is_empty() const { return all_.empty(); }
  bool is_full() const { return all_.size() >= most_; }
  std::vector<finding> take() { return std::move(all_); }

 private:
  std::size_t most_;
  std::vector<finding> all_;
};

}  // namespace lsched
