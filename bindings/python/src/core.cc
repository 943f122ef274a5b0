// The module libsched._core, which binds the functions of the C interface. Users call the package libsched, which wraps
// this module.
#include "bindings/python/src/handles.h"

NB_MODULE(_core, module) {
  using namespace lsched::python;
  module.doc() = "The C interface of libsched. Use the package libsched instead.";
  nanobind::set_leak_warnings(false);  // torch still holds a registered backend at exit
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
