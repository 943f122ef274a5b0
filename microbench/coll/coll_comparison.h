// Compares libsched with the best MPI implementation, cell by cell, from several launches of `lsched bench coll`. A
// cell is a combination of collective, number of ranks, pinning, transport and size.
//
// A ratio is libsched's time divided by MPI's time in the same launch. For each MPI implementation, the median of the
// ratios of its launches is used. (If the number of launches is even, the higher of the two middle ratios is used.) The
// best MPI implementation has the highest median.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "microbench/report.h"

namespace lsched::bench {

class coll_comparison {
 public:
  /// Adds the JSON lines of one launch. Throws `failed` with `path` and the line if a line is not JSON, or if a row of
  /// bench coll is incomplete. Also throws if a cell occurs twice (two launches in one file), or if the file has no row
  /// of bench coll.
  void add_launch(std::string_view path, const std::string& lines);

  /// Returns the cells, sorted by collective (in the order of reports), number of ranks, pinning, transport, and bytes.
  /// In a cell, `mpi` is the name of the best MPI implementation, `mpi_how` is its form, and `mpi_us` is its time.
  /// There are two kinds of buffers, malloc and shared. The fastest correct row of libsched with malloc has the keys
  /// `malloc_how`, `malloc_us` and `malloc_ratio`. The keys for shared buffers are `shared_how`, `shared_us` and
  /// `shared_ratio`. The numbers of a kind are from the launch with the median ratio. If a kind has no correct row, its
  /// keys are missing. `launches` is the number of launches with the best MPI implementation, and `other_launches` is
  /// the number of all other launches. `least_spin_ns` and `most_spin_ns` are the range of spin_ns over the launches
  /// with the best implementation. Cells without MPI or without libsched are omitted. `*incomplete` receives the number
  /// of omitted cells.
  std::vector<result> cells(std::size_t* incomplete = nullptr) const;

 private:
  /// The fastest correct row.
  struct best {
    double us = 0;  ///< 0: no row
    std::string how{};

    void take(double other_us, const std::string& other_how) {
      if (us == 0 || other_us < us) us = other_us, how = other_how;
    }
  };
  /// The rows of one cell in one launch.
  struct sighting {
    best mpi{}, malloced{}, shared{};
    double spin_ns = 0;
  };
  static void put(result& to, const std::string& memory, const best& ours, const best& mpi);
  /// The key of a cell: position of the collective in reports, name of the collective, number of ranks, true if pinned,
  /// true if through MPI, bytes.
  using place = std::tuple<std::size_t, std::string, int, bool, bool, std::uint64_t>;
  void add(const result& line, std::set<std::string>& seen);

  std::map<place, std::map<std::pair<std::string, std::size_t>, sighting>> sightings_;  ///< by cell, then MPI and
                                                                                        ///< launch
  std::size_t launches_ = 0;
};

}  // namespace lsched::bench
