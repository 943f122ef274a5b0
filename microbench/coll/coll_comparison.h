// What several launches of `lsched bench coll` say together: ours against the better MPI, cell by cell.
//
// A ratio is only ever taken inside one launch, whose cells took turns. Launches of one MPI give a median of ratios
// (the higher of the two in the middle where their number is even). Of several MPIs the better one is that against
// which ours come off worst.
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
  /// Takes the JSON lines of one launch. Throws `failed`, naming `path` and the line, for what is not JSON, for rows of
  /// bench coll that lack something, for a cell that is there twice (two launches in one file), and for files without a
  /// row of bench coll.
  void add_launch(std::string_view path, const std::string& lines);

  /// By collective in the order of reports, then ranks, pinned or not, transport, and bytes. Of each cell: the better
  /// MPI (mpi, mpi_how: its form, mpi_us) and the fastest right row of ours, malloc_… and shared_… by buffers (…_how,
  /// …_us, …_ratio: of that launch's best MPI; missing if there is none), in the launch of the median ratio; how many
  /// launches there are with that MPI and with others; least_spin_ns, most_spin_ns of those with that MPI.
  /// Cells without an MPI or without ours are left out and counted.
  std::vector<result> cells(std::size_t* incomplete = nullptr) const;

 private:
  /// The fastest right row; 0 us: there is none.
  struct best {
    double us = 0;
    std::string how{};

    void take(double other_us, const std::string& other_how) {
      if (us == 0 || other_us < us) us = other_us, how = other_how;
    }
  };
  /// A cell of one launch.
  struct sighting {
    best mpi{}, malloced{}, shared{};
    double spin_ns = 0;
  };
  static void put(result& to, const std::string& memory, const best& ours, const best& mpi);
  /// A cell by its place in reports: collective, ranks, whether pinned, whether through MPI, bytes.
  using place = std::tuple<std::size_t, std::string, int, bool, bool, std::uint64_t>;
  void add(const result& line, std::set<std::string>& seen);

  std::map<place, std::map<std::pair<std::string, std::size_t>, sighting>> sightings_;  ///< by MPI and launch
  std::size_t launches_ = 0;
};

}  // namespace lsched::bench
