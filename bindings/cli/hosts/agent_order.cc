#include "bindings/cli/hosts/agent_order.h"

#include <charconv>

namespace lsched::cli {
namespace {

/// Reads fields that end with a null character.
class field_reader {
 public:
  explicit field_reader(std::string_view text) : rest_(text) {}

  void operator()(std::string& into) {
    const auto end = rest_.find('\0');
    is_valid_ = is_valid_ && end != std::string_view::npos;
    if (!is_valid_) return;
    into = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
  }
  template <class Number>
  void operator()(Number& into) {
    std::string text;
    (*this)(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
    is_valid_ = is_valid_ && error == std::errc() && end == text.data() + text.size();
  }
  void operator()(bool& into) {
    int number = 0;
    (*this)(number);
    into = number != 0;
  }
  void operator()(std::vector<std::string>& into) {
    std::size_t count = 0;
    (*this)(count);
    for (; is_valid_ && count > 0; --count) (*this)(into.emplace_back());
  }
  bool is_complete() const { return is_valid_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_valid_ = true;
};

/// Writes the fields that field_reader reads.
struct field_writer {
  std::string text{};

  void operator()(const std::string& field) { (text += field) += '\0'; }
  template <class Number>
  void operator()(const Number& number) {
    (*this)(std::to_string(number));
  }
  void operator()(const std::vector<std::string>& fields) {
    (*this)(fields.size());
    for (const std::string& each : fields) (*this)(each);
  }
};

template <class Order, class Visit>
void visit_fields(Order& order, Visit& visit) {
  visit(order.first);
  visit(order.ranks);
  visit(order.ranks_of_world);
  visit(order.start_timeout_s);
  visit(order.bind);
  visit(order.prepends_rank);
  visit(order.ignores_interrupts);
  visit(order.ignores_hangups);
  visit(order.title);
  visit(order.master);
  visit(order.master_port);
  visit(order.folder);
  visit(order.words);
  visit(order.environment);
}

}  // namespace

std::string agent_order::text() const {
  field_writer writer;
  visit_fields(*this, writer);
  return writer.text;
}

std::optional<agent_order> agent_order::read(std::string_view text) {
  agent_order order;
  field_reader reader(text);
  visit_fields(order, reader);
  if (!reader.is_complete() || order.words.empty() || order.ranks < 1) return std::nullopt;
  return order;
}

}  // namespace lsched::cli
