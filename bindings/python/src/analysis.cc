#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

using words = std::optional<std::string>;
const char* text_of(const words& given) { return given ? given->c_str() : nullptr; }

nb::dict told_of(const lsched_finding& one) {
  nb::dict told;
  told["property"] = one.property;
  told["rank"] = one.rank;
  told["peer"] = one.peer;
  told["op"] = one.op;
  told["buffer"] = one.buffer;
  told["begin"] = one.begin;
  told["end"] = one.end;
  told["text"] = one.text;
  return told;
}

nb::dict told_of(const lsched_verification& of) {
  nb::dict told;
  told["holds"] = of.holds != 0;
  told["ranks"] = of.ranks;
  told["collective"] = of.collective;
  told["algorithm"] = of.algorithm;
  told["is_synchronising"] = of.is_synchronising != 0;
  told["is_eager_safe"] = of.is_eager_safe != 0;
  told["messages"] = of.messages;
  told["bytes"] = of.bytes;
  told["signals"] = of.signals;
  told["signals_of_one"] = of.signals_of_one;
  told["hops"] = of.hops;
  told["unexpected_messages"] = of.unexpected_messages;
  told["unexpected_bytes"] = of.unexpected_bytes;
  told["count"] = of.count;
  told["dtype"] = static_cast<int>(of.dtype);
  told["reduction"] = static_cast<int>(of.reduction);
  told["root"] = of.root;
  return told;
}

/// Returns the tuple (result, violations, warnings).
nb::tuple verify(const words& text, const words& collective, bool in_place, std::int32_t ranks, const words& algorithm,
                 std::uint64_t count, int dtype, int reduction, const words& activation, std::uint32_t required,
                 std::int32_t root, std::uint64_t eager_bytes, std::uint32_t slots, std::uint64_t most_findings) {
  const lsched_verify_desc desc{.struct_size = sizeof desc,
                                .text = text_of(text),
                                .bytes = text ? text->size() : 0,
                                .collective = text_of(collective),
                                .in_place = in_place ? 1 : 0,
                                .ranks = ranks,
                                .algorithm = text_of(algorithm),
                                .count = count,
                                .dtype = static_cast<lsched_dtype>(dtype),
                                .reduction = static_cast<lsched_reduction>(reduction),
                                .activation = text_of(activation),
                                .required = required,
                                .root = root,
                                .eager_bytes = eager_bytes,
                                .slots = slots};
  lsched_verification found{.struct_size = sizeof found};
  std::vector<lsched_finding> all(most_findings);
  blocking([&](lsched_diagnostic* why) { return lsched_verify(&desc, &found, all.data(), all.size(), why); });
  nb::list findings, notes;
  for (std::uint64_t i = 0; i < found.findings; ++i) findings.append(told_of(all[i]));
  for (std::uint64_t i = 0; i < found.notes; ++i) notes.append(told_of(all[found.findings + i]));
  return nb::make_tuple(told_of(found), findings, notes);
}

/// Returns the tuple (counters, time in picoseconds at which each rank finishes).
nb::tuple simulate(const words& text, const words& collective, const words& algorithm, const lsched_sparse_desc* sparse,
                   std::int32_t ranks, std::int32_t root, std::uint64_t count, int dtype, int reduction,
                   const words& activation, std::int32_t initiator, std::uint64_t round,
                   const std::vector<std::uint64_t>& starts_ns, const std::vector<double>& machine,
                   std::optional<std::uint64_t> eager) {
  lsched_simulate_desc desc{.struct_size = sizeof desc};
  desc.text = text_of(text);
  desc.bytes = text ? text->size() : 0;
  desc.collective = text_of(collective);
  desc.algorithm = text_of(algorithm);
  desc.sparse = sparse;
  desc.ranks = ranks;
  desc.root = root;
  desc.count = count;
  desc.dtype = static_cast<lsched_dtype>(dtype);
  desc.reduction = static_cast<lsched_reduction>(reduction);
  desc.activation = text_of(activation);
  desc.initiator = initiator;
  desc.round = round;
  desc.starts_ns = starts_ns.empty() ? nullptr : starts_ns.data();
  lsched_machine where = LSCHED_DEFAULT_MACHINE;
  double* const members[] = {&where.L, &where.o, &where.g, &where.G, &where.O, &where.compute};
  for (std::size_t i = 0; i < machine.size() && i < std::size(members); ++i)
    if (machine[i] >= 0) *members[i] = machine[i];
  where.S = eager.value_or(where.S);
  desc.machine = &where;
  lsched_simulation timed{.struct_size = sizeof timed};
  std::vector<std::uint64_t> finish(1024);
  blocking([&](lsched_diagnostic* why) { return lsched_simulate(&desc, &timed, finish.data(), finish.size(), why); });
  if (static_cast<std::size_t>(timed.ranks) > finish.size()) {
    finish.resize(static_cast<std::size_t>(timed.ranks));
    blocking([&](lsched_diagnostic* why) { return lsched_simulate(&desc, &timed, finish.data(), finish.size(), why); });
  }
  finish.resize(static_cast<std::size_t>(timed.ranks));
  nb::dict told;
  told["ranks"] = timed.ranks;
  told["active"] = timed.active;
  told["messages"] = timed.messages;
  told["bytes"] = timed.bytes;
  told["signals"] = timed.signals;
  told["nic_waits"] = timed.nic_waits;
  told["last_ps"] = timed.last_ps;
  return nb::make_tuple(told, finish);
}

}  // namespace

void add_analysis(nb::module_& module) {
  module.def("verify", verify, nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
  module.def("simulate", simulate, nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg().none());
}

}  // namespace lsched::python
