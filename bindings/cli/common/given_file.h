// A file in a collective's place on the command line: an algorithm, the schedules of a world, or a GOAL program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/goal/goal.h"
#include "libsched/schedule/schedule.h"

namespace lsched::cli {

inline constexpr const char* k_collective_or_file =
    "A collective that `lsched list` shows, or a file: an algorithm (also of MSCCL), the schedules of all ranks, GOAL";

/// Why options that say what a file says are refused.
inline constexpr const char* k_own_of_algorithm = "the file is of one algorithm";
inline constexpr const char* k_own_of_schedules = "a file of schedules has its own";

/// Whether a word is a path and not the name of a collective: it has a dot or a slash.
bool is_path(const std::string& word);

/// The file's text; of an MSCCL program the algorithm file that it becomes. Throws command_failure.
std::string algorithm_text_of(const std::string& path);

/// What a file holds, one of the three.
struct given_file {
  std::string collective, algorithm;  ///< of an algorithm file or an MSCCL program, registered now
  std::vector<schedule_ptr> world{};  ///< of a schedule file (docs/reference/schedule_file.md), by rank
  std::optional<goal> program{};      ///< of GOAL
  bool is_converted = false;          ///< its lines are those of algorithm_text_of
  bool is_algorithm() const { return !algorithm.empty(); }
};

/// Throws command_failure, with the path, line and column.
given_file read_given(const std::string& path);

/// The schedules of a GOAL program, in which a calc of n is a copy of n bytes: at 1 ns per byte it takes n ns. Throws
/// command_failure, with the path.
std::vector<schedule_ptr> schedules_of(const goal& program, const std::string& path);

/// Likewise, or those that the file holds; none of an algorithm.
std::vector<schedule_ptr> schedules_of(given_file given, const std::string& path);

/// Takes the collective's place: where it is a path to an algorithm file, it becomes that algorithm's, and `algorithm`
/// its name. Throws command_failure, for a file of schedules, too.
void take_algorithm_file(std::string& collective, std::string& algorithm);

/// How many ranks a command takes where nobody says: as many as usual, or if the algorithm's file does not allow that,
/// the fewest that it does from 2 to 64, or 1.
rank usual_ranks(const std::string& collective, const std::string& algorithm, rank usual);

/// A count that the algorithm serves: this one, or the next larger.
std::uint64_t usual_count(std::string_view collective, std::string_view algorithm, rank ranks, std::uint64_t count);

/// Before an algorithm is run whose ranks might wait for each other for ever: what the proof of a typical request has
/// found, or why the algorithm serves none of so many ranks.
std::optional<failure> doubt_about(const std::string& collective, const std::string& algorithm, rank ranks);

}  // namespace lsched::cli
