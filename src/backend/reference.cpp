#include "backend/reference.h"

#include <cstring>

#include "backend/reference_ops.h"

namespace pagoda {
namespace {

bool can_be_multiplied(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || is_quantised(dtype);
}

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference (float64)"; }
  Allocator& allocator() override { return allocator_; }
  DType activation_dtype() const override { return DType::f32; }
  void copy_to_device(std::byte* device, const std::byte* host, int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(std::byte* host, const std::byte* device, int64_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void synchronize() override {}

  // A packed weight is the checkpoint's bytes.
  int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) const override {
    if (!can_be_multiplied(dtype))
      throw Error(
          "model.unsupported_type", "weights of type {} cannot be multiplied", pagoda::name(dtype));
    PG_CHECK(cols % info(dtype).block_elements == 0, "{} columns of {}", cols, pagoda::name(dtype));
    return rows * bytes_of(dtype, cols);
  }
  void pack_rows(Weight& weight, int64_t first_row, ConstTensorView rows) override {
    PG_CHECK(rows.contiguous(), "row bytes {}", rows.row_bytes());
    std::memcpy(weight.data.data() + first_row * bytes_of(weight.dtype, weight.cols),
                rows.data(),
                rows.num_bytes());
  }
  int64_t workspace_bytes(const WorkspaceShape&) const override { return 0; }
  void reserve_workspace(const WorkspaceShape&) override {}

  void embed(const EmbedArgs& args) override { reference::embed(args); }
  void norm(const NormArgs& args) override { reference::norm(args); }
  void linear(const LinearArgs& args) override { reference::linear(args); }
  void activation(const ActivationArgs& args) override { reference::activation(args); }
  void rope_angles(const RopeAnglesArgs& args) override { reference::rope_angles(args); }
  void rope_store_kv(const RopeStoreKvArgs& args) override { reference::rope_store_kv(args); }
  void attention(const AttentionArgs& args) override { reference::attention(args); }
  void gather_rows(const GatherRowsArgs& args) override { reference::gather_rows(args); }
  void process_logits(const ProcessLogitsArgs& args) override { reference::process_logits(args); }
  void sample(const SampleArgs& args) override { reference::sample(args); }

  void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) override {
    for (const KvView& kv : layers)
      for (const BlockCopy& copy : copies)
        std::memmove(kv.head(copy.to, 0), kv.head(copy.from, 0), kv.block_bytes());
  }
  void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) override {
    for (const KvView& kv : layers)
      for (const int32_t block : blocks) std::memset(kv.head(block, 0), 0, kv.block_bytes());
  }
  void read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v) override {
    for (int32_t head = 0; head < kv.kv_heads; head++) {
      const auto key = reference::load_kv(kv, slot, head, reference::KvPart::k);
      const auto value = reference::load_kv(kv, slot, head, reference::KvPart::v);
      for (size_t i = 0; i < key.size(); i++) k[head * key.size() + i] = float(key[i]);
      for (size_t i = 0; i < value.size(); i++) v[head * value.size() + i] = float(value[i]);
    }
  }

 private:
  HostAllocator allocator_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace pagoda
