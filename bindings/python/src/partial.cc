// Calls on partial collectives: offers, collects and collective calls.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "bindings/python/src/handles.h"
#include "bindings/python/src/interruptible.h"

namespace lsched::python {
namespace {

using addresses = std::vector<address>;
using limit = std::optional<double>;

/// `numbers` has the values of the numeric members of lsched_partial_desc. If `joins` is true, joins the schedule of
/// other ranks.
address create(const world& in, std::optional<std::string> collective, const std::vector<std::uint64_t>& buckets,
               int dtype, int reduction, const std::string& activation, int lag, int divisor,
               std::optional<std::string> algorithm, const std::vector<std::uint64_t>& tensors,
               const sparse_request* sparse, const std::string& elements, int age,
               const std::vector<double>& age_factors, const nb::dict& numbers, bool joins, const world* all,
               std::int32_t shards, std::uint32_t staged) {
  std::vector<lsched_tensor> table;
  for (std::size_t i = 0; i + 1 < tensors.size(); i += 2) table.push_back({tensors[i], tensors[i + 1]});
  lsched_partial_desc desc{.struct_size = sizeof desc,
                           .collective = collective ? collective->c_str() : nullptr,
                           .buckets = buckets.empty() ? nullptr : buckets.data(),
                           .bucket_count = static_cast<std::uint32_t>(buckets.size()),
                           .dtype = static_cast<lsched_dtype>(dtype),
                           .reduction = static_cast<lsched_reduction>(reduction),
                           .activation = activation.c_str(),
                           .lag = static_cast<lsched_lag>(lag),
                           .divisor = static_cast<lsched_divisor>(divisor),
                           .algorithm = algorithm ? algorithm->c_str() : nullptr,
                           .tensors = table.empty() ? nullptr : table.data(),
                           .tensor_count = table.size(),
                           .sparse = sparse,
                           .elements = elements.c_str(),
                           .age = static_cast<lsched_age>(age),
                           .age_count = static_cast<std::uint32_t>(age_factors.size()),
                           .age_factors = age_factors.empty() ? nullptr : age_factors.data()};
#define LSCHED_NUMBER(name) \
  if (numbers.contains(#name)) desc.name = nb::cast<decltype(desc.name)>(numbers[#name]);
#include "lsched_partial_numbers.h"
#undef LSCHED_NUMBER
  std::optional<lsched::python::world::lease> of_all;
  if (all != nullptr) of_all.emplace(committing(*all));
  const lsched_groups groups{.struct_size = sizeof groups,
                             .all = of_all ? static_cast<lsched_world*>(*of_all) : nullptr,
                             .shards = shards,
                             .staged = staged};
  if (of_all) desc.groups = &groups;
  lsched_schedule* made = nullptr;
  const auto make = joins ? lsched_partial_join : lsched_partial_create;
  blocking([&, all = committing(in)](lsched_diagnostic* why) { return make(all, &desc, &made, why); });
  return adopted(made);
}

template <class Offer>
ticket offered(nb::handle_t<schedule> self, Offer&& offer) {
  ticket made;
  const schedule::lease one = nb::inst_ptr<schedule>(self)->get();
  expect(unlocked([&] { return offer(one, &made.round); }));
  made.of = nb::borrow(self);
  return made;
}

/// Offers the given buckets. With nullopt, this rank makes its call, but contributes nothing. Without `fragment`,
/// offers to the fragment of the next round.
ticket offer(nb::handle_t<schedule> self, const std::optional<addresses>& buckets, std::uint64_t weight,
             std::optional<std::uint32_t> fragment) {
  return offered(self, [&](lsched_schedule* one, lsched_ticket* round) {
    const auto places = buckets ? reinterpret_cast<const void* const*>(buckets->data()) : nullptr;
    return fragment ? lsched_offer_fragment(one, *fragment, places, weight, round)
                    : lsched_offer_weighted(one, places, weight, round);
  });
}

ticket offer_end(nb::handle_t<schedule> self, std::uint64_t weight) {
  return offered(self, [weight](lsched_schedule* one, lsched_ticket* round) {
    return lsched_offer_end_weighted(one, weight, round);
  });
}

/// Returns the fields of the Python class Report, in the order of that class.
nb::tuple told_of(const lsched_report& of) {
  return nb::make_tuple(of.last.round, of.last.contributors, of.last.offers, of.last.ranks, of.from, of.to, of.round,
                        of.offers, of.mine, of.staleness, of.has_result != 0, of.age_factor, of.groups, of.fragment);
}

/// Calls wait() with `attempt(timeout_ns, report, diagnostic)`, and returns the report.
template <class Attempt>
lsched_report reported(limit timeout, Attempt&& attempt) {
  lsched_report report{.struct_size = sizeof report};
  wait(nanoseconds(timeout), [&](std::uint64_t slice, lsched_diagnostic* why) { return attempt(slice, &report, why); });
  return report;
}

/// Returns the addresses to which the buckets of a result are copied. Returns nullptr if the result is not copied.
void* const* results_of(const std::optional<addresses>& buckets) {
  return buckets ? reinterpret_cast<void* const*>(const_cast<address*>(buckets->data())) : nullptr;
}

nb::tuple collect(const ticket& of, const std::optional<addresses>& buckets, limit timeout) {
  return told_of(reported(timeout, [&, round = of.use()](std::uint64_t slice, lsched_report* report, auto* why) {
    return lsched_collect(round, results_of(buckets), slice, report, why);
  }));
}

/// Returns the tuple (address of the result or 0, report).
nb::tuple collect_view(const ticket& of, limit timeout) {
  const lsched_report report = reported(timeout, [&, round = of.use()](std::uint64_t slice, auto* filled, auto* why) {
    return lsched_collect(round, nullptr, slice, filled, why);
  });
  return nb::make_tuple(reinterpret_cast<address>(report.result), told_of(report));
}

nb::tuple flush(const schedule& of, const std::optional<addresses>& buckets, limit timeout) {
  return told_of(reported(timeout, [&, one = of.get()](std::uint64_t slice, lsched_report* report, auto* why) {
    return lsched_flush(one, results_of(buckets), slice, report, why);
  }));
}

nb::tuple model_sync(const schedule& of, address weights, limit timeout) {
  return told_of(reported(timeout, [&, one = of.get()](std::uint64_t slice, lsched_report* report, auto* why) {
    return lsched_model_sync(one, at(weights), slice, report, why);
  }));
}

std::uint64_t withdraw(const schedule& of) {
  std::uint64_t offers = 0;
  expect(unlocked([&, one = of.get()] { return lsched_withdraw(one, &offers); }));
  return offers;
}

std::uint64_t skip(const schedule& of, std::uint64_t last) {
  std::uint64_t rounds = 0;
  expect(unlocked([&, one = of.get()] { return lsched_skip(one, last, &rounds); }));
  return rounds;
}

void carry(const schedule& of, const world& survivors) {
  std::make_shared<call_in_thread>()->make(
      [one = of.get(), all = committing(survivors)](lsched_diagnostic* why) { return lsched_carry(one, all, why); },
      [] {});
}

}  // namespace

void add_partial(nb::module_& module) {
  nb::dict largest;
#define LSCHED_NUMBER(name) largest[#name] = std::numeric_limits<decltype(lsched_partial_desc::name)>::max();
#include "lsched_partial_numbers.h"
#undef LSCHED_NUMBER
  module.attr("LARGEST_PARTIAL") = largest;
  module.def("partial", create, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg().none(), nb::arg(), nb::arg());
  module.def("offer", offer, nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none());
  module.def("offer_bucket", [](const schedule& of, std::uint32_t index, address bucket) {
    expect(unlocked([&, one = of.get()] { return lsched_offer_bucket(one, index, at(bucket)); }));
  });
  module.def("offer_end", offer_end);
  module.def("collect", collect, nb::arg(), nb::arg().none(), nb::arg().none());
  module.def("collect_view", collect_view, nb::arg(), nb::arg().none());
  module.def("flush", flush, nb::arg(), nb::arg().none(), nb::arg().none());
  module.def("model_sync", model_sync, nb::arg(), nb::arg(), nb::arg().none());
  module.def("withdraw", withdraw);
  module.def("skip", skip);
  module.def("leave", [](const schedule& of) { expect(unlocked([one = of.get()] { return lsched_leave(one); })); });
  module.def("carry", carry);
}

}  // namespace lsched::python
