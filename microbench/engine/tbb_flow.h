// oneTBB's flow graph as a rival of the engine. Only in builds with LSCHED_HAVE_TBB; no oneTBB header here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace lsched::bench {

/// The two graphs that are measured, of `ops` nodes that do nothing.
enum class graph_kind {
  chain,  ///< each waits for the one before
  fan     ///< the first, then all but two side by side, then the last
};

/// A flow graph in one of the ways oneTBB can run it; the benchmark reports the fastest.
class tbb_flow {
 public:
  /// "2 threads", "1 thread", "1 thread, lightweight nodes"
  static std::vector<std::string> variants();

  tbb_flow(graph_kind kind, std::size_t ops, const std::string& variant);
  ~tbb_flow();
  tbb_flow(const tbb_flow&) = delete;
  tbb_flow& operator=(const tbb_flow&) = delete;

  /// All nodes once.
  void run();

  /// How often nodes have run.
  std::size_t visits() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace lsched::bench
