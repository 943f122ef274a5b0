// The frozen corpus: one line of digests for each world, to compare two states of the repository with `diff`.
//
//   freeze worlds              the worlds that `lsched verify --all` proves, a line each, with a number at the end
//   freeze corpus [WORD]       the digests, of worlds whose name holds WORD
//   freeze show WORD           what the digests of these worlds are of, in full
//
// A line has: name | schedule | firing order in verify | findings | finish times and order in the simulator | GOAL |
// order and results of the engine in one process. A digest is FNV-1a, 64 bit. What is digested is written out here, so
// that internal names may change and lines stay equal.
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "bindings/cli/goal/goal.h"
#include "bindings/cli/verify/verify_plan.h"
#include "bindings/simulation/simulation.h"
#include "collectives/sparse/sparse_allreduce.h"
#include "libsched/trace/trace_buffer.h"
#include "libsched/verify/progress.h"
#include "libsched/verify/verify.h"
#include "tests/support/lockstep_world.h"

namespace lsched {
namespace {

using cli::verify_case;
using world_of_schedules = std::vector<schedule_ptr>;

constexpr std::array<rank, 13> k_sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33};
constexpr std::array<round_no, 2> k_instances{1, 2};

bool g_is_shown = false;

/// Text that is digested, or printed where it is to be shown.
class digest {
 public:
  template <class Number>
  requires std::is_integral_v<Number> digest& operator<<(Number number) {
    return *this << " " << std::to_string(number).c_str();
  }
  digest& operator<<(std::string_view text) {
    if (g_is_shown) std::fwrite(text.data(), 1, text.size(), stdout);
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return *this;
  }
  digest& operator<<(const char* text) { return *this << std::string_view(text); }
  std::string text() const {
    char hex[24];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(value_));
    return std::string(hex).substr(0, 12);
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

// --- schedules -----------------------------------------------------------------------------------------------------

void put(digest& out, std::string_view letter, region at) {
  if (at.exists()) out << " " << letter << at.buffer() << "+" << at.offset();
}

void put(digest& out, const schedule& program, op_id id) {
  const op& it = program.ops()[id];
  out << "op" << id << " " << name_of(it.kind);
  if (it.kind == op_kind::compute || it.kind == op_kind::capture) out << " " << name_of(it.what);
  if (it.a.exists() || it.c.exists()) out << " " << name_of(it.type) << it.count;
  put(out, "a", it.a), put(out, "b", it.b), put(out, "s", it.s), put(out, "c", it.c);
  if (is_communication(it.kind)) out << " peer" << it.peer << " tag" << it.tag;
  if (it.kind == op_kind::compute && row_of(it.what).has_parameters())
    out << " parameter" << program.parameters_of(it).front().integer();
  if (it.in_place) out << " in_place";
  if (it.releases_a != k_no_op) out << " releases_a" << it.releases_a;
  if (it.releases_b != k_no_op) out << " releases_b" << it.releases_b;
  if (it.guard != 0) out << " guard" << program.guard_of(it)->every << (program.guard_of(it)->skips_empty ? "e" : "");
  out << " need" << it.need << " then";
  for (const op_id next : program.successors(id)) out << next;
  out << "\n";
}

std::string schedules_of(const world_of_schedules& world) {
  digest out;
  for (const schedule_ptr& program : world) {
    out << program->name() << program->place().self << (program->is_synchronising() ? " s" : "")
        << (program->is_holding() ? " h" : "") << " " << words_for(program->starts()) << program->starts().seed << "\n";
    for (const buffer& it : program->buffers())
      out << name_of(it.role) << " " << name_of(it.type) << it.count << it.lists.room << it.lists.total
          << it.lists.typical << "\n";
    for (op_id id = 0; id < program->ops().size(); ++id) put(out, *program, id);
    out << "roots";
    for (const op_id root : program->roots()) out << root;
    out << " exit" << program->exit() << "\n";
  }
  return out.text();
}

// --- verify --------------------------------------------------------------------------------------------------------

std::string firing_order_of(const world_of_schedules& world) {
  digest out;
  assembly all(world);
  finding_list ignored(1);
  all.match(ignored);
  const bool is_woken = world.front()->starts().is_woken();
  for (const sending how : {sending::eager, sending::rendezvous, sending::held}) {
    progress one(all, how);
    std::vector<bool> callers(world.size(), !is_woken);
    callers.back() = true;
    for (const bool is_full : {false, true}) {
      if (is_full && world.front()->starts().full_every == 0) continue;
      one.run({.callers = is_full ? nullptr : &callers, .is_full = is_full});
      out << "order";
      for (const world_op it : one.order()) out << it << one.hops_to(it);
      out << "\n";
    }
  }
  return out.text();
}

std::string findings_of(const verify_case& what, const world_of_schedules& world) {
  const verification answer = verify(world, promise_of(what), options_of(what));
  digest out;
  for (const finding& it : answer.findings) out << it.text << "\n";
  for (const finding& it : answer.notes) out << it.text << "\n";
  out << answer.round_cost.messages << answer.round_cost.bytes << answer.round_cost.signals << answer.round_cost.hops
      << answer.is_synchronising << answer.is_eager_safe;
  for (const unexpected_bound& it : answer.unexpected) out << it.messages << it.bytes;
  return (answer.holds() ? "holds:" : "FAILS:") + out.text();
}

// --- simulate ------------------------------------------------------------------------------------------------------

/// Without a disturbance; with skew, noise and rendezvous; by the published simulator's rules.
std::vector<simulation> scenarios() {
  simulation plain;
  plain.where.compute = 100'000;
  simulation skewed = plain;
  skewed.skew = {.kind = skew_kind::uniform, .scale = 20'000'000, .seed = 5};
  skewed.noise = {.kind = noise_kind::exponential, .scale = 1'000'000, .jitter = 500'000, .seed = 6};
  skewed.where.S = 1000;
  simulation foreign = plain;
  foreign.where.rules = semantics::loggopsim;
  foreign.skew = skewed.skew;
  return {plain, skewed, foreign};
}

std::string simulated(const world_of_schedules& world, std::string& goal) {
  digest out, goals;
  for (simulation what : scenarios())
    for (const round_no instance : k_instances) {
      what.instance = instance;
      what.initiator = static_cast<rank>(instance) % static_cast<rank>(world.size());
      simulation_record record;
      const auto report = simulate_schedules(world, what, &record, true);
      if (!report) {
        out << "refused: " << report.error().text << "\n";
        continue;
      }
      out << "finish";
      for (const picoseconds it : report->finish) out << it;
      out << " counted" << report->messages << report->bytes << report->signals << report->nic_waits << report->active;
      const path_parts path = report->critical_path.value_or(path_parts{});
      out << " path" << path.L << path.o << path.g << path.G_bytes << path.O_bytes << path.compute_bytes << path.noise
          << path.start << "\n";
      for (const simulated_op& it : record.ops) out << it.who << it.op << it.begin << it.end;
      out << "\n";
      const auto made = export_goal(world, what, record);
      goals << (made ? to_goal_text(made->program, "") : made.error().text);
    }
  const auto made = export_goal(world);
  goals << (made ? to_goal_text(made->program, "") : made.error().text);
  goal = goals.text();
  return out.text();
}

// --- engine --------------------------------------------------------------------------------------------------------

struct rank_memory {
  std::vector<std::vector<float>> inputs, outputs;
};

binding bind(const schedule& program, rank_memory& memory) {
  binding made;
  for (const buffer& it : program.buffers()) {
    if (it.role == buffer_role::scratch) continue;
    std::vector<float> values(it.count + 1);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0f / static_cast<float>(1 + (i * 7 + static_cast<std::size_t>(program.place().self) * 13) % 101);
    (it.role == buffer_role::input ? memory.inputs : memory.outputs).push_back(std::move(values));
  }
  for (auto& it : memory.inputs) made.inputs.push_back(reinterpret_cast<const std::byte*>(it.data()));
  for (auto& it : memory.outputs) made.outputs.push_back(reinterpret_cast<std::byte*>(it.data()));
  return made;
}

/// What is ordinary, of f32 and calls no functions.
bool can_run(const world_of_schedules& world) {
  for (const schedule_ptr& program : world) {
    if (program->is_partial()) return false;
    for (const buffer& it : program->buffers())
      if (it.has_lists() || (it.role != buffer_role::scratch && it.type != dtype::f32)) return false;
    for (const op& it : program->ops())
      if (it.kind == op_kind::compute && is_function(it.what)) return false;
  }
  return world.size() <= 9;
}

std::string engine_run(const world_of_schedules& world) {
  if (!can_run(world)) return "-";
  digest out;
  const auto size = static_cast<rank>(world.size());
  std::vector<rank_memory> memory(world.size());
  std::vector<trace_buffer> traces;
  for (const schedule_ptr& program : world) traces.emplace_back(4 * (program->ops().size() + 1));
  testing::lockstep_world ranks(size, 11, {}, testing::lockstep_world::lanes::none);
  const auto its = ranks.commit([&](rank r) {
    const auto i = static_cast<std::size_t>(r);
    return commit_request{.agreement = "frozen", .program = world[i], .memory = bind(*world[i], memory[i])};
  });
  if (its.empty()) return "no commit";
  for (rank r = 0; r < size; ++r) ranks.at(r).record(&traces[static_cast<std::size_t>(r)]);
  for (int round = 0; round < 2; ++round) ranks.run_round(its);
  for (std::size_t r = 0; r < world.size(); ++r) {
    out << "rank" << r;
    for (const trace_event& it : traces[r].events()) out << it.op << it.round;
    for (const auto& values : memory[r].outputs)
      for (const float value : values) out << std::bit_cast<std::uint32_t>(value);
    out << "\n";
  }
  for (rank r = 0; r < size; ++r) ranks.at(r).record(nullptr);
  ranks.remove(its);
  return out.text();
}

// --- worlds --------------------------------------------------------------------------------------------------------

void freeze(const verify_case& what) {
  const world_of_schedules world = generate_world(what);
  const std::string name = text_of(what);
  if (g_is_shown) std::printf("--- %s\n", name.c_str());
  std::string goal;
  const std::string schedules = schedules_of(world), order = firing_order_of(world);
  const std::string findings = findings_of(what, world);
  const std::string times = simulated(world, goal), run = engine_run(world);
  std::printf("%s | %s | %s | %s | %s | %s | %s\n", name.c_str(), schedules.c_str(), order.c_str(), findings.c_str(),
              times.c_str(), goal.c_str(), run.c_str());
}

/// One large count and P + 1, so that blocks differ; what has no data has one world.
std::vector<verify_case> corpus() {
  std::vector<verify_case> all;
  for (const rank size : k_sizes) {
    const cli::verify_wish wish{.sizes = {size}, .counts = {static_cast<std::uint64_t>(size) + 1, 1000}, .items = {10}};
    const auto cases = cli::plan(wish);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

int list_worlds() {
  std::size_t number = 0;
  for (const verify_case& it : cli::plan({})) std::printf("%s\n", text_of(it).c_str()), ++number;
  std::fprintf(stderr, "%zu worlds\n", number);
  return 0;
}

}  // namespace
}  // namespace lsched

int main(int count, char** words) {
  const std::string_view mode = count > 1 ? words[1] : "", word = count > 2 ? words[2] : "";
  if (mode == "worlds") return lsched::list_worlds();
  if (mode != "corpus" && mode != "show") return std::fputs("freeze worlds | corpus [WORD] | show WORD\n", stderr), 2;
  lsched::g_is_shown = mode == "show";
  std::set<std::string> seen;
  for (const auto& it : lsched::corpus())
    if (const std::string name = text_of(it); name.find(word) != name.npos && seen.insert(name).second)
      lsched::freeze(it);
  return 0;
}
