// Tests of the order in which each algorithm adds up contributions, against the table of docs/reference/collectives.md.
//
// The schedules run with expressions instead of numbers. Every element of the input of rank r is the leaf r, and a sum
// is a node of a tree. Each element of an output is then the tree of its sum. The test derives the cells of the table
// from comparisons of these trees. Rounds with real numbers must give the bits that the trees predict.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "collectives/requests/sample_requests.h"
#include "tests/support/c_request.h"
#include "tests/support/lockstep_world.h"
#include "tests/support/thread_ranks.h"

namespace lsched::testing {
namespace {

constexpr rank k_sizes[]{3, 5, 6, 7, 4, 8};
constexpr std::uint64_t k_count = 64;

std::size_t index(rank r) { return static_cast<std::size_t>(r); }

// --- expressions -----------------------------------------------------------------------------------------------------

/// A table of expressions. Each sum has an id. As in IEEE 754 addition, the order of the two operands does not matter.
class expressions {
 public:
  using number = std::uint64_t;
  static constexpr number k_nothing = 0;  ///< id of a null contribution: x + k_nothing is x

  static number leaf(rank r) { return static_cast<number>(r) + 1; }

  number sum(number x, number y) {
    if (x == k_nothing || y == k_nothing) return x + y;
    const std::pair operands = std::minmax(x, y);
    const auto [place, is_new] = numbers_.try_emplace(operands, k_first_sum + sums_.size());
    if (is_new) sums_.push_back(operands);
    return place->second;
  }

  /// Returns a text such as "((0+1)+2)". The operand with the lowest rank comes first.
  std::string text(number of) const {
    if (of < k_first_sum) return std::to_string(of - 1);
    auto [x, y] = sums_[of - k_first_sum];
    if (lowest(y) < lowest(x)) std::swap(x, y);
    return "(" + text(x) + "+" + text(y) + ")";
  }

  /// Evaluates an expression. `leaves` holds the values of the leaves, by rank.
  double value(number of, const std::vector<double>& leaves) const {
    if (of < k_first_sum) return leaves[of - 1];
    const auto [x, y] = sums_[of - k_first_sum];
    return value(x, leaves) + value(y, leaves);
  }

 private:
  static constexpr number k_first_sum = 1 << 10;

  number lowest(number of) const {
    if (of < k_first_sum) return of;
    const auto [x, y] = sums_[of - k_first_sum];
    return std::min(lowest(x), lowest(y));
  }

  std::map<std::pair<number, number>, number> numbers_;
  std::vector<std::pair<number, number>> sums_;
};

expressions& all_expressions() {
  static expressions all;
  return all;
}

/// Adds expressions element by element. If an element has the same operands as the previous element, the previous sum
/// is reused.
void add_expressions(const void* lower, const void* higher, void* target, std::uint64_t count, void*) {
  const auto* x = static_cast<const expressions::number*>(lower);
  const auto* y = static_cast<const expressions::number*>(higher);
  auto* sums = static_cast<expressions::number*>(target);
  expressions::number last_x = 0, last_y = 0, last_sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (x[i] != last_x || y[i] != last_y) {
      last_x = x[i], last_y = y[i];
      last_sum = all_expressions().sum(last_x, last_y);
    }
    sums[i] = last_sum;
  }
}

/// Returns the schedule with the arithmetic of expressions in place of sums, and without the division of a mean.
schedule_ptr symbolic(const schedule& program) {
  schedule::parts content = program.content();
  for (op& o : content.ops) {
    if (o.what == kernel::sum) o.what = kernel::user;
    if (o.what == kernel::divide) o.what = kernel::copy;
  }
  return std::make_shared<const schedule>(std::move(content));
}

// --- a round of expressions ------------------------------------------------------------------------------------------

using trees = std::vector<expressions::number>;

/// A request for one algorithm.
struct request {
  const algorithm* how;
  rank size;
  shape data;
  rank absent = k_no_rank;  ///< rank that contributes nothing, or k_no_rank
};

/// One rank's buffers. In place, input and output share memory.
struct buffers_of_rank {
  buffers_of_rank(const request& of, rank r) {
    const world place{r, of.size};
    extents_of = of.how->of->extents_of(place, of.data);
    const std::uint64_t outputs = extents_of.output.value_or(0);
    const bool shares = of.data.in_place && extents_of.input && extents_of.output;
    const std::int64_t aliasing = shares ? of.how->of->aliasing_of(place, of.data) : 0;
    output_begin = static_cast<std::size_t>(std::max<std::int64_t>(0, -aliasing));
    input_begin = static_cast<std::size_t>(std::max<std::int64_t>(0, aliasing));
    const std::uint64_t inputs = extents_of.input.value_or(0);
    output.assign(shares ? std::max(output_begin + outputs, input_begin + inputs) : outputs, 0);
    trees& in = shares ? output : input;
    if (!shares) input.assign(inputs, 0), input_begin = 0;
    std::fill_n(in.begin() + static_cast<std::ptrdiff_t>(input_begin), inputs,
                r == of.absent ? expressions::k_nothing : expressions::leaf(r));
    if (extents_of.input) memory.inputs = {reinterpret_cast<const std::byte*>(in.data() + input_begin)};
    if (extents_of.output) memory.outputs = {reinterpret_cast<std::byte*>(output.data() + output_begin)};
  }

  trees result() const {
    const auto begin = output.begin() + static_cast<std::ptrdiff_t>(output_begin);
    return {begin, begin + static_cast<std::ptrdiff_t>(extents_of.output.value_or(0))};
  }

  extents extents_of;
  trees input, output;
  std::size_t input_begin = 0, output_begin = 0;
  binding memory;
};

/// Returns those ranges of the postcondition that are sums. Each such range is a whole output.
std::vector<promised_range> sums_of(const request& of) {
  std::vector<promised_range> all = of.how->of->contents_of(of.size, of.data).ranges;
  std::erase_if(all, [](const promised_range& one) { return one.what != promised_content::reduced; });
  return all;
}

/// Runs a round. Returns a list of trees for each rank. The list is empty if the rank gets no sum.
std::vector<trees> play(const request& of, std::uint64_t seed = 5) {
  std::vector<std::unique_ptr<buffers_of_rank>> ranks;
  for (rank r = 0; r < of.size; ++r) ranks.push_back(std::make_unique<buffers_of_rank>(of, r));
  lockstep_world world(of.size, seed, {}, lockstep_world::lanes::none);
  const auto its = world.commit([&](rank r) {
    const auto made = of.how->generate({r, of.size}, of.data);
    return commit_request{.agreement = std::string(of.how->name),
                          .program = made ? result<schedule_ptr>(symbolic(**made)) : made.error(),
                          .memory = ranks[index(r)]->memory,
                          .options = {.user = {add_expressions, nullptr, 1}}};
  });
  std::vector<trees> found(index(of.size));
  if (its.empty() || !world.run_round(its)) return found;
  world.remove(its);
  for (const promised_range& one : sums_of(of)) found[index(one.holder)] = ranks[index(one.holder)]->result();
  return found;
}

shape shape_of(const algorithm& how, rank size, std::uint64_t count) {
  shape data = typical_shape(*how.of, size, count, dtype::u64, how.of->reduces ? kernel::sum : kernel::none);
  data.root = 0;
  return data;
}

bool can(const request& of) { return !validate(*of.how, {0, of.size}, of.data); }

// --- real numbers ----------------------------------------------------------------------------------------------------

/// Returns element i of rank r. The sum over all ranks has different bits for each order of summation.
double awkward(rank r, std::uint64_t i) {
  const double sign = r % 2 == 0 ? 1 : -1;
  return sign * static_cast<double>(2 * r + 1) * static_cast<double>(i + 1) / 3.0 + 1e-3 / static_cast<double>(r + 7);
}

/// Returns the sum of one element over all ranks, in the order of the tree.
double value_of(expressions::number tree, rank size, std::uint64_t element) {
  std::vector<double> leaves;
  for (rank r = 0; r < size; ++r) leaves.push_back(awkward(r, element));
  return all_expressions().value(tree, leaves);
}

/// Returns the outputs of a round whose arithmetic runs in the engines or on lanes.
std::vector<std::vector<double>> sums_by(lockstep_world::lanes lanes, const request& of) {
  std::vector<std::vector<double>> inputs, outputs;
  for (rank r = 0; r < of.size; ++r) {
    const extents both = of.how->of->extents_of({r, of.size}, of.data);
    inputs.emplace_back(both.input.value_or(0) + 1);
    outputs.emplace_back(both.output.value_or(0) + 1);
    for (std::size_t i = 0; i < inputs.back().size(); ++i) inputs.back()[i] = awkward(r, i);
  }
  lockstep_world world(of.size, 5, {}, lanes);
  const auto its = world.commit([&](rank r) {
    const extents both = of.how->of->extents_of({r, of.size}, of.data);
    commit_request made{.agreement = std::string(of.how->name), .program = of.how->generate({r, of.size}, of.data)};
    if (both.input) made.memory.inputs = {reinterpret_cast<const std::byte*>(inputs[index(r)].data())};
    if (both.output) made.memory.outputs = {reinterpret_cast<std::byte*>(outputs[index(r)].data())};
    return made;
  });
  if (its.empty() || !world.run_round(its)) return {};
  world.remove(its);
  return outputs;
}

/// Returns whether the bits of a sum change if not the engine but a lane (a group of worker threads) computes the sum,
/// in pieces.
bool depends_on_cores(const algorithm& how, rank size) {
  request one{&how, size, shape_of(how, size, k_count)};
  one.data.type = dtype::f64;
  return sums_by(lockstep_world::lanes::none, one) != sums_by(lockstep_world::lanes::all, one);
}

// --- cells -----------------------------------------------------------------------------------------------------------

/// Returns whether x and y differ in any element that both have.
bool differ(const std::vector<trees>& x, const std::vector<trees>& y) {
  for (std::size_t r = 0; r < std::min(x.size(), y.size()); ++r)
    for (std::size_t i = 0; i < std::min(x[r].size(), y[r].size()); ++i)
      if (x[r][i] != y[r][i]) return true;
  return false;
}

/// Changes the typical request in several ways. Returns whether a changed request is accepted and adds up contributions
/// in a different order.
bool differs_from_usual(const algorithm& how, rank size, const std::vector<std::function<void(shape&)>>& changes) {
  const std::vector<trees> usual = play({&how, size, shape_of(how, size, k_count)});
  return std::ranges::any_of(changes, [&](const auto& change) {
    request other{&how, size, shape_of(how, size, k_count)};
    change(other.data);
    return can(other) && differ(usual, play(other));
  });
}

bool depends_on_count(const algorithm& how, rank size) {
  const std::vector<trees> usual = play({&how, size, shape_of(how, size, k_count)});
  return std::ranges::any_of(std::array{1, 5, 7, 1000, 20'011}, [&](std::uint64_t count) {
    return differ(usual, play({&how, size, shape_of(how, size, count)}));
  });
}

/// Returns whether the order of summation differs between two elements that are sums over all ranks.
bool depends_on_position(const algorithm& how, rank size) {
  const request usual{&how, size, shape_of(how, size, k_count)};
  const std::vector<trees> found = play(usual);
  std::set<expressions::number> orders;
  for (const promised_range& one : sums_of(usual))
    if (one.among.empty()) orders.insert(found[index(one.holder)].begin(), found[index(one.holder)].end());
  return orders.size() > 1;
}

/// Returns true if the order of summation changes when buffers are in place, or when peers cannot read the memory.
bool depends_on_memory(const algorithm& how, rank size) {
  return differs_from_usual(how, size,
                            {[](shape& data) { data.in_place = true; }, [](shape& data) { data.is_visible = false; },
                             [](shape& data) { data.in_place = true, data.is_visible = false; }});
}

/// Returns whether the order of summation changes if the world has a further rank that contributes nothing.
bool depends_on_ranks(const algorithm& how, rank size) {
  const request fewer{&how, size - 1, shape_of(how, size - 1, k_count)};
  request more{&how, size, shape_of(how, size, k_count)};
  more.absent = size - 1;
  return can(fewer) && can(more) && differ(play(fewer), play(more));
}

bool depends_on_root(const algorithm& how, rank size) {
  if (!how.of->is_rooted) return false;
  std::set<trees> found;
  for (rank root = 0; root < size; ++root) {
    request one{&how, size, shape_of(how, size, k_count)};
    one.data.root = root;
    found.insert(play(one)[index(root)]);
  }
  return found.size() > 1;
}

bool depends_on_nodes(const algorithm& how, rank size) {
  const auto nodes = [size](rank number, bool is_dealt) {
    return [=](shape& data) {
      for (rank r = 0; r < size; ++r) data.nodes.push_back(is_dealt ? r % number : r * number / size);
    };
  };
  return differs_from_usual(how, size, {nodes(2, false), nodes(2, true), nodes(3, false), nodes(3, true)});
}

bool depends_on_radix(const algorithm& how, rank size) {
  const auto radix = [](rank of) { return [of](shape& data) { data.radix = of; }; };
  return how.looks_at.radix && differs_from_usual(how, size, {radix(2), radix(3), radix(4), radix(5)});
}

bool depends_on_segments(const algorithm& how, rank size) {
  const auto segment = [](std::uint64_t of) { return [of](shape& data) { data.segment = of; }; };
  return how.looks_at.segment && differs_from_usual(how, size, {segment(1), segment(3), segment(16)});
}

using question = bool (*)(const algorithm& how, rank size);

bool holds_somewhere(const algorithm& how, question depends) {
  return std::ranges::any_of(k_sizes, [&](rank size) { return depends(how, size); });
}

std::string yes_or_no(const algorithm& how, question depends) { return holds_somewhere(how, depends) ? "yes" : "no"; }

std::string further_causes(const algorithm& how) {
  std::string words;
  for (const auto& [word, depends] : {std::pair<const char*, question>{"segments", depends_on_segments},
                                      {"nodes", depends_on_nodes},
                                      {"root", depends_on_root},
                                      {"radix", depends_on_radix}})
    if (holds_somewhere(how, depends)) words += (words.empty() ? "" : ", ") + std::string(word);
  return words.empty() ? "-" : words;
}

/// Returns the order of summation in a world of four ranks, for the first element of the last rank's output. If the
/// last rank has no output, the function uses the output of the root.
std::string order_of_four(const algorithm& how) {
  const std::vector<trees> found = play({&how, 4, shape_of(how, 4, k_count)});
  const trees& last = found.back().empty() ? found.front() : found.back();
  const std::string text = all_expressions().text(last.front());
  return text.substr(1, text.size() - 2);
}

// --- the table -------------------------------------------------------------------------------------------------------

using row = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" `"), last = text.find_last_not_of(" `");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

row cells_of(const std::string& line, char between) {
  row cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, between);) cells.push_back(trimmed(cell));
  return cells;
}

/// Returns the rows of the table below `heading` of the page, without the row of column titles.
std::vector<row> table_below(const std::string& heading) {
  std::ifstream page(LSCHED_TEST_SOURCE_DIR "/docs/reference/collectives.md");
  std::vector<row> rows;
  std::string line;
  while (std::getline(page, line) && line != heading) continue;
  while (std::getline(page, line) && !line.starts_with("#"))
    if (line.starts_with("| ")) rows.push_back(cells_of(line.substr(1), '|'));
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

bool adds_up(const algorithm& how) { return !how.of->activates && how.of->reduces && !how.of->adapts; }

TEST(summation_order, is_as_the_table_in_the_reference_says) {
  std::set<std::string> missing;
  for (const algorithm& how : algorithms())
    if (adds_up(how)) missing.insert(std::string(how.of->name) + "/" + std::string(how.name));
  for (const row& written : table_below("## The order of summation")) {
    ASSERT_EQ(written.size(), 9u) << written.front();
    const row collectives = cells_of(written[0], ',');
    for (const std::string& collective : collectives) {
      const algorithm* const how = find(collective, written[1]);
      ASSERT_NE(how, nullptr) << collective << "/" << written[1];
      row found{written[0], written[1], written[2]};
      if (collective == collectives.front()) found[2] = order_of_four(*how);
      found.push_back(yes_or_no(*how, depends_on_count));
      found.push_back(yes_or_no(*how, depends_on_position));
      found.push_back(yes_or_no(*how, depends_on_memory));
      found.push_back(yes_or_no(*how, depends_on_ranks));
      found.push_back(yes_or_no(*how, depends_on_cores));
      found.push_back(further_causes(*how));
      EXPECT_EQ(written, found) << collective;
      missing.erase(collective + "/" + written[1]);
    }
  }
  EXPECT_EQ(missing, std::set<std::string>()) << "are not in the table";
}

TEST(summation_order, is_the_same_on_all_ranks_and_whenever_messages_arrive) {
  for (const algorithm& how : algorithms()) {
    if (!adds_up(how)) continue;
    for (const rank size : {3, 5, 8}) {
      const request usual{&how, size, shape_of(how, size, k_count)};
      const std::vector<trees> found = play(usual);
      for (const std::uint64_t seed : {17u, 18u, 19u})
        EXPECT_EQ(play(usual, seed), found) << how.of->name << "/" << how.name << ", seed " << seed;
      if (how.of != &k_allreduce) continue;
      for (const trees& one : found) EXPECT_EQ(one, found.front()) << how.name;
    }
  }
}

// --- real rounds -----------------------------------------------------------------------------------------------------

void expect_predicted_bits(lsched_world* runtime, const request& of, rank self, std::size_t offset,
                           const std::vector<trees>& predicted) {
  c_request asked(*of.how->of, {self, of.size}, of.data, of.how->name);
  const extents both = of.how->of->extents_of({self, of.size}, of.data);
  std::vector<double> input(both.input.value_or(0) + offset + 1), output(both.output.value_or(0) + offset + 1);
  for (std::size_t i = 0; i < both.input.value_or(0); ++i) input[offset + i] = awkward(self, i);
  asked.desc.dtype = LSCHED_F64;
  asked.desc.input = input.data() + offset;
  asked.desc.output = output.data() + offset;
  lsched_schedule* schedule = nullptr;
  diagnostic why;
  ASSERT_EQ(lsched_collective_create(runtime, &asked.desc, &schedule, &why), LSCHED_OK) << why.text;
  EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
  for (const promised_range& one : sums_of(of)) {
    if (one.holder != self) continue;
    for (std::uint64_t i = one.begin; i < one.end; ++i) {
      const double wanted = value_of(predicted[index(self)][i], of.size, one.input_begin + i - one.begin);
      ASSERT_EQ(std::bit_cast<std::uint64_t>(output[offset + i]), std::bit_cast<std::uint64_t>(wanted))
          << of.how->of->name << "/" << of.how->name << ", rank " << self << ", element " << i;
    }
  }
  EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
}

TEST(summation_order, predicts_the_bits_of_real_rounds) {
  for (const rank size : {3, 5}) {
    std::vector<std::pair<request, std::vector<trees>>> all;
    for (const algorithm& how : algorithms())
      for (const std::uint64_t count : {0u, 1u, 37u})
        if (adds_up(how)) {
          const request one{&how, size, shape_of(how, size, count)};
          all.emplace_back(one, play(one));
        }
    as_ranks(size, [&](lsched_world* runtime, rank self) {
      for (const auto& [one, predicted] : all)
        for (const std::size_t offset : {0u, 1u}) expect_predicted_bits(runtime, one, self, offset, predicted);
    });
  }
}

// --- narrow types ----------------------------------------------------------------------------------------------------

/// Returns the sum of 1 on rank 0 and 2^-9 on four other ranks. If each addition is rounded to bf16, the small terms
/// are lost.
float sum_in(lsched_dtype type) {
  float sum = 0;
  as_ranks(5, [&](lsched_world* runtime, rank self) {
    const float term = self == 0 ? 1.0F : 0x1p-9F;
    float input = 0, output = 0, result = 0;  // large enough for either type
    ASSERT_EQ(lsched_convert(LSCHED_F32, &term, 1, 1, type, &input), LSCHED_OK);
    const lsched_collective_desc desc{.struct_size = sizeof desc,
                                      .collective = "allreduce",
                                      .input = &input,
                                      .output = &output,
                                      .count = 1,
                                      .dtype = type,
                                      .reduction = LSCHED_SUM,
                                      .algorithm = "direct"};
    lsched_schedule* schedule = nullptr;
    diagnostic why;
    ASSERT_EQ(lsched_collective_create(runtime, &desc, &schedule, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_run(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    EXPECT_EQ(lsched_schedule_destroy(schedule, k_limit_ns, &why), LSCHED_OK) << why.text;
    std::uint16_t rounded = 0;
    ASSERT_EQ(lsched_convert(type, &output, 1, 1, LSCHED_BF16, &rounded), LSCHED_OK);
    ASSERT_EQ(lsched_convert(LSCHED_BF16, &rounded, 1, 1, LSCHED_F32, &result), LSCHED_OK);
    if (self == 0) sum = result;
  });
  return sum;
}

TEST(summation_order, of_bf16_rounds_each_addition_and_of_f32_the_sum_alone) {
  EXPECT_EQ(sum_in(LSCHED_BF16), 1.0F);
  EXPECT_EQ(sum_in(LSCHED_F32), 1.0078125F);
}

}  // namespace
}  // namespace lsched::testing
