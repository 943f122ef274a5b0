#include "bindings/cli/program/program.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "bindings/cli/common/commands.h"
#include "bindings/cli/common/session.h"
#include "bindings/cli/program/description.h"
#include "ops/nearest_word.h"

namespace lsched::cli {
namespace {

constexpr int k_exit_failure = 1;
constexpr int k_exit_usage = 2;

std::string version_line() {
  return std::string("lsched ") + lsched_version() + " (ABI " + std::to_string(LSCHED_ABI) + ")";
}

class described_help : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override { return help_text(*app); }
};

/// Turns `lsched help COMMAND` into `lsched COMMAND --help`, and `lsched help` into `lsched --help`.
void replace_help(std::vector<std::string>& words) {
  if (words.size() < 2 || words[1] != "help" || (words.size() > 2 && words[2].starts_with('-'))) return;
  words.erase(words.begin() + 1);
  words.emplace_back("--help");
}

/// Returns the words for the parser, without the name of the command. The last word comes first, as the parser
/// requires. Stores PROGRAM and the words after it in the context. Replaces -np, which is a habit of MPI users, by -n.
std::vector<std::string> words_to_parse(const program& self, command_context& context) {
  auto end = context.arguments.end();
  if (self.find_program != nullptr)
    end = context.arguments.begin() + static_cast<std::ptrdiff_t>(self.find_program(context.arguments));
  context.program.assign(end, context.arguments.end());
  std::vector<std::string> words(context.arguments.begin() + 1, end);
  std::ranges::replace(words, "-np", "-n");
  return {words.rbegin(), words.rend()};
}

/// Throws an error with suggestions for an unknown command. Without this function, the parser would only report that a
/// command is missing.
void expect_known_command(const CLI::App& app, const command_context& context, std::size_t place = 1) {
  const auto commands = commands_of(app);
  if (commands.empty() || context.arguments.size() <= place || context.arguments[place].starts_with('-')) return;
  const std::string& word = context.arguments[place];
  std::vector<std::string> known;
  for (const CLI::App* command : commands) {
    if (command->get_name() == word) return expect_known_command(*command, context, place + 1);
    known.push_back(command->get_name());
  }
  std::string suggested = suggestion_for(word, known);
  if (suggested.empty()) {
    suggested = "; available:";
    for (const std::string& each : known) suggested += " " + each;
  }
  throw CLI::ParseError("there is no command \"" + word + "\"" + suggested, CLI::ExitCodes::ExtrasError);
}

/// Returns the error for words that belong to no option. The error suggests the nearest name of an option.
std::string words_for(const CLI::ExtrasError& mistake, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& word : command.remaining()) {
    if (!word.starts_with("--")) continue;
    const std::string name = word.substr(0, word.find('='));
    return command.get_name() + " has no option " + name + suggestion_for(name, names);
  }
  return mistake.what();
}

/// Returns the error for options that exclude each other. The error also has the short names of the options.
std::string words_for(const CLI::ExcludesError& mistake, const CLI::App& command) {
  std::string text = std::string(" ") + mistake.what() + " ";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_snames().empty() || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (const auto place = text.find(" " + name + " "); place != std::string::npos)
      text.replace(place + 1, name.size(), "-" + option->get_snames().front() + " (" + name + ")");
  }
  return text.substr(1, text.size() - 2);
}

/// Returns true if this process reports usage errors. Only rank 0 reports usage errors, because all ranks have the same
/// command line.
bool is_spokesman() {
  for (const char* variable : {"LSCHED_RUN_RANK", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (const char* rank = std::getenv(variable); rank != nullptr && std::string_view(rank) != "0") return false;
  return true;
}

/// Prints the errors of algorithm files that were not loaded. The command continues after these errors. `help` and
/// `completion` do not print the errors.
void warn_of_files(const command_context& context) {
  const std::string command = context.arguments.size() > 1 ? context.arguments[1] : "";
  if (command == "help" || command == "completion") return;
  for (const failure& flaw : context.flaws_of_files)
    std::fprintf(stderr, "lsched: LSCHED_ALGORITHM_FILES: %s\n", flaw.text.c_str());
}

int fail(const char* why) {
  std::fflush(stdout);
  std::fprintf(stderr, "lsched: %s\n", why);
  session::abort_failed_world();
  return k_exit_failure;
}

/// Reports an invalid command line and returns the exit status.
int refuse(const CLI::App& app, const command_context& context, const std::string& why) {
  std::fflush(stdout);  // prints earlier output before the error
  if (!is_spokesman()) return k_exit_usage;
  warn_of_files(context);  // an error in a file may explain why a name is unknown
  std::fprintf(stderr, "lsched: %s\nTry `%s`.\n", why.c_str(),
               (name_of(named_command(app, context.arguments)) + " --help").c_str());
  return k_exit_usage;
}

/// Prints the help of a command, as --help does. Called if the user has named the command without one of its
/// subcommands.
int print_help(const CLI::App& command) {
  std::fputs(command.help().c_str(), stdout);
  return 0;
}

int act(const program& self, CLI::App& app, command_context& context) {
  try {
    expect_known_command(app, context);
    app.parse(words_to_parse(self, context));
    warn_of_files(context);
    return context.action ? context.action() : print_help(named_command(app, context.arguments));
  } catch (const CLI::Success& wish) {  // --help, --version
    return app.exit(wish);
  } catch (const CLI::ExtrasError& mistake) {
    return refuse(app, context, words_for(mistake, named_command(app, context.arguments)));
  } catch (const CLI::ExcludesError& mistake) {
    return refuse(app, context, words_for(mistake, named_command(app, context.arguments)));
  } catch (const CLI::ParseError& mistake) {
    return refuse(app, context, mistake.what());
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& why) {
    return fail(why.what());
  }
}

#if LSCHED_DROPS_HANDLERS
std::array<bool, NSIG> is_ignored_at_start{};

/// Records the signals that the parent process has set to be ignored, as nohup does for SIGHUP.
void record_ignored_signals() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction found {};
    is_ignored_at_start[static_cast<std::size_t>(number)] =
        sigaction(number, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
  }
}

/// Calls record_ignored_signals before the initialisation of any shared library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const k_before_libraries)() = record_ignored_signals;

/// Restores the actions that signals had when this process started, if this process will not call MPI. The command is
/// linked to MPI, and the libraries of MPI install signal handlers before main(). The handler of UCX, for example,
/// keeps SIGHUP from ending a process.
void drop_handlers_of_mpi() {
  if (is_started_by_mpi()) return;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction found {};
    if (sigaction(number, nullptr, &found) == 0 && found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN)
      signal(number, is_ignored_at_start[static_cast<std::size_t>(number)] ? SIG_IGN : SIG_DFL);
  }
}
#else
void drop_handlers_of_mpi() {}
#endif

/// Opens /dev/null for each standard stream that is closed. Otherwise the next file that the command opens would get
/// the stream's number. The command would then print into that file, and a rank would lose the descriptor of the
/// world's memory.
void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);  // gets the lowest free number
}

/// Flushes standard output and returns `answer`. Returns a failure status if output could not be written, for example
/// to a full disk.
int with_output_written(int answer) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return answer;
  std::fprintf(stderr, "lsched: cannot write to standard output: %s\n", std::strerror(errno));
  return answer == 0 ? k_exit_failure : answer;
}

}  // namespace

int run_program(const program& self, std::vector<std::string> words) {
  open_closed_streams();
  drop_handlers_of_mpi();
  command_context context;
  context.arguments = std::move(words);
  if (context.arguments.empty()) context.arguments.emplace_back(self.name);
  replace_help(context.arguments);
  CLI::App app(self.summary, self.name);
  app.footer(self.footer);
  app.set_version_flag("--version", version_line(), "Print the version and the ABI");
  app.add_option_function<std::string>("--man",
                                       [&app](const std::string& folder) {
                                         write_man_pages(app, folder);
                                         throw CLI::Success();
                                       })
      ->group("");  // hidden: `lsched help --man` starts each tool with this option
  app.require_subcommand(0, 1);
  app.formatter(std::make_shared<described_help>());  // subcommands that are added later inherit the formatter
  self.add_commands(app, context);
  if (context.arguments.size() > 2 && context.arguments[1] == "--complete") {
    for (const std::string& word : completions(app, std::span(context.arguments).subspan(2))) std::puts(word.c_str());
    return with_output_written(0);
  }
  return with_output_written(act(self, app, context));
}

}  // namespace lsched::cli
