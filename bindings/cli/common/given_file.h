// A file on the command line, instead of a collective: an algorithm, the schedules of a world, or a GOAL program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/cli/goal/goal.h"
#include "libsched/schedule/schedule.h"

namespace lsched::cli {

inline constexpr const char* k_collective_or_file =
    "A collective from `lsched list`, or a file: an algorithm, an MSCCL program, the schedules of all ranks, or a GOAL "
    "program";

/// Error texts for options that must not be given, because the file determines their values.
inline constexpr const char* k_own_of_algorithm = "the file determines the algorithm: leave the option out";
inline constexpr const char* k_own_of_schedules = "the file determines this value: leave the option out";

/// Returns true if the word has a dot or a slash. Such a word is a path, not the name of a collective.
bool is_path(const std::string& word);

/// Returns the text of an algorithm file. Converts an MSCCL program into an algorithm file. Throws command_failure.
std::string algorithm_text_of(const std::string& path);

/// The content of a file: an algorithm, schedules or a GOAL program. The members for the other two kinds are empty.
struct given_file {
  std::string collective, algorithm;  ///< names of the file's collective and algorithm; read_given() has registered the
                                      ///< algorithm
  std::vector<schedule_ptr> world{};  ///< schedules of all ranks, by rank (docs/reference/schedule_file.md)
  std::optional<goal> program{};
  bool is_converted = false;  ///< true if the file is an MSCCL program; errors then give line numbers of the text that
                              ///< algorithm_text_of() returns
  bool is_algorithm() const { return !algorithm.empty(); }
};

/// Reads a file. If the file has an algorithm, registers the algorithm. Throws command_failure, with the path, line and
/// column.
given_file read_given(const std::string& path);

/// Returns the schedules of a GOAL program or of a schedule file, by rank, and an empty vector for an algorithm. A GOAL
/// calculation of n ns becomes a copy of n bytes, so simulate with 1 ns per byte. Throws command_failure, with the
/// path.
std::vector<schedule_ptr> schedules_of(given_file given, const std::string& path);

/// If `collective` is a path, registers the algorithm of that file, and sets both arguments to the names in the file.
/// Throws command_failure, for example if the file is not an algorithm file.
void take_algorithm_file(std::string& collective, std::string& algorithm);

/// Returns the default number of ranks of a command: `usual`, if the algorithm supports it. For an algorithm from a
/// file that does not support `usual` ranks, returns the smallest supported number from 2 to 64. If there is no such
/// number, returns 1 if 1 is supported, else `usual`.
rank usual_ranks(const std::string& collective, const std::string& algorithm, rank usual);

/// Returns the smallest count that is at least `count` and that the algorithm supports.
std::uint64_t usual_count(std::string_view collective, std::string_view algorithm, rank ranks, std::uint64_t count);

/// Verifies a typical request of an algorithm from a file. Returns an error if the algorithm must not run on `ranks`
/// ranks, because it might deadlock or does not support that number of ranks.
std::optional<failure> doubt_about(const std::string& collective, const std::string& algorithm, rank ranks);

}  // namespace lsched::cli
