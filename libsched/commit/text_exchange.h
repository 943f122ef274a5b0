// A text exchange sends a text from each member of a world to all members, over the world's board (transport/board.h).
// A record of the board holds one page of a text. So the exchange needs as many records as the longest text has pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lsched {

class text_exchange {
 public:
  /// `mine` is the text of this rank. `members` is the number of members.
  text_exchange(std::string mine, std::size_t members) : mine_(std::move(mine)), texts_(members) {}

  /// Writes the next page of this rank's text into a record of the board.
  void write_page(std::span<std::byte> record) const;

  /// Reads the next page of each member. `records` is indexed by rank. Returns true if no member has another page.
  bool read_pages(std::span<const std::byte> records);

  /// Returns the total length of all texts, in bytes. read_pages() must have been called before.
  std::uint64_t bytes() const { return bytes_; }

  /// Returns the texts, indexed by rank. The last call of read_pages() must have returned true. Returns an empty span
  /// if memory has run out.
  std::span<const std::string> texts() const { return texts_; }

 private:
  void append(std::size_t member, std::uint64_t whole, std::string_view page);

  const std::string mine_;
  std::vector<std::string> texts_;
  std::uint64_t pages_ = 0;  ///< pages exchanged so far
  std::uint64_t bytes_ = 0;
};

}  // namespace lsched
