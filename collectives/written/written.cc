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

/// The outcome of a proof: the cost of a round, and an error if the proof failed or was not possible.
struct proof {
  std::optional<failure> error{};
  cost round{};
};

/// An algorithm that was read from a text, with cached proofs of requests. Thread-safe.
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
  cost cost_of(rank size, const shape& data) const override { return proof_of(false, size, data).round; }
  std::optional<failure> validate(rank size, const shape& data) const override;
  std::uint64_t count_unit(rank size) const override;
  std::optional<failure> doubt(const algorithm& how, rank size, const shape& data) const override {
    return proof_of(how.dense != nullptr, size, data).error;
  }

 private:
  static constexpr std::size_t k_most_proofs = 256;
  static constexpr rank k_most_proved = 256;  ///< maximum number of ranks; a proof of this size takes some seconds
  struct proved {
    bool is_partial = false;
    rank size = 0;
    shape data;
    proof found;
  };

  algorithm described() const;
  proof proof_of(bool is_partial, rank size, const shape& data) const;
  proof prove(rank size, const shape& data) const;
  proof prove_partial(rank size, const shape& data) const;
  proof judged(const algorithm& how, rank size, const shape& data, const activation& starts) const;

  const written::algorithm_text text_;
  const algorithm dense_;
  const std::optional<algorithm> partial_;
  mutable std::mutex guard_;
  mutable std::list<proved> proofs_;  ///< most recently used first
};

/// If the output is the beginning of the input, their chunks are aligned only if all blocks have the same length.
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
    if (!holds) return text_.refused(need.at(), holds.error());
    if (*holds == 0)
      return failure{status::constraint,
                     text_.name + " needs " + text_.line_at(need.at()) + ", but P is " + std::to_string(size)};
  }
  const auto chunks = written::chunks_of(text_, size, data.root);
  if (!chunks) return chunks.error();
  if (written::has_equal_chunks(text_) &&
      (!data.counts.empty() || data.count % static_cast<std::uint64_t>(*chunks) != 0))
    return failure{status::constraint, text_.name +
                                           " has scratch vectors of equal chunks, so the count must be a "
                                           "multiple of " +
                                           std::to_string(*chunks)};
  return std::nullopt;
}

std::uint64_t written_algorithm::count_unit(rank size) const {
  const auto chunks = written::chunks_of(text_, size, 0);
  return chunks && written::has_equal_chunks(text_) ? static_cast<std::uint64_t>(*chunks) : 1;
}

/// Returns the proof of a request. The lock is not held during a proof, so two threads can do the same proof.
proof written_algorithm::proof_of(bool is_partial, rank size, const shape& data) const {
  shape request = data;
  if (!is_partial) request.buckets.clear();  // each bucket is a separate dense request
  const auto known = [&] {
    const auto found = std::ranges::find_if(proofs_, [&](const proved& one) {
      return one.is_partial == is_partial && one.size == size && one.data == request;
    });
    if (found != proofs_.end()) proofs_.splice(proofs_.begin(), proofs_, found);
    return found != proofs_.end();
  };
  {
    const std::lock_guard lock(guard_);
    if (known()) return proofs_.front().found;
  }
  const proof made = is_partial ? prove_partial(size, request) : prove(size, request);
  const std::lock_guard lock(guard_);
  if (!known()) {
    if (proofs_.size() == k_most_proofs) proofs_.pop_back();
    proofs_.push_front({is_partial, size, request, made});
  }
  return made;
}

/// Generates and verifies the schedules of all ranks.
proof written_algorithm::judged(const algorithm& how, rank size, const shape& data, const activation& starts) const {
  if (size > k_most_proved)
    return {failure{status::constraint, text_.name + " is proved for " + std::to_string(k_most_proved) +
                                            " ranks at most, but this world has " + std::to_string(size) +
                                            ": choose another algorithm"}};
  const auto world = generate_world(how, size, data, starts);
  if (!world) return {world.error()};
  const verification answer =
      verify(*world, promise_of(how, size, data, starts), {.in_place = aliasing_of(*how.of, size, data)});
  if (answer.holds()) return {std::nullopt, answer.round_cost};
  return {failure{status::constraint, text_.name + " failed its proof: " + answer.findings.front().text},
          answer.round_cost};
}

proof written_algorithm::prove(rank size, const shape& data) const {
  shape request = data;
  request.in_place = false;
  const proof apart = judged(dense_, size, request, {});
  request.in_place = true;
  if (apart.error || !dense_.needs.in_place || size == 1) return apart;
  return {judged(dense_, size, request, {}).error, apart.round};
}

/// Uses policy `solo`, with which any rank may be absent. The ops after the activation are the same for all policies.
proof written_algorithm::prove_partial(rank size, const shape& data) const {
  algorithm unproved = *partial_;
  unproved.custom = nullptr;  // otherwise the generation of its schedules would need this proof
  proof made = judged(unproved, size, data, {.policy = activation_policy::solo});
  if (made.error) made.error->text = "the partial form of " + made.error->text;
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
  static std::list<written_algorithm> all;  // the registry points to the elements of this list
  auto read = written::read(text);
  if (!read) return read.error();
  const std::lock_guard lock(guard);
  for (const written_algorithm& one : all)
    if (one.text().text == text) return &one.dense();
  if (find(read->of->name, read->name) != nullptr)
    return failure{status::state, "there is another algorithm " + std::string(read->of->name) + "/" + read->name +
                                      ": choose another name"};
  const written_algorithm& made = all.emplace_back(std::move(*read));
  add_algorithm(made.dense());
  if (made.partial()) add_algorithm(*made.partial());
  return &made.dense();
}

}  // namespace lsched
