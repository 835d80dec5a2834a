#include "kv/kv_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace pagoda {
namespace {

// Memory and block operations only.
class MemoryBackend final : public Backend {
 public:
  std::string name() const override { return "memory"; }
  Allocator& allocator() override { return allocator_; }
  DType activation_dtype() const override { return DType::f32; }
  void copy_to_device(std::byte* to, const std::byte* from, int64_t n) override {
    std::memcpy(to, from, n);
  }
  void copy_to_host(std::byte* to, const std::byte* from, int64_t n) override {
    std::memcpy(to, from, n);
  }
  void synchronize() override {}
  int64_t packed_bytes(DType, int64_t, int64_t) const override { return 0; }
  void pack_rows(Weight&, int64_t, ConstTensorView) override {}
  int64_t workspace_bytes(const WorkspaceShape&) const override { return 0; }
  void reserve_workspace(const WorkspaceShape&) override {}
  void embed(const EmbedArgs&) override {}
  void norm(const NormArgs&) override {}
  void linear(const LinearArgs&) override {}
  void activation(const ActivationArgs&) override {}
  void rope_angles(const RopeAnglesArgs&) override {}
  void rope_store_kv(const RopeStoreKvArgs&) override {}
  void attention(const AttentionArgs&) override {}
  void gather_rows(const GatherRowsArgs&) override {}
  void process_logits(const ProcessLogitsArgs&) override {}
  void sample(const SampleArgs&) override {}
  void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) override {
    for (const KvView& kv : layers)
      for (const BlockCopy& copy : copies)
        std::memcpy(kv.head(copy.to, 0), kv.head(copy.from, 0), kv.block_bytes());
  }
  void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) override {
    for (const KvView& kv : layers)
      for (const int32_t block : blocks) std::memset(kv.head(block, 0), 0, kv.block_bytes());
  }
  void read_kv(const KvView&, int64_t, std::span<float>, std::span<float>) override {}

 private:
  HostAllocator allocator_;
};

std::vector<KvLayerSpec> six_layers() {
  std::vector<KvLayerSpec> specs(6, {.kv_heads = 2, .k_dim = 8, .v_dim = 8, .window = 32});
  specs[2].window = specs[5].window = 0;
  return specs;
}

struct KvStorageTest : testing::Test {
  KvStorageTest() : layout(make_kv_layout(six_layers(), KvDType::int8, 16)) {}
  MemoryBackend backend;
  KvLayout layout;
};

TEST_F(KvStorageTest, takes_what_the_plan_says) {
  for (const KvDType dtype : {KvDType::f32, KvDType::bf16, KvDType::int8, KvDType::int4}) {
    const KvLayout plan = make_kv_layout(six_layers(), dtype, 0);
    const KvStorage storage(backend, plan, 7);
    EXPECT_EQ(backend.allocator().allocated(MemoryTag::kv), kv_bytes(plan, 7));
    EXPECT_EQ(backend.allocator().allocated(), kv_bytes(plan, 7));
  }
}

TEST_F(KvStorageTest, every_block_of_every_place_has_its_own_bytes) {
  const KvStorage storage(backend, layout, 5);
  ASSERT_EQ(storage.layers().size(), 6u);
  // Each group writes its own block ids, as the pool would give them; nothing may collide.
  for (size_t layer = 0; layer < 6; layer++) {
    const KvView& kv = storage.layers()[layer];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(kv.base) % 64, 0u);
    std::memset(kv.head(layout.group_of_layer[layer], 0), int(layer) + 1, kv.block_bytes());
  }
  for (size_t layer = 0; layer < 6; layer++) {
    const KvView& kv = storage.layers()[layer];
    const std::byte* bytes = kv.head(layout.group_of_layer[layer], 0);
    EXPECT_TRUE(std::all_of(
        bytes, bytes + kv.block_bytes(), [&](std::byte b) { return b == std::byte(layer + 1); }));
  }
}

TEST_F(KvStorageTest, run_zeroes_and_then_copies_all_layers_of_a_block) {
  KvStorage storage(backend, layout, 4);
  for (const KvView& kv : storage.layers()) std::memset(kv.base, 7, 4 * kv.block_bytes());
  const int32_t zero[] = {2, 3};
  const BlockCopy copies[] = {{0, 3}};
  storage.run(zero, copies);
  for (const KvView& kv : storage.layers()) {
    EXPECT_EQ(*kv.head(1, 0), std::byte{7});
    EXPECT_EQ(*kv.head(2, 0), std::byte{0});
    EXPECT_EQ(*kv.head(3, 1), std::byte{7});
  }
}

}  // namespace
}  // namespace pagoda
