// `lsched verify`: verifies the schedules of all ranks of a world.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/errors.h"
#include "bindings/cli/common/given_file.h"
#include "bindings/cli/common/json_text.h"
#include "bindings/cli/common/options.h"
#include "bindings/cli/common/parallel.h"
#include "bindings/cli/common/printed_to.h"
#include "bindings/cli/common/sizes.h"
#include "bindings/cli/common/words.h"
#include "bindings/cli/verify/verify_plan.h"
#include "bindings/input_file.h"
#include "bindings/progress_line.h"
#include "collectives/promise.h"
#include "libsched/schedule/schedule_file.h"
#include "libsched/verify/verify.h"
#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

struct verify_command_options {
  verify_wish wish{};
  std::string file;                   ///< path of a file of schedules; if empty, schedules are generated
  std::vector<schedule_ptr> given{};  ///< schedules in `file`
  bool is_given_algorithm = false;    ///< the user has given an algorithm file instead of a collective
  std::string converted;              ///< path of the MSCCL program that was converted; empty: none
  std::string promised;               ///< collective whose postcondition the file must satisfy
  asked by_caller{};                  ///< other properties of the request
  bool requires_promise = false;
  buffering buffers{};
  bool in_place = false;
  bool all = false;
  bool sample = false;
  std::string json;
};

/// Adds an option whose value is a list of numbers within the limits, such as "1-65,96,100".
template <class Number>
CLI::Option* add_numbers(const option_group& group, const std::string& name, std::vector<Number>& numbers,
                         std::uint64_t least, std::uint64_t most, const char* text) {
  const auto parse = [&numbers, name, least, most](const std::string& list) {
    std::istringstream words(list + ",");
    for (std::string word; std::getline(words, word, ',');) {
      const std::size_t dash = word.find('-');
      const auto first = whole_number_in(word.substr(0, dash));
      const auto last = dash == std::string::npos ? first : whole_number_in(word.substr(dash + 1));
      if (!first || !last || *first < least || *last > most || *first > *last || *last - *first > k_most_ranks)
        throw CLI::ValidationError(name, "\"" + list + "\" is not a list of numbers and ranges from " +
                                             std::to_string(least) + " to " + std::to_string(most) +
                                             ", like 1-65,96,100");
      for (std::uint64_t value = *first; value <= *last; ++value) numbers.push_back(static_cast<Number>(value));
    }
  };
  return group.command.add_option_function<std::string>(name, parse, text)->type_name("LIST");
}

// --- a world and its outcome -------------------------------------------------------------------------------

/// The name of a world (a verify_case) in the output.
struct world_title {
  std::string text;  ///< "allreduce/tree, 3 ranks, promised as allreduce"
  json entry;
  bool is_promised = true;  ///< false if no postcondition is known, so that contents are not checked
};

json describe(const finding& found) {
  json entry{{"property", name_of(found.what)}, {"text", found.text}};
  if (found.where != k_no_rank) entry["rank"] = found.where;
  if (found.op != k_no_op) entry["op"] = found.op;
  if (found.peer != k_no_rank) entry["peer"] = found.peer;
  if (found.buffer != k_no_buffer)
    entry["segment"] = {{"buffer", found.buffer}, {"begin", found.begin}, {"end", found.end}};
  return entry;
}

world_title title_of(const verify_case& world) {
  json entry{{"collective", collective_of(world)},
             {"algorithm", world.sparse != nullptr ? world.sparse->name : world.dense->name},
             {"activation", words_for(world.starts)},
             {"ranks", world.size},
             {"count", world.count}};
  if (world.sparse == nullptr)
    entry["in_place"] = world.data.in_place;
  else
    entry.update({{"k", world.problem.k},
                  {"defers", world.problem.capacity == capacity_policy::defer},
                  {"reuses", world.problem.selection == selection_rule::reused}});
  return {text_of(world), std::move(entry)};
}

/// The verification of a world, or the reason why its schedules cannot be generated.
using judgement = result<verification>;

bool holds(const judgement& made) { return made && made->holds(); }

/// Adds the outcome to `entry`, which already contains the name of the world.
json describe(json entry, const judgement& made) {
  entry["holds"] = holds(made);
  if (!made) {
    entry["findings"] = json::array({{{"property", "refused"}, {"text", made.error().text}}});
    entry["notes"] = json::array();
    return entry;
  }
  const verification& answer = *made;
  const unexpected_bound worst = worst_unexpected(answer);
  entry["synchronising"] = answer.is_synchronising;
  entry["cost"] = {{"messages", answer.round_cost.messages},
                   {"bytes", answer.round_cost.bytes},
                   {"signals", answer.round_cost.signals},
                   {"signals_of_one", answer.round_cost.signals_of_one},
                   {"rounds", answer.round_cost.hops}};
  entry["unexpected"] = {{"messages", worst.messages}, {"bytes", worst.bytes}};
  entry["findings"] = json::array();
  entry["notes"] = json::array();
  for (const finding& found : answer.findings) entry["findings"].push_back(describe(found));
  for (const finding& note : answer.notes) entry["notes"].push_back(describe(note));
  return entry;
}

/// Returns the lines below the line that names the world.
std::string lines_of(const judgement& made) {
  if (!made) return "        refused: " + made.error().text + "\n";
  std::string lines;
  const auto add = [&](const char* kind, const finding& found) {
    lines.append(kind).append(name_of(found.what)).append(": ").append(found.text).append("\n");
  };
  for (const finding& found : made->findings) add("        ", found);
  for (const finding& note : made->notes) add("        note: ", note);
  return lines;
}

/// Returns the findings without their ops. Callers compare these results, because variants of a world often have the
/// same error in different ops. `entry` contains the name of the world.
json mistake_of(json entry, const judgement& made) {
  entry.erase("in_place");
  json places = json::array();
  for (const finding& found : made ? made->findings : std::vector<finding>{})
    places.push_back({name_of(found.what), found.where, found.buffer, found.begin, found.end,
                      found.buffer == k_no_buffer ? found.text : ""});
  return {{"world", entry}, {"places", places}, {"refused", made ? "" : made.error().text}};
}

/// Returns a text with the assumption about message buffers, or an empty string if there is no assumption.
std::string words_for(const buffering& buffers) {
  if (!buffers.exists()) return {};
  const std::string slots =
      buffers.slots == 0 ? "" : counted(buffers.slots, "buffer") + " from each rank to each other";
  const std::string bytes = buffers.bytes == 0 ? "" : " of at most " + std::to_string(buffers.bytes) + " bytes";
  return ", if messages" + bytes + " have " + (slots.empty() ? "buffers" : slots);
}

/// Prints and counts the outcomes of worlds, one line for each world. If there are many worlds, text output has only
/// the lines of worlds that fail.
class reporter {
 public:
  reporter(bool as_json, std::size_t worlds) : as_json_(as_json), is_brief_(worlds > k_most_lines) {}

  void report(const world_title& world, const judgement& made) {
    ++(holds(made) ? verified_ : failed_);
    if (holds(made) && !world.is_promised) ++unpromised_;
    if (!as_json_ && is_brief_ && holds(made)) return;
    const auto held = line_.erase();
    if (as_json_)
      std::printf("%s\n", json_text(describe(world.entry, made)).c_str());
    else
      print(world, made);
  }

  /// Returns the object that prints the progress line on standard error.
  progress_line& line() { return line_; }

  /// Prints the totals and returns the exit status.
  int conclude(const buffering& buffers) {
    const auto held = line_.erase();
    json totals{{"verified", verified_}, {"failed", failed_}};
    if (buffers.bytes > 0) totals["eager"] = buffers.bytes;
    if (buffers.slots > 0) totals["slots"] = buffers.slots;
    if (unpromised_ != 0) totals["unpromised"] = unpromised_;
    const std::string unpromised =
        unpromised_ == 0 ? "" : ", " + std::to_string(unpromised_) + " of them without a check of the outputs";
    if (as_json_)
      std::printf("%s\n", json_text(totals).c_str());
    else
      std::printf("%s proved%s, %zu failed%s\n", counted(verified_, "world").c_str(), unpromised.c_str(), failed_,
                  words_for(buffers).c_str());
    return failed_ == 0 ? 0 : 1;
  }

 private:
  /// Prints the outcome of a world as text. Omits findings that are equal to those of the last failure, apart from the
  /// ops.
  void print(const world_title& world, const judgement& made) {
    std::string lines = lines_of(made);
    if (holds(made)) {
      const std::uint64_t unexpected = worst_unexpected(*made).messages;
      std::printf("proved  %s: %s, %s, %s; at most %s at a rank\n%s", world.text.c_str(),
                  counted(made->round_cost.messages, "message").c_str(),
                  counted(made->round_cost.signals, "signal").c_str(), counted(made->round_cost.hops, "hop").c_str(),
                  counted(unexpected, "unexpected message").c_str(), lines.c_str());
    } else if (lines == last_failed_) {
      std::printf("FAILED  %s: as above\n", world.text.c_str());
    } else if (json mistake = mistake_of(world.entry, made); mistake == last_mistake_) {
      std::printf("FAILED  %s: as above, by other ops\n", world.text.c_str());
    } else {
      std::printf("FAILED  %s\n%s", world.text.c_str(), lines.c_str());
      last_failed_ = std::move(lines);
      last_mistake_ = std::move(mistake);
    }
  }

  static constexpr std::size_t k_most_lines = 100;
  const bool as_json_;
  const bool is_brief_;
  progress_line line_;
  std::size_t verified_ = 0;
  std::size_t failed_ = 0;
  std::size_t unpromised_ = 0;  ///< number of verified worlds without a known postcondition
  std::string last_failed_;     ///< lines of the last failure that was printed in full
  json last_mistake_;
};

// --- a world from a file -----------------------------------------------------------------------------------

/// Returns the reason why no postcondition is known for a world with this name. The text suggests the collective with
/// the longest name that `name` contains. For "partial_allreduce_2", it suggests "partial_allreduce" instead of
/// "allreduce".
std::string words_for_none(const std::string& name) {
  std::string likely;
  for (const std::string& known : collective_names())
    if (known.size() > likely.size() && name.find(known) != std::string::npos) likely = known;
  const collective* const of = find_collective(likely);
  if (name.find("sparse") != std::string::npos) return "outputs not checked";
  if (of != nullptr && (of->adapts || of->has_blocks))
    return std::string("outputs not checked (a file does not record which ") +
           (of->adapts ? "tensors there are" : "elements each rank receives") + "; `lsched verify " + likely +
           "` proves the schedules of the library)";
  return "outputs not checked" +
         (likely.empty() ? "" : " (if the file is meant to be " + likely + ", add --promise " + likely + ")");
}

/// Returns the request of the postcondition as JSON. Returns null if there is no postcondition.
json describe(const world_promise& promise) {
  if (promise.of == nullptr) return nullptr;
  const shape& data = promise.data;
  json entry{{"collective", promise.of->name}};
  if (promise.by != nullptr) entry["algorithm"] = promise.by->name;
  if (promise.of->reduces) entry["op"] = name_of(data.what);
  if (promise.of->moves_data) entry["dtype"] = name_of(data.type);
  if (promise.of->has_counts)
    entry["counts"] = data.counts;
  else if (promise.of->moves_data)
    entry["count"] = data.count;
  if (promise.of->is_rooted) entry["root"] = data.root;
  return entry;
}

/// Verifies the schedules of a file against the postcondition of promise_for(). `lsched show --all` prints such files.
/// Throws command_failure.
int verify_file(const verify_command_options& options) {
  const std::vector<schedule_ptr>& world = options.given;
  asked by_caller = options.by_caller;
  by_caller.collective = options.promised;
  if (!options.wish.counts.empty()) by_caller.count = options.wish.counts.front();
  const world_promise promise = require(promise_for(world, by_caller));
  const std::string& name = world.front()->name();
  const bool is_promised = promise.of != nullptr;
  const std::string words = is_promised ? "checked as " + words_for(promise) : words_for_none(name);
  const std::string text = escaped(name) + ", " + counted(world.size(), "rank") + ", " + words;
  if (options.requires_promise && !is_promised) throw command_failure(options.file + ": " + text);
  print_to(options.json);
  reporter out(!options.json.empty(), 1);
  out.report({text,
              {{"world", text}, {"ranks", world.size()}, {"promised", is_promised}, {"promise", describe(promise)}},
              is_promised},
             verify(world, promise.what,
                    {.in_place = options.in_place ? promise.in_place : aliasing(false), .buffers = options.buffers}));
  return out.conclude(options.buffers);
}

// --- the command -------------------------------------------------------------------------------------------

/// Checks names and combinations of options that the parser does not check. Throws the parser's errors.
void check_options(const verify_command_options& options) {
  const verify_wish& wish = options.wish;
  if (!options.file.empty() && wish.counts.size() > 1)
    throw CLI::ValidationError("--count", "a schedule file takes a single count");
  const std::string& collective = wish.collective;
  const int wishes =
      (collective.empty() ? 0 : 1) + (options.file.empty() ? 0 : 1) + (options.all || options.sample ? 1 : 0);
  if (wishes != 1)
    throw CLI::ValidationError("COLLECTIVE", "give exactly one of a collective, a file, --all and --sample");
  if (!wish.items.empty() && !collective.empty() && !is_sparse(collective))
    throw CLI::ValidationError("--k", "applies only to sparse_allreduce and partial_sparse_allreduce");
  if (wish.algorithm == "auto") throw CLI::ValidationError("--algorithm", "auto cannot be verified: name an algorithm");
  if (options.file.empty()) expect_listed(collective, wish.algorithm == "all" ? "auto" : wish.algorithm);
  const rank most = !options.given.empty() ? static_cast<rank>(options.given.size())
                    : wish.sizes.empty()   ? static_cast<rank>(k_most_ranks)
                                           : std::ranges::max(wish.sizes);
  expect_in_world(collective, wish.activation, options.by_caller.root, most);
}

/// If the user has given a file instead of a collective, reads the file: an algorithm, schedules or a GOAL program.
void take_file(verify_command_options& options) {
  if (!is_path(options.wish.collective)) return;
  const std::string path = options.wish.collective;
  given_file given = read_given(path);
  options.wish.collective = given.collective;
  options.is_given_algorithm = given.is_algorithm();
  if (given.is_algorithm())
    options.wish.algorithm = given.algorithm;
  else
    options.file = path;
  if (given.is_converted) options.converted = path;
  options.given = schedules_of(std::move(given), path);
}

/// Throws the parser's error if an option is not valid for a collective, for an algorithm file, or for a file of
/// schedules.
void check_heeded(const CLI::App& command, const verify_command_options& options) {
  if (!options.file.empty())
    return refuse_given(command, {"--algorithm", "--ranks", "--k", "--activation"}, k_own_of_schedules);
  if (options.is_given_algorithm) refuse_given(command, {"--algorithm"}, k_own_of_algorithm);
  refuse_given(command, {"--promise", "--root", "--require-promise", "--in-place"}, "applies only to a schedule file");
}

int verify_all(const verify_command_options& options) {
  const verify_plan all = plan(options.wish);
  const std::vector<verify_case>& cases = all.worlds;
  if (cases.empty()) throw command_failure("no algorithm supports this request: " + all.objections.back());
  print_to(options.json);
  reporter out(!options.json.empty(), cases.size());
  verify_memo known;
  const auto prove = [&](std::size_t i) -> judgement {
    const auto world = generate_world(cases[i]);
    if (!world) return world.error();
    verify_options how = options_of(cases[i]);
    how.buffers = options.buffers;
    how.known = &known;
    return verify(*world, promise_of(cases[i]), how);
  };
  in_order(cases.size(), prove, [&](std::size_t i, const judgement& made) {
    out.report(title_of(cases[i]), made);
    out.line().show([&] { return std::to_string(i + 1) + " of " + std::to_string(cases.size()) + " worlds proved"; });
  });
  if (options.is_given_algorithm && options.json.empty())
    for (const std::string& each : all.objections) std::printf("left out: %s\n", each.c_str());
  const int status = out.conclude(options.buffers);
  if (status != 0 && !options.converted.empty() && options.json.empty())
    std::printf("line numbers refer to the output of `lsched show %s --algorithm-file -`\n", options.converted.c_str());
  return status;
}

}  // namespace

void add_verify_command(CLI::App& app, command_context& context) {
  CLI::App* command =
      app.add_subcommand("verify", "Prove the schedules of a collective, or of a file, for all ranks at once");
  const auto options = std::make_shared<verify_command_options>();
  verify_wish& wish = options->wish;
  const option_group group{*command};
  group.add("COLLECTIVE|FILE", wish.collective, k_collective_or_file)->check(any_word());
  group
      .add("--promise", options->promised,
           "Collective whose result the file must compute (default: from the name of the file's schedules)")
      ->check(one_of(collective_names()));
  group.add_choice("--op", k_all_reductions, options->by_caller.what,
                   "Operation that combines the contributions (default: sum, or that of the schedule file)");
  group.add_choice("--dtype", k_all_dtypes, options->by_caller.type,
                   "Type of the elements (default: f32, or that of the schedule file)");
  group
      .add("--root", options->by_caller.root,
           "Root of the collective in --promise (default: that of the schedule file)")
      ->check(whole_number(0, k_most_ranks - 1));
  group.add_flag("--require-promise", options->requires_promise,
                 "Fail if the collective whose result the file must compute is not known");
  group.add_flag("--in-place", options->in_place,
                 "Assume that inputs and outputs share memory, as the collective defines for calls in place");
  group.add("--algorithm", wish.algorithm, "Algorithm of the collective")->capture_default_str();
  add_numbers(group, "-n,--ranks", wish.sizes, 1, k_most_ranks,
              "Sizes of the world, such as 1-65,96,100 (default: as with --all)");
  add_numbers(group, "--count", wish.counts, 0, k_max_count,
              "Elements each rank contributes (default: 0,1,P-1,P,P+1,1000; for a file: its own)");
  add_numbers(group, "--k", wish.items, 0, k_max_count, "Items of sparse allreduces (default: 0,1,10)");
  group.add("--activation", wish.activation, "Policy of the partial collectives (default: all)")
      ->check(activation_words());
  group
      .add("--slots", options->buffers.slots,
           "Assume this number of buffers for messages from each rank to each other rank (default: none; with --eager: "
           "any number)")
      ->check(whole_number(1, UINT32_MAX));
  group
      .add("--eager", options->buffers.bytes,
           "Assume buffers for messages of at most this size (default: none; with --slots: for all messages)")
      ->transform(size_in_bytes(1))
      ->type_name("BYTES");
  auto* all = group.add_flag("--all", options->all, "Verify every algorithm at every relevant size (minutes)");
  group.add_flag("--sample", options->sample, "Verify every algorithm at a few sizes (a minute)")->excludes(all);
  group.add_json(options->json, "lines: one per world, then the totals");
  command->footer(
      "Proves, for every order in which messages can arrive: sends and receives match, nothing deadlocks,\n"
      "every contribution is in every result exactly once, no two ops race for memory, and the costs are\n"
      "those declared. Sends wait for their receives, unless --slots or --eager assume buffers.\n"
      "If the collective of a file is not known, its outputs are not checked: name the collective with\n"
      "--promise. --op, --dtype, --count and --root replace the values that the file contains.\n"
      "Exit status: 0 all proved, 1 a proof failed or a file cannot be read, 2 usage error.\n"
      "Example:  lsched verify allreduce --ranks 1-65 --count 0,1,1000\n"
      "          lsched show allreduce --ranks 3 --all > world.sched\n"
      "          lsched verify world.sched --op sum");
  command->callback([&context, options, command] {
    take_file(*options);
    check_heeded(*command, *options);
    check_options(*options);
    if (const auto type = options->by_caller.type) options->wish.what.type = *type;
    if (const auto reduction = options->by_caller.what) options->wish.what.reduction = *reduction;
    if (options->sample && options->wish.sizes.empty()) options->wish.sizes = sample_sizes();
    context.action = [options] { return options->file.empty() ? verify_all(*options) : verify_file(*options); };
  });
}

}  // namespace lsched::cli
