// `lsched verify`: proves schedules, for whole worlds of ranks.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/parallel.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/verify/verify_file.h"
#include "bindings/cli/verify/verify_plan.h"
#include "bindings/progress_line.h"
#include "libsched/verify/verify.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct verify_command_options {
  std::string collective;
  std::string file;
  std::string promised;
  bool in_place = false;
  std::string algorithm = "all";
  std::string ranks;
  std::string counts;
  std::string items;
  std::string activation;
  bool all = false;
  bool sample = false;
  bool as_json = false;
};

// --- numbers -----------------------------------------------------------------------------------------------

/// "1-65,96,100". Nothing unless every word is a number, or a range of them, within the limits.
template <class Number>
std::optional<std::vector<Number>> numbers_of(std::string_view list, std::uint64_t least, std::uint64_t most) {
  std::vector<Number> numbers;
  while (true) {
    const std::string_view word = list.substr(0, list.find(','));
    const std::size_t dash = word.find('-');
    const auto first = whole_number_in(word.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole_number_in(word.substr(dash + 1));
    if (!first || !last || *first < least || *last > most || *first > *last || *last - *first > k_most_ranks)
      return std::nullopt;
    for (std::uint64_t value = *first; value <= *last; ++value) numbers.push_back(static_cast<Number>(value));
    if (word.size() == list.size()) return numbers;
    list.remove_prefix(word.size() + 1);
  }
}

template <class Number>
CLI::Validator number_list(std::uint64_t least, std::uint64_t most) {
  const auto check = [least, most](std::string& list) {
    return numbers_of<Number>(list, least, most)
               ? std::string()
               : "\"" + list + "\" is not a list of numbers and ranges from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", like 1-65,96,100";
  };
  return {check, "LIST", ""};
}

// --- telling -----------------------------------------------------------------------------------------------

json describe(const finding& it) {
  json entry{{"property", name_of(it.what)}, {"text", it.text}};
  if (it.where != k_no_rank) entry["rank"] = it.where;
  if (it.op != k_no_op) entry["op"] = it.op;
  if (it.peer != k_no_rank) entry["peer"] = it.peer;
  if (it.buffer != k_no_buffer) entry["segment"] = {{"buffer", it.buffer}, {"begin", it.begin}, {"end", it.end}};
  return entry;
}

json describe(const verify_case& it) {
  if (it.sparse != nullptr)
    return {{"collective", collective_of(it)},
            {"algorithm", it.sparse->name},
            {"activation", words_for(it.starts)},
            {"ranks", it.size},
            {"count", it.count},
            {"k", it.problem.k},
            {"defers", it.problem.capacity == capacity_policy::defer},
            {"reuses", it.problem.selection == selection_rule::reused}};
  return {
      {"collective", it.what->of->name}, {"algorithm", it.what->name},        {"ranks", it.size}, {"count", it.count},
      {"in_place", it.data.in_place},    {"activation", words_for(it.starts)}};
}

/// `entry` names the world.
json describe(json entry, const verification& answer) {
  entry["holds"] = answer.holds();
  const unexpected_bound worst = worst_unexpected(answer);
  entry["synchronising"] = answer.is_synchronising;
  entry["cost"] = {{"messages", answer.price.messages},
                   {"bytes", answer.price.bytes},
                   {"signals", answer.price.signals},
                   {"signals_of_one", answer.price.signals_of_one},
                   {"rounds", answer.price.hops}};
  entry["unexpected"] = {{"messages", worst.messages}, {"bytes", worst.bytes}};
  entry["findings"] = json::array();
  entry["notes"] = json::array();
  for (const finding& why : answer.findings) entry["findings"].push_back(describe(why));
  for (const finding& note : answer.notes) entry["notes"].push_back(describe(note));
  return entry;
}

void print(const std::string& world, const verification& answer) {
  const unexpected_bound worst = worst_unexpected(answer);
  if (answer.holds())
    std::printf("proved  %s: %s, %s, %s; at most %s at a rank\n", world.c_str(),
                counted(answer.price.messages, "message").c_str(), counted(answer.price.signals, "signal").c_str(),
                counted(answer.price.hops, "hop").c_str(), counted(worst.messages, "unexpected message").c_str());
  else
    std::printf("FAILED  %s\n", world.c_str());
  for (const finding& why : answer.findings)
    std::printf("        %s: %s\n", std::string(name_of(why.what)).c_str(), why.text.c_str());
  for (const finding& note : answer.notes)
    std::printf("        note: %s: %s\n", std::string(name_of(note.what)).c_str(), note.text.c_str());
}

/// One line a world; of many worlds only those that fail.
class teller {
 public:
  teller(const verify_command_options& options, std::size_t worlds)
      : as_json_(options.as_json), is_brief_(worlds > k_most_lines) {}

  void tell(const verify_case& it, const verification& answer, progress_line& line) {
    ++(answer.holds() ? verified_ : failed_);
    if (!as_json_ && is_brief_ && answer.holds()) return;
    const auto held = line.erase();
    if (as_json_) return void(std::printf("%s\n", describe(describe(it), answer).dump().c_str()));
    print(text_of(it), answer);
  }

  void tell(const world_file& it, const verification& answer) {
    ++(answer.holds() ? verified_ : failed_);
    if (answer.holds() && !it.is_promised) ++unpromised_;
    const json world{{"world", it.title}, {"ranks", it.world.size()}, {"promised", it.is_promised}};
    if (as_json_)
      std::printf("%s\n", describe(world, answer).dump().c_str());
    else
      print(it.title, answer);
  }

  int conclude() const {
    json totals{{"verified", verified_}, {"failed", failed_}};
    if (unpromised_ != 0) totals["unpromised"] = unpromised_;
    if (as_json_)
      std::printf("%s\n", totals.dump().c_str());
    else
      std::printf("%s proved%s, %zu failed\n", counted(verified_, "world").c_str(), words_for_unpromised().c_str(),
                  failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  std::string words_for_unpromised() const {
    return unpromised_ == 0 ? "" : ", " + std::to_string(unpromised_) + " of them without a promise";
  }

  static constexpr std::size_t k_most_lines = 100;
  const bool as_json_;
  const bool is_brief_;
  std::size_t verified_ = 0;
  std::size_t failed_ = 0;
  std::size_t unpromised_ = 0;  ///< of those verified
};

// --- the command -------------------------------------------------------------------------------------------

verify_wish wish_of(const verify_command_options& options) {
  verify_wish wish{.collective = options.collective, .activation = options.activation};
  if (options.algorithm != "all") wish.algorithm = options.algorithm;
  if (!options.ranks.empty()) wish.sizes = *numbers_of<rank>(options.ranks, 1, k_most_ranks);
  if (!options.counts.empty()) wish.counts = *numbers_of<std::uint64_t>(options.counts, 0, k_max_count);
  if (!options.items.empty()) wish.items = *numbers_of<std::uint64_t>(options.items, 0, k_max_count);
  if (options.sample && options.ranks.empty()) wish.sizes = sample_sizes();
  return wish;
}

/// Names and combinations that the parser lets through.
void expect_sense(const verify_command_options& options) {
  const int wishes =
      (options.collective.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) + (options.all || options.sample ? 1 : 0);
  if (wishes != 1) throw CLI::ValidationError("COLLECTIVE", "name a collective, or choose --file, --all or --sample");
  const bool is_sparse = options.collective == k_sparse_allreduce || options.collective == k_partial_sparse_allreduce;
  if (!options.items.empty() && !options.collective.empty() && !is_sparse)
    throw CLI::ValidationError("--k", "changes nothing but of sparse_allreduce and partial_sparse_allreduce");
  if (is_sparse && options.algorithm == "all") return;
  if ((is_sparse || options.collective.empty()) && find_sparse(options.algorithm) != nullptr) return;
  const auto known = algorithms();
  const auto serves = [&](const algorithm& it) {
    return (options.collective.empty() || options.collective == it.of->name) &&
           (options.algorithm == "all" || options.algorithm == it.name);
  };
  if (std::any_of(known.begin(), known.end(), serves)) return;
  const bool has_collective = options.collective.empty() || is_sparse || find_collective(options.collective) != nullptr;
  throw CLI::ValidationError(has_collective ? "--algorithm" : "COLLECTIVE",
                             "\"" + (has_collective ? options.algorithm : options.collective) +
                                 "\" is none that `lsched list` shows" +
                                 (has_collective && !options.collective.empty() ? " for " + options.collective : ""));
}

int verify_file(const verify_command_options& options) {
  const world_file read = read_world(options.file, options.promised);
  teller out(options, 1);
  out.tell(read, verify(read.world, read.promise, {.in_place = options.in_place ? read.in_place : aliasing(false)}));
  return out.conclude();
}

verification prove(const verify_case& it) {
  const std::vector<schedule_ptr> world = generate_world(it);
  return verify(world, promise_of(it), options_of(it));
}

int verify_all(const verify_command_options& options) {
  std::vector<verify_case> cases = plan(wish_of(options));
  std::ranges::copy(plan_sparse(wish_of(options)), std::back_inserter(cases));
  if (cases.empty())
    throw command_failure(
        "no algorithm can serve this: ordinary collectives have no activation policy, the number in a policy is of "
        "ranks that exist, and `lsched list` shows further constraints");
  teller out(options, cases.size());
  progress_line line;
  in_order(
      cases.size(), [&](std::size_t i) { return prove(cases[i]); },
      [&](std::size_t i, const verification& answer) {
        out.tell(cases[i], answer, line);
        line.show([&] { return std::to_string(i + 1) + " of " + std::to_string(cases.size()) + " worlds proved"; });
      });
  const auto held = line.erase();
  return out.conclude();
}

}  // namespace

void add_verify_command(CLI::App& app, command_context& context) {
  CLI::App* command =
      app.add_subcommand("verify", "Prove the schedules of a collective, or of a file, for all ranks at once");
  const auto options = std::make_shared<verify_command_options>();
  command->add_option("COLLECTIVE", options->collective, "A collective that `lsched list` shows");
  auto* file = command->add_option("--file", options->file,
                                   "A file with the schedules of all ranks, as `lsched show --all` prints it");
  command
      ->add_option("--promise", options->promised,
                   "The collective that the file's outputs are held against (default: the one it is named after)")
      ->check(CLI::IsMember(collective_names()))
      ->needs(file);
  command
      ->add_flag("--in-place", options->in_place, "The file's inputs and outputs share memory, as its collective says")
      ->needs(file);
  command->add_option("--algorithm", options->algorithm, "One of its algorithms")
      ->capture_default_str()
      ->excludes(file);
  command->add_option("--ranks", options->ranks, "Sizes of the world, like 1-65,96,100 (default: as --all)")
      ->check(number_list<rank>(1, k_most_ranks))
      ->excludes(file);
  command->add_option("--count", options->counts, "Elements each rank contributes (default: 0,1,P-1,P,P+1,1000)")
      ->check(number_list<std::uint64_t>(0, k_max_count))
      ->excludes(file);
  command->add_option("--k", options->items, "Items of sparse allreduces (default: 0,1,10)")
      ->check(number_list<std::uint64_t>(0, k_max_count))
      ->excludes(file);
  command->add_option("--activation", options->activation, "Policy of the partial collectives (default: all)")
      ->check(activation_words())
      ->excludes(file);
  auto* all = command->add_flag("--all", options->all, "Every algorithm at every size that counts (minutes)");
  command->add_flag("--sample", options->sample, "Every algorithm at a few sizes (a minute)")->excludes(all);
  command->add_flag("--json", options->as_json, "Print JSON lines: one per world, then the totals");
  command->footer(
      "Proved for every order in which messages can arrive: sends and receives match, nothing deadlocks, every\n"
      "contribution is in every result exactly once, no two ops race for memory, and the costs are those declared.\n"
      "Of a file whose collective is not known nothing is promised of the outputs: choose one with --promise.\n"
      "Exit status: 0 all proved, 1 something failed or cannot be read, 2 the command line makes no sense.\n"
      "Example:  lsched verify allreduce --ranks 1-65 --count 0,1,1000\n"
      "          lsched show allreduce --ranks 3 --all > world.sched; lsched verify --file world.sched");
  command->callback([&context, options] {
    expect_sense(*options);
    context.action = [options] { return options->file.empty() ? verify_all(*options) : verify_file(*options); };
  });
}

}  // namespace lsched::cli
