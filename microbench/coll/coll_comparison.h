// What several launches of `lsched bench coll` say together: ours against the better MPI, cell by cell.
//
// A ratio is only ever taken inside one launch, whose cells took turns. Launches of one MPI give a median of ratios
// (the higher of the two in the middle where their number is even). Of several MPIs the better one is that against
// which ours come off worst.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lsched::bench {

/// The fastest right row of ours with one kind of buffers, in the launch of the median ratio.
struct our_best {
  double us = 0;      ///< 0: there is none
  double ratio = 0;   ///< us over that launch's best MPI
  std::string how{};  ///< "flat, persistent, in place"
};

struct compared_cell {
  std::string collective;
  int ranks = 0;
  std::uint64_t bytes = 0;
  bool is_pinned = false;
  bool is_through_mpi = false;  ///< ours talked through MPI, and not through shared memory
  std::string mpi;              ///< the better one
  std::string mpi_how;          ///< its form
  double mpi_us = 0;            ///< in the launch of the median ratio
  our_best malloced{}, shared{};
  std::size_t launches = 0;                    ///< with that MPI
  std::size_t other_launches = 0;              ///< with other MPIs
  double least_spin_ns = 0, most_spin_ns = 0;  ///< of those with that MPI
};

class coll_comparison {
 public:
  /// Takes the JSON lines of one launch. Throws `failed`, naming `path` and the line, for what is not JSON, for rows of
  /// bench coll that lack something, for a cell that is there twice (two launches in one file), and for files without a
  /// row of bench coll.
  void add_launch(std::string_view path, const std::string& lines);

  /// By collective in the order of reports, then ranks, pinned or not, transport, and bytes. Cells without an MPI or
  /// without ours are left out and counted.
  std::vector<compared_cell> cells(std::size_t* incomplete = nullptr) const;

 private:
  struct row {
    std::string collective, impl, buffers, how, mpi;
    int ranks;
    bool is_pinned, is_through_mpi;
    std::uint64_t bytes;
    double us, spin_ns;
    bool is_wrong;
    std::size_t launch;
  };
  std::vector<row> rows_;
  std::size_t launches_ = 0;
};

}  // namespace lsched::bench
