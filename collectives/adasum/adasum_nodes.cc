#include "collectives/adasum/adasum_nodes.h"

namespace lsched {
namespace {

std::uint32_t gather_tag(std::size_t nodes) { return tags_of_exchange(static_cast<rank>(nodes)); }
std::uint32_t spread_tag(std::size_t nodes) { return gather_tag(nodes) + 1; }

}  // namespace

adasum_nodes::adasum_nodes(builder& to, const shape& data, buffer_id input, buffer_id output, op_id entry,
                           owner_places owners)
    : nodes_(nodes_of(data, to.place().size)),
      own_(place_of(nodes_, to.place().self)),
      owners_(owners),
      map_(data, part_begins(data, static_cast<rank>(nodes_.size()), static_cast<rank>(owners.count))),
      ops_(to, data, entry),
      vector_(ops_, data, map_, input, output),
      now_(vector_.input()) {}

stretch adasum_nodes::block_of(adasum_vector::place where, std::size_t block) const {
  const std::uint64_t parts = wide(fold(static_cast<rank>(nodes_.size())).core());
  return vector_.blocks(where, block * parts, (block + 1) * parts);
}

void adasum_nodes::gather() {
  for (std::size_t distance = 1; distance < here().size(); ++distance) {
    const std::size_t to = (own_.place + distance) % here().size();
    if (owners_.holds(to))
      ops_.send(here()[to], gather_tag(nodes_.size()), block_of(vector_.input(), to - owners_.first));
  }
  if (is_owner() && here().size() > 1) take_mean(own_.place - owners_.first);
}

// The sum is made elsewhere: in place, the own contribution may come in the middle of it.
void adasum_nodes::take_mean(std::size_t block) {
  const stretch mine = block_of(vector_.input(), block);
  std::vector<stretch> operands(here().size(), mine);
  for (std::size_t distance = 1; distance < here().size(); ++distance) {
    const std::size_t from = (own_.place + here().size() - distance) % here().size();
    operands[from] = ops_.scratch(mine.count);
    ops_.recv(here()[from], gather_tag(nodes_.size()), operands[from]);
  }
  const stretch sum = ops_.scratch(mine.count);
  for (std::size_t i = 1; i < operands.size(); ++i) gathered_ = ops_.add(i == 1 ? operands[0] : sum, operands[i], sum);

  const element_range all{mine.at.offset(), mine.at.offset() + mine.count};
  const auto runs = map_.runs_in(all);
  for (const element_range& run : runs)
    ops_.divide(part_of_payload(sum, all.begin, run), vector_.elements(vector_.output(), run),
                static_cast<std::uint32_t>(here().size()));
  if (own_.place == 0) vector_.copy_gaps(vector_.input(), vector_.output(), all);
  for (const element_range& gap : map_.gaps_in(all))
    if (own_.place != 0)
      ops_.copy(part_of_payload(operands[0], all.begin, gap), vector_.elements(vector_.output(), gap));
  if (!runs.empty()) gathered_ = k_no_op;  // what is sent has waited for it
  now_ = vector_.output();
}

ownership adasum_nodes::owned() const {
  ownership own{.block = static_cast<rank>(own_.place - owners_.first), .node = static_cast<rank>(own_.number)};
  for (const node& it : nodes_) own.peers.push_back(it[own_.place]);
  for (std::size_t b = 0; b < owners_.count; ++b) own.owners.push_back(owner_of(b));
  return own;
}

void adasum_nodes::exchange() {
  if (is_owner()) adasum_exchange(ops_, map_, vector_, owned()).write(now_, gathered_);
}

void adasum_nodes::keep() {
  const std::size_t block = own_.place - owners_.first;
  if (is_owner() && here().size() == 1 && !vector_.is_same(now_, vector_.output()))
    ops_.copy(block_of(now_, block), block_of(vector_.output(), block));
}

void adasum_nodes::spread() {
  for (std::size_t distance = 1; is_owner() && distance < here().size(); ++distance) {
    ops_.send(here()[(own_.place + distance) % here().size()], spread_tag(nodes_.size()),
              block_of(vector_.output(), own_.place - owners_.first));
    if (nodes_.size() == 1) ops_.wait_for(gathered_);
  }
  for (std::size_t distance = 1; distance < here().size(); ++distance) {
    const std::size_t from = (own_.place + here().size() - distance) % here().size();
    if (owners_.holds(from))
      ops_.recv(here()[from], spread_tag(nodes_.size()), block_of(vector_.output(), from - owners_.first));
  }
}

}  // namespace lsched
