// A file that the command line names instead of a collective. The file contains an algorithm, the schedules of a world,
// or a GOAL program.
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
  bool is_converted = false;  ///< true if the file is an MSCCL program; line numbers in errors then refer to the text
                              ///< that algorithm_text_of() returns
  bool is_algorithm() const { return !algorithm.empty(); }
};

/// Reads a file. If the file has an algorithm, registers the algorithm. Throws command_failure. The error text has the
/// path, line and column.
given_file read_given(const std::string& path);

/// Returns the schedules of a GOAL program or of a schedule file, indexed by rank. Returns an empty vector for an
/// algorithm. A GOAL calculation of n ns becomes a copy of n bytes. So a simulation must use 1 ns per byte. Throws
/// command_failure. The error text has the path.
std::vector<schedule_ptr> schedules_of(given_file given, const std::string& path);

/// If `collective` is a path, registers the algorithm of that file, and sets both arguments to the names in the file.
/// Throws command_failure, for example if the file is not an algorithm file.
void take_algorithm_file(std::string& collective, std::string& algorithm);

/// Returns the default number of ranks of a command. The default is `usual`, unless the algorithm is from a file and
/// does not support `usual` ranks. In that case the default is the smallest supported number from 2 to 64. If none of
/// these numbers is supported, the default is 1. If 1 is not supported either, the default is `usual`.
rank usual_ranks(const std::string& collective, const std::string& algorithm, rank usual);

/// Returns the smallest count that is at least `count` and that the algorithm supports.
std::uint64_t usual_count(std::string_view collective, std::string_view algorithm, rank ranks, std::uint64_t count);

/// Verifies a typical request of an algorithm from a file. Returns an error if the algorithm might deadlock on `ranks`
/// ranks, or does not support this number of ranks. The command must not run such an algorithm.
std::optional<failure> doubt_about(const std::string& collective, const std::string& algorithm, rank ranks);

}  // namespace lsched::cli
