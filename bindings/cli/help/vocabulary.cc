// The names of options. Each name has one meaning in all commands, and each meaning has one name.
#include <algorithm>
#include <map>
#include <set>

#include "bindings/cli/help/description.h"

namespace lsched::cli {

const std::vector<option_meaning>& vocabulary() {
  static const std::vector<option_meaning> words{
      {"--help", "print help and end"},
      {"--version", "print the version and the ABI, and end"},
      // requests
      {"--ranks", "number of ranks, or numbers of them"},
      {"--count", "number of elements of a contribution"},
      {"--bytes", "bytes of a contribution or message"},
      {"--dtype", "type of the elements"},
      {"--op", "how contributions combine"},
      {"--mean", "sums are divided by the number of ranks"},
      {"--root", "rank of the root"},
      {"--collective", "collective, or collectives"},
      {"--algorithm", "algorithm of the collective"},
      {"--activation", "what starts a round of a partial collective"},
      {"--ranks-per-node", "how many neighbours are on a node"},
      {"--ranks-per-core", "how many ranks share a core"},
      {"--tensors", "number of tensors that a vector is cut into"},
      {"--k", "number of items of a sparse contribution"},
      {"--density", "items of a sparse contribution, as a share of its elements"},
      {"--period", "rounds between two looks at oktopk's regions"},
      {"--reuse", "rounds between two looks for oktopk's thresholds"},
      {"--boundaries", "how oktopk's regions follow the gradients"},
      {"--lists-at-once", "lists that oktopk sends at a time"},
      {"--buckets", "number of buckets of a vector"},
      {"--generator", "how gradients are drawn"},
      {"--rank", "the one rank that is meant"},
      {"--all", "all there are, instead of one or a few"},
      {"--sample", "a few of all there are"},
      {"--round", "number of the round"},
      {"--schedule", "name of the schedule"},
      {"--initiator", "rank whose call starts the round"},
      {"--seed", "seed of everything that is drawn"},
      {"--seeds", "how many seeds, one after the other"},
      // files
      {"--json", "file for JSON; - is standard output"},
      {"--svg", "file for a picture as SVG; - is standard output"},
      {"--plot", "file for a plot as PNG"},
      {"--dot", "file for Graphviz; - is standard output"},
      {"--goal", "file for GOAL text; - is standard output"},
      {"--algorithm-file", "file for the text of an algorithm; - is standard output"},
      {"--trace", "file for a trace; - is standard output"},
      {"--trace-ranks", "how many ranks are traced or drawn"},
      {"--measured", "file that measurements are read from"},
      {"--tuning", "file of the tuning table"},
      {"--also", "file with more findings for a report"},
      {"--man", "folder for man pages"},
      {"--markdown", "print Markdown"},
      // proofs
      {"--promise", "collective that outputs are held against"},
      {"--require-promise", "fail where nothing is promised of the outputs"},
      {"--in-place", "inputs and outputs share memory"},
      {"--slots", "number of buffers for messages between two ranks"},
      {"--eager", "bytes of the longest message that is buffered"},
      {"--explain", "say what is chosen, and why"},
      // machines
      {"--L", "latency of the wire"},
      {"--o", "CPU time of a message"},
      {"--g", "gap between messages"},
      {"--G", "gap per byte"},
      {"--O", "CPU time per byte"},
      {"--S", "bytes of the longest eager message of the model"},
      {"--compute", "time of a reduction or copy, per byte"},
      {"--level", "costs among groups of neighbours"},
      {"--semantics", "whose rules a simulation follows"},
      {"--critical-path", "count what the longest path is made of"},
      {"--calibrate", "measure the machine's parameters"},
      {"--fig9", "predict Figure 9 of Li et al. 2020"},
      {"--figure", "which figure of a paper"},
      // skew and noise
      {"--skew", "when ranks begin"},
      {"--skew-us", "scale of the skew"},
      {"--skew-file", "file that starts are read from"},
      {"--skew-ranks", "ranks that begin late"},
      {"--sigma", "width of lognormal skew"},
      {"--shift-us", "time added to every skew"},
      {"--most-us", "longest skew"},
      {"--stragglers", "how many ranks straggle"},
      {"--cpu-noise", "what CPUs lose meanwhile"},
      {"--cpu-noise-us", "scale of that noise"},
      {"--period-us", "period of that noise"},
      {"--alpha", "exponent of pareto noise"},
      {"--noise-file", "file that noise is read from"},
      {"--cosched", "noise comes to all ranks together"},
      {"--jitter-us", "mean of what the wire adds"},
      {"--speed-cv", "spread of the ranks' speeds"},
      {"--slow-share", "share of the ranks that are slow"},
      {"--slow-factor", "how many times slower those are"},
      // runs and measurements
      {"--iterations", "how many rounds are run"},
      {"--timeout", "seconds after which it is a failure"},
      {"--start-timeout", "seconds for which ranks wait for each other at the start"},
      {"--seconds", "time that a part may take"},
      {"--cell-seconds", "time that one cell of a table may take"},
      {"--transport", "what ranks talk through"},
      {"--pin", "pin ranks to cores"},
      {"--prepend-rank", "begin lines with the rank that writes them"},
      {"--only", "one part of a benchmark"},
      {"--quick", "whether it works, not how fast"},
      {"--threads", "ranks are threads of one process"},
      {"--stats", "also when each rank called"},
      {"--barrier-free", "ranks lag and run ahead"},
      {"--label", "what results call the transport"},
      {"--compute-by", "where computing happens"},
      {"--compute-us", "how long computing takes"},
      {"--progress-by", "where progress happens"},
      {"--progress", "report progress also where no terminal is"},
      {"--delay", "how a rank pauses"},
      {"--delay-us", "mean of the pause before a call"},
      {"--stops", "mean time between two stops of a rank"},
      {"--leave-early", "ranks leave after a number of calls"},
      {"--options", "print the table of all options"},
  };
  return words;
}

std::vector<std::string> flaws_of_names(const described_command& root, const std::vector<option_meaning>& vocabulary) {
  std::vector<std::string> flaws;
  std::map<std::string_view, std::string_view> name_of, meaning_of;
  for (const option_meaning& word : vocabulary) {
    if (!name_of.emplace(word.meaning, word.name).second)
      flaws.push_back(std::string(name_of[word.meaning]) + " and " + std::string(word.name) +
                      " mean the same: " + std::string(word.meaning));
    if (!meaning_of.emplace(word.name, word.meaning).second)
      flaws.push_back(std::string(word.name) + " has two meanings");
  }
  std::set<std::string_view> used;
  std::map<std::string, std::string> short_names;
  const auto commands = all_commands(root);
  for (const described_command* command : commands)
    for (const described_option& option : command->options) {
      if (option.is_positional) continue;
      const std::string& name = option.name();
      used.insert(meaning_of.contains(name) ? meaning_of.find(name)->first : std::string_view());
      if (!meaning_of.contains(name)) flaws.push_back(command->name + ": " + name + " is no word of the vocabulary");
      for (const std::string& other : option.names) {
        if (other == name) continue;
        if (other.starts_with("--")) flaws.push_back(command->name + ": " + other + " and " + name + " are synonyms");
        if (short_names.try_emplace(other, name).first->second != name)
          flaws.push_back(command->name + ": " + other + " is " + name + ", and " + short_names[other] + " elsewhere");
      }
      if (option.names.size() == 1 && name == "--ranks") flaws.push_back(command->name + ": --ranks without -n");
    }
  for (const option_meaning& word : vocabulary)
    if (!used.contains(word.name)) flaws.push_back(std::string(word.name) + " is an option of no command");
  std::ranges::sort(flaws);
  flaws.erase(std::ranges::unique(flaws).begin(), flaws.end());
  return flaws;
}

std::vector<std::string> flaws_of_names(const described_command& root) { return flaws_of_names(root, vocabulary()); }

namespace {

/// Escapes text for a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t place = 0; (place = text.find('|', place)) != text.npos; place += 2) text.insert(place, "\\");
  return text;
}

std::string code(const std::string& text) { return "`" + cell(text) + "`"; }

}  // namespace

std::string options_page(const described_command& root) {
  const auto commands = all_commands(root);
  std::string text =
      "# Options of the command\n\n"
      "Written by `lsched help --options`; a test compares this page with what that prints.\n\n"
      "Exit statuses are the same everywhere: 0 done, 1 failed (one line on standard error says why), 2 the command\n"
      "line makes no sense. `run` answers what its program answers, 124 where its time limit passed, 126 and 127 "
      "where\n"
      "the program cannot be executed or found; `bench cuda` answers 77 where there is no GPU. Work of more than a\n"
      "second shows a line of progress where standard error is a terminal.\n\n"
      "## By name\n\nA name means the same in every command that has it, and nothing has two names.\n\n"
      "| option | meaning | commands |\n|---|---|---|\n";
  for (const option_meaning& word : vocabulary()) {
    std::string names, where;
    std::size_t users = 0;
    for (const described_command* command : commands)
      for (const described_option& option : command->options) {
        if (option.is_positional || option.name() != word.name) continue;
        ++users;
        where += (where.empty() ? "" : ", ") + command->name.substr(std::min(command->name.size(), std::size_t{7}));
        names = "";
        for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + code(name);
      }
    if (users == commands.size()) where = "all";
    text += "| " + names + " | " + cell(std::string(word.meaning)) + " | " +
            (where.empty() ? "`lsched` itself" : where) + " |\n";
  }
  text += "\n## By command\n";
  for (const described_command* command : commands) {
    text += "\n### `" + command->name + "`\n\n" + command->text + ".\n";
    std::string rows;
    for (const described_option& option : command->options) {
      if (!option.is_positional && option.name() == "--help") continue;
      std::string names;
      for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + name;
      if (!option.value.empty()) names += " " + option.value;
      rows += "| " + code(names + (option.is_repeated ? " ..." : "")) + " | " + cell(option.text) + " |\n";
    }
    if (!rows.empty()) text += "\n| option | |\n|---|---|\n" + rows;
  }
  return text;
}

}  // namespace lsched::cli
