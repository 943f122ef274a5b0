#include "collectives/written/written.h"

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "collectives/registry.h"
#include "collectives/written/algorithm_text.h"
#include "collectives/written/writer.h"
#include "libsched/verify/verify.h"

namespace lsched {
namespace {

/// What a request costs, or why it does not do what it should.
struct proof {
  std::optional<failure> error{};
  cost round{};
};

class written_algorithm final : public custom_generator {
 public:
  explicit written_algorithm(written::algorithm_text text)
      : text_(std::move(text)), dense_(described()), partial_(partial_of(dense_)) {}

  const written::algorithm_text& text() const { return text_; }
  const algorithm& dense() const { return dense_; }
  const std::optional<algorithm>& partial() const { return partial_; }

  fragment add(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry) const override {
    return written::write(text_, to, data, input, output, entry);
  }
  cost cost_of(rank size, const shape& data) const override { return proof_of(size, data).round; }
  std::optional<failure> validate(rank size, const shape& data) const override;
  std::optional<failure> doubt(rank size, const shape& data) const override { return proof_of(size, data).error; }

 private:
  static constexpr std::size_t k_most_proofs = 256;
  struct proved {
    rank size = 0;
    shape data;
    proof found;
  };

  algorithm described() const;
  proof proof_of(rank size, const shape& data) const;
  proof prove(rank size, const shape& data) const;

  const written::algorithm_text text_;
  const algorithm dense_;
  const std::optional<algorithm> partial_;
  mutable std::mutex guard_;
  mutable std::list<proved> proofs_;  ///< the last used first
};

/// Where an output is the input's beginning, chunks are the same memory only if all blocks are equal.
algorithm written_algorithm::described() const {
  const bool is_aligned = !text_.of->has_counts || text_.of->output.of == content::all_blocks || text_.of->is_rooted;
  return {.of = text_.of,
          .name = text_.name,
          .add = nullptr,
          .needs = {.needs_commutative = text_.of->reduces && !text_.is_in_rank_order,
                    .in_place = text_.in_place && is_aligned,
                    .summary = text_.summary.empty() ? std::string_view("read from an algorithm file")
                                                     : std::string_view(text_.summary)},
          .cost_of = nullptr,
          .custom = this};
}

std::optional<failure> written_algorithm::validate(rank size, const shape& data) const {
  const std::array<std::int64_t, written::k_first_of_text> values{size, 0, data.root};
  for (const expression& need : text_.needs) {
    const auto holds = need.value(values);
    if (!holds) return located(text_.text, need.at(), holds.error());
    if (*holds == 0)
      return failure{status::constraint,
                     text_.name + " needs " + text_.line_at(need.at()) + ", and P is " + std::to_string(size)};
  }
  const auto chunks = written::chunks_of(text_, size, data.root);
  if (!chunks) return chunks.error();
  if (written::has_equal_chunks(text_) &&
      (!data.counts.empty() || data.count % static_cast<std::uint64_t>(*chunks) != 0))
    return failure{status::constraint, text_.name +
                                           " has scratch vectors of equal chunks: it needs a count that is a "
                                           "multiple of " +
                                           std::to_string(*chunks)};
  return std::nullopt;
}

proof written_algorithm::proof_of(rank size, const shape& data) const {
  shape whole = data;  // buckets are requests of this kind, too
  whole.buckets.clear();
  if (!text_.of->has_means) whole.is_mean = false;
  const std::lock_guard lock(guard_);
  const auto known =
      std::ranges::find_if(proofs_, [&](const proved& one) { return one.size == size && one.data == whole; });
  if (known != proofs_.end()) {
    proofs_.splice(proofs_.begin(), proofs_, known);
  } else {
    if (proofs_.size() == k_most_proofs) proofs_.pop_back();
    proofs_.push_front({size, whole, prove(size, whole)});
  }
  return proofs_.front().found;
}

/// A cost of which a schedule that cannot be made has none.
proof written_algorithm::prove(rank size, const shape& data) const {
  postcondition promise = dense_.of->contents_of(size, data);
  promise.data = data_of(*dense_.of, size, data);
  for (promised_range& range : promise.ranges) range.is_in_rank_order &= text_.is_in_rank_order;
  proof made;
  for (const bool in_place : {false, true}) {
    if (in_place && (!dense_.needs.in_place || size == 1)) continue;
    shape request = data;
    request.in_place = in_place;
    const auto world = generate_world(dense_, size, request);
    if (!world) return {world.error(), made.round};
    const verification answer = verify(*world, promise, {.in_place = aliasing_of(*dense_.of, size, request)});
    if (!answer.holds())
      return {failure{status::constraint, text_.name + " is refused by its proof: " + answer.findings.front().text},
              answer.round_cost};
    if (!in_place) made.round = answer.round_cost;
  }
  return made;
}

}  // namespace

bool is_algorithm_text(std::string_view text) {
  scanner words(text, 0);
  const bool is_ours = words.next().text == "libsched";
  words.advance();
  return is_ours && words.next().text == "algorithm";
}

result<const algorithm*> add_written(std::string_view text) {
  static std::mutex guard;
  static std::list<written_algorithm> all;  // the registry points at them
  auto read = written::read(text);
  if (!read) return read.error();
  const std::lock_guard lock(guard);
  for (const written_algorithm& one : all)
    if (one.text().text == text) return &one.dense();
  if (find(read->of->name, read->name) != nullptr)
    return failure{status::state, "there is another algorithm " + std::string(read->of->name) + "/" + read->name};
  const written_algorithm& made = all.emplace_back(std::move(*read));
  add_algorithm(made.dense());
  if (made.partial()) add_algorithm(*made.partial());
  return &made.dense();
}

}  // namespace lsched
