#include "backend/cuda/cuda_backend.h"

#include <vector>

#include "backend/cuda/append.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/block_copy.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/kv_read.h"
#include "backend/cuda/limits.h"
#include "backend/cuda/linear.h"
#include "backend/cuda/rows.h"
#include "backend/cuda/sample.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

// A stream with an owner.
class Stream {
 public:
  explicit Stream(int32_t device) {
    CUDA_CHECK(cudaSetDevice(device));
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

int32_t multiprocessors_of(int32_t device) {
  int count = 0;
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options)
      : options_(options),
        name_(fmt::format("cuda ({})", device_name(options.device))),
        allocator_(options.device),
        stream_(options.device),
        attention_(stream_.get(), multiprocessors_of(options.device)),
        sampling_(stream_.get()) {}
  ~CudaBackend() override { cudaStreamSynchronize(stream_.get()); }

  std::string name() const override { return name_; }
  Allocator& allocator() override { return allocator_; }
  DType activation_dtype() const override { return options_.activations; }
  bool uses_host_memory() const override { return false; }
  int64_t available_bytes() const override;
  void copy_to_device(std::byte* device, const std::byte* host, int64_t bytes) override {
    copy(device, host, bytes, cudaMemcpyHostToDevice);
  }
  void copy_to_host(std::byte* host, const std::byte* device, int64_t bytes) override {
    copy(host, device, bytes, cudaMemcpyDeviceToHost);
  }
  void synchronize() override {
    begin();
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  }

  int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) const override {
    return cuda::packed_bytes(dtype, rows, cols);
  }
  void pack_rows(Weight& weight, int64_t first_row, ConstTensorView rows) override {
    cuda::pack_rows(weight, first_row, rows, begin());
  }

  int64_t workspace_bytes(const WorkspaceShape& shape) const override {
    check_limits(shape);
    CUDA_CHECK(cudaSetDevice(options_.device));
    return attention_.workspace_bytes(shape) + Sampling::workspace_bytes(shape);
  }
  void reserve_workspace(const WorkspaceShape& shape) override {
    synchronize();
    // The old one goes last: attention and sampling know where it lies, until they know better.
    Buffer workspace = allocator_.allocate(workspace_bytes(shape), MemoryTag::workspace);
    workspace_.swap(workspace);
    attention_.reserve(shape, workspace_.data());
    sampling_.reserve(shape, workspace_.data() + attention_.workspace_bytes(shape));
  }

  void embed(const EmbedArgs& args) override { cuda::embed(args, begin()); }
  void norm(const NormArgs& args) override { cuda::norm(args, begin()); }
  void linear(const LinearArgs& args) override { cuda::linear(args, begin()); }
  void activation(const ActivationArgs& args) override { cuda::activation(args, begin()); }
  void rope_angles(const RopeAnglesArgs& args) override { cuda::rope_angles(args, begin()); }
  void rope_store_kv(const RopeStoreKvArgs& args) override {
    cuda::rope_store_kv({.args = args}, begin());
    appended_ = true;
  }
  void attention(const AttentionArgs& args) override {
    const bool behind_append = appended_;
    begin();
    attention_.run(args, behind_append ? EarlyLoads::older_keys : EarlyLoads::none);
  }
  void gather_rows(const GatherRowsArgs& args) override { cuda::gather_rows(args, begin()); }
  void process_logits(const ProcessLogitsArgs& args) override {
    begin();
    sampling_.process_logits(args);
  }
  void sample(const SampleArgs& args) override {
    begin();
    sampling_.sample(args);
  }
  void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) override {
    cuda::copy_blocks(layers, copies, begin());
  }
  void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) override {
    cuda::zero_blocks(layers, blocks, begin());
  }
  void read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v) override;

 private:
  // Before each operation: this thread's device, and what may overlap.
  LaunchOptions begin() {
    CUDA_CHECK(cudaSetDevice(options_.device));
    appended_ = false;
    return {.stream = stream_.get()};
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, begin().stream));
    CUDA_CHECK(cudaStreamSynchronize(stream_.get()));
  }

  CudaOptions options_;
  std::string name_;
  DeviceAllocator allocator_;
  Stream stream_;
  Attention attention_;
  Sampling sampling_;
  Buffer workspace_;
  bool appended_ = false;  // the last operation was rope_store_kv
};

int64_t CudaBackend::available_bytes() const {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaSetDevice(options_.device));
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(free);
}

void CudaBackend::read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v) {
  const KvFormat& format = kv.format;
  const int64_t block = slot / format.block_size;
  PG_CHECK(slot >= 0 && block < kv.num_blocks, "slot {} of {} blocks", slot, kv.num_blocks);
  std::vector<std::byte> bytes(kv.block_bytes());
  copy_to_host(bytes.data(), kv.head(block, 0), kv.block_bytes());
  for (int32_t head = 0; head < kv.kv_heads; head++)
    read_kv_row(format,
                bytes.data() + head * format.head_bytes(),
                static_cast<int32_t>(slot % format.block_size),
                k.subspan(int64_t{head} * format.k_dim, format.k_dim),
                v.subspan(int64_t{head} * format.v_dim, format.v_dim));
}

}  // namespace

int32_t num_devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

std::string device_name(int32_t device) {
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return fmt::format("{}, sm_{}{}", properties.name, properties.major, properties.minor);
}

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  PG_CHECK(options.activations == DType::bf16 || options.activations == DType::f16,
           "activations of {}",
           name(options.activations));
  if (options.device >= num_devices())
    throw Error(
        "cuda.no_device", "there is no GPU {}: this machine has {}", options.device, num_devices());
  return std::make_unique<CudaBackend>(options);
}

}  // namespace pagoda::cuda
