#include "microbench/coll/coll_comparison.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "microbench/exercise.h"
#include "microbench/harness.h"

namespace lsched::bench {
namespace {

/// Where a collective stands in reports; what is unknown comes last.
std::size_t order_of(const std::string& collective) {
  std::size_t place = 0;
  for (const exercise_kind& kind : exercises()) {
    if (kind.name == collective) break;
    ++place;
  }
  return place;
}

/// One launch's view of a cell.
struct sighting {
  double mpi_us = 0;
  std::string mpi_how;
  our_best malloced{}, shared{};
  double spin_ns = 0;
};

void keep_better(our_best& best, double us, const std::string& how) {
  if (best.us == 0 || us < best.us) best = {us, 0, how};
}

/// The sighting in the middle by `ratio`, the higher of two.
template <class Ratio>
const sighting& middle(std::vector<sighting>& all, Ratio ratio) {
  std::sort(all.begin(), all.end(), [&](const sighting& a, const sighting& b) { return ratio(a) < ratio(b); });
  return all[all.size() / 2];
}

}  // namespace

void coll_comparison::add_launch(std::string_view path, const std::string& lines) {
  std::istringstream text(lines);
  std::string line;
  std::set<std::string> seen;
  std::size_t number = 1;
  for (; std::getline(text, line); ++number) {
    try {
      const auto found = nlohmann::json::parse(line);
      if (found.at("bench") != "coll") continue;
      std::string how = found.at("form").get<std::string>() + (found.at("in_place").get<bool>() ? ", in place" : "");
      if (found.at("impl") != "mpi") how = found.at("algorithm").get<std::string>() + ", " + how;
      row made{.collective = found.at("coll"),
               .impl = found.at("impl"),
               .buffers = found.at("buffers"),
               .how = std::move(how),
               .mpi = found.at("mpi"),
               .ranks = found.at("ranks"),
               .is_pinned = found.at("pinned"),
               .is_through_mpi = found.at("transport") == "mpi",
               .bytes = found.at("bytes"),
               .us = found.at("us_median"),
               .spin_ns = found.value("spin_ns", 0.0),
               .is_wrong = found.at("wrong") != 0,
               .launch = launches_};
      const std::string cell = made.collective + "|" + made.impl + "|" + made.buffers + "|" + made.how + "|" +
                               std::to_string(made.ranks) + "|" + std::to_string(made.bytes) +
                               (made.is_pinned ? "|pinned" : "") + (made.is_through_mpi ? "|mpi" : "");
      if (!seen.insert(cell).second) throw failed("this cell was there before; a file holds one launch");
      if (!(made.us > 0)) throw failed("us_median is not a time");
      rows_.push_back(std::move(made));
    } catch (const std::exception& why) {
      throw failed(std::string(path) + ": line " + std::to_string(number) + ": " + why.what());
    }
  }
  if (seen.empty()) throw failed(std::string(path) + ": has no row of `lsched bench coll --json`");
  ++launches_;
}

std::vector<compared_cell> coll_comparison::cells(std::size_t* incomplete) const {
  using key = std::tuple<std::size_t, std::string, int, bool, bool, std::uint64_t>;
  using name_and_launch = std::pair<std::string, std::size_t>;
  std::map<key, std::map<name_and_launch, sighting>> sightings;
  for (const row& each : rows_) {
    sighting& it = sightings[{order_of(each.collective), each.collective, each.ranks, each.is_pinned,
                              each.is_through_mpi, each.bytes}][{each.mpi, each.launch}];
    it.spin_ns = each.spin_ns;
    if (each.is_wrong) continue;
    if (each.impl != "mpi")
      keep_better(each.buffers == "malloc" ? it.malloced : it.shared, each.us, each.how);
    else if (it.mpi_us == 0 || each.us < it.mpi_us)
      it.mpi_us = each.us, it.mpi_how = each.how;
  }

  std::vector<compared_cell> result;
  std::size_t left_out = 0;
  for (auto& [where, launches] : sightings) {
    std::map<std::string, std::vector<sighting>> by_mpi;
    std::size_t usable = 0;
    for (auto& [who, it] : launches) {
      if (it.mpi_us == 0 || it.malloced.us == 0) continue;
      it.malloced.ratio = it.malloced.us / it.mpi_us;
      it.shared.ratio = it.shared.us / it.mpi_us;
      by_mpi[who.first].push_back(it);
      ++usable;
    }
    if (usable == 0) {
      ++left_out;
      continue;
    }
    compared_cell cell{.collective = std::get<1>(where),
                       .ranks = std::get<2>(where),
                       .bytes = std::get<5>(where),
                       .is_pinned = std::get<3>(where),
                       .is_through_mpi = std::get<4>(where)};
    for (auto& [mpi, all] : by_mpi) {
      const sighting typical = middle(all, [](const sighting& s) { return s.malloced.ratio; });
      if (typical.malloced.ratio <= cell.malloced.ratio) continue;
      const auto [low, high] = std::minmax_element(
          all.begin(), all.end(), [](const sighting& a, const sighting& b) { return a.spin_ns < b.spin_ns; });
      cell.least_spin_ns = low->spin_ns;
      cell.most_spin_ns = high->spin_ns;
      cell.mpi = mpi;
      cell.mpi_how = typical.mpi_how;
      cell.mpi_us = typical.mpi_us;
      cell.malloced = typical.malloced;
      cell.launches = all.size();
      cell.other_launches = usable - all.size();
      cell.shared = middle(all, [](const sighting& s) { return s.shared.ratio; }).shared;
    }
    result.push_back(std::move(cell));
  }
  if (incomplete != nullptr) *incomplete = left_out;
  return result;
}

}  // namespace lsched::bench
