#include "kv/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace pagoda {
namespace {

std::vector<KvLayerSpec> uniform(int32_t layers, int32_t kv_heads, int32_t dim) {
  return std::vector<KvLayerSpec>(layers, {.kv_heads = kv_heads, .k_dim = dim, .v_dim = dim});
}

double gib_at(const std::vector<KvLayerSpec>& layers, KvDType dtype, int64_t tokens) {
  return double(make_kv_layout(layers, dtype, 0).bytes_per_token() * tokens) / (1 << 30);
}

// Every period-th layer sees everything, the others a window.
std::vector<KvLayerSpec> alternating(int32_t layers, int32_t period, int32_t window) {
  std::vector<KvLayerSpec> specs;
  for (int32_t i = 0; i < layers; i++)
    specs.push_back(
        {.kv_heads = 1, .k_dim = 256, .v_dim = 256, .window = (i + 1) % period == 0 ? 0 : window});
  return specs;
}

std::string kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return "";
}

TEST(KvLayout, llama2_takes_what_the_papers_say) {
  EXPECT_DOUBLE_EQ(gib_at(uniform(32, 32, 128), KvDType::f16, 2048), 1.0);
  EXPECT_DOUBLE_EQ(gib_at(uniform(40, 40, 128), KvDType::f16, 2048), 1.5625);
  EXPECT_DOUBLE_EQ(gib_at(uniform(80, 8, 128), KvDType::f16, 2048), 0.625);
  EXPECT_DOUBLE_EQ(gib_at(uniform(80, 64, 128), KvDType::f16, 2048), 5.0);
}

TEST(KvLayout, scales_count) {
  // int8: 2 more bytes for each (token, head) of K and of V; int4: 4.5 bits an element.
  EXPECT_EQ(make_kv_layout(uniform(32, 32, 128), KvDType::int8, 0).bytes_per_token(),
            32 * 32 * 2 * (128 + 2));
  EXPECT_EQ(make_kv_layout(uniform(32, 32, 128), KvDType::int4, 0).bytes_per_token(),
            32 * 32 * 2 * 128 * 9 / 16);
}

TEST(KvLayout, equal_layers_are_one_group) {
  const KvLayout layout = make_kv_layout(uniform(30, 3, 64), KvDType::bf16, 0);
  ASSERT_EQ(layout.groups.size(), 1u);
  EXPECT_EQ(layout.layers_per_group, 30);
  EXPECT_EQ(layout.layers[7].slot, 7);
  EXPECT_EQ(layout.block_bytes(), 30 * 16 * layout.bytes_per_token() / 30);
}

TEST(KvLayout, gemma_layers_become_groups_of_three_without_padding) {
  const KvLayout layout = make_kv_layout(alternating(18, 6, 512), KvDType::bf16, 0);
  EXPECT_EQ(layout.layers_per_group, 3);
  EXPECT_EQ(layout.groups.size(), 6u);
  EXPECT_EQ(layout.num_padding_layers(), 0);
  for (size_t i = 0; i < layout.layers.size(); i++)
    EXPECT_EQ(layout.groups[layout.group_of_layer[i]].spec.window, (i + 1) % 6 == 0 ? 0 : 512);
}

TEST(KvLayout, padding_is_stated_where_groups_would_be_many) {
  const KvLayout layout = make_kv_layout(alternating(62, 6, 1024), KvDType::bf16, 0);
  EXPECT_LE(layout.groups.size(), 8u);
  int32_t layers = 0;
  for (const KvGroup& group : layout.groups) {
    layers += group.num_layers;
    if (group.spec.window == 0) {
      EXPECT_EQ(group.num_layers, layout.layers_per_group);
    }
  }
  EXPECT_EQ(layers, 62);
  EXPECT_EQ(layout.num_padding_layers(), std::ssize(layout.groups) * layout.layers_per_group - 62);
}

TEST(KvLayout, no_two_layers_share_a_place) {
  const KvLayout layout = make_kv_layout(alternating(20, 3, 64), KvDType::f32, 16);
  std::vector<std::pair<int32_t, int32_t>> places;
  for (const KvLayerPlace& place : layout.layers) {
    EXPECT_LT(place.slot, layout.layers_per_group);
    places.emplace_back(place.group, place.slot);
  }
  std::ranges::sort(places);
  EXPECT_EQ(std::ranges::adjacent_find(places), places.end());
}

TEST(KvLayout, a_window_holds_a_windows_blocks) {
  EXPECT_EQ(kv_blocks_of_sequence(0, 16, 1000, 256), 63);
  EXPECT_EQ(kv_blocks_of_sequence(64, 16, 1000, 1), 5);
  EXPECT_EQ(kv_blocks_of_sequence(64, 16, 1000, 32), 7);
  EXPECT_EQ(kv_blocks_of_sequence(64, 16, 20, 32), 2);
}

TEST(KvLayout, tokens_within_is_the_inverse_of_blocks_of_sequence) {
  const KvLayout layout = make_kv_layout(alternating(18, 6, 64), KvDType::bf16, 0);
  for (int64_t blocks = 1; blocks < 120; blocks++) {
    const int64_t tokens = layout.tokens_within(blocks, 32, 1 << 20);
    EXPECT_LE(layout.blocks_of_sequence(tokens, 32), blocks);
    EXPECT_GT(layout.blocks_of_sequence(tokens + 1, 32), blocks);
  }
  EXPECT_EQ(layout.tokens_within(1000, 32, 50), 50);
}

TEST(KvLayout, what_cannot_be_laid_out_is_refused) {
  EXPECT_EQ(kind_of([] { make_kv_layout({}, KvDType::f16, 0); }), "kv.unsupported_layout");
  EXPECT_EQ(kind_of([] { make_kv_layout(uniform(2, 2, 12), KvDType::f16, 0); }),
            "kv.unsupported_layout");
  EXPECT_EQ(kind_of([] { make_kv_layout(uniform(2, 2, 64), KvDType::f16, 8); }),
            "kv.bad_block_size");
  std::vector<KvLayerSpec> mixed = uniform(2, 2, 64);
  mixed[1].kv_heads = 4;
  EXPECT_EQ(kind_of([&] { make_kv_layout(mixed, KvDType::f16, 0); }), "kv.unsupported_layout");
  const KvLayout layout = make_kv_layout(uniform(80, 64, 128), KvDType::f32, 0);
  EXPECT_EQ(kind_of([&] { kv_bytes(layout, int64_t{1} << 50); }), "kv.size_overflow");
}

}  // namespace
}  // namespace pagoda
