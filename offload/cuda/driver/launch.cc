#include "offload/cuda/driver/launch.h"

#include <algorithm>

#include "offload/cuda/kernels/dots.h"
#include "ops/adasum/adasum.h"

namespace lsched {
namespace {

static_assert(k_device_dots == k_dot_sums);
static_assert(k_device_dot_block == k_dot_block && k_device_dot_group == k_dot_group);

constexpr std::array k_floats{dtype::f16, dtype::bf16, dtype::f32, dtype::f64};

// ---- functions of the image

/// Returns true if the image has a function for a kernel. Copies have no function, because the driver copies memory.
/// Kernels that call a function of the instance (is_function) have separate launches (sparse_launch.h).
constexpr bool has_function(kernel what, dtype type) {
  return row_of(what).is(trait::on_devices) && what != kernel::copy && !is_function(what) && supports(what, type);
}

constexpr device_symbol symbol_of(std::string_view what, std::string_view type, std::string_view other = {}) {
  device_symbol symbol;
  auto end = symbol.text.begin();
  for (const std::string_view word : {std::string_view("lsched"), what, type, other}) {
    if (word.empty()) continue;
    if (end != symbol.text.begin()) *end++ = '_';
    end = std::copy(word.begin(), word.end(), end);
  }
  return symbol;
}

/// Returns the kernel's name in the image. Devices compute adasum by scaled_add, with coefficients from the host.
constexpr std::string_view device_name_of(kernel what) { return what == kernel::adasum ? "scaled_add" : name_of(what); }

struct vector_step_name {
  std::string_view text;
  /// If `has_types` is true, each floating type has its own function. If `is_of_residual` is true, only the types of
  /// residuals (f32 and f64) have functions.
  bool has_types, is_of_residual;
};
constexpr std::array<vector_step_name, 9> k_vector_steps{{{"select_count", true, false},
                                                          {"select_tally", true, false},
                                                          {"select_take", true, false},
                                                          {"put", true, false},
                                                          {"leave", true, false},
                                                          {"drop", true, true},
                                                          {"select_narrow", false, false},
                                                          {"select_scan", false, false},
                                                          {"clear", false, false}}};

constexpr std::size_t place_of(dtype floating) {
  return static_cast<std::size_t>(floating) - static_cast<std::size_t>(dtype::f16);
}

struct function_table {
  static constexpr std::size_t k_kernels = k_kernel_rows.size(), k_dtypes = k_all_dtypes.size();
  std::array<device_symbol, 160> symbols{};
  std::uint32_t number = 0;
  std::array<std::array<std::uint32_t, k_dtypes>, k_kernels> of_kernel{};
  std::array<std::array<std::uint32_t, k_floats.size()>, k_floats.size()> of_conversion{};
  std::uint32_t end_of_dots = 0;
  std::array<std::array<std::uint32_t, k_floats.size()>, k_vector_steps.size()> of_step{};

  constexpr std::uint32_t add(const device_symbol& symbol) {
    symbols[number] = symbol;
    return number++;
  }

  constexpr function_table() {
    for (std::size_t row = 0; row < k_kernels; ++row)
      for (const dtype type : k_all_dtypes) {
        const auto what = static_cast<kernel>(row);
        of_kernel[row][static_cast<std::size_t>(type)] =
            has_function(what, type) ? add(symbol_of(device_name_of(what), name_of(type))) : k_no_device_function;
      }
    for (std::size_t from = 0; from < k_floats.size(); ++from)
      for (std::size_t to = 0; to < k_floats.size(); ++to)
        of_conversion[from][to] = add(symbol_of("convert", name_of(k_floats[from]), name_of(k_floats[to])));
    end_of_dots = add(symbol_of(name_of(kernel::dot_norms), "end"));
    for (std::size_t step = 0; step < k_vector_steps.size(); ++step) add_step(step);
  }

  constexpr void add_step(std::size_t step) {
    const auto [text, has_types, is_of_residual] = k_vector_steps[step];
    std::uint32_t made = has_types ? k_no_device_function : add(symbol_of(text, {}));
    for (std::size_t i = 0; i < k_floats.size(); ++i) {
      const dtype type = is_of_residual && k_floats[i] != dtype::f64 ? dtype::f32 : k_floats[i];
      const bool is_made = is_of_residual && i != 0 && type == dtype::f32;
      if (has_types && !is_made) made = add(symbol_of(text, name_of(type)));
      of_step[step][i] = made;
    }
  }
};

constexpr function_table k_functions;

// ---- grids

constexpr std::uint64_t groups_of(std::uint64_t count) { return parts(count, k_device_dot_group_elements); }

constexpr std::uint32_t vector_of(std::size_t element_bytes) {
  return static_cast<std::uint32_t>(k_device_vector_bytes / element_bytes);
}

}  // namespace

device_grid device_kernel::grid_of_first(std::uint64_t count) const {
  if (has_two_passes())
    return grid_of(groups_of(count), threads_for(parts(count, k_device_dot_block) * k_threads_of_dot_block));
  return grid_for(parts(count, vector));
}

device_grid device_kernel::grid_of_second(std::uint64_t count) const {
  return {1, threads_for(groups_of(count) * k_device_dots)};
}

std::uint64_t device_kernel::workspace_bytes(std::uint64_t count) const {
  return has_two_passes() ? groups_of(count) * k_device_dots * sizeof(double) : 0;
}

std::span<const device_symbol> device_symbols() { return {k_functions.symbols.data(), k_functions.number}; }

std::optional<device_kernel> find_device_kernel(kernel what, dtype type) {
  if (!has_function(what, type)) return std::nullopt;
  device_kernel found{.first = k_functions.of_kernel[static_cast<std::size_t>(what)][static_cast<std::size_t>(type)],
                      .vector = vector_of(size_of(type))};
  if (what == kernel::dot_norms) found.second = k_functions.end_of_dots;
  return found;
}

std::uint32_t function_of(vector_step step, dtype type) {
  return k_functions.of_step[static_cast<std::size_t>(step)][place_of(type)];
}

std::optional<device_kernel> find_device_conversion(dtype from, dtype to) {
  if (!is_floating(from) || !is_floating(to)) return std::nullopt;
  return device_kernel{.first = k_functions.of_conversion[place_of(from)][place_of(to)],
                       .vector = vector_of(std::max(size_of(from), size_of(to)))};
}

}  // namespace lsched
