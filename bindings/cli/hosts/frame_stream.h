// Frames between the command `lsched run --hosts` and its agents (`lsched run --agent`), one agent for each host.
//
//      command ── order, input, signal, end, answer, output_taken ──► agent
//      command ◄── output, error, input_taken, request, ended, done, beat ── agent
//
// The connection is the standard input and the standard output of the remote shell. The agent first writes a line that
// names its version. If the connection ends, the agent ends its ranks. The ranks of other hosts detect the loss.
//
// If the network fails, a connection can end without notice. So the agent sends a `beat` each second, beginning with
// its first line. The command closes a connection from which no bytes arrive for k_longest_silence. The agent asks its
// kernel whether the kernel of the command's host acknowledges the beats (shell_connection.h). Output does not delay
// the beats, because the command always reads. So that the command can keep reading, an agent limits the output that
// the command must store for a slow reader.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lsched::cli {

enum class frame_kind : std::uint32_t {
  order,         ///< the ranks of the host (agent_order.h)
  input,         ///< bytes of standard input for rank 0; no bytes: the end of standard input
  signal,        ///< number: a signal for all ranks
  end,           ///< asks the agent to end all ranks
  answer,        ///< bytes: an exchange_answer, and the bytes that follow it (launch_exchange.h)
  output,        ///< lines of standard output
  error,         ///< lines of standard error
  input_taken,   ///< the bytes of the last frame `input` have been written
  request,       ///< number: the rank; bytes: an exchange_request
  ended,         ///< number: the rank; bytes: its wait status as text
  done,          ///< all ranks have ended; number: exit status of the launcher; bytes: a reason if no rank was started
  output_taken,  ///< number: how many bytes of the frames `output` and `error` have been written
  beat,          ///< the agent is alive
};

constexpr std::chrono::seconds k_beat_period{1};
constexpr std::chrono::seconds k_longest_silence{10};  ///< a connection that is silent for longer counts as ended
constexpr std::size_t k_most_untaken = 1 << 20;        ///< maximum bytes of output that an agent sends before the
                                                       ///< command has written them

struct frame {
  frame_kind kind;
  std::int32_t number = 0;
  std::string bytes{};
};

/// Both directions of a connection. The descriptors are set to O_NONBLOCK, and are closed by the destructor.
class frame_stream {
 public:
  /// `longest` is the maximum number of bytes in a frame from the other side.
  frame_stream(int in, int out, std::uint64_t longest);
  ~frame_stream();
  frame_stream(const frame_stream&) = delete;
  frame_stream& operator=(const frame_stream&) = delete;

  int in() const { return in_; }
  int out() const { return out_; }

  /// Reads the available bytes. Returns false if the connection has ended.
  bool read_some();
  /// Returns the next line, or the beginning of a long line. Returns nothing if no complete line has been read.
  std::optional<std::string> take_line();
  /// Returns the next frame, or nothing if no complete frame has been read.
  std::optional<frame> take();
  /// Returns true if the other side has sent a frame that is too long. take() then returns nothing.
  bool has_fault() const { return has_fault_; }

  void send(std::string_view text) { unsent_ += text; }
  void send(frame_kind kind, std::int32_t number = 0, std::string_view bytes = {});
  /// Writes as many bytes as the connection takes. Returns false if the connection has ended.
  bool flush();
  std::size_t unsent() const { return unsent_.size() - sent_; }

 private:
  int in_, out_;
  const std::uint64_t longest_;
  std::string unread_, unsent_;
  std::size_t taken_ = 0, sent_ = 0;  ///< bytes at the beginning of unread_ and of unsent_ that are not needed anymore
  bool has_fault_ = false;
};

}  // namespace lsched::cli
