// Functions that create collectives. They return handles, from which the package makes objects of class Schedule.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

using numbers = std::vector<std::uint64_t>;
using ranks = std::vector<std::int32_t>;
using words = std::optional<std::string>;

const char* text_of(const words& given) { return given ? given->c_str() : nullptr; }

/// The request of a collective, without its name and memory. The members have the meaning of the members of
/// lsched_collective_desc.
struct request {
  std::uint64_t count = 0;
  std::optional<numbers> counts, recv_counts;
  std::optional<ranks> destinations, sources;
  int dtype = 0, reduction = 0, divisor = 0;
  std::int32_t root = 0, radix = 0, depth = 0;
  words algorithm;
  std::uint64_t segment_bytes = 0, capacity = 0;
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
  const lsched_collective_desc desc{
      .struct_size = sizeof desc,
      .collective = name.c_str(),
      .input = at(input),
      .output = at(output),
      .count = what.count,
      .counts = data_of(what.counts),
      .recv_counts = data_of(what.recv_counts),
      .destinations = data_of(what.destinations),
      .sources = data_of(what.sources),
      .destination_count = what.destinations ? static_cast<std::int32_t>(what.destinations->size()) : 0,
      .source_count = what.sources ? static_cast<std::int32_t>(what.sources->size()) : 0,
      .dtype = static_cast<lsched_dtype>(what.dtype),
      .reduction = static_cast<lsched_reduction>(what.reduction),
      .root = what.root,
      .algorithm = text_of(what.algorithm),
      .segment_bytes = what.segment_bytes,
      .radix = what.radix,
      .tensors = table.empty() ? nullptr : table.data(),
      .tensor_count = table.size(),
      .capacity = what.capacity,
      .depth = what.depth,
      .divisor = static_cast<lsched_divisor>(what.divisor),
      .elements = what.elements.c_str()};
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

address sparse(const world& in, const lsched_sparse_desc& desc) {
  lsched_schedule* made = nullptr;
  blocking([&, all = committing(in)](lsched_diagnostic* why) { return lsched_sparse_create(all, &desc, &made, why); });
  return adopted(made);
}

/// Returns a static string equal to the name, because a desc stores only the pointer. Throws call_failure for an
/// unknown name.
const char* kept(const words& name) {
  if (!name) return nullptr;
  for (const char* known : {"auto", "oktopk", "topka", "topkdsa", "gtopk"})
    if (*name == known) return known;
  throw call_failure(told(LSCHED_ERR_ARGUMENT, ("there is no sparse allreduce algorithm \"" + *name + "\"").c_str()));
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

}  // namespace

void add_collectives(nb::module_& module) {
  nb::class_<request>(module, "Request")
      .def(nb::init<>())
      .def_rw("count", &request::count)
      .def_rw("counts", &request::counts, nb::arg().none())
      .def_rw("recv_counts", &request::recv_counts, nb::arg().none())
      .def_rw("destinations", &request::destinations, nb::arg().none())
      .def_rw("sources", &request::sources, nb::arg().none())
      .def_rw("dtype", &request::dtype)
      .def_rw("reduction", &request::reduction)
      .def_rw("divisor", &request::divisor)
      .def_rw("root", &request::root)
      .def_rw("radix", &request::radix)
      .def_rw("depth", &request::depth)
      .def_rw("algorithm", &request::algorithm, nb::arg().none())
      .def_rw("segment_bytes", &request::segment_bytes)
      .def_rw("capacity", &request::capacity)
      .def_rw("tensors", &request::tensors)
      .def_rw("elements", &request::elements);
  module.attr("ANY_COUNT") = LSCHED_ANY_COUNT;
  module.def("collective", collective);
  module.def("barrier", barrier);

  nb::class_<lsched_sparse_desc>(module, "SparseRequest")
      .def("__init__", [](lsched_sparse_desc* made) { new (made) lsched_sparse_desc{.struct_size = sizeof *made}; })
      .def_prop_rw(
          "gradient", [](const lsched_sparse_desc&) { return 0; },
          [](lsched_sparse_desc& all, address where) { all.gradient = at(where); })
      .def_prop_rw(
          "update", [](const lsched_sparse_desc&) { return 0; },
          [](lsched_sparse_desc& all, address where) { all.update = at(where); })
      .def_rw("count", &lsched_sparse_desc::count)
      .def_rw("k", &lsched_sparse_desc::k)
      .def_prop_rw(
          "dtype", [](const lsched_sparse_desc& all) { return static_cast<int>(all.dtype); },
          [](lsched_sparse_desc& all, int type) { all.dtype = static_cast<lsched_dtype>(type); })
      .def_prop_rw(
          "algorithm", [](const lsched_sparse_desc& all) { return all.algorithm; },
          [](lsched_sparse_desc& all, const words& name) { all.algorithm = kept(name); }, nb::arg().none())
      .def_rw("scale", &lsched_sparse_desc::scale)
      .def_prop_rw(
          "nans", [](const lsched_sparse_desc& all) { return static_cast<int>(all.nans); },
          [](lsched_sparse_desc& all, int one) { all.nans = static_cast<lsched_nan_policy>(one); })
      .def_prop_rw(
          "capacity", [](const lsched_sparse_desc& all) { return static_cast<int>(all.capacity); },
          [](lsched_sparse_desc& all, int one) { all.capacity = static_cast<lsched_capacity>(one); })
      .def_rw("period", &lsched_sparse_desc::period)
      .def_prop_rw(
          "boundaries", [](const lsched_sparse_desc& all) { return static_cast<int>(all.boundaries); },
          [](lsched_sparse_desc& all, int one) { all.boundaries = static_cast<lsched_boundaries>(one); })
      .def_prop_rw(
          "balance", [](const lsched_sparse_desc& all) { return static_cast<int>(all.balance); },
          [](lsched_sparse_desc& all, int one) { all.balance = static_cast<lsched_balance>(one); })
      .def_prop_rw(
          "selection", [](const lsched_sparse_desc& all) { return static_cast<int>(all.selection); },
          [](lsched_sparse_desc& all, int one) { all.selection = static_cast<lsched_selection>(one); })
      .def_rw("reuse", &lsched_sparse_desc::reuse)
      .def_rw("bucket", &lsched_sparse_desc::bucket)
      .def_prop_rw(
          "image", [](const lsched_sparse_desc&) { return nb::none(); },
          [](lsched_sparse_desc& all, const nb::bytes& one) {
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
