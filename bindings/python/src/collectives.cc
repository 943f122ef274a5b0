// Functions that create collectives. Each function returns a handle. The package makes an object of class Schedule from
// the handle.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>

#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

using numbers = std::vector<std::uint64_t>;
using ranks = std::vector<std::int32_t>;
using words = std::optional<std::string>;

const char* text_of(const words& given) { return given ? given->c_str() : nullptr; }

/// The request of a collective, without its name and memory. The numeric members are those of lsched_collective_desc.
/// The other members of this struct replace the pointers of that desc.
struct request : lsched_collective_desc {
  request() : lsched_collective_desc{.struct_size = sizeof(lsched_collective_desc)} {}

  std::optional<numbers> counts, recv_counts;
  std::optional<ranks> destinations, sources;
  words algorithm;
  numbers tensors;       ///< begin and count of each tensor, one after the other
  std::string elements;  ///< "complex", "bool", or empty for real numbers

  std::vector<lsched_tensor> table() const {
    std::vector<lsched_tensor> all;
    for (std::size_t i = 0; i + 1 < tensors.size(); i += 2) all.push_back({tensors[i], tensors[i + 1]});
    return all;
  }
};

/// Returns nullptr if `list` has no value. Returns a pointer that is not null for an empty list.
template <class T>
const T* data_of(const std::optional<std::vector<T>>& list) {
  static constexpr T nothing{};
  return !list ? nullptr : list->empty() ? &nothing : list->data();
}

address collective(const world& in, const std::string& name, address input, address output, const request& what) {
  const std::vector<lsched_tensor> table = what.table();
  lsched_collective_desc desc = what;
  desc.collective = name.c_str();
  desc.input = at(input);
  desc.output = at(output);
  desc.counts = data_of(what.counts);
  desc.recv_counts = data_of(what.recv_counts);
  desc.destinations = data_of(what.destinations);
  desc.sources = data_of(what.sources);
  desc.destination_count = what.destinations ? static_cast<std::int32_t>(what.destinations->size()) : 0;
  desc.source_count = what.sources ? static_cast<std::int32_t>(what.sources->size()) : 0;
  desc.algorithm = text_of(what.algorithm);
  desc.tensors = table.empty() ? nullptr : table.data();
  desc.tensor_count = table.size();
  desc.elements = what.elements.c_str();
  lsched_schedule* made = nullptr;
  blocking(
      [&, all = committing(in)](lsched_diagnostic* why) { return lsched_collective_create(all, &desc, &made, why); });
  return adopted(made);
}

address barrier(const world& in) {
  const lsched_collective_desc desc{.struct_size = sizeof desc, .collective = "barrier"};
  lsched_schedule* made = nullptr;
  blocking(
      [&, all = committing(in)](lsched_diagnostic* why) { return lsched_collective_create(all, &desc, &made, why); });
  return adopted(made);
}

// --- sparse ------------------------------------------------------------------------------------------------------

address sparse(const world& in, const sparse_request& desc) {
  lsched_schedule* made = nullptr;
  blocking([&, all = committing(in)](lsched_diagnostic* why) { return lsched_sparse_create(all, &desc, &made, why); });
  return adopted(made);
}

address coo(const world& in, const lsched_coo_desc& desc) {
  lsched_schedule* made = nullptr;
  blocking([&, all = committing(in)](lsched_diagnostic* why) {
    return lsched_coo_allreduce_create(all, &desc, &made, why);
  });
  return adopted(made);
}

nb::dict sparse_stats(const schedule& of) {
  lsched_sparse_stats counted{.struct_size = sizeof counted};
  expect(unlocked([&, one = of.get()] { return lsched_sparse_get_stats(one, &counted); }));
  nb::dict told;
  told["rounds"] = counted.rounds;
  told["item_bytes_sent"] = counted.item_bytes_sent;
  told["item_bytes_received"] = counted.item_bytes_received;
  told["other_bytes_sent"] = counted.other_bytes_sent;
  told["other_bytes_received"] = counted.other_bytes_received;
  told["messages_sent"] = counted.messages_sent;
  told["messages_received"] = counted.messages_received;
  return told;
}

/// Returns the tuple (address, dtype).
nb::tuple residual(const schedule& of) {
  void* memory = nullptr;
  lsched_dtype type{};
  expect(unlocked([&, one = of.get()] { return lsched_sparse_residual(one, &memory, &type); }));
  return nb::make_tuple(reinterpret_cast<address>(memory), static_cast<int>(type));
}

/// Returns the image that `save(image, bytes, needed)` writes. A first call without memory returns the size of the
/// image.
template <class Save>
nb::bytes image_of(Save&& save) {
  std::size_t needed = 0;
  expect(unlocked([&] { return save(nullptr, 0, &needed); }));
  std::string image(needed, '\0');
  expect(unlocked([&] { return save(image.data(), image.size(), &needed); }));
  return nb::bytes(image.data(), image.size());
}

void pending_load(const schedule& of, const nb::bytes& image) {
  expect(unlocked([&, one = of.get()] { return lsched_pending_load(one, image.c_str(), image.size()); }));
}

/// Adds a numeric member of the request to the Python class. Adds the maximum of the member's type to `largest`.
template <class Number>
void add_number(nb::class_<request>& to, nb::dict& largest, const char* name, Number lsched_collective_desc::*member) {
  to.def_rw(name, member);
  largest[name] = std::numeric_limits<Number>::max();
}

template <class Enum>
void add_enum(nb::class_<request>& to, const char* name, Enum lsched_collective_desc::*member) {
  to.def_prop_rw(
      name, [member](const request& all) { return static_cast<int>(all.*member); },
      [member](request& all, int value) { all.*member = static_cast<Enum>(value); });
}

}  // namespace

void add_collectives(nb::module_& module) {
  nb::class_<request> of_collective(module, "Request");
  nb::dict largest;
  of_collective.def(nb::init<>());
#define LSCHED_NUMBER(name) add_number(of_collective, largest, #name, &lsched_collective_desc::name);
#include "lsched_collective_numbers.h"
#undef LSCHED_NUMBER
  add_enum(of_collective, "dtype", &lsched_collective_desc::dtype);
  add_enum(of_collective, "reduction", &lsched_collective_desc::reduction);
  add_enum(of_collective, "divisor", &lsched_collective_desc::divisor);
  of_collective.def_rw("counts", &request::counts, nb::arg().none())
      .def_rw("recv_counts", &request::recv_counts, nb::arg().none())
      .def_rw("destinations", &request::destinations, nb::arg().none())
      .def_rw("sources", &request::sources, nb::arg().none())
      .def_rw("algorithm", &request::algorithm, nb::arg().none())
      .def_rw("tensors", &request::tensors)
      .def_rw("elements", &request::elements);
  module.attr("LARGEST") = largest;
  module.attr("ANY_COUNT") = LSCHED_ANY_COUNT;
  module.def("collective", collective);
  module.def("barrier", barrier);

  nb::class_<sparse_request>(module, "SparseRequest")
      .def(nb::init<>())
      .def_prop_rw(
          "gradient", [](const sparse_request&) { return 0; },
          [](sparse_request& all, address where) { all.gradient = at(where); })
      .def_prop_rw(
          "update", [](const sparse_request&) { return 0; },
          [](sparse_request& all, address where) { all.update = at(where); })
      .def_rw("count", &lsched_sparse_desc::count)
      .def_rw("k", &lsched_sparse_desc::k)
      .def_prop_rw(
          "dtype", [](const sparse_request& all) { return static_cast<int>(all.dtype); },
          [](sparse_request& all, int type) { all.dtype = static_cast<lsched_dtype>(type); })
      .def_prop_rw(
          "algorithm", [](const sparse_request& all) { return all.algorithm; },
          [](sparse_request& all, const words& name) { all.set_algorithm(name); }, nb::arg().none())
      .def_rw("scale", &lsched_sparse_desc::scale)
      .def_prop_rw(
          "nans", [](const sparse_request& all) { return static_cast<int>(all.nans); },
          [](sparse_request& all, int one) { all.nans = static_cast<lsched_nan_policy>(one); })
      .def_prop_rw(
          "capacity", [](const sparse_request& all) { return static_cast<int>(all.capacity); },
          [](sparse_request& all, int one) { all.capacity = static_cast<lsched_capacity>(one); })
      .def_rw("period", &lsched_sparse_desc::period)
      .def_prop_rw(
          "boundaries", [](const sparse_request& all) { return static_cast<int>(all.boundaries); },
          [](sparse_request& all, int one) { all.boundaries = static_cast<lsched_boundaries>(one); })
      .def_prop_rw(
          "balance", [](const sparse_request& all) { return static_cast<int>(all.balance); },
          [](sparse_request& all, int one) { all.balance = static_cast<lsched_balance>(one); })
      .def_prop_rw(
          "selection", [](const sparse_request& all) { return static_cast<int>(all.selection); },
          [](sparse_request& all, int one) { all.selection = static_cast<lsched_selection>(one); })
      .def_rw("reuse", &lsched_sparse_desc::reuse)
      .def_rw("bucket", &lsched_sparse_desc::bucket)
      .def_prop_rw(
          "image", [](const sparse_request&) { return nb::none(); },
          [](sparse_request& all, const nb::bytes& one) {
            all.image = one.c_str();
            all.image_bytes = one.size();
          });
  module.def("sparse", sparse);
  module.def("sparse_stats", sparse_stats);
  module.def("sparse_residual", residual);
  module.def("sparse_save", [](const schedule& of) {
    return image_of([one = of.get()](void* image, std::size_t bytes, std::size_t* needed) {
      return lsched_schedule_save(one, LSCHED_STATE_SPARSE, image, bytes, needed);
    });
  });
  module.def("pending_save", [](const schedule& of) {
    return image_of([one = of.get()](void* image, std::size_t bytes, std::size_t* needed) {
      return lsched_schedule_save(one, LSCHED_STATE_PENDING, image, bytes, needed);
    });
  });
  module.def("pending_load", pending_load);
  module.def("coo", [](const world& in, address indices, address values, address item_count, std::uint64_t room,
                       address out_indices, address out_values, address out_count, std::uint64_t out_room,
                       address dense, std::uint64_t count, int dtype, bool is_balanced) {
    return coo(in, {.struct_size = sizeof(lsched_coo_desc),
                    .indices = static_cast<const std::uint64_t*>(at(indices)),
                    .values = at(values),
                    .item_count = static_cast<const std::uint64_t*>(at(item_count)),
                    .room = room,
                    .out_indices = static_cast<std::uint64_t*>(at(out_indices)),
                    .out_values = at(out_values),
                    .out_count = static_cast<std::uint64_t*>(at(out_count)),
                    .out_room = out_room,
                    .dense = at(dense),
                    .count = count,
                    .dtype = static_cast<lsched_dtype>(dtype),
                    .regions = is_balanced ? LSCHED_BALANCED_REGIONS : LSCHED_EQUAL_REGIONS});
  });
}

}  // namespace lsched::python
