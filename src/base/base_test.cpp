#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>

#include "base/buffer.h"
#include "base/checked.h"
#include "base/half.h"
#include "base/queue.h"
#include "base/random.h"
#include "base/tensor.h"
#include "base/threads.h"

namespace pagoda {
namespace {

TEST(Checked, overflow_sticks_and_names_the_thing) {
  EXPECT_EQ((Checked(7) * 6 + 1).value("x.y", "z"), 43);
  EXPECT_FALSE((Checked(INT64_MAX) + 1 - 1).valid());
  EXPECT_FALSE(Checked(uint64_t{1} << 63).valid());
  EXPECT_FALSE((Checked(int64_t{1} << 32) * (int64_t{1} << 31)).valid());
  EXPECT_FALSE(Checked(INT64_MAX - 3).align_up(32).valid());
  EXPECT_EQ(Checked(33).align_up(32).get(), 64);
  try {
    (Checked(INT64_MAX) * 2).value("gguf.size_overflow", "tensor a");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "gguf.size_overflow");
    EXPECT_NE(e.message().find("tensor a"), std::string::npos);
  }
}

TEST(Half, every_f16_survives_a_round_trip) {
  for (uint32_t bits = 0; bits < 65536; bits++) {
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) continue;  // NaN
    EXPECT_EQ(f32_to_f16(f16_to_f32(uint16_t(bits))), bits);
    EXPECT_EQ(f32_to_bf16(bf16_to_f32(uint16_t(bits))) & 0x7fff,
              (bits & 0x7fff) > 0x7f80 ? (bits | 0x40) & 0x7fff : bits & 0x7fff);
  }
}

TEST(Half, f16_rounds_to_nearest_even_like_the_compiler) {
  for (uint64_t i = 0; i < 200000; i++) {
    const float x =
        float((uniform_draw(1, 0, i) - 0.5) * std::exp2(40 * uniform_draw(2, 0, i) - 28));
    const _Float16 expected = static_cast<_Float16>(x);
    EXPECT_EQ(f32_to_f16(x), std::bit_cast<uint16_t>(expected)) << x;
  }
}

TEST(Random, philox_gives_the_published_vector) {
  // Random123 kat_vectors: philox4x32 10, counter and key all ones.
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
}

TEST(Random, draws_are_uniform_and_differ_by_choice) {
  double sum = 0;
  for (int i = 0; i < 1000000; i++) sum += uniform_draw(7, 0, i);
  EXPECT_NEAR(sum / 1000000, 0.5, 0.002);
  EXPECT_NE(uniform_draw(7, 0, 3), uniform_draw(7, 1, 3));
}

TEST(Allocator, counts_every_byte_under_its_tag) {
  HostAllocator allocator;
  {
    Buffer small = allocator.allocate(100, MemoryTag::workspace);
    Buffer large = allocator.allocate((int64_t{5} << 20) + 1, MemoryTag::weights);
    EXPECT_EQ(allocator.allocated(MemoryTag::workspace), 100);
    EXPECT_EQ(allocator.allocated(), 101 + (int64_t{5} << 20));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small.data()) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % (2 << 20), 0u);
    EXPECT_EQ(large.as<char>()[5 << 20], 0);
    Buffer moved = std::move(large);
    EXPECT_EQ(large.data(), nullptr);
  }
  EXPECT_EQ(allocator.allocated(), 0);
}

TEST(Allocator, refuses_with_numbers_what_cannot_be_had) {
  HostAllocator allocator;
  try {
    (void)allocator.allocate(int64_t{1} << 60, MemoryTag::kv);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "memory.alloc_failed");
    EXPECT_NE(e.message().find("1152921504606846976"), std::string::npos);
  }
}

TEST(TensorView, slices_share_the_row_distance) {
  std::vector<float> data(12);
  std::iota(data.begin(), data.end(), 0.f);
  TensorView t(reinterpret_cast<std::byte*>(data.data()), DType::f32, {3, 4});
  ConstTensorView k = t.slice_cols(2, 2);
  EXPECT_EQ(k.row<float>(1)[0], 6);
  EXPECT_EQ(k.row_bytes(), 16);
  EXPECT_FALSE(k.contiguous());
  EXPECT_EQ(t.slice_rows(2, 1).row<float>(0)[3], 11);
}

TEST(BoundedQueue, says_full_and_drains_after_close) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.try_push(2));
  EXPECT_FALSE(queue.try_push(3));
  queue.close();
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(ThreadPool, every_thread_runs_every_region_once) {
  for (int n : {1, 2, 5}) {
    ThreadPool pool(n);
    std::vector<int> calls(n);
    for (int i = 0; i < 2000; i++) pool.run([&](int thread) { calls[thread]++; });
    for (int c : calls) EXPECT_EQ(c, 2000);
  }
}

TEST(ThreadPool, a_region_of_more_threads_than_cores_runs_each_share_once) {
  ThreadPool pool(24);
  for (int i = 0; i < 300; i++) {
    std::vector<std::atomic<int>> calls(24);
    pool.run([&](int thread) { calls[size_t(thread)]++; });
    for (const std::atomic<int>& c : calls) ASSERT_EQ(c, 1);
  }
}

TEST(Threads, default_is_within_the_machine) {
  EXPECT_GE(default_num_threads(), 1);
  EXPECT_LE(default_num_threads(), int(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace pagoda
