// Tests of structs with a member `struct_size`. A caller may have been compiled with an older or newer lsched.h, whose
// structs have fewer or more members. k_structs has each such struct of the header, and a call that accepts the struct.
#include <gtest/gtest.h>
#include <array>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <span>
#include <sstream>

#include "bindings/c/lsched.h"
#include "bindings/c/sized.h"
#include "tests/support/one_bucket.h"

namespace lsched::testing {

/// A struct in version 2 of an imaginary header. Version 1 had no member `later`.
struct grown {
  std::size_t struct_size;
  std::int64_t first;
  std::int64_t later;
};
using lsched::published_as;
constexpr published published_as(const grown*) { return {"grown", 16}; }

namespace {

constexpr std::uint64_t k_limit_ns = 30'000'000'000;

/// A caller's struct in a heap block of exactly `bytes` bytes, so that the address sanitizer detects accesses beyond
/// the end of the struct.
class caller_struct {
 public:
  template <class Struct>
  explicit caller_struct(const Struct& content, std::size_t bytes = sizeof(Struct))
      : bytes_(std::max(bytes, sizeof(std::size_t))), memory_(std::malloc(bytes_)) {
    std::memset(memory_.get(), 0, bytes_);
    std::memcpy(memory_.get(), &content, std::min(bytes_, sizeof content));
    set_size(bytes);
  }
  void set_size(std::size_t bytes) { std::memcpy(memory_.get(), &bytes, sizeof bytes); }
  template <class Struct>
  Struct* as() const {
    return static_cast<Struct*>(memory_.get());
  }
  std::span<unsigned char> bytes() const { return {as<unsigned char>(), bytes_}; }

 private:
  struct freed {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::size_t bytes_;
  std::unique_ptr<void, freed> memory_;
};

/// A world of one rank with objects and descs for the calls of k_structs.
struct world_of_one {
  world_of_one() {
    lsched_config config;
    lsched_config_init(&config);
    config.region_bytes = 64 << 20;
    EXPECT_EQ(lsched_world_open_threads(1, &config, &runtime, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_sparse_create(runtime, &sparse_desc, &sparse, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_partial_create(runtime, &partial_desc, &partial, nullptr), LSCHED_OK);
  }
  ~world_of_one() {
    for (lsched_schedule* it : {sparse, partial})
      EXPECT_EQ(lsched_schedule_destroy(it, k_limit_ns, nullptr), LSCHED_OK);
    EXPECT_EQ(lsched_world_close(runtime), LSCHED_OK);
  }
  world_of_one(const world_of_one&) = delete;
  world_of_one& operator=(const world_of_one&) = delete;

  lsched_world* runtime = nullptr;
  lsched_schedule *sparse = nullptr, *partial = nullptr;
  float in[4]{}, out[4]{};
  std::uint64_t indices[4]{}, item_count = 0, out_indices[4]{}, out_count = 0;

  const lsched_user_op user_op{.struct_size = sizeof user_op,
                               .combine = [](const void*, const void*, void*, std::uint64_t, void*) {},
                               .dtype = LSCHED_F32,
                               .unit = 1};
  const lsched_collective_desc collective_desc{
      .struct_size = sizeof collective_desc, .collective = "bcast", .output = out, .count = 4, .dtype = LSCHED_F32};
  const lsched_sparse_desc sparse_desc{
      .struct_size = sizeof sparse_desc, .gradient = in, .update = out, .count = 4, .k = 2, .dtype = LSCHED_F32};
  const lsched_coo_desc coo_desc{.struct_size = sizeof coo_desc,
                                 .indices = indices,
                                 .values = in,
                                 .item_count = &item_count,
                                 .room = 4,
                                 .out_indices = out_indices,
                                 .out_values = out,
                                 .out_count = &out_count,
                                 .out_room = 4,
                                 .count = 4,
                                 .dtype = LSCHED_F32};
  const lsched_partial_desc partial_desc{.struct_size = sizeof partial_desc,
                                         .count = 4,
                                         .dtype = LSCHED_F32,
                                         .reduction = LSCHED_SUM,
                                         .activation = "full"};

  /// Creates a schedule and destroys it. Returns the status of the create.
  template <class Desc>
  lsched_status create(lsched_status (*make)(lsched_world*, const Desc*, lsched_schedule**, lsched_diagnostic*),
                       const Desc* desc, lsched_diagnostic* why) const {
    lsched_schedule* made = nullptr;
    const lsched_status answer = make(runtime, desc, &made, why);
    EXPECT_EQ(answer == LSCHED_OK, made != nullptr);
    EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, nullptr), LSCHED_OK);
    return answer;
  }
};

constexpr std::string_view k_text =
    "libsched schedule 2\nname \"\"\nrank 0 of 1\nflags\nactivation none seed 0\nop 0 nop\nexit 0\n";

/// A struct of the header, and a function that accepts the struct. The caller sets the members. If `is_filled_in` is
/// true, the function sets the members instead.
struct sized_struct {
  published as;
  std::size_t bytes;
  bool is_filled_in;
  std::function<caller_struct(const world_of_one&, std::size_t bytes)> make;
  std::function<lsched_status(const world_of_one&, const caller_struct&, lsched_diagnostic*)> use;
};

template <class Struct, class Use>
sized_struct passed_in(Struct (*content)(const world_of_one&), Use use) {
  return {published_as(static_cast<const Struct*>(nullptr)), sizeof(Struct), false,
          [content](const world_of_one& in, std::size_t bytes) { return caller_struct(content(in), bytes); },
          [use](const world_of_one& in, const caller_struct& it, lsched_diagnostic* why) {
            return use(in, it.as<const Struct>(), why);
          }};
}

template <class Struct, class Use>
sized_struct filled_in(Use use) {
  return {published_as(static_cast<const Struct*>(nullptr)), sizeof(Struct), true,
          [](const world_of_one&, std::size_t bytes) { return caller_struct(Struct{}, bytes); },
          [use](const world_of_one& in, const caller_struct& it, lsched_diagnostic* why) {
            return use(in, it.as<Struct>(), why);
          }};
}

using in = const world_of_one&;

const sized_struct k_structs[] = {
    passed_in<lsched_config>(
        [](in) {
          lsched_config config;
          lsched_config_init(&config);
          config.region_bytes = 64 << 20;
          return config;
        },
        [](in, const lsched_config* it, lsched_diagnostic* why) {
          lsched_world* opened = nullptr;
          const lsched_status answer = lsched_world_open_threads(1, it, &opened, why);
          EXPECT_EQ(lsched_world_close(opened), LSCHED_OK);
          return answer;
        }),
    passed_in<lsched_user_op>([](in world) { return world.user_op; },
                              [](in world, const lsched_user_op* it, lsched_diagnostic* why) {
                                lsched_collective_desc desc = world.collective_desc;
                                desc.collective = "allreduce";
                                desc.input = world.in;
                                desc.user_op = it;
                                return world.create(lsched_collective_create, &desc, why);
                              }),
    passed_in<lsched_collective_desc>([](in world) { return world.collective_desc; },
                                      [](in world, const lsched_collective_desc* it, lsched_diagnostic* why) {
                                        return world.create(lsched_collective_create, it, why);
                                      }),
    passed_in<lsched_counts>(
        [](in world) {
          return lsched_counts{
              .struct_size = sizeof(lsched_counts), .send_counts = &world.item_count, .recv_counts = &world.item_count};
        },
        [](in world, const lsched_counts* it, lsched_diagnostic* why) {
          lsched_collective_desc desc = world.collective_desc;
          desc.collective = "gatherv";
          desc.input = nullptr, desc.output = nullptr, desc.count = 0, desc.reduction = lsched_reduction{};
          desc.capacity = LSCHED_ANY_COUNT;
          lsched_schedule* made = nullptr;
          EXPECT_EQ(lsched_collective_create(world.runtime, &desc, &made, why), LSCHED_OK);
          const void* const input = world.in;
          std::array<float, 4> got{};
          void* const output = got.data();
          lsched_ticket ticket{};
          const lsched_status answer = lsched_start_with(made, &input, &output, it, &ticket);
          if (answer == LSCHED_OK) {
            EXPECT_EQ(lsched_wait(ticket, k_limit_ns, why), LSCHED_OK);
          }
          EXPECT_EQ(lsched_schedule_destroy(made, k_limit_ns, nullptr), LSCHED_OK);
          // lsched_start_with has no diagnostic parameter, so the test gets the error text here.
          if (const auto read = read_struct(it); !read) (void)report(why, read.error());
          return answer;
        }),
    passed_in<lsched_sparse_desc>([](in world) { return world.sparse_desc; },
                                  [](in world, const lsched_sparse_desc* it, lsched_diagnostic* why) {
                                    return world.create(lsched_sparse_create, it, why);
                                  }),
    passed_in<lsched_coo_desc>([](in world) { return world.coo_desc; },
                               [](in world, const lsched_coo_desc* it, lsched_diagnostic* why) {
                                 return world.create(lsched_coo_allreduce_create, it, why);
                               }),
    passed_in<lsched_partial_desc>([](in world) { return world.partial_desc; },
                                   [](in world, const lsched_partial_desc* it, lsched_diagnostic* why) {
                                     return world.create(lsched_partial_create, it, why);
                                   }),
    passed_in<lsched_groups>(
        [](in world) { return lsched_groups{.struct_size = sizeof(lsched_groups), .all = world.runtime, .shards = 1}; },
        [](in world, const lsched_groups* it, lsched_diagnostic* why) {
          lsched_partial_desc desc = world.partial_desc;
          desc.groups = it;
          return world.create(lsched_partial_create, &desc, why);
        }),
    passed_in<lsched_verify_desc>(
        [](in) {
          return lsched_verify_desc{.struct_size = sizeof(lsched_verify_desc), .collective = "barrier", .ranks = 3};
        },
        [](in, const lsched_verify_desc* it, lsched_diagnostic* why) {
          lsched_verification answer{.struct_size = sizeof answer};
          return lsched_verify(it, &answer, nullptr, 0, why);
        }),
    passed_in<lsched_simulate_desc>(
        [](in) {
          return lsched_simulate_desc{
              .struct_size = sizeof(lsched_simulate_desc), .text = k_text.data(), .bytes = k_text.size(), .round = 1};
        },
        [](in, const lsched_simulate_desc* it, lsched_diagnostic* why) {
          lsched_simulation answer{.struct_size = sizeof answer};
          return lsched_simulate(it, &answer, nullptr, 0, why);
        }),
    filled_in<lsched_diagnostic>([](in, lsched_diagnostic* it, lsched_diagnostic*) {
      EXPECT_EQ(lsched_world_open_threads(0, nullptr, nullptr, it), LSCHED_ERR_ARGUMENT);
      return it->status == LSCHED_ERR_ARGUMENT && it->text[0] != '\0' ? LSCHED_OK : LSCHED_ERR_ARGUMENT;
    }),
    filled_in<lsched_node>(
        [](in world, lsched_node* it, lsched_diagnostic*) { return lsched_node_of(world.runtime, 0, it); }),
    filled_in<lsched_stats>(
        [](in world, lsched_stats* it, lsched_diagnostic*) { return lsched_get_stats(world.runtime, it); }),
    filled_in<lsched_sparse_stats>([](in world, lsched_sparse_stats* it, lsched_diagnostic*) {
      return lsched_sparse_get_stats(world.sparse, it);
    }),
    filled_in<lsched_arrival>([](in world, lsched_arrival* it, lsched_diagnostic* why) {
      lsched_mailbox* box = nullptr;
      lsched_message *sent = nullptr, *got = nullptr;
      char from = 'x', to = 0;
      EXPECT_EQ(lsched_mailbox_create(world.runtime, &box, why), LSCHED_OK);
      EXPECT_EQ(lsched_send_post(box, 0, 7, &from, 1, &sent), LSCHED_OK);
      EXPECT_EQ(lsched_receive_post(box, 0, 7, &to, 1, &got), LSCHED_OK);
      const lsched_status answer = lsched_message_wait(&got, k_limit_ns, it, why);
      if (got != nullptr) {
        EXPECT_EQ(lsched_message_test(&got, nullptr), LSCHED_OK);
      }
      EXPECT_EQ(lsched_message_test(&sent, nullptr), LSCHED_OK);
      EXPECT_EQ(lsched_mailbox_destroy(box), LSCHED_OK);
      return answer;
    }),
    filled_in<lsched_report>([](in world, lsched_report* it, lsched_diagnostic* why) {
      lsched_ticket ticket{};
      EXPECT_EQ(lsched_offer(world.partial, one_bucket(world.in), &ticket), LSCHED_OK);
      return lsched_collect(ticket, nullptr, k_limit_ns, it, why);
    }),
    filled_in<lsched_partial_stats>([](in world, lsched_partial_stats* it, lsched_diagnostic*) {
      return lsched_schedule_stats(world.partial, it);
    }),
    filled_in<lsched_simulation>([](in, lsched_simulation* it, lsched_diagnostic* why) {
      const lsched_simulate_desc desc{
          .struct_size = sizeof desc, .text = k_text.data(), .bytes = k_text.size(), .round = 1};
      return lsched_simulate(&desc, it, nullptr, 0, why);
    }),
    filled_in<lsched_verification>([](in, lsched_verification* it, lsched_diagnostic* why) {
      const lsched_verify_desc desc{.struct_size = sizeof desc, .text = k_text.data(), .bytes = k_text.size()};
      return lsched_verify(&desc, it, nullptr, 0, why);
    }),
};

struct diagnostic : lsched_diagnostic {
  diagnostic() : lsched_diagnostic{.struct_size = sizeof(lsched_diagnostic)} {}
  bool says(std::string_view word) const { return std::string_view(text).find(word) != std::string_view::npos; }
};

TEST(c_sized, every_struct_of_the_header_is_tried_here) {
  std::stringstream header;
  header << std::ifstream(LSCHED_TEST_SOURCE_DIR "/bindings/c/lsched.h").rdbuf();
  const std::string text = header.str();
  const std::regex sized(R"(typedef struct (\w+) \{\s*size_t struct_size;)");
  std::vector<std::string> expected, tried;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), sized); it != std::sregex_iterator(); ++it)
    expected.push_back((*it)[1]);
  for (const sized_struct& it : k_structs) tried.emplace_back(it.as.name);
  std::ranges::sort(expected);
  std::ranges::sort(tried);
  EXPECT_EQ(tried, expected);
  const auto mentions = std::regex(R"(struct_size;)");
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), mentions), std::sregex_iterator()),
            static_cast<std::ptrdiff_t>(expected.size()))
      << "struct_size comes first";
}

TEST(c_sized, a_struct_is_taken_at_its_size_and_with_zeros_behind_it) {
  const world_of_one world;
  for (const sized_struct& it : k_structs)
    for (const std::size_t more : {0u, 1u, 8u, 200u}) {
      SCOPED_TRACE(std::string(it.as.name) + " and " + std::to_string(more) + " bytes");
      const caller_struct mine = it.make(world, it.bytes + more);
      diagnostic why;
      EXPECT_EQ(it.use(world, mine, &why), LSCHED_OK) << why.text;
      EXPECT_EQ(*mine.as<std::size_t>(), it.bytes + more);
    }
}

TEST(c_sized, a_size_that_no_version_has_is_refused) {
  const world_of_one world;
  for (const sized_struct& it : k_structs)
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof(std::size_t), it.as.least - 8,
                                   it.as.least - 1, k_most_struct_bytes + 1, SIZE_MAX}) {
      SCOPED_TRACE(std::string(it.as.name) + " of " + std::to_string(size) + " bytes");
      caller_struct mine = it.make(world, std::min(size, it.bytes));
      mine.set_size(size);
      const std::vector<unsigned char> before(mine.bytes().begin(), mine.bytes().end());
      diagnostic why;
      if (size < it.as.least && it.as.name == "lsched_diagnostic") continue;  // such a diagnostic receives no text
      EXPECT_EQ(it.use(world, mine, &why), LSCHED_ERR_ARGUMENT);
      EXPECT_TRUE(std::ranges::equal(mine.bytes(), before)) << "a refused struct must not change";
      if (!it.is_filled_in) {
        EXPECT_TRUE(why.says(std::string(it.as.name) + ".struct_size is " + std::to_string(size))) << why.text;
      }
    }
}

TEST(c_sized, a_diagnostic_that_is_too_small_is_left_alone) {
  for (const std::size_t size : {std::size_t{0}, sizeof(std::size_t), sizeof(lsched_diagnostic) - 1}) {
    const caller_struct mine(lsched_diagnostic{}, size);
    EXPECT_EQ(lsched_world_open_threads(0, nullptr, nullptr, mine.as<lsched_diagnostic>()), LSCHED_ERR_ARGUMENT);
    EXPECT_TRUE(std::ranges::all_of(mine.bytes().subspan(sizeof size), [](unsigned char byte) { return byte == 0; }));
  }
}

TEST(c_sized, members_that_are_not_known_must_be_zero_in_what_a_caller_fills_in) {
  const world_of_one world;
  for (const sized_struct& it : k_structs)
    for (const std::size_t at : {it.bytes, it.bytes + 15}) {
      SCOPED_TRACE(it.as.name);
      const caller_struct mine = it.make(world, it.bytes + 16);
      mine.bytes()[at] = 1;
      diagnostic why;
      const lsched_status answer = it.use(world, mine, &why);
      if (it.is_filled_in) {
        EXPECT_EQ(answer, LSCHED_OK) << why.text;
        EXPECT_EQ(mine.bytes()[at], 0) << "unknown members must become zero";
      } else {
        EXPECT_EQ(answer, LSCHED_ERR_VERSION) << why.text;
        EXPECT_TRUE(why.says(it.as.name)) << why.text;
        EXPECT_EQ(why.status, LSCHED_ERR_VERSION);
      }
    }
}

TEST(c_sized, a_sparse_desc_inside_a_partial_one_may_be_of_another_version) {
  const world_of_one world;
  lsched_sparse_desc sparse = world.sparse_desc;
  sparse.gradient = nullptr;
  sparse.update = nullptr;
  for (const std::uint8_t last : std::array<std::uint8_t, 2>{0, 1}) {
    const caller_struct mine(sparse, sizeof sparse + 8);
    mine.bytes().back() = last;
    lsched_partial_desc desc = world.partial_desc;
    desc.sparse = mine.as<lsched_sparse_desc>();
    diagnostic why;
    EXPECT_EQ(world.create(lsched_partial_create, &desc, &why), last == 0 ? LSCHED_OK : LSCHED_ERR_VERSION) << why.text;
  }
}

TEST(c_sized, what_init_leaves_is_of_the_callers_size) {
  const caller_struct config(lsched_config{}, sizeof(lsched_config) + 24);
  std::ranges::fill(config.bytes(), static_cast<unsigned char>(0xaa));
  lsched_config_init_sized(config.as<lsched_config>(), sizeof(lsched_config) + 24);
  EXPECT_EQ(config.as<lsched_config>()->struct_size, sizeof(lsched_config) + 24);
  EXPECT_EQ(config.as<lsched_config>()->progress_core, -1);
  EXPECT_TRUE(std::ranges::all_of(config.bytes().subspan(sizeof(lsched_config)), [](auto it) { return it == 0; }));
  lsched_config_init(nullptr);
}

TEST(c_sized, members_that_an_older_caller_lacks_have_their_defaults) {
  const caller_struct old(grown{.struct_size = 16, .first = 5, .later = 77}, 16);
  const auto asked = read_struct(old.as<const grown>(), grown{.struct_size = sizeof(grown), .first = 1, .later = 2});
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->struct_size, sizeof(grown));
  EXPECT_EQ(asked->first, 5);
  EXPECT_EQ(asked->later, 2);
  const auto zero = read_struct(old.as<const grown>());
  ASSERT_TRUE(zero);
  EXPECT_EQ(zero->later, 0);
}

TEST(c_sized, an_older_callers_struct_is_not_written_beyond_its_end) {
  const caller_struct old(grown{.struct_size = 16, .first = 5, .later = 77}, 16);
  ASSERT_TRUE(is_there(old.as<grown>()));
  write_struct(old.as<grown>(), grown{.struct_size = sizeof(grown), .first = 8, .later = 9});
  EXPECT_EQ(old.as<grown>()->struct_size, 16u);
  EXPECT_EQ(old.as<grown>()->first, 8);
}

}  // namespace
}  // namespace lsched::testing
