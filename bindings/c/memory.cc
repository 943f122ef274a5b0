// Checks of the caller's memory: presence, layout, and memory space.
#include "bindings/c/words.h"
#include "bindings/c/world.h"

namespace lsched {
namespace {

/// Returns the memory space of a buffer. Returns ARGUMENT for device memory if no device is attached.
result<memory_space> space_of(const lsched_world& world, const std::byte* memory, std::uint64_t bytes) {
  if (device* const gpu = world.process.gpu()) return gpu->memory().space_of(memory, bytes);
  if (is_gpu_memory(memory, bytes)) return argument("the buffer is in device memory: call lsched_cuda_attach first");
  return memory_space::host;
}

}  // namespace

result<binding> read_pointers(const schedule& program, const void* const* inputs, void* const* outputs) {
  binding memory;
  for (const buffer& data : program.buffers()) {
    if (data.role == buffer_role::scratch) continue;
    const bool is_input = data.role == buffer_role::input;
    const void* const* const places = is_input ? inputs : outputs;
    const std::size_t i = is_input ? memory.inputs.size() : memory.outputs.size();
    const void* const place = places == nullptr ? nullptr : places[i];
    if (place == nullptr && data.count > 0)
      return failure{status::argument, (is_input ? "input " : "output ") + std::to_string(i) +
                                           " is null, but has elements: pass its memory"};
    if (is_input)
      memory.inputs.push_back(static_cast<const std::byte*>(place));
    else
      memory.outputs.push_back(static_cast<std::byte*>(const_cast<void*>(place)));
  }
  return memory;
}

result<creation> bind_program(std::string agreement, result<schedule_ptr> program, const void* const* inputs,
                              void* const* outputs) {
  if (!program) return program.error();
  auto memory = read_pointers(**program, inputs, outputs);
  if (!memory) return memory.error();
  const memory_layout layout = layout_of(**program, *memory);
  if (auto why = layout.words_for_misfit(**program, *memory)) return failure{status::argument, std::move(*why)};
  return creation{{std::move(agreement), std::move(program), std::move(*memory)}, {.layout = layout}};
}

result<caller_spaces> spaces_of(const lsched_world& world, const schedule& program, const binding& memory) {
  caller_spaces all;
  for (const buffer& data : program.buffers()) {
    if (data.role == buffer_role::scratch) continue;
    const bool is_input = data.role == buffer_role::input;
    std::vector<memory_space>& spaces = is_input ? all.inputs : all.outputs;
    const std::size_t i = spaces.size();
    const auto space = space_of(world, is_input ? memory.inputs[i] : memory.outputs[i], data.bytes());
    if (!space) {
      failure why = space.error();
      why.text = (is_input ? "input " : "output ") + std::to_string(i) + ": " + why.text;
      return why;
    }
    spaces.push_back(*space);
  }
  return all;
}

// This function may be called for every round, so it makes no system call, and uses a GPU driver only if a driver is
// loaded.
result<binding> read_next_memory(const lsched_schedule& schedule, const void* const* inputs, void* const* outputs) {
  const lsched::schedule& program = *schedule.instance->program;
  auto memory = read_pointers(program, inputs, outputs);
  if (!memory) return memory;
  if (auto why = schedule.extras.layout.words_for_misfit(program, *memory)) return argument(std::move(*why));
  std::size_t next_input = 0, next_output = 0;
  for (const buffer& data : program.buffers()) {
    if (data.role == buffer_role::scratch) continue;
    const std::byte* const place =
        data.role == buffer_role::input ? memory->inputs[next_input++] : memory->outputs[next_output++];
    const bool wants_device = data.space == memory_space::device;
    if (data.bytes() == 0 || (!wants_device && !is_on_device(place))) continue;
    const auto space = space_of(*schedule.world, place, data.bytes());
    if (!space) return space.error();
    if (*space != data.space)
      return argument("a buffer is in " + std::string(name_of(*space)) + " memory, but the schedule was created for " +
                      std::string(name_of(data.space)) + " memory: create a schedule for the new memory");
  }
  return memory;
}

std::optional<failure> first_on_device(std::initializer_list<named_array> arrays) {
  for (const named_array& one : arrays)
    if (one.place != nullptr && is_gpu_memory(one.place, 1))
      return argument(std::string(one.name) +
                      " is in device memory, but the host reads this array: pass an array in host memory");
  return std::nullopt;
}

result<schedule_ptr> placed_in_memory(const lsched_world& world, const schedule_ptr& program,
                                      const commit_request& request) {
  const binding& memory = request.memory;
  if (program->is_partial() || memory.inputs.size() + memory.outputs.size() == 0) return program;
  auto spaces = spaces_of(world, *program, memory);
  if (!spaces) return spaces.error();
  spaces->has_device_functions = request.options.local != nullptr && request.options.local->use_devices();
  if (world.process.gpu() != nullptr)
    world.process.driver().with_engine(
        [&] { spaces->reads_peers = world.process.engine().reads_device_memory_of(world.joined.members().homes()); });
  return placed(program, *spaces);
}

}  // namespace lsched
