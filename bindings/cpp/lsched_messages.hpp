// Messages between ranks (lsched.h, "Messages"), for C++.
//
//     lsched::mailbox box(world);
//     lsched::pending_message got = box.receive(LSCHED_ANY_RANK, 7, std::span(buffer));
//     box.send(right, 7, std::span(data)).wait();
//     const lsched_arrival from = got.wait();
#ifndef LSCHED_MESSAGES_HPP
#define LSCHED_MESSAGES_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "lsched.hpp"

namespace lsched {
inline namespace cpp {

/// A posted send or receive. The caller must not use the buffer until the message has ended. The destructor cancels the
/// message, or waits for its end if the transfer has begun.
class [[nodiscard]] pending_message {
 public:
  explicit pending_message(lsched_message* handle) : handle_(handle) {}
  pending_message(pending_message&& from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
  pending_message& operator=(pending_message&& from) noexcept {
    std::swap(handle_, from.handle_);
    return *this;
  }
  ~pending_message() {
    if (handle_ != nullptr && lsched_message_cancel(&handle_) == LSCHED_ERR_BUSY)
      static_cast<void>(lsched_message_wait(&handle_, LSCHED_FOREVER, nullptr, nullptr));
  }

  /// Returns the description of the message if it has ended, else nothing.
  std::optional<lsched_arrival> test() {
    lsched_arrival what{.struct_size = sizeof what, .rank = 0, .tag = 0, .bytes = 0};
    const lsched_status answer = lsched_message_test(&handle_, &what);
    detail::expect(answer);
    return answer == LSCHED_OK ? std::optional(what) : std::nullopt;
  }
  /// Waits until the message has ended. After TIMEOUT, the call may be repeated.
  lsched_arrival wait(timeout limit = timeout::forever()) {
    lsched_arrival what{.struct_size = sizeof what, .rank = 0, .tag = 0, .bytes = 0};
    detail::call call;
    call(lsched_message_wait(&handle_, limit.ns(), &what, call.diagnostic()));
    return what;
  }
  /// Withdraws the message. Returns false if its transfer has begun; the transfer then continues.
  bool cancel() {
    const lsched_status answer = lsched_message_cancel(&handle_);
    if (answer != LSCHED_ERR_BUSY) detail::expect(answer);
    return answer == LSCHED_OK;
  }

 private:
  lsched_message* handle_;
};

/// A mailbox of a world. The mailbox must outlive its messages. The constructor is collective.
class [[nodiscard]] mailbox {
 public:
  explicit mailbox(world& of) {
    lsched_mailbox* made = nullptr;
    detail::call call;
    call(lsched_mailbox_create(of.handle(), &made, call.diagnostic()));
    handle_.reset(made);
  }
  lsched_mailbox* handle() const { return handle_.get(); }

  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T> pending_message send(std::int32_t to, std::int32_t tag,
                                                                std::span<T, N> data) {
    lsched_message* made = nullptr;
    detail::expect(lsched_send_post(handle(), to, tag, data.data(), data.size_bytes(), &made));
    return pending_message(made);
  }
  /// Receives at most room.size() elements. lsched_arrival::bytes is the length of the message in bytes.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T> pending_message receive(std::int32_t from, std::int32_t tag,
                                                                   std::span<T, N> room) {
    lsched_message* made = nullptr;
    detail::expect(lsched_receive_post(handle(), from, tag, room.data(), room.size_bytes(), &made));
    return pending_message(made);
  }

 private:
  struct end {
    void operator()(lsched_mailbox* gone) const { static_cast<void>(lsched_mailbox_destroy(gone)); }
  };
  std::unique_ptr<lsched_mailbox, end> handle_{};
};

}  // namespace cpp
}  // namespace lsched

#endif
