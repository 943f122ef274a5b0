// The images of pending contributions, for checkpoints (session.h).
#include <array>
#include <cstring>

#include "libsched/session/session.h"

namespace lsched {
namespace {

/// The image of one fragment. An image of pending contributions consists of the images of all fragments.
struct pending_header {
  static constexpr std::array<char, 8> k_magic{'l', 'p', 'e', 'n', 'd', 'i', 'n', 'g'};
  std::array<char, 8> magic = k_magic;
  std::uint32_t version = 1;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::uint64_t offers = 0;  ///< sum of the weights of the offers; 0: no data follows
};

constexpr const char k_too_short[] =
    "the image of pending contributions is too short: the image is damaged, or has the offers of fewer fragments than "
    "the schedule: create the schedule as before the save";

/// Reads the header of the first fragment in `image`, and removes the fragment's image from `image`.
std::optional<failure> read_header(std::span<const std::byte>& image, const buffer& data, pending_header& head) {
  if (image.size() < sizeof head) return failure{status::argument, k_too_short};
  std::memcpy(&head, image.data(), sizeof head);
  if (head.magic != pending_header::k_magic)
    return failure{
        status::argument,
        "this is not an image of pending contributions: pass an image that was saved with LSCHED_STATE_PENDING"};
  if (head.version != pending_header().version)
    return failure{status::version,
                   "the image of pending contributions was saved in another version of the format: use the version of "
                   "libsched that saved the image"};
  if (head.type != static_cast<std::uint32_t>(data.type) || head.count != data.count)
    return failure{status::mismatch,
                   "the image of pending contributions has another dtype or count than the schedule: create the "
                   "schedule as before the save"};
  const std::uint64_t bytes = sizeof head + (head.offers == 0 ? 0 : data.bytes());
  if (image.size() < bytes) return failure{status::argument, k_too_short};
  image = image.subspan(bytes);
  return std::nullopt;
}

}  // namespace

std::vector<std::byte> session::save_pending() const {
  const buffer& data = contribution_buffer();
  std::vector<std::byte> image;
  for (const fragment_queues& one : fragments()) {
    const std::size_t begin = image.size();
    image.resize(begin + sizeof(pending_header) + data.bytes());
    pending_header head{.type = static_cast<std::uint32_t>(data.type), .count = data.count};
    head.offers = one.offers->save(image.data() + begin + sizeof head);
    if (head.offers == 0) image.resize(begin + sizeof head);
    std::memcpy(image.data() + begin, &head, sizeof head);
  }
  return image;
}

std::optional<failure> session::load_pending(std::span<const std::byte> image) {
  std::vector<pending_header> heads(fragments().size());
  std::span<const std::byte> left = image;
  for (pending_header& head : heads)
    if (auto why = read_header(left, contribution_buffer(), head)) return why;
  if (!left.empty())
    return failure{status::argument,
                   "the image of pending contributions is too long: the image is damaged, or has the offers of more "
                   "fragments than the schedule: create the schedule as before the save"};
  if (const status why = may_offer(); why != status::ok)
    return failure{why, why == status::state ? why_no_offer()
                                             : "the schedule has failed with " + std::string(name_of(why)) +
                                                   ": destroy the schedule and create it again"};
  if (prepared_contributions() != nullptr)
    return failure{status::state, "a contribution in buckets is incomplete: call lsched_offer_end or lsched_withdraw"};
  for (std::size_t i = 0; i < heads.size(); ++i) {
    image = image.subspan(sizeof(pending_header));
    if (heads[i].offers == 0) continue;
    fragments()[i].offers->load(image.data(), heads[i].offers, called_of(*all_.rounds) + 1);
    image = image.subspan(contribution_buffer().bytes());
  }
  return std::nullopt;
}

}  // namespace lsched
