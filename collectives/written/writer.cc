#include "collectives/written/writer.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "collectives/patterns/blocks.h"
#include "collectives/patterns/ordered_ops.h"
#include "ops/counted.h"

namespace lsched::written {
namespace {

constexpr std::int64_t k_most_chunks = 1 << 16;
constexpr std::int64_t k_most_channels = 1024;
constexpr std::uint32_t k_most_messages = 1 << 20;  ///< maximum for a channel from one rank to another
constexpr std::uint32_t k_most_statements = 1 << 22;
constexpr std::uint64_t k_most_touched = 1 << 24;  ///< maximum number of chunks that all statements of a rank access

/// The location of the chunks of a vector.
struct layout {
  buffer_id buffer = k_no_buffer;
  std::uint32_t cell = 0;
  std::vector<std::uint64_t> begins{};  ///< offset of each chunk, and then the end of the last chunk; in elements
  std::int64_t chunks() const { return static_cast<std::int64_t>(begins.size()) - 1; }
};

/// Executes the statements for one rank.
class written_part : ordered_part {
  using rank_call::to_;

 public:
  written_part(const algorithm_text& how, builder& to, const shape& data, buffer_id input, buffer_id output,
               op_id entry)
      : ordered_part(to, data, input, output, entry), how_(how), names_{"P", "r", "root"}, values_(how.variables) {
    values_.resize(std::max(values_.size(), k_first_of_text));
    values_[k_ranks] = size();
    values_[k_self] = self();
    values_[k_root] = data.root;
  }

  fragment write() {
    if (!count_chunks()) return {};
    lay_out();
    names_.resize(values_.size());
    if (!is_refused_) run(how_.body);
    to_.set_line(0);
    return is_refused_ ? fragment{} : finish(how_.is_holding);
  }

 private:
  // --- errors ----------------------------------------------------------------------------------------------

  void refuse(std::size_t at, failure why) {
    std::string where = "with";
    for (std::size_t i = 0; i < known_; ++i)
      if (i != k_root || how_.of->is_rooted)
        where += (i == 0 ? " " : ", ") + names_[i] + " = " + std::to_string(values_[i]);
    why.text = where + ": " + why.text;
    is_refused_ = true;
    to_.refuse(how_.refused(at, std::move(why)));
  }
  void refuse(std::size_t at, std::string why) { refuse(at, failure{status::argument, std::move(why)}); }

  std::int64_t value(const expression& of) {
    if (is_refused_) return 0;
    const auto found = of.value(values_);
    if (found) return *found;
    refuse(of.at(), found.error());
    return 0;
  }

  // --- memory ----------------------------------------------------------------------------------------------

  bool count_chunks() {
    const auto chunks = chunks_of(how_, size(), data().root);
    if (!chunks) {
      to_.refuse(chunks.error());
      return false;
    }
    chunks_ = static_cast<std::uint64_t>(*chunks);
    if (how_.channels.exists()) channels_ = value(how_.channels);
    if (!is_refused_ && (channels_ < 1 || channels_ > k_most_channels))
      refuse(how_.channels.at(),
             "the algorithm has " + counted(channels_, "channel") + ": use 1 to " + std::to_string(k_most_channels));
    return !is_refused_;
  }

  void append_block(std::vector<std::uint64_t>& begins, std::uint64_t count) const {
    const std::uint64_t begin = begins.back();
    const cut parts = has_equal_chunks(how_) ? cut(count, chunks_, 1) : cut_into_blocks(data(), count, chunks_);
    for (std::uint64_t i = 1; i <= chunks_; ++i) begins.push_back(begin + parts.begin(i));
  }

  /// Returns the offsets of the chunks of an input or output with content `what`, even on ranks without such a buffer.
  std::vector<std::uint64_t> begins_of(content what) const {
    std::vector<std::uint64_t> begins{0};
    if (what == content::vector) append_block(begins, count());
    if (what == content::own_block) append_block(begins, block_count(data(), self()));
    if (what == content::all_blocks)
      for (rank r = 0; r < size(); ++r) append_block(begins, block_count(data(), r));
    return begins;
  }

  std::vector<std::uint64_t> begins_of(const written::scratch& declared) {
    if (!declared.count.exists()) return begins_of(declared.like == k_in ? how_.of->input.of : how_.of->output.of);
    const std::int64_t chunks = value(declared.count);
    if (chunks < 0 || chunks > k_most_chunks)
      refuse(declared.at, "the scratch vector has " + counted(chunks, "chunk") + ": use 0 to 65536");
    std::vector<std::uint64_t> begins(is_refused_ ? 1 : static_cast<std::size_t>(chunks) + 1);
    for (std::size_t i = 0; i < begins.size(); ++i) begins[i] = i * (count() / chunks_);
    return begins;
  }

  /// If the collective runs in place, chunks of input and output that share memory also share cells. The shift between
  /// the cells of input and output does not depend on the count, and is computed for a count of 1.
  void lay_out() {
    vectors_.resize(k_scratch + how_.scratches.size());
    layout& in = vectors_[k_in];
    layout& out = vectors_[k_out];
    in = {.buffer = input(), .begins = begins_of(how_.of->input.of)};
    out = {.buffer = output(), .begins = begins_of(how_.of->output.of)};
    for (std::size_t i = 0; i < how_.scratches.size(); ++i)
      vectors_[k_scratch + i].begins = begins_of(how_.scratches[i]);
    if (!in_place()) {
      in.cell = new_cells(wide_of(in));
      out.cell = new_cells(wide_of(out));
      return;
    }
    shape ones{.count = 1, .root = data().root};
    if (how_.of->has_counts) ones.counts.assign(wide(size()), 1);
    const std::int64_t shift = how_.of->aliasing_of(to_.place(), ones) * static_cast<std::int64_t>(chunks_);
    const std::uint32_t first = new_cells(std::max(wide_of(in), wide_of(out)));
    in.cell = first + static_cast<std::uint32_t>(std::max<std::int64_t>(shift, 0));
    out.cell = first + static_cast<std::uint32_t>(std::max<std::int64_t>(-shift, 0));
  }
  static std::uint64_t wide_of(const layout& vector) { return vector.begins.size() - 1; }

  /// Returns a vector. Scratch vectors are allocated when they are first used.
  const layout& vector_at(std::size_t number) {
    layout& vector = vectors_[number];
    if (number < k_scratch || vector.buffer != k_no_buffer || is_refused_) return vector;
    const stretch made = scratch(vector.begins.back(), wide_of(vector));
    vector.buffer = made.at.buffer();
    vector.cell = made.cell;
    return vector;
  }

  std::string name_of(std::size_t vector) const {
    if (vector < k_scratch) return vector == k_in ? "in" : "out";
    return how_.scratches[vector - k_scratch].name;
  }

  stretch stretch_of(const chunks& place) {
    const layout& vector = vector_at(place.vector);
    if (!is_refused_ && vector.buffer == k_no_buffer)
      refuse(place.at, "this rank has no '" + name_of(place.vector) + "' in a " + std::string(how_.of->name));
    const std::int64_t first = place.first.exists() ? value(place.first) : 0;
    const std::int64_t last = place.last.exists()    ? value(place.last)
                              : place.first.exists() ? first
                                                     : vector.chunks() - 1;
    if (is_refused_) return {};
    if (first < 0 || last >= vector.chunks() || last < first) {
      const std::string range = std::to_string(first) + (place.last.exists() ? " .. " + std::to_string(last) : "");
      refuse(place.at, name_of(place.vector) + "[" + range + "] does not exist: " + name_of(place.vector) + " has " +
                           counted(vector.chunks(), "chunk"));
      return {};
    }
    touched_ += static_cast<std::uint64_t>(last - first) + 1;
    if (touched_ > k_most_touched) {
      refuse(place.at, "the statements read and write more than " + std::to_string(k_most_touched) + " chunks");
      return {};
    }
    const auto begin = vector.begins[static_cast<std::size_t>(first)];
    return {{vector.buffer, begin},
            vector.begins[static_cast<std::size_t>(last) + 1] - begin,
            vector.cell + static_cast<std::uint32_t>(first),
            static_cast<std::uint32_t>(last - first + 1)};
  }

  // --- messages --------------------------------------------------------------------------------------------

  struct edge {
    rank peer = k_no_rank;
    std::uint32_t tag = 0;
  };

  /// Returns the edge (peer and tag) of a message. Sends and receives of one channel between two ranks match in the
  /// order of their statements.
  edge next_message(const message& one, bool is_out) {
    const std::int64_t peer = value(one.peer);
    const std::int64_t channel = one.channel.exists() ? value(one.channel) : 0;
    if (is_refused_) return {};
    if (peer < 0 || peer >= size() || peer == self())
      refuse(one.peer.at(), "rank " + std::to_string(peer) +
                                (peer == self() ? " is this rank: a rank cannot be its own peer" : " does not exist"));
    else if (channel < 0 || channel >= channels_)
      refuse(one.channel.at(),
             "there is no channel " + std::to_string(channel) + ": 'channels' sets the number of channels");
    if (is_refused_) return {};
    const auto to = static_cast<rank>(peer);
    std::uint32_t& number = messages_[{is_out, to, static_cast<std::uint32_t>(channel)}];
    if (number == k_most_messages)
      refuse(one.peer.at(), "there are more than " + std::to_string(k_most_messages) + " messages to rank " +
                                std::to_string(peer) + " in a channel");
    return {to, number++ * static_cast<std::uint32_t>(channels_) + static_cast<std::uint32_t>(channel)};
  }

  /// Returns an operand. If the operand is a message, receives the message into scratch memory.
  stretch operand_at(const operand& of, const stretch& target) {
    if (!of.from.exists()) return stretch_of(of.place);
    const edge from = next_message(of.from, false);
    if (is_refused_) return {};
    const stretch arrived = landing(target.count, longest());
    recv(from.peer, from.tag, arrived);
    return arrived;
  }

  /// Returns the length of a landing buffer that is reused (ordered_ops::landing). Such a buffer must have capacity for
  /// every message.
  std::uint64_t longest() const {
    std::uint64_t longest = 0;
    for (const layout& vector : vectors_)
      if (!vector.begins.empty()) longest = std::max(longest, vector.begins.back());
    return longest;
  }

  // --- statements ------------------------------------------------------------------------------------------

  void run(const std::vector<statement>& all) {
    const std::size_t known = known_;
    for (const statement& one : all) {
      if (is_refused_) return;
      if (++statements_ > k_most_statements)
        return refuse(one.at, "there are more statements than a schedule can have");
      to_.set_line(one.line);
      run(one);
    }
    known_ = known;
  }

  void run(const statement& one) {
    switch (one.what) {
      case statement::kind::send: return send_chunks(one);
      case statement::kind::receive: return receive_chunks(one);
      case statement::kind::copy: return copy_chunks(one);
      case statement::kind::combine: return combine(one);
      case statement::kind::let: return set(one, value(one.values.front()));
      case statement::kind::loop: return loop(one);
      case statement::kind::branch: return run(value(one.values.front()) != 0 ? one.body : one.rest);
    }
  }

  void send_chunks(const statement& one) {
    const stretch source = stretch_of(one.target);
    const edge to = next_message(one.to, true);
    if (!is_refused_) send(to.peer, to.tag, source);
  }

  void receive_chunks(const statement& one) {
    const stretch target = stretch_of(one.target);
    const edge from = next_message(one.operands.front().from, false);
    if (!is_refused_) recv(from.peer, from.tag, target);
  }

  bool fits(const statement& one, const stretch& source, const stretch& target) {
    if (!is_refused_ && source.count != target.count)
      refuse(one.at, "the target has " + counted(target.count, "element") + ", but an operand has " +
                         std::to_string(source.count));
    return !is_refused_;
  }

  void copy_chunks(const statement& one) {
    const stretch target = stretch_of(one.target);
    const stretch source = operand_at(one.operands.front(), target);
    if (fits(one, source, target) && source.cell != target.cell) copy(source, target);  // equal cells: the same memory
  }

  void combine(const statement& one) {
    const stretch target = stretch_of(one.target);
    const stretch lower = operand_at(one.operands[0], target);
    const stretch higher = operand_at(one.operands[1], target);
    if (fits(one, lower, target) && fits(one, higher, target)) reduce(lower, higher, target);
  }

  void set(const statement& one, std::int64_t to) {
    names_[one.variable] = one.name;
    values_[one.variable] = to;
    known_ = std::max(known_, one.variable + 1);
  }

  void loop(const statement& one) {
    const std::int64_t first = value(one.values[0]), last = value(one.values[1]), step = value(one.values[2]);
    if (!is_refused_ && step == 0) refuse(one.values[2].at(), "the step of the loop is 0, so the loop would never end");
    const std::size_t known = known_;
    for (std::int64_t i = first; !is_refused_ && (step > 0 ? i <= last : i >= last);) {
      set(one, i);
      run(one.body);
      if (__builtin_add_overflow(i, step, &i)) break;
      if (++statements_ > k_most_statements) refuse(one.at, "this loop has more rounds than a schedule can have ops");
    }
    known_ = known;
  }

  const algorithm_text& how_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> values_;
  std::size_t known_ = k_first_of_text;  ///< number of variables in scope, for error texts
  std::uint64_t chunks_ = 1;
  std::int64_t channels_ = 1;
  std::vector<layout> vectors_{};
  std::map<std::tuple<bool, rank, std::uint32_t>, std::uint32_t> messages_{};
  std::uint32_t statements_ = 0;
  std::uint64_t touched_ = 0;
  bool is_refused_ = false;
};

}  // namespace

bool has_equal_chunks(const algorithm_text& how) {
  return std::ranges::any_of(how.scratches, [](const scratch& one) { return one.count.exists(); });
}

result<std::int64_t> chunks_of(const algorithm_text& how, rank size, rank root) {
  if (!how.chunks.exists()) return std::int64_t{1};
  const std::array<std::int64_t, k_first_of_text> values{size, 0, root};
  const auto chunks = how.chunks.value(values);
  const auto wrong = [&](failure why) {
    why.text = "with P = " + std::to_string(size) + ": " + why.text;
    return how.refused(how.chunks.at(), std::move(why));
  };
  if (!chunks) return wrong(chunks.error());
  if (*chunks < 1 || *chunks > k_most_chunks)
    return wrong({status::constraint,
                  "the algorithm has " + counted(*chunks, "chunk") + ": use 1 to " + std::to_string(k_most_chunks)});
  return chunks;
}

fragment write(const algorithm_text& how, builder& to, const shape& data, buffer_id input, buffer_id output,
               op_id entry) {
  return written_part(how, to, data, input, output, entry).write();
}

}  // namespace lsched::written
