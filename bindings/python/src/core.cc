// The module libsched._core: the C interface, call by call. What users see is the package around it.
#include "bindings/python/src/handles.h"

NB_MODULE(_core, module) {
  using namespace lsched::python;
  module.doc() = "The C interface of libsched. Use the package libsched instead.";
  nanobind::set_leak_warnings(false);  // at exit whoever has registered a backend still holds it
  module.attr("version") = lsched_version();
  add_failures(module);
  add_memory(module);
  add_worlds(module);
  add_schedules(module);
  add_collectives(module);
  add_partial(module);
  add_messages(module);
  add_builder(module);
  add_analysis(module);
}
