// Scan and exscan, in rank order.
//
//   recursive_doubling   step k: rank r sends its sum over ranks r-2^k+1 … r to rank r+2^k           ceil(log2 P) steps
//                        (simultaneous binomial trees: Hillis and Steele, 1986), for any P. A step has one reduction.
//                        In an exscan it has two, because an exscan must exclude the rank's own contribution
//   chain                rank r receives from r-1 and sends to r+1, segment by segment; ranks together send P-1 vectors
//
// In recursive doubling, ranks together send about P log2 P vectors, but the longest chain has only floor(log2 P) hops.
// The chain suits long vectors.
#include <array>

#include "collectives/patterns/ordered_ops.h"
#include "collectives/rooted/rooted.h"

namespace lsched {
namespace {

// --- recursive doubling --------------------------------------------------------------------------------------

/// The window of a rank is the interval of ranks whose contributions the rank has combined. Before step k, the window
/// ends with the rank itself. The window has 2^k ranks, or all ranks up to the rank itself if there are fewer than 2^k.
/// The fragment satisfies the conditions of builder::declare_holding: besides receives, the reader of a payload waits
/// only for sends of earlier steps to higher ranks. Such waits never form a cycle.
class doubling : ordered_part {
 public:
  using ordered_part::ordered_part;

  fragment write_scan() {
    begin();
    for (int k = 0; k < steps(); ++k) {
      tell(k);
      if (!hears(k)) continue;
      const stretch lower = receive(self() - distance(k), tag(k), count());
      const stretch wider = hears(k + 1) ? accumulator(k) : result_;
      reduce(lower, window_, wider);
      window_ = wider;
    }
    if (!hears(0)) copy_alone(window_, result_);
    return finish(true);
  }

  /// `before` is the sum over the window without this rank. The sum that includes this rank is computed only if a later
  /// step sends it.
  fragment write_exscan() {
    begin();
    const stretch own = window_, before = hears(0) && in_place() ? scratch(count()) : result_;
    for (int k = 0; k < steps(); ++k) {
      tell(k);
      if (!hears(k)) continue;
      if (k == 0)
        recv(self() - distance(k), tag(k), before);
      else
        reduce(receive(self() - distance(k), tag(k), count()), before, before);
      if (!tells(k + 1)) continue;
      window_ = accumulator(k);
      reduce(before, own, window_);
    }
    if (hears(0) && in_place()) copy(before, result_);
    return finish(true);
  }

 private:
  void begin() {
    set_blocks({0, count()});
    window_ = in_input({0, 1});
    result_ = in_output({0, 1});
  }

  int steps() const { return ceil_log2(size()); }
  rank distance(int k) const { return rank{1} << k; }
  bool hears(int k) const { return k < steps() && self() >= distance(k); }
  bool tells(int k) const { return k < steps() && self() < size() - distance(k); }
  static std::uint32_t tag(int k) { return static_cast<std::uint32_t>(k); }

  void tell(int k) {
    if (tells(k)) send(self() + distance(k), tag(k), window_);
  }

  /// Returns one of two accumulators, which alternate. Step k reuses the target of step k-2, which may still be the
  /// source of a send.
  stretch accumulator(int k) {
    stretch& chosen = accumulators_[wide(k % 2)];
    if (chosen.cells == 0) chosen = scratch(count());
    return chosen;
  }

  stretch window_{}, result_{};
  std::array<stretch, 2> accumulators_{{{.cells = 0}, {.cells = 0}}};
};

// Hops: each hop adds a different power of two to the rank, so a chain to rank r has at most one hop for each bit of r.
cost cost_of_doubling(rank size, const shape& data) {
  std::uint64_t messages = 0;
  for (int k = 0; k < ceil_log2(size); ++k) messages += wide(size) - (std::uint64_t{1} << k);
  return cost_of_messages(messages, data.count, data, static_cast<std::uint64_t>(floor_log2(size)));
}

// --- chain ---------------------------------------------------------------------------------------------------

class chain : rank_part {
 public:
  using rank_part::rank_part;

  fragment write_scan() {
    for (std::uint64_t i = 0; i < pieces_.number(); ++i) {
      if (is_first()) {
        pass_on(i, input(), k_no_op);
        continue;
      }
      const buffer_id landing = scratch(pieces_.length(i));
      const op_id got = receive(i, {landing, 0});
      const op_id sum = reduce({landing, 0}, piece(input(), i), piece(output(), i), pieces_.length(i), {got});
      pass_on(i, output(), sum);
    }
    if (is_first()) end_with_copy(count());
    return finish(true);
  }

  fragment write_exscan() {
    const bool is_between = !is_first() && !is_last() && pieces_.number() > 0;
    const buffer_id window = is_between ? scratch(count()) : input();
    for (std::uint64_t i = 0; i < pieces_.number(); ++i) {
      if (is_first())
        pass_on(i, input(), k_no_op);
      else if (is_last())
        end(receive(i, piece(output(), i)));
      else
        widen(i, window);
    }
    return finish(true);
  }

 private:
  bool is_first() const { return self() == 0; }
  bool is_last() const { return self() == size() - 1; }
  region piece(buffer_id of, std::uint64_t i) const { return {of, pieces_.begin(i)}; }

  op_id receive(std::uint64_t i, region target) { return recv(self() - 1, tag_of_piece(i), target, pieces_.length(i)); }

  void pass_on(std::uint64_t i, buffer_id from, op_id made) {
    if (is_last()) return end(made);
    end(send(self() + 1, tag_of_piece(i), piece(from, i), pieces_.length(i), {made}));
  }

  /// Combines piece i with the piece from the previous rank. In place, that piece is received into scratch memory.
  void widen(std::uint64_t i, buffer_id window) {
    const std::uint64_t length = pieces_.length(i);
    const region before = in_place() ? region{scratch(length), 0} : piece(output(), i);
    const op_id got = receive(i, before);
    const op_id sum = reduce(before, piece(input(), i), piece(window, i), length, {got});
    pass_on(i, window, sum);
    if (in_place()) end(copy(before, piece(output(), i), length, {sum}));
  }

  const portions pieces_{count(), pieces_of(data(), count())};
};

cost cost_of_chain(rank size, const shape& data) {
  const std::uint64_t pieces = pieces_of(data, data.count);
  return {.messages = (wide(size) - 1) * pieces,
          .bytes = saturating_product(wide(size) - 1, bytes_of(data.count, data)),
          .hops = pieces == 0 ? 0 : wide(size) - 1};
}

template <class Writer, fragment (Writer::*write)()>
fragment add(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) {
  return (Writer(to, data, input, output, entry).*write)();
}

constexpr constraints k_doubling{.summary = "any P; log2 P steps with the entire vector; rank order"};
constexpr constraints k_chain{.summary = "any P; from rank to rank, in segments; rank order; for long vectors"};
constexpr tunables k_uses_segment{.segment = true};

}  // namespace

constinit const algorithm k_scan_recursive_doubling{&k_scan, "recursive_doubling", add<doubling, &doubling::write_scan>,
                                                    k_doubling, cost_of_doubling};
constinit const algorithm k_exscan_recursive_doubling{
    &k_exscan, "recursive_doubling", add<doubling, &doubling::write_exscan>, k_doubling, cost_of_doubling};
constinit const algorithm k_scan_chain{&k_scan, "chain",       add<chain, &chain::write_scan>,
                                       k_chain, cost_of_chain, k_uses_segment};
constinit const algorithm k_exscan_chain{&k_exscan, "chain",       add<chain, &chain::write_exscan>,
                                         k_chain,   cost_of_chain, k_uses_segment};

}  // namespace lsched
