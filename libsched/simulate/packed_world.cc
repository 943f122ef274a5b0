#include "libsched/simulate/packed_world.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <tuple>

#include "libsched/schedule/draw.h"
#include "libsched/schedule/round.h"
#include "libsched/simulate/simulated_round.h"

namespace lsched {
namespace {

constexpr std::size_t k_most_ops = std::size_t{1} << 29;

constexpr std::uint8_t bit(column_form form) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(form)); }
constexpr std::array k_expressions{column_form::same, column_form::across, column_form::ahead};

/// Returns a hash of a schedule's shape (packed_world.h).
std::uint64_t hash_of_shape(const schedule& program) {
  std::uint64_t hash = mix(program.ops().size()) ^ program.exit();
  for (op_id id = 0; id < program.ops().size(); ++id) {
    const op& what = program.ops()[id];
    hash =
        mix(hash ^ (std::uint64_t{what.need} << 16 | std::uint64_t{what.guard} << 8 |
                    std::uint64_t{is_call(what, program.place().self)} << 7 | static_cast<std::uint64_t>(what.kind)));
    for (const op_id next : program.successors(id)) hash = hash * 0x9e3779b97f4a7c15u + next;
  }
  return hash;
}

bool have_one_shape(const schedule& x, const schedule& y) {
  const auto same_op = [&](const op& a, const op& b) {
    return a.kind == b.kind && a.need == b.need && a.guard == b.guard &&
           is_call(a, x.place().self) == is_call(b, y.place().self);
  };
  if (!std::ranges::equal(x.ops(), y.ops(), same_op) || !std::ranges::equal(x.guards(), y.guards()) ||
      x.exit() != y.exit() || x.starts() != y.starts() || x.dep_count() != y.dep_count())
    return false;
  for (op_id id = 0; id < x.ops().size(); ++id)
    if (!std::ranges::equal(x.successors(id), y.successors(id))) return false;
  return true;
}

std::uint64_t bytes_of_op(const schedule& program, const op& what) {
  return is_signal(what.kind) ? k_signal_bytes : typical_bytes(program, what);
}

std::uint64_t key_of(op_kind kind, std::uint32_t tag, const rank_column& peer) {
  return mix(std::uint64_t{tag} << 32 | peer.value) + static_cast<std::uint64_t>(kind) * 4 +
         static_cast<std::uint64_t>(peer.form);
}

/// Returns the key of a communication op: kind, tag and peer. No two ops of a rank have the same key.
std::tuple<op_kind, std::uint32_t, rank> key_in(const packed_world& world, const packed_shape& shape, rank self,
                                                std::uint32_t index, op_id id) {
  const packed_op& op = shape.ops()[id];
  return {op.kind, packed_world::tag_of(shape, op, index), world.peer_of(shape, op, self, index)};
}

template <class T>
std::size_t bytes_held(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

std::size_t bytes_held(const schedule& program) {
  return sizeof(schedule) + program.name().size() + program.ops().size() * (sizeof(op) + sizeof(std::uint32_t)) +
         (program.dep_count() + program.roots().size()) * sizeof(op_id) + program.buffers().size() * sizeof(buffer) +
         program.guards().size() * sizeof(guard);
}

}  // namespace

packed_world::packed_world(rank size) : size_(size), folded_(std::max<rank>(size, 1)) {
  members_.reserve(static_cast<std::size_t>(size));
}

std::optional<failure> packed_world::add(const schedule_ptr& next) {
  if (next->place() != world{static_cast<rank>(members_.size()), size_})
    return failure{status::argument, "schedule " + std::to_string(members_.size()) + " is not for rank " +
                                         std::to_string(members_.size()) + " of " + std::to_string(size_) +
                                         ": give the schedules of all ranks in rank order"};
  if (next->ops().size() > k_most_ops)
    return failure{status::unsupported, "the schedule of this rank has more than 2^29 ops, the limit of the simulator",
                   next->place().self};
  const std::uint64_t hash = hash_of_shape(*next);
  const auto [begin, end] = shapes_by_hash_.equal_range(hash);
  const auto found =
      std::find_if(begin, end, [&](const auto& entry) { return have_one_shape(*shapes_[entry.second].first_, *next); });
  if (found == end) {
    begin_shape(next, hash);
    return std::nullopt;
  }
  members_.push_back({found->second, static_cast<std::uint32_t>(shapes_[found->second].ranks_)});
  join(*next);
  return std::nullopt;
}

std::optional<failure> packed_world::finish() {
  if (size_ < 1) return failure{status::argument, "the world has no ranks: a simulation needs at least one rank"};
  if (members_.size() != static_cast<std::size_t>(size_))
    return failure{status::argument, "rank " + std::to_string(members_.size()) + " has no schedule"};
  for (packed_shape& shape : shapes_) settle(shape);
  for (rank r = 0; r < size_; ++r) sort_others(r);
  return std::nullopt;
}

result<packed_world> packed_world::of(rank size, const std::function<result<schedule_ptr>(world)>& generate) {
  packed_world all(size);
  for (rank r = 0; r < size; ++r) {
    const auto program = generate({r, size});
    if (!program) return program.error();
    if (auto why = all.add(*program)) return std::move(*why);
  }
  if (auto why = all.finish()) return std::move(*why);
  return all;
}

result<packed_world> packed_world::of(std::span<const schedule_ptr> ranks) {
  return of(static_cast<rank>(ranks.size()), [&](world place) { return ranks[static_cast<std::size_t>(place.self)]; });
}

// --- columns -------------------------------------------------------------------------------------------------

/// Returns the expression of form `form` that maps rank `self` to `peer`. Callers must check the result with peer_by,
/// because the result is wrong if no expression of this form exists.
rank_column packed_world::peer_as(column_form form, rank self, rank peer) const {
  const rank across = folded_.virtual_of(self) ^ folded_.virtual_of(peer), ahead = ring_before(peer, self, size_);
  const rank value = form == column_form::across ? across : form == column_form::ahead ? ahead : peer;
  return {.value = static_cast<std::uint32_t>(value), .form = form};
}

std::uint32_t packed_world::number_of(std::uint64_t bytes) {
  const auto [found, is_new] = number_of_size_.try_emplace(bytes, static_cast<std::uint32_t>(sizes_.size()));
  if (is_new) sizes_.push_back(bytes);
  return found->second;
}

void packed_world::begin_shape(const schedule_ptr& first, std::uint64_t hash) {
  const auto number = static_cast<std::uint32_t>(shapes_.size());
  const rank self = first->place().self;
  shapes_by_hash_.emplace(hash, number);
  members_.push_back({number, 0});
  packed_shape& shape = shapes_.emplace_back();
  shape.first_ = first;
  shape.ranks_ = 1;
  shape.ops_.resize(first->ops().size());
  for (op_id id = 0; id < shape.ops_.size(); ++id) {
    const op& what = first->ops()[id];
    packed_op& packed = shape.ops_[id];
    packed.need = what.need;
    packed.kind = what.kind;
    packed.guard = what.guard;
    packed.tag = {.value = what.tag, .fits = bit(column_form::same)};
    const std::uint64_t bytes = bytes_of_op(*first, what);
    packed.size = {.value = number_of(bytes), .fits = bit(column_form::same)};
    if (what.kind == op_kind::send) longest_ = std::max(longest_, bytes);
    if (is_communication(what.kind))
      for (const column_form form : k_expressions)
        if (peer_by(peer_as(form, self, what.peer), self) == what.peer) packed.peer.fits |= bit(form);
    for (const op_id next : first->successors(id)) ++shape.ops_[next].in_degree;
    if (is_call(what, self)) shape.calls_.push_back(id);
  }
}

/// Adds `next`, the schedule of the rank that was added last, to the columns of its shape.
void packed_world::join(const schedule& next) {
  packed_shape& shape = shapes_[members_.back().shape];
  const rank self = next.place().self;
  for (op_id id = 0; id < shape.ops_.size(); ++id) {
    const op& what = next.ops()[id];
    packed_op& packed = shape.ops_[id];
    const std::uint64_t bytes = bytes_of_op(next, what);
    if (is_communication(what.kind)) join_peers(packed.peer, shape.first_->ops()[id], self, what.peer);
    join_numbers(packed.tag, what.tag);
    // On most ranks, the op has the same size as on the first rank. The index of that size is known without a search.
    join_numbers(packed.size,
                 packed.size.fits != 0 && bytes == sizes_[packed.size.value] ? packed.size.value : number_of(bytes));
    if (what.kind == op_kind::send) longest_ = std::max(longest_, bytes);
  }
  ++shape.ranks_;
}

void packed_world::join_peers(rank_column& column, const op& first, rank self, rank peer) {
  packed_shape& shape = shapes_[members_.back().shape];
  if (column.fits == 0) return shape.tables_[column.value].push_back(static_cast<std::uint32_t>(peer));
  const std::uint8_t before = column.fits;
  for (const column_form form : k_expressions)
    if ((column.fits & bit(form)) != 0 && peer_by(peer_as(form, shape.first_->place().self, first.peer), self) != peer)
      column.fits = static_cast<std::uint8_t>(column.fits & ~bit(form));
  if (column.fits != 0) return;
  const column_form form =
      *std::ranges::find_if(k_expressions, [&](column_form one) { return (before & bit(one)) != 0; });
  const rank_column fitted = peer_as(form, shape.first_->place().self, first.peer);
  tabulate(
      column, [&](rank r) { return static_cast<std::uint32_t>(peer_by(fitted, r)); }, static_cast<std::uint32_t>(peer));
}

void packed_world::join_numbers(rank_column& column, std::uint32_t number) {
  if (column.fits == 0) return shapes_[members_.back().shape].tables_[column.value].push_back(number);
  if (column.value == number) return;
  const std::uint32_t others = column.value;
  tabulate(
      column, [&](rank) { return others; }, number);
}

template <class Earlier>
void packed_world::tabulate(rank_column& column, const Earlier& earlier, std::uint32_t next) {
  packed_shape& shape = shapes_[members_.back().shape];
  std::vector<std::uint32_t> table;
  for (rank r = 0; table.size() < shape.ranks_; ++r)
    if (member(r).shape == members_.back().shape) table.push_back(earlier(r));
  table.push_back(next);
  column = {.value = static_cast<std::uint32_t>(shape.tables_.size()), .form = column_form::table};
  shape.tables_.push_back(std::move(table));
}

/// Chooses the form of each column, and fills the hash table of communication ops.
void packed_world::settle(packed_shape& shape) const {
  const rank self = shape.first_->place().self;
  std::size_t places = 1;
  for (std::vector<std::uint32_t>& table : shape.tables_) table.shrink_to_fit();
  for (op_id id = 0; id < shape.ops_.size(); ++id) {
    packed_op& packed = shape.ops_[id];
    if (!is_communication(packed.kind)) continue;
    if (packed.peer.fits != 0) {
      const column_form form =
          *std::ranges::find_if(k_expressions, [&](column_form one) { return (packed.peer.fits & bit(one)) != 0; });
      packed.peer = peer_as(form, self, shape.first_->ops()[id].peer);
    }
    places += 2;
  }
  shape.found_by_.assign(std::bit_ceil(places), k_no_op);
  for (op_id id = 0; id < shape.ops_.size(); ++id) {
    const packed_op& packed = shape.ops_[id];
    if (!has_edge(shape.first_->ops()[id], self)) continue;
    if (packed.tag.form == column_form::table || packed.peer.form == column_form::table) {
      shape.others_.push_back(id);
      continue;
    }
    shape.forms_ |= bit(packed.peer.form);
    std::size_t place = key_of(packed.kind, packed.tag.value, packed.peer) & (shape.found_by_.size() - 1);
    while (shape.found_by_[place] != k_no_op) place = (place + 1) & (shape.found_by_.size() - 1);
    shape.found_by_[place] = id;
  }
  shape.other_count_ = shape.others_.size();
  shape.others_.resize(shape.other_count_ * shape.ranks_);
  shape.others_.shrink_to_fit();
}

/// Sorts the communication ops of a rank that are not in the hash table.
void packed_world::sort_others(rank r) {
  const auto [number, index] = member(r);
  packed_shape& shape = shapes_[number];
  const auto first = shape.others_.begin(), begin = first + static_cast<std::ptrdiff_t>(index * shape.other_count_),
             end = begin + static_cast<std::ptrdiff_t>(shape.other_count_);
  if (index != 0) std::copy_n(first, shape.other_count_, begin);
  std::sort(begin, end, [&, its = index](op_id x, op_id y) {
    return key_in(*this, shape, r, its, x) < key_in(*this, shape, r, its, y);
  });
}

op_id packed_world::find(rank who, op_kind kind, rank peer, std::uint32_t tag) const {
  const auto [number, index] = member(who);
  const packed_shape& shape = shapes_[number];
  for (const column_form form : k_expressions) {
    if ((shape.forms_ & bit(form)) == 0) continue;
    const rank_column wanted = peer_as(form, who, peer);
    std::size_t place = key_of(kind, tag, wanted) & (shape.found_by_.size() - 1);
    for (; shape.found_by_[place] != k_no_op; place = (place + 1) & (shape.found_by_.size() - 1)) {
      const packed_op& packed = shape.ops_[shape.found_by_[place]];
      if (packed.kind == kind && packed.tag.value == tag && packed.peer.form == form &&
          packed.peer.value == wanted.value && peer_of(shape, packed, who, index) == peer)
        return shape.found_by_[place];
    }
  }
  const std::tuple wanted(kind, tag, peer);
  const auto begin = shape.others_.begin() + static_cast<std::ptrdiff_t>(index * shape.other_count_),
             end = begin + static_cast<std::ptrdiff_t>(shape.other_count_);
  const auto found = std::partition_point(
      begin, end, [&, its = index](op_id id) { return key_in(*this, shape, who, its, id) < wanted; });
  return found != end && key_in(*this, shape, who, index, *found) == wanted ? *found : k_no_op;
}

std::size_t packed_world::memory() const {
  std::size_t all = sizeof(*this) + bytes_held(members_) + bytes_held(sizes_) + bytes_held(shapes_);
  for (const packed_shape& shape : shapes_) {
    all += bytes_held(*shape.first_) + bytes_held(shape.ops_) + bytes_held(shape.found_by_) + bytes_held(shape.others_);
    for (const auto& table : shape.tables_) all += bytes_held(table);
  }
  return all;
}

}  // namespace lsched
