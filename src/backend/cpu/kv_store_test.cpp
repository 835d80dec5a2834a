#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/cpu_backend.h"

namespace pagoda::cpu {
namespace {

constexpr int32_t kDim = 80, kHeads = 6, kKvHeads = 2, kBlocks = 4, kBlockSize = 32;
const KvDType kDTypes[] = {KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::int8, KvDType::int4};

struct Store {
  explicit Store(KvDType dtype, int num_threads = 2, IsaLevel isa = detected_isa()) {
    backend = make_cpu_backend({.num_threads = num_threads, .isa = isa});
    kv = {.num_blocks = kBlocks,
          .kv_heads = kKvHeads,
          .format = {.dtype = dtype, .block_size = kBlockSize, .k_dim = kDim, .v_dim = kDim}};
    memory = backend->allocator().allocate(kBlocks * kv.block_bytes(), MemoryTag::kv);
    kv.base = memory.data();
  }

  std::unique_ptr<Backend> backend;
  Buffer memory;
  KvView kv;
};

struct Tokens {
  explicit Tokens(int32_t count, float size = 1.f)
      : count(count), q(count * kHeads * kDim), k(count * kKvHeads * kDim), v(k.size()) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0.3f, size);
    for (auto* part : {&q, &k, &v})
      for (float& x : *part) x = normal(random);
    for (int32_t t = 0; t < count; t++) slots.push_back((t * 37 + 5) % (kBlocks * kBlockSize));
  }

  static TensorView view(std::vector<float>& x, int64_t begin, int64_t rows, int64_t cols) {
    return {reinterpret_cast<std::byte*>(x.data() + begin * cols), DType::f32, {rows, cols}};
  }
  RopeStoreKvArgs args(const KvView& kv, int32_t begin, int32_t rows) {
    return {.q = view(q, begin, rows, kHeads * kDim),
            .k = view(k, begin, rows, kKvHeads * kDim),
            .v = view(v, begin, rows, kKvHeads * kDim),
            .num_heads = kHeads,
            .style = RopeStyle::none,
            .slots = std::span(slots).subspan(begin, rows),
            .kv = kv};
  }

  int32_t count;
  std::vector<float> q, k, v;
  std::vector<int32_t> slots;
};

TEST(KvStore, writes_the_same_bytes_however_many_tokens_and_threads_share_a_call) {
  for (IsaLevel isa : supported_isas())
    for (KvDType dtype : kDTypes) {
      Tokens tokens(kBlocks * kBlockSize);
      Store whole(dtype, 1, isa), single(dtype, 1, isa), threads(dtype, 3, isa);
      whole.backend->rope_store_kv(tokens.args(whole.kv, 0, tokens.count));
      threads.backend->rope_store_kv(tokens.args(threads.kv, 0, tokens.count));
      for (int32_t t = tokens.count - 1; t >= 0; t--)
        single.backend->rope_store_kv(tokens.args(single.kv, t, 1));
      const auto size = static_cast<size_t>(whole.memory.size());
      EXPECT_EQ(std::memcmp(whole.memory.data(), single.memory.data(), size), 0) << name(dtype);
      EXPECT_EQ(std::memcmp(whole.memory.data(), threads.memory.data(), size), 0) << name(dtype);
    }
}

TEST(KvStore, skips_slots_below_zero_and_still_rotates_their_queries) {
  for (KvDType dtype : kDTypes) {
    Store store(dtype);
    Tokens tokens(1);
    tokens.slots = {-1};
    std::vector<float> angles(kDim, 0.f);  // cos 0, sin 0: everything rotated is 0
    RopeStoreKvArgs args = tokens.args(store.kv, 0, 1);
    args.style = RopeStyle::half_split;
    args.angles = {reinterpret_cast<std::byte*>(angles.data()), DType::f32, {1, kDim / 2, 2}};
    store.backend->rope_store_kv(args);
    for (int64_t i = 0; i < store.memory.size(); i++)
      ASSERT_EQ(store.memory.data()[i], std::byte{0}) << name(dtype);
    EXPECT_EQ(tokens.q[7], 0.f);
  }
}

// Half a step of the quantisation, of each token's own range.
TEST(KvStore, keeps_values_within_half_a_step) {
  for (IsaLevel isa : supported_isas())
    for (float size : {1e-3f, 1.f, 1e3f})
      for (KvDType dtype : {KvDType::int8, KvDType::int4}) {
        Store store(dtype, 1, isa);
        Tokens tokens(1, size);
        store.backend->rope_store_kv(tokens.args(store.kv, 0, 1));
        std::vector<float> k(kKvHeads * kDim), v(k.size());
        store.backend->read_kv(store.kv, tokens.slots[0], k, v);
        float low = INFINITY, high = -INFINITY;
        for (int32_t d = 0; d < kDim; d++) {
          low = std::min(low, tokens.v[d]);
          high = std::max(high, tokens.v[d]);
        }
        const float step = dtype == KvDType::int8 ? std::max(high, -low) / 127 : (high - low) / 15;
        for (int32_t d = 0; d < kDim; d++)
          EXPECT_NEAR(v[d], tokens.v[d], 0.57f * step + 0.01f * std::abs(tokens.v[d]))
              << name(dtype) << " " << d;
      }
}

TEST(KvStore, stays_finite_for_zeros_constants_and_values_beyond_the_scales) {
  for (IsaLevel isa : supported_isas())
    for (KvDType dtype : {KvDType::int8, KvDType::int4})
      for (float value : {0.f, 2.5f, -1e30f, 1e-30f}) {
        Store store(dtype, 1, isa);
        Tokens tokens(1);
        std::fill(tokens.k.begin(), tokens.k.end(), value);
        tokens.k[3] = -value;
        store.backend->rope_store_kv(tokens.args(store.kv, 0, 1));
        std::vector<float> k(kKvHeads * kDim), v(k.size());
        store.backend->read_kv(store.kv, tokens.slots[0], k, v);
        for (float x : k) ASSERT_TRUE(std::isfinite(x)) << name(dtype) << " " << value;
        const float close = std::abs(value) < 3 ? 0.02f * std::abs(value) + 1e-20f : INFINITY;
        EXPECT_NEAR(k[kDim + 1], value, close) << name(dtype);
      }
}

}  // namespace
}  // namespace pagoda::cpu
