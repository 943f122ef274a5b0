#include "libsched/commit/text_exchange.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "libsched/transport/board.h"

namespace lsched {
namespace {

constexpr std::size_t k_page_bytes = board::record_bytes - sizeof(std::uint64_t);

/// A record with one page of a text. It consists of plain bytes, because it crosses process and node boundaries.
struct text_page {
  std::uint64_t whole;  ///< size of the whole text, in bytes
  char text[k_page_bytes];
};
static_assert(sizeof(text_page) == board::record_bytes);

}  // namespace

void text_exchange::write_page(std::span<std::byte> record) const {
  text_page page{.whole = mine_.size(), .text = {}};
  const std::size_t begin = std::min<std::size_t>(mine_.size(), pages_ * k_page_bytes);
  std::memcpy(page.text, mine_.data() + begin, std::min(mine_.size() - begin, k_page_bytes));
  std::memcpy(record.data(), &page, sizeof page);
}

bool text_exchange::read_pages(std::span<const std::byte> records) {
  std::uint64_t longest = 0;
  bytes_ = 0;
  const std::uint64_t begin = pages_++ * k_page_bytes;
  for (std::size_t r = 0; r * board::record_bytes < records.size(); ++r) {
    text_page page;
    std::memcpy(&page, records.data() + r * board::record_bytes, sizeof page);
    longest = std::max(longest, page.whole);
    bytes_ += page.whole;
    if (page.whole > begin) append(r, page.whole, {page.text, std::min<std::size_t>(page.whole - begin, k_page_bytes)});
  }
  return longest <= pages_ * k_page_bytes;
}

// Appends a page to a member's text. If memory runs out, the texts are dropped, but the exchange continues, because the
// other members wait for this rank's pages.
void text_exchange::append(std::size_t member, std::uint64_t whole, std::string_view page) {
  if (texts_.empty()) return;
  try {
    texts_[member].reserve(whole);
    texts_[member] += page;
  } catch (const std::exception&) {  // bad_alloc, length_error
    texts_.clear();
  }
}

}  // namespace lsched
