// Combines several launches of `lsched bench coll`: libsched compared with the better MPI, cell by cell.
//
// A ratio is only taken within a launch, whose cells took turns. The launches of one MPI give a median of ratios (the
// higher of the two in the middle if their number is even). If there are several MPIs, the better MPI is the one with
// the highest ratio.
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

  /// Returns the cells, ordered by collective in the order of reports, ranks, pinned or not, transport, and bytes.
  /// A cell has the better MPI: mpi, its form as mpi_how, and mpi_us. It also has the fastest correct row of libsched
  /// for each kind of buffer, malloc_… and shared_…: …_how, …_us, and …_ratio to the best MPI of the launch. Both are
  /// from the launch with the median ratio. The keys are missing if there is no such row.
  /// A cell also has the numbers of launches with that MPI and with others, and least_spin_ns and most_spin_ns of the
  /// launches with that MPI.
  /// Cells without MPI or without libsched are left out. *incomplete receives their number.
  std::vector<result> cells(std::size_t* incomplete = nullptr) const;

 private:
  /// The fastest correct row. 0 us: no row.
  struct best {
    double us = 0;
    std::string how{};

    void take(double other_us, const std::string& other_how) {
      if (us == 0 || other_us < us) us = other_us, how = other_how;
    }
  };
  /// A cell in one launch.
  struct sighting {
    best mpi{}, malloced{}, shared{};
    double spin_ns = 0;
  };
  static void put(result& to, const std::string& memory, const best& ours, const best& mpi);
  /// The key of a cell in the order of reports: collective, ranks, pinned or not, through MPI or not, bytes.
  using place = std::tuple<std::size_t, std::string, int, bool, bool, std::uint64_t>;
  void add(const result& line, std::set<std::string>& seen);

  std::map<place, std::map<std::pair<std::string, std::size_t>, sighting>> sightings_;  ///< by MPI and launch
  std::size_t launches_ = 0;
};

}  // namespace lsched::bench
