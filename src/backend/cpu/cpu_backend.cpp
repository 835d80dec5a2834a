#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/attention.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/small_ops.h"

namespace pagoda::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options)
      : threads_(options.num_threads > 0 ? options.num_threads : default_num_threads()),
        context_{options.isa, kernel_table(options.isa), threads_, allocator_} {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} thread{})",
                       cpu::name(context_.isa),
                       threads_.size(),
                       threads_.size() == 1 ? "" : "s");
  }
  Allocator& allocator() override { return allocator_; }
  DType activation_dtype() const override { return DType::f32; }
  void copy_to_device(std::byte* device, const std::byte* host, int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(std::byte* host, const std::byte* device, int64_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void synchronize() override {}

  int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) const override {
    return cpu::packed_bytes(dtype, rows, cols);
  }
  void pack_rows(Weight& weight, int64_t first_row, ConstTensorView rows) override {
    cpu::pack_rows(context_, weight, first_row, rows);
  }

  // Operations run one after the other: the largest need is the need.
  int64_t workspace_bytes(const WorkspaceShape& shape) const override {
    return std::max({embed_scratch_bytes(shape, threads_.size()),
                     linear_scratch_bytes(shape, threads_.size()),
                     attention_scratch_bytes(shape, threads_.size()),
                     sample_scratch_bytes(shape, threads_.size())});
  }
  void reserve_workspace(const WorkspaceShape& shape) override {
    workspace_ = Buffer();
    workspace_ = allocator_.allocate(workspace_bytes(shape), MemoryTag::workspace);
    context_.scratch = workspace_.data();
    context_.scratch_bytes = workspace_.size();
  }

  void embed(const EmbedArgs& args) override { cpu::embed(context_, args); }
  void norm(const NormArgs& args) override { cpu::norm(context_, args); }
  void linear(const LinearArgs& args) override { cpu::linear(context_, args); }
  void activation(const ActivationArgs& args) override { cpu::activation(context_, args); }
  void rope_angles(const RopeAnglesArgs& args) override { cpu::rope_angles(context_, args); }
  void rope_store_kv(const RopeStoreKvArgs& args) override { cpu::rope_store_kv(context_, args); }
  void attention(const AttentionArgs& args) override { cpu::attention(context_, args); }
  void gather_rows(const GatherRowsArgs& args) override { cpu::gather_rows(context_, args); }
  void process_logits(const ProcessLogitsArgs& args) override {
    cpu::process_logits(context_, args);
  }
  void sample(const SampleArgs& args) override { cpu::sample(context_, args); }
  void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) override {
    cpu::copy_blocks(layers, copies);
  }
  void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) override {
    cpu::zero_blocks(layers, blocks);
  }
  void read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v) override {
    cpu::read_kv(context_, kv, slot, k, v);
  }

 private:
  HostAllocator allocator_;
  ThreadPool threads_;
  Context context_;
  Buffer workspace_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  PG_CHECK(supports(cpu_features(), options.isa), "{} on this machine", name(options.isa));
  return std::make_unique<CpuBackend>(options);
}

}  // namespace pagoda::cpu
