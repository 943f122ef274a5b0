#include "bindings/cli/common/given_file.h"

#include "bindings/cli/common/errors.h"
#include "bindings/cli/msccl/msccl.h"
#include "bindings/input_file.h"
#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "collectives/written/written.h"
#include "libsched/schedule/schedule_file.h"

namespace lsched::cli {

namespace {

struct converted_text {
  std::string text;  ///< content of the file; for an MSCCL program, the algorithm file into which it was converted
  bool is_converted = false;
};

converted_text read_and_convert(const std::string& path) {
  std::string text = require(content_of(path));
  if (!is_msccl_text(text)) return {std::move(text)};
  return {require(algorithm_of_msccl(text), path), true};
}

}  // namespace

bool is_path(const std::string& word) { return word.find_first_of("./") != std::string::npos; }

std::string algorithm_text_of(const std::string& path) {
  std::string text = read_and_convert(path).text;
  if (!is_algorithm_text(text))
    throw command_failure(LSCHED_ERR_ARGUMENT, path + ": the file is neither an algorithm file nor an MSCCL program");
  return text;
}

/// Algorithm files and schedule files have "libsched" in their title line. Comments may precede the title line. A file
/// with this title that is not an algorithm file is parsed as a schedule file.
given_file read_given(const std::string& path) {
  const auto [text, is_converted] = read_and_convert(path);
  if (is_goal_text(text)) return {.program = require(parse_goal_text(text), path)};
  if (text.find("libsched") == text.npos)
    throw command_failure(
        LSCHED_ERR_ARGUMENT,
        path + ": the file is not an algorithm file, a schedule file, an MSCCL program or a GOAL program");
  if (!is_algorithm_text(text)) return {.world = require(parse_world(text), path)};
  const algorithm* const made = require(add_written(text), path);
  return {
      .collective = std::string(made->of->name), .algorithm = std::string(made->name), .is_converted = is_converted};
}

std::vector<schedule_ptr> schedules_of(given_file given, const std::string& path) {
  return given.program ? require(import_goal(*given.program, {.ns_per_byte = 1}), path) : std::move(given.world);
}

void take_algorithm_file(std::string& collective, std::string& algorithm) {
  if (!is_path(collective)) return;
  const std::string path = collective;
  const given_file given = read_given(path);
  if (!given.is_algorithm())
    throw command_failure(
        LSCHED_ERR_ARGUMENT,
        path + ": the file contains schedules, but this command takes an algorithm file or an MSCCL program");
  collective = given.collective;
  algorithm = given.algorithm;
}

rank usual_ranks(const std::string& collective, const std::string& algorithm, rank usual) {
  constexpr rank k_most = 64;
  const lsched::algorithm* const how = find(collective, algorithm);
  if (how == nullptr || how->custom == nullptr) return usual;
  const auto is_allowed = [&](rank ranks) {
    return !how->custom->validate(ranks, typical_shape(*how->of, ranks, 0, dtype::f32, kernel::sum));
  };
  if (is_allowed(usual)) return usual;
  for (rank ranks = 2; ranks <= k_most; ++ranks)
    if (is_allowed(ranks)) return ranks;
  return is_allowed(1) ? 1 : usual;
}

std::uint64_t usual_count(std::string_view collective, std::string_view algorithm, rank ranks, std::uint64_t count) {
  const lsched::algorithm* const how = find(collective, algorithm);
  const std::uint64_t unit = how == nullptr || how->custom == nullptr ? 1 : how->custom->count_unit(ranks);
  return (count + unit - 1) / unit * unit;
}

std::optional<failure> doubt_about(const std::string& collective, const std::string& algorithm, rank ranks) {
  const lsched::algorithm* const how = find(collective, algorithm);
  if (how == nullptr || how->custom == nullptr) return std::nullopt;
  const std::uint64_t count =
      usual_count(collective, algorithm, ranks, wide(ranks));  // deadlocks are the same for all counts above 0
  const shape data = typical_shape(*how->of, ranks, count, dtype::f32, kernel::sum);
  if (auto why = validate(*how, {0, ranks}, data)) return why;
  return how->custom->doubt(*how, ranks, data);
}

}  // namespace lsched::cli
