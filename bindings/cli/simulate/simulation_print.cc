#include "bindings/cli/simulate/simulation_print.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/counted.h"

namespace lsched::cli {
namespace {

using json = nlohmann::ordered_json;

double us(picoseconds time) { return static_cast<double>(time) / k_ps_per_us; }

json describe(const path_parts& path) {
  return {{"L", path.L},
          {"o", path.o},
          {"g", path.g},
          {"G_bytes", path.G_bytes},
          {"O_bytes", path.O_bytes},
          {"compute_bytes", path.compute_bytes},
          {"noise_us", us(path.noise)},
          {"start_us", us(path.start)}};
}

/// The line that others read; its keys stay.
json summary(const simulated_run& it, const simulation_report& report) {
  const bool is_played = report.messages + report.signals > 0 && report.seconds > 0;
  const auto messages = static_cast<double>(report.messages + report.signals);
  return {{"engine", report.engine},
          {"ranks", it.ranks},
          {"messages_per_s", is_played ? json(messages / report.seconds) : json(nullptr)},
          {"bytes_per_rank", static_cast<double>(report.memory) / it.ranks},
          {"seconds", report.seconds},
          {"generation_seconds", report.generation_seconds},
          {"finish_us", us(report.last())}};
}

/// What is simulated, in a word beside the ranks.
json subject_of(const simulate_options& options, const simulated_run& it) {
  if (it.given.empty()) return {"bytes", it.bytes};
  return options.file.empty() ? json{"goal", options.goal} : json{"file", options.file};
}

json details(const simulate_options& options, const simulated_run& it, const simulation_report& report) {
  json all{{"ranks", it.ranks},
           subject_of(options, it),
           {"seed", it.seed},
           {"messages", report.messages},
           {"payload_bytes", report.bytes},
           {"signals", report.signals},
           {"nic_waits", report.nic_waits},
           {"active", report.active}};
  for (const auto& [name, q] : {std::pair{"first", 0.0}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"last", 1.0}})
    all["finish_us"][name] = us(report.quantile(q));
  if (it.sparse != nullptr) all["count"] = it.problem.count, all["k"] = it.problem.k;
  if (!it.remark.empty()) all["remark"] = it.remark;
  if (report.critical_path) all["critical_path"] = describe(*report.critical_path);
  return {{"report", all}};
}

void print_text(const simulate_options& options, const simulated_run& it, const simulation_report& report) {
  std::string what = it.given.empty() ? std::to_string(it.bytes) + " B" : path_of(options);
  if (it.sparse != nullptr) what += ", k " + std::to_string(it.problem.k);
  std::printf("%s, %s, %s, seed %llu\n", std::string(report.engine).c_str(), counted(it.ranks, "rank").c_str(),
              what.c_str(), static_cast<unsigned long long>(it.seed));
  if (!it.remark.empty()) std::printf("  remark: %s\n", std::string(it.remark).c_str());
  std::printf("  finish us: first %.3f, half %.3f, 90%% %.3f, 99%% %.3f, last %.3f\n", us(report.quantile(0)),
              us(report.quantile(0.5)), us(report.quantile(0.9)), us(report.quantile(0.99)), us(report.last()));
  std::printf("  messages %llu, bytes %llu, signals %llu, waited for a NIC %llu\n",
              static_cast<unsigned long long>(report.messages), static_cast<unsigned long long>(report.bytes),
              static_cast<unsigned long long>(report.signals), static_cast<unsigned long long>(report.nic_waits));
  if (report.messages + report.signals > 0)
    std::printf("  took %.3f s (schedules %.3f s before): %.1f M messages/s, %.1f bytes per rank\n", report.seconds,
                report.generation_seconds, static_cast<double>(report.messages + report.signals) / report.seconds / 1e6,
                static_cast<double>(report.memory) / it.ranks);
  if (!report.critical_path) return;
  const path_parts& path = *report.critical_path;
  std::printf(
      "  critical path: %lld L + %lld o + %lld g + %lld G + %lld O + %lld compute + %.3f us noise, "
      "begun at %.3f us\n",
      static_cast<long long>(path.L), static_cast<long long>(path.o), static_cast<long long>(path.g),
      static_cast<long long>(path.G_bytes), static_cast<long long>(path.O_bytes),
      static_cast<long long>(path.compute_bytes), us(path.noise), us(path.start));
}

}  // namespace

void print(const simulate_options& options, const simulated_run& it, const simulation_report& report) {
  if (!options.as_json) return print_text(options, it, report);
  std::printf("%s\n%s\n", details(options, it, report).dump().c_str(), summary(it, report).dump().c_str());
}

}  // namespace lsched::cli
