#include "bindings/c/sized.h"

namespace lsched {

failure refusal_of(const published& what, const std::size_t* struct_size) {
  const std::string name(what.name);
  if (struct_size == nullptr) return {status::argument, name + " is null"};
  return {status::argument, name + ".struct_size is " + std::to_string(*struct_size) + ": set it to sizeof(" + name +
                                "), at least " + std::to_string(what.least)};
}

bool ends_in_zeros(const void* caller, std::size_t theirs, std::size_t ours) {
  const auto* const bytes = static_cast<const std::byte*>(caller);
  return theirs <= ours || std::all_of(bytes + ours, bytes + theirs, [](std::byte it) { return it == std::byte{0}; });
}

}  // namespace lsched
