// The waist's attention on CUDA: cuts a step's rows into prompt and sampling rows, plans both on
// the host, uploads the plans and launches decode_attention and prefill_attention on their rows of
// one output. Prefill goes first: decode's blocks then fill what its last row tiles leave free.
//
// Layers of a step ask with the same lengths: plans stay on the device in a ring of slots and are
// found again by what they were made from. Nothing is allocated after reserve().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/attention_split.h"
#include "backend/cuda/decode.h"
#include "backend/cuda/device_memory.h"
#include "backend/cuda/prefill.h"

namespace pagoda::cuda {

class Attention {
 public:
  Attention(cudaStream_t stream, int32_t num_multiprocessors)
      : stream_(stream), num_multiprocessors_(num_multiprocessors) {}
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  // Device memory for operations within `shape`: plans, partials, the ticket.
  int64_t workspace_bytes(const WorkspaceShape& shape) const;
  // `workspace`: that many bytes on the device, zeroed, which must stay.
  void reserve(const WorkspaceShape& shape, std::byte* workspace);

  // Throws Error{"cuda.unsupported"} for what has no kernel.
  void run(const AttentionArgs& args, EarlyLoads early);

 private:
  static constexpr int64_t kSlots = 8;  // an operation of more launches is planned in each layer

  // The workspace: kSlots plans, the ticket, the partials, the 16-bit copy of quantised keys.
  struct Layout {
    DecodePlanShape decode;
    PrefillScratchShape scratch;  // without blocks for a cache of 16 bits
    int64_t prefill_parts_bytes;  // of the partials, which the two kernels use in turn
    int64_t slot_bytes, ticket, partials, copied, total;
  };
  Layout layout(const WorkspaceShape& shape) const;

  struct Slot {
    PinnedBytes host;
    cudaEvent_t uploaded = nullptr;  // the host side may be written again
  };
  // What one launch needs to know of its plan.
  struct DecodePart {
    DecodePlanShape shape;
    int32_t max_parts_per_row, max_sections_per_row, chunks_per_part;
  };
  struct PrefillSize {
    PrefillPlanShape shape;
    int32_t num_copied;
    bool is_copied;  // by the launch before
  };
  struct Planned {
    std::vector<int32_t> key;
    uint64_t first_use = 0;  // prefill parts in order, then decode's, in slots counted from here
    int32_t columns = 8;
    PrefillTileSize tile;
    std::vector<DecodePart> decode;
    std::vector<PrefillSize> prefill;
  };

  PrefillScratchShape scratch_for(const AttentionArgs& args) const;
  AttentionPlan plan(const AttentionArgs& args, Planned& planned) const;
  const std::byte* upload_next(const DecodePlan& plan);
  const std::byte* upload_next(const PrefillPart& part);
  std::span<std::byte> next_slot(int64_t bytes);
  const std::byte* send(std::span<const std::byte> bytes);
  std::byte* slot_on_device(uint64_t use) const {
    return workspace_ + static_cast<int64_t>(use % kSlots) * layout_.slot_bytes;
  }
  void launch_decode(const AttentionArgs& args,
                     const Planned& planned,
                     const DecodePart& part,
                     const std::byte* plan,
                     EarlyLoads early) const;
  void launch_prefill(const AttentionArgs& args,
                      const Planned& planned,
                      const PrefillSize& size,
                      const std::byte* plan) const;

  cudaStream_t stream_;
  int32_t num_multiprocessors_;
  Layout layout_ = {};
  std::byte* workspace_ = nullptr;
  int64_t reserved_width_ = 0;  // H * D
  std::array<Slot, kSlots> slots_;
  uint64_t uses_ = 0;  // slots taken so far
  std::deque<Planned> recent_;
};

}  // namespace pagoda::cuda
