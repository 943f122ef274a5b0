#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bindings/python/src/handles.h"

namespace lsched::python {
namespace {

using addresses = std::vector<address>;

/// A region of a buffer: index of the slot, offset and count.
using part = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
lsched_region region_of(const part& one) { return {{std::get<0>(one)}, std::get<1>(one), std::get<2>(one)}; }

/// A builder. The destructor destroys a builder that was never committed. A builder that has a world uses the world
/// until the builder is committed or destroyed.
struct builder : owned<lsched_builder> {
  explicit builder(lsched_builder* handle) : owned(handle) {}
  builder(lsched_builder* handle, const world& in) : owned(handle), of(in.get()) {}
  builder(const builder&) = delete;
  builder& operator=(const builder&) = delete;
  ~builder() {
    if (is_usable()) lsched_builder_destroy(get());
  }

  std::optional<world::lease> of;
};

lsched_builder* created(std::int32_t rank, std::int32_t ranks, const std::optional<std::string>& name) {
  lsched_builder* made = nullptr;
  expect(lsched_builder_create(rank, ranks, name ? name->c_str() : nullptr, &made));
  return made;
}

template <lsched_slot_use Use>
std::uint32_t slot(const builder& to, int dtype, std::uint64_t count) {
  lsched_slot made{};
  expect(lsched_add_slot(to.get(), Use, static_cast<lsched_dtype>(dtype), count, &made));
  return made.id;
}

/// Returns the id of the op that `add` has appended.
template <class Add>
std::uint32_t appended(const builder& to, Add&& add) {
  lsched_op made{};
  expect(add(to.get(), &made));
  return made.id;
}

/// Commits the builder. `in` is the builder's world.
address commit(builder& of, const world& in, const addresses& inputs, const addresses& outputs) {
  lsched_schedule* made = nullptr;
  lsched_diagnostic why{.struct_size = sizeof why};
  lsched_status code = LSCHED_OK;
  (void)of.get();                                                // throws if the builder was committed before
  of.give_back([&, all = committing(in)](lsched_builder* one) {  // even a failed commit destroys the builder
    code = unlocked([&] {
      return lsched_builder_commit(one, all, reinterpret_cast<const void* const*>(inputs.data()),
                                   reinterpret_cast<void* const*>(const_cast<address*>(outputs.data())), &made, &why);
    });
  });
  of.of.reset();
  expect(code, why);
  return adopted(made);
}

void discard(builder& of) {
  of.give_back(lsched_builder_destroy);
  of.of.reset();
}

std::string text_of(const builder& of) {
  return printed([&, one = of.get()](char* to, std::size_t room, std::size_t* needed) {
    lsched_diagnostic why{.struct_size = sizeof why};
    expect(lsched_builder_print(one, to, room, needed, &why), why);
    return LSCHED_OK;
  });
}

void load_algorithm(const std::string& text) {
  lsched_diagnostic why{.struct_size = sizeof why};
  expect(lsched_algorithm_load(text.data(), text.size(), &why), why);
}

}  // namespace

void add_builder(nb::module_& module) {
  module.def("load_algorithm", load_algorithm);
  nb::class_<builder>(module, "Builder", nb::dynamic_attr())
      .def(
          "__init__",
          [](builder* made, const world& in, const std::optional<std::string>& name) {
            const world::lease of = in.get();
            new (made) builder(created(lsched_rank(of), lsched_size(of), name), in);
          },
          nb::arg(), nb::arg().none())
      .def(
          "__init__",
          [](builder* made, std::int32_t rank, std::int32_t ranks, const std::optional<std::string>& name) {
            new (made) builder(created(rank, ranks, name));
          },
          nb::arg(), nb::arg(), nb::arg().none())
      .def("text", text_of)
      .def("_input", slot<LSCHED_INPUT>)
      .def("_output", slot<LSCHED_OUTPUT>)
      .def("_scratch", slot<LSCHED_SCRATCH>)
      .def("_nop", [](const builder& to) { return appended(to, lsched_add_nop); })
      .def("_send",
           [](const builder& to, std::int32_t peer, std::uint32_t tag, const part& source) {
             return appended(to, [&](lsched_builder* b, lsched_op* op) {
               return lsched_add_send(b, peer, tag, region_of(source), op);
             });
           })
      .def("_recv",
           [](const builder& to, std::int32_t peer, std::uint32_t tag, const part& target) {
             return appended(to, [&](lsched_builder* b, lsched_op* op) {
               return lsched_add_recv(b, peer, tag, region_of(target), op);
             });
           })
      .def("_reduce",
           [](const builder& to, int how, const part& lower, const part& higher, const part& target) {
             return appended(to, [&](lsched_builder* b, lsched_op* op) {
               return lsched_add_reduce(b, static_cast<lsched_reduction>(how), nullptr, region_of(lower),
                                        region_of(higher), region_of(target), op);
             });
           })
      .def("_copy",
           [](const builder& to, const part& source, const part& target) {
             return appended(to, [&](lsched_builder* b, lsched_op* op) {
               return lsched_add_copy(b, region_of(source), region_of(target), op);
             });
           })
      .def("_dep", [](const builder& to, std::uint32_t before,
                      std::uint32_t after) { expect(lsched_add_dep(to.get(), {before}, {after})); })
      .def("_set_need", [](const builder& to, std::uint32_t op,
                           std::uint32_t tokens) { expect(lsched_set_need(to.get(), {op}, tokens)); })
      .def("_commit", commit)
      .def("_discard", discard);
}

}  // namespace lsched::python
