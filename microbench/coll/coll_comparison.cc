#include "microbench/coll/coll_comparison.h"

#include <algorithm>
#include <sstream>

#include "collectives/algorithm/collective.h"

namespace lsched::bench {
namespace {

/// Returns the position of a collective in reports. Unknown collectives come last.
std::size_t order_of(const std::string& collective) {
  const auto all = collectives();
  return static_cast<std::size_t>(std::ranges::find(all, collective, &collective::name) - all.begin());
}

/// Returns the launch with the median `ratio`. If the number of launches is even, returns the launch with the higher of
/// the two middle ratios.
template <class Sightings, class Ratio>
auto middle(Sightings& all, Ratio ratio) {
  std::ranges::sort(all, {}, ratio);
  return all[all.size() / 2];
}

}  // namespace

/// Adds one line of `lsched bench coll`. Throws if the line is incomplete or invalid.
void coll_comparison::add(const result& line, std::set<std::string>& seen) {
  const std::string collective = line.at("coll"), buffers = line.at("buffers");
  const bool is_mpi = line.at("impl") == "mpi", in_place = line.at("in_place");
  const std::string form = line.at("form").get<std::string>() + (in_place ? ", in place" : "");
  const std::string how = is_mpi ? form : line.at("algorithm").get<std::string>() + ", " + form;
  const double us = line.at("us_median");
  const place where{order_of(collective),          collective,      line.at("ranks"), line.at("pinned"),
                    line.at("transport") == "mpi", line.at("bytes")};
  const result cell{collective,       is_mpi,           buffers,           how,
                    line.at("ranks"), line.at("bytes"), line.at("pinned"), line.at("transport")};
  if (!seen.insert(cell.dump()).second)
    throw failed("an earlier line has the same cell: a file must hold a single launch");
  if (!(us > 0)) throw failed("us_median is not above 0");
  sighting& launch = sightings_[where][{line.at("mpi"), launches_}];
  launch.spin_ns = line.value("spin_ns", 0.0);
  if (line.at("wrong") != 0) return;
  (is_mpi ? launch.mpi : buffers == "malloc" ? launch.malloced : launch.shared).take(us, how);
}

void coll_comparison::add_launch(std::string_view path, const std::string& lines) {
  std::istringstream text(lines);
  std::string line;
  std::set<std::string> seen;
  for (std::size_t number = 1; std::getline(text, line); ++number) {
    try {
      const auto found = result::parse(line);
      if (found.at("bench") == "coll") add(found, seen);
    } catch (const std::exception& why) {
      throw failed(std::string(path) + ": line " + std::to_string(number) + ": " + why.what());
    }
  }
  if (seen.empty()) throw failed(std::string(path) + ": the file has no row of `lsched bench coll --json`");
  ++launches_;
}

void coll_comparison::put(result& to, const std::string& memory, const best& ours, const best& mpi) {
  if (ours.us > 0)
    to.update({{memory + "_how", ours.how}, {memory + "_us", ours.us}, {memory + "_ratio", ours.us / mpi.us}});
}

std::vector<result> coll_comparison::cells(std::size_t* incomplete) const {
  std::vector<result> compared;
  for (const auto& [where, launches] : sightings_) {
    std::map<std::string, std::vector<sighting>> by_mpi;
    std::size_t usable = 0;
    for (const auto& [mpi_and_launch, launch] : launches) {
      if (launch.mpi.us == 0 || launch.malloced.us == 0) continue;
      by_mpi[mpi_and_launch.first].push_back(launch);
      ++usable;
    }
    if (usable == 0) continue;
    const auto& [order, collective, ranks, is_pinned, is_through_mpi, bytes] = where;
    result cell{{"malloc_ratio", 0.0}};
    for (auto& [mpi, all] : by_mpi) {
      const sighting typical = middle(all, [](const sighting& launch) { return launch.malloced.us / launch.mpi.us; });
      if (typical.malloced.us / typical.mpi.us <= cell["malloc_ratio"]) continue;
      const auto [low, high] = std::ranges::minmax(all, {}, &sighting::spin_ns);
      cell = {{"coll", collective},
              {"ranks", ranks},
              {"bytes", bytes},
              {"pinned", is_pinned},
              {"through_mpi", is_through_mpi},
              {"mpi", mpi},
              {"mpi_how", typical.mpi.how},
              {"mpi_us", typical.mpi.us},
              {"launches", all.size()},
              {"other_launches", usable - all.size()},
              {"least_spin_ns", low.spin_ns},
              {"most_spin_ns", high.spin_ns}};
      put(cell, "malloc", typical.malloced, typical.mpi);
      const sighting of_shared = middle(all, [](const sighting& launch) { return launch.shared.us / launch.mpi.us; });
      put(cell, "shared", of_shared.shared, of_shared.mpi);
    }
    compared.push_back(std::move(cell));
  }
  if (incomplete != nullptr) *incomplete = sightings_.size() - compared.size();
  return compared;
}

}  // namespace lsched::bench
