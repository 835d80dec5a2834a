// Backend: the narrow waist between the engine and a device. Allocates, copies, packs weights, and
// runs the operations that a decoder-only transformer is made of, over tensor views. It knows
// nothing of models, requests, or what a block means.
//
// One Backend is driven by one thread. Operations are enqueued in order; on a CPU they are done
// when they return, elsewhere when synchronize() returns. Shapes and dtypes are checked with
// PG_CHECK: by the time a call is made, input has been validated. Every implementation is held
// against the float64 reference (backend/reference) by backend/conformance.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backend/kv_format.h"
#include "backend/op_args.h"
#include "backend/sample_args.h"
#include "backend/weight.h"
#include "base/buffer.h"
#include "base/tensor.h"

namespace pagoda {

// The largest sizes that operations will be called with: what scratch memory is sized from.
struct WorkspaceShape {
  int32_t max_tokens = 0;      // T
  int32_t max_seqs = 0;        // B
  int32_t max_logit_rows = 0;  // R
  int32_t max_context = 0;     // keys of a sequence
  int64_t max_cols = 0;        // longest row that linear reads
  int64_t max_rows = 0;        // widest output of linear
  int64_t norm_cols = 0;       // longest row that norm reads
  int32_t num_heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int64_t vocabulary = 0;           // V
  KvDType kv_dtype = KvDType::f16;  // of the cache
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu (v4-bf16, 2 threads)"
  virtual Allocator& allocator() = 0;
  virtual DType activation_dtype() const = 0;
  // Host memory is backend memory (CPUs): what lies there need not be copied.
  virtual bool uses_host_memory() const { return true; }
  // Bytes of backend memory that could still be allocated; 0: as the system says of the host's.
  virtual int64_t available_bytes() const { return 0; }
  virtual void copy_to_device(std::byte* device, const std::byte* host, int64_t bytes) = 0;
  virtual void copy_to_host(std::byte* host, const std::byte* device, int64_t bytes) = 0;
  virtual void synchronize() = 0;

  // Bytes of pack's result: a pure function of dtype and shape, which the memory plan asks. Throws
  // Error{"model.unsupported_type"} for a dtype that cannot be multiplied, naming it.
  virtual int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) const = 0;
  // A matrix's memory, and its rows packed into it: all at once, or in slices (so that the source's
  // pages can be dropped in between) that begin at multiples of kPackRows.
  static constexpr int64_t kPackRows = 16;
  Weight allocate_weight(DType dtype, int64_t rows, int64_t cols) {
    Weight weight{.dtype = dtype, .rows = rows, .cols = cols, .data = {}};
    weight.data = allocator().allocate(packed_bytes(dtype, rows, cols), MemoryTag::weights);
    return weight;
  }
  virtual void pack_rows(Weight& weight, int64_t first_row, ConstTensorView host_rows) = 0;
  Weight pack(ConstTensorView host_tensor) {
    Weight weight = allocate_weight(host_tensor.dtype(), host_tensor.rows(), host_tensor.cols());
    pack_rows(weight, 0, host_tensor);
    return weight;
  }
  // Scratch memory for operations up to `shape`; reserve takes it, once, before the first
  // operation. Both throw Error{"cuda.unsupported"} for a shape that the device has no kernels for.
  virtual int64_t workspace_bytes(const WorkspaceShape& shape) const = 0;
  virtual void reserve_workspace(const WorkspaceShape& shape) = 0;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void norm(const NormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void activation(const ActivationArgs& args) = 0;
  virtual void rope_angles(const RopeAnglesArgs& args) = 0;
  virtual void rope_store_kv(const RopeStoreKvArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void gather_rows(const GatherRowsArgs& args) = 0;
  virtual void process_logits(const ProcessLogitsArgs& args) = 0;
  virtual void sample(const SampleArgs& args) = 0;
  // For each layer's view: copies blocks; zeroes blocks (when they are taken from the pool). Host
  // spans.
  virtual void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) = 0;
  virtual void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) = 0;

  // K [KH, k_dim] and V [KH, v_dim] of one slot as stored, widened to f32: for tests and
  // inspection.
  virtual void read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v) = 0;

 protected:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
};

}  // namespace pagoda
