#include "bindings/cli/msccl/msccl.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>
#include <utility>
#include <vector>

#include "ops/counted.h"
#include "ops/number_text.h"

namespace lsched::cli {
namespace {

constexpr int k_most_moved = 1 << 22;  ///< maximum number of chunks that all steps together move
constexpr int k_most_gpus = 1024, k_most_blocks = 4096, k_most_chunks = 1 << 16, k_most_steps = 1 << 20;

enum class memory : char { input = 'i', output = 'o', scratch = 's' };

/// A range of `count` chunks of a buffer. Chunks are numbered as in the MSCCL program.
struct chunk_range {
  memory of = memory::input;
  int first = 0, count = 1;
};

struct step {
  std::string kind;
  chunk_range source, target;
  int dep_block = -1, dep_step = -1;
};

struct thread_block {
  int to = -1, from = -1, channel = 0;
  std::vector<step> steps{};
};

struct gpu {
  int scratch_chunks = 0;
  std::vector<thread_block> blocks{};
};

struct program {
  std::string name, collective;
  bool is_in_place = false;
  int chunks = 1;  ///< number of chunks of a vector or of a block
  std::vector<gpu> gpus{};
};

/// Parses a program. Keeps the first error, with its position.
class xml_reader {
 public:
  result<program> read(std::string_view text) {
    pugi::xml_document file;
    const auto parsed = file.load_buffer(text.data(), text.size());
    if (!parsed)
      return failure{status::argument,
                     "byte " + std::to_string(parsed.offset) + ": the file is not valid XML: " + parsed.description()};
    read_head(file.child("algo"));
    for (const pugi::xml_node node : file.child("algo").children("gpu")) read_gpu(node);
    if (error_) return *error_;
    return std::move(out_);
  }

 private:
  void fail(std::string why, status code = status::argument) {
    if (!error_) error_ = failure{code, place_ + std::move(why)};
  }

  int number(const pugi::xml_node& node, const char* name, int least, int most, std::optional<int> otherwise = {}) {
    const char* const word = node.attribute(name).value();
    if (*word == '\0' && otherwise) return *otherwise;
    const auto value = parse_number<int>(word);
    if (value && *value >= least && *value <= most) return *value;
    fail(std::string(name) + "=\"" + word + "\" is not a number from " + std::to_string(least) + " to " +
         std::to_string(most));
    return least;
  }

  void read_head(const pugi::xml_node& algo) {
    if (!algo) return fail("the element <algo> is missing");
    out_.name = algo.attribute("name").value();
    out_.collective = algo.attribute("coll").value();
    out_.is_in_place = number(algo, "inplace", 0, 1, 0) == 1;
    const int gpus = number(algo, "ngpus", 1, k_most_gpus);
    const int chunks = number(algo, "nchunksperloop", 1, k_most_chunks);
    constexpr std::array k_known{"allreduce", "allgather", "reduce_scatter", "alltoall"};
    if (out_.collective == "reducescatter") out_.collective = "reduce_scatter";  // a name of newer MSCCL
    if (std::ranges::find(k_known, out_.collective) == k_known.end())
      return fail(
          "the collective \"" + out_.collective + "\" is not one of allreduce, allgather, reduce_scatter, alltoall",
          status::unsupported);
    out_.chunks = out_.collective == "allreduce" ? chunks : chunks / gpus;
    if (out_.collective != "allreduce" && chunks % gpus != 0)
      fail("nchunksperloop=\"" + std::to_string(chunks) + "\" is not a multiple of ngpus=\"" + std::to_string(gpus) +
           "\"");
    out_.gpus.resize(static_cast<std::size_t>(gpus));
  }

  void read_gpu(const pugi::xml_node& node) {
    if (error_) return;
    place_.clear();
    const int id = number(node, "id", 0, static_cast<int>(out_.gpus.size()) - 1);
    place_ = "gpu " + std::to_string(id) + ": ";
    gpu& read = out_.gpus[static_cast<std::size_t>(id)];
    if (!read.blocks.empty()) fail("another <gpu> element has the same id");
    read.scratch_chunks = number(node, "s_chunks", 0, k_most_chunks, 0);
    std::set<std::pair<int, int>> out, in;
    std::set<int> ids;
    for (const pugi::xml_node block : node.children("tb")) {
      place_ = "gpu " + std::to_string(id) + ", thread block " + std::to_string(ids.size()) + ": ";
      const int place = number(block, "id", 0, k_most_blocks - 1, static_cast<int>(ids.size()));
      if (!ids.insert(place).second) fail("another thread block of this gpu has the same id");
      read.blocks.resize(std::max(read.blocks.size(), static_cast<std::size_t>(place) + 1));
      thread_block& made = read.blocks[static_cast<std::size_t>(place)];
      const std::string where = place_;
      read_block(block, made);
      if (error_) return;
      place_ = where;
      if ((made.to >= 0 && !out.emplace(made.to, made.channel).second) ||
          (made.from >= 0 && !in.emplace(made.from, made.channel).second))
        fail("another thread block of this gpu has the same peer and channel: set another chan");
    }
  }

  void read_block(const pugi::xml_node& node, thread_block& block) {
    const int last = static_cast<int>(out_.gpus.size()) - 1;
    block.to = number(node, "send", -1, last, -1);
    block.from = number(node, "recv", -1, last, -1);
    block.channel = number(node, "chan", 0, 255, 0);
    const std::string place = place_;
    std::vector<int> numbered;
    for (const pugi::xml_node each : node.children("step")) {
      if (error_) return;
      place_ = place + "step " + std::to_string(block.steps.size()) + ": ";
      if (++steps_ > k_most_steps) fail("the program has more than " + std::to_string(k_most_steps) + " steps");
      const int number_of_step = number(each, "s", 0, k_most_steps - 1, static_cast<int>(block.steps.size()));
      numbered.push_back(number_of_step);
      block.steps.push_back(read_step(each, block));
    }
    place_ = place;
    sort_by(numbered, block.steps);
  }

  /// Sorts steps by their numbers, which must be a permutation of 0, 1, 2, ….
  void sort_by(const std::vector<int>& numbered, std::vector<step>& steps) {
    std::vector<step> sorted(steps.size());
    std::vector<bool> is_there(steps.size());
    for (std::size_t i = 0; i < steps.size() && !error_; ++i) {
      const auto place = static_cast<std::size_t>(numbered[i]);
      if (place >= steps.size() || is_there[place])
        return fail("steps are not numbered from 0 to " + std::to_string(steps.size() - 1));
      is_there[place] = true;
      sorted[place] = std::move(steps[i]);
    }
    if (!error_) steps = std::move(sorted);
  }

  step read_step(const pugi::xml_node& node, const thread_block& block) {
    step made{.kind = node.attribute("type").value()};
    const int count = number(node, "cnt", 0, k_most_chunks, 1);
    made.source = range(node, "srcbuf", "srcoff", count);
    made.target = range(node, "dstbuf", "dstoff", count);
    made.dep_block = number(node, "depid", -1, k_most_steps, -1);
    made.dep_step = number(node, "deps", -1, k_most_steps, -1);
    constexpr std::array k_kinds{"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"};
    if (std::ranges::find(k_kinds, made.kind) == k_kinds.end())
      fail("unknown type \"" + made.kind + "\": use s, r, rcs, rrs, rrc, rrcs, cpy, re or nop");
    if (made.kind != "nop" && count == 0) fail("the step moves no chunk, because cnt is 0: set cnt to at least 1");
    if ((chunks_ += count) > k_most_moved)
      fail("the program moves more than " + std::to_string(k_most_moved) + " chunks");
    if (made.kind.front() == 'r' && made.kind != "re" && block.from < 0)
      fail("the step receives, but recv of the thread block is -1 (no peer)");
    if (made.kind.back() == 's' && block.to < 0) fail("the step sends, but send of the thread block is -1 (no peer)");
    return made;
  }

  chunk_range range(const pugi::xml_node& node, const char* buffer, const char* offset, int count) {
    const std::string_view word = node.attribute(buffer).value();
    const bool is_known = word.empty() || word == "i" || word == "o" || word == "s";
    if (!is_known) fail(std::string(buffer) + "=\"" + std::string(word) + "\" is not one of i, o, s");
    return {is_known && !word.empty() ? static_cast<memory>(word.front()) : memory::input,
            number(node, offset, -1, k_most_chunks, 0), count};
  }

  program out_;
  std::string place_;
  int steps_ = 0;
  int chunks_ = 0;  ///< number of chunks that the steps have moved so far
  std::optional<failure> error_{};
};

bool writes_input(const step& one) {
  constexpr std::array k_stores{"r", "rcs", "rrc", "rrcs", "cpy", "re"};
  return one.target.of == memory::input && std::ranges::find(k_stores, one.kind) != k_stores.end();
}

class algorithm_writer {
 public:
  explicit algorithm_writer(const program& from) : from_(from) {
    for (const gpu& each : from.gpus) {
      scratch_ = std::max(scratch_, each.scratch_chunks);
      int forwarded = 0;
      for (const thread_block& block : each.blocks) {
        channels_ = std::max(channels_, block.channel + 1);
        for (const step& one : block.steps) {
          needs_work_ |= !from.is_in_place && writes_input(one);
          if (one.kind == "rrs") forwarded += one.source.count;
        }
      }
      forwarded_ = std::max(forwarded_, forwarded);
    }
    needs_work_ |= from.is_in_place && from.collective == "reduce_scatter";
  }

  result<std::string> write() {
    write_head();
    for (std::size_t id = 0; id < from_.gpus.size(); ++id)
      if (auto why = write_gpu(static_cast<int>(id))) return std::move(*why);
    if (from_.is_in_place && from_.collective == "reduce_scatter")
      line("out = copy work[" + range_words("r * " + std::to_string(from_.chunks), from_.chunks) + "]");
    return std::move(text_);
  }

 private:
  void line(const std::string& words) { text_ += words + "\n"; }

  /// Returns the name of the program, with an underscore for each character that is not allowed in a name.
  std::string name() const {
    std::string made;
    for (const char c : from_.name.substr(0, 64))
      made += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
    return made.empty() ? "msccl" : made;
  }

  void write_head() {
    const bool is_scattered = from_.collective == "reduce_scatter";
    line("libsched algorithm 1");
    line("name \"" + name() + "\"");
    line("summary \"imported from an MSCCL program for " + counted(from_.gpus.size(), "rank") + "\"");
    line("collective " + from_.collective + (is_scattered ? "_block" : ""));
    line("needs P == " + std::to_string(from_.gpus.size()));
    line("chunks " + std::to_string(from_.chunks));
    if (channels_ > 1) line("channels " + std::to_string(channels_));
    if (from_.is_in_place && !is_scattered) line("in_place");
    if (scratch_ > 0) line("scratch kept chunks " + std::to_string(scratch_));
    if (forwarded_ > 0) line("scratch forwarded chunks " + std::to_string(forwarded_));
    if (needs_work_) line("scratch work like in");
    line("");
    if (needs_work_)
      line("work = copy in");
    else if (from_.is_in_place && from_.collective == "allgather")
      line("out[" + range_words("r * " + std::to_string(from_.chunks), from_.chunks) + "] = copy in");
    else if (from_.is_in_place)
      line("out = copy in");
  }

  static std::string range_words(const std::string& first, int count) {
    return count == 1 ? first : first + " .. " + first + " + " + std::to_string(count - 1);
  }

  // --- one rank --------------------------------------------------------------------------------------------

  /// Writes the steps of a rank. Each step is written after the step on which it depends, and the steps of a thread
  /// block are written in order.
  std::optional<failure> write_gpu(int id) {
    const gpu& all = from_.gpus[static_cast<std::size_t>(id)];
    line("if r == " + std::to_string(id));
    self_ = id;
    forwarded_so_far_ = 0;
    read_.clear();
    std::vector<std::size_t> done(all.blocks.size(), 0);
    const auto is_ready = [&](const step& one) {
      if (one.dep_block < 0 || one.dep_step < 0) return true;
      const auto block = static_cast<std::size_t>(one.dep_block);
      return block < done.size() && done[block] > static_cast<std::size_t>(one.dep_step);
    };
    std::vector<std::vector<std::size_t>> waiting(all.blocks.size());  // for each block: blocks that wait for it
    std::deque<std::size_t> next;
    for (std::size_t b = 0; b < all.blocks.size(); ++b) next.push_back(b);
    for (; !next.empty(); next.pop_front()) {
      const std::size_t b = next.front();
      const std::vector<step>& steps = all.blocks[b].steps;
      for (; done[b] < steps.size() && is_ready(steps[done[b]]); ++done[b])
        if (!write_step(steps[done[b]], all.blocks[b])) return out_of_bounds(id, b, done[b]);
      if (done[b] < steps.size() && static_cast<std::size_t>(steps[done[b]].dep_block) < waiting.size())
        waiting[static_cast<std::size_t>(steps[done[b]].dep_block)].push_back(b);
      for (const std::size_t other : std::exchange(waiting[b], {}))
        if (is_ready(all.blocks[other].steps[done[other]]))
          next.push_back(other);
        else
          waiting[b].push_back(other);
    }
    line("end");
    for (std::size_t b = 0; b < all.blocks.size(); ++b)
      if (done[b] < all.blocks[b].steps.size())
        return failure{status::argument,
                       place_of(id, b, done[b]) +
                           "the step can never run, because its dependency (depid, deps) is never satisfied"};
    return std::nullopt;
  }

  static std::string place_of(int id, std::size_t block, std::size_t number) {
    return "gpu " + std::to_string(id) + ", thread block " + std::to_string(block) + ", step " +
           std::to_string(number) + ": ";
  }
  static failure out_of_bounds(int id, std::size_t block, std::size_t number) {
    return {status::bounds, place_of(id, block, number) + "the chunk is outside its buffer"};
  }

  struct vector_range {
    std::string vector;
    int first = 0, count = 1;
    std::string words() const {
      return vector + "[" +
             (count == 1 ? std::to_string(first) : std::to_string(first) + " .. " + std::to_string(first + count - 1)) +
             "]";
    }
  };

  /// Returns the range in a vector of the algorithm file. In place, the output of a reduce_scatter is a block of its
  /// input, and the input of an allgather is a block of its output.
  vector_range place(const chunk_range& of) const {
    const int block = self_ * from_.chunks;
    if (of.of == memory::scratch) return {"kept", of.first, of.count};
    if (from_.is_in_place && from_.collective == "reduce_scatter")
      return {"work", of.first + (of.of == memory::output ? block : 0), of.count};
    if (of.of == memory::output) return {"out", of.first, of.count};
    if (from_.is_in_place && from_.collective == "allgather") return {"out", of.first + block, of.count};
    if (from_.is_in_place) return {"out", of.first, of.count};
    return {needs_work_ ? "work" : "in", of.first, of.count};
  }

  bool exists(const vector_range& of) const {
    const int ranks = static_cast<int>(from_.gpus.size());
    const bool is_all = from_.collective == "alltoall" || (from_.collective == "allgather" && of.vector == "out") ||
                        (from_.collective == "reduce_scatter" && of.vector != "out");
    const int most = of.vector == "kept" ? from_.gpus[static_cast<std::size_t>(self_)].scratch_chunks
                                         : from_.chunks * (is_all ? ranks : 1);
    return of.first >= 0 && of.first + of.count <= most;
  }

  void note_read(const vector_range& of) {
    std::vector<bool>& chunks = read_[of.vector];
    chunks.resize(std::max(chunks.size(), static_cast<std::size_t>(of.first + of.count)));
    std::fill_n(chunks.begin() + of.first, of.count, true);
  }
  bool was_read(const vector_range& of) const {
    const auto known = read_.find(of.vector);
    if (known == read_.end()) return false;
    const auto end = std::min(known->second.size(), static_cast<std::size_t>(of.first + of.count));
    for (auto i = static_cast<std::size_t>(of.first); i < end; ++i)
      if (known->second[i]) return true;
    return false;
  }

  std::string channel_words(const thread_block& block) const {
    return block.channel == 0 ? "" : " channel " + std::to_string(block.channel);
  }

  /// Writes a step. Returns false if the step exceeds a buffer.
  bool write_step(const step& one, const thread_block& block) {
    if (one.kind == "nop") return true;
    const vector_range source = place(one.source);
    vector_range target = place(one.target);
    const bool reads = one.kind != "r" && one.kind != "rcs";
    const bool stores = one.kind != "s" && one.kind != "rrs";
    if ((reads && !exists(source)) || (stores && !exists(target))) return false;
    const std::string arrival = "recv from " + std::to_string(block.from) + channel_words(block);
    if (one.kind == "rrs") {
      target = {"forwarded", forwarded_so_far_, one.source.count};
      forwarded_so_far_ += one.source.count;
    }
    if (one.kind == "cpy")
      line("  " + target.words() + " = copy " + source.words());
    else if (one.kind == "re")
      line("  " + target.words() + " = op " + target.words() + " " + source.words());
    else if (one.kind.starts_with("rr"))
      line("  " + target.words() + " = op " + source.words() + " " + arrival);
    else if (one.kind.front() == 'r')
      line("  " + target.words() + (was_read(target) ? " = copy " : " = ") + arrival);
    if (reads) note_read(source);
    if (one.kind.back() != 's') return true;
    const vector_range& sent = one.kind == "s" ? source : target;
    line("  send " + sent.words() + " to " + std::to_string(block.to) + channel_words(block));
    note_read(sent);
    return true;
  }

  const program& from_;
  int scratch_ = 0, forwarded_ = 0, channels_ = 1;
  bool needs_work_ = false;  ///< true if steps write the input, or the output is a part of the input
  int self_ = 0;
  int forwarded_so_far_ = 0;
  std::map<std::string, std::vector<bool>> read_{};  ///< chunks that this rank has read, indexed by vector and chunk
  std::string text_;
};

}  // namespace

bool is_msccl_text(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != text.npos && text.substr(begin).starts_with('<');
}

result<std::string> algorithm_of_msccl(std::string_view text) {
  const auto read = xml_reader().read(text);
  if (!read) return read.error();
  return algorithm_writer(*read).write();
}

}  // namespace lsched::cli
