// What a consumer warp knows beside its sums: its team, the item at hand with its columns (query
// row x head) and queries, and its place in the ring. A team is 4 warps that share columns; teams
// of one block read the same slots.
#pragma once

#include "backend/cuda/decode_operands.cuh"
#include "backend/cuda/decode_producer.cuh"

namespace pagoda::cuda {

struct alignas(16) Column {
  int token, head;  // -1: unused
  int position, first_key;
  int part;  // index of its partial; -1: the answer is written here
  int unused[3];
};

template <class G>
class ItemOfConsumer {
 protected:
  static constexpr int kT = G::kTiles;
  static constexpr bool kWgmma = G::kWantsWgmma && PAGODA_SM90;

  __device__ __forceinline__ ItemOfConsumer(const DecodeParams& params, uint8_t* smem)
      : p_(params), smem_(smem), base_(smem_addr(smem)), team_(threadIdx.x / kTeamThreads) {}

  // Reads item `index` and describes its columns; only the plan is read.
  __device__ __forceinline__ void take_item(int index, int kv_head, int turn) {
    item_ = read_item(p_, index);
    kv_head_ = kv_head;
    columns_ = reinterpret_cast<Column*>(smem_ + G::kColumnsAt) +
               (turn * G::kTeams + team_) * G::kTeamColumns;
    describe_columns();
  }
  __device__ __forceinline__ void team_barrier() const { named_barrier(1 + team_, kTeamThreads); }

  // ---- the item's columns and queries

  __device__ __forceinline__ void describe_columns() {
    const int num_heads = item_.num_heads, thread = threadIdx.x % kTeamThreads;
    used_ = min(item_.num_rows * num_heads - team_ * G::kTeamColumns, G::kTeamColumns);
    if (thread < G::kTeamColumns) {
      Column x = {-1, 0, -1, 0, -1, {}};
      if (thread < used_) {
        const int c = team_ * G::kTeamColumns + thread;
        const int4* row = reinterpret_cast<const int4*>(p_.rows + item_.first_row + c / num_heads);
        const int4 a = __ldg(row), b = __ldg(row + 1);  // DecodeRow
        x.token = a.x;
        x.position = a.y;
        x.first_key = a.z;
        x.head = kv_head_ * p_.group + item_.first_head + c % num_heads;
        x.part = b.y == 1 ? -1 : a.w + item_.part;
      }
      columns_[thread] = x;
    }
    team_barrier();
    if (used_ <= 0) return;
    all_from_ = columns_[used_ - 1].first_key;
    all_to_ = columns_[0].position + 1;
  }

  __device__ __forceinline__ const uint8_t* query_row(int column) const {
    const Column& c = columns_[column];
    if (c.token < 0) return nullptr;
    return static_cast<const uint8_t*>(p_.q) + c.token * p_.q_row_bytes +
           int64_t{c.head} * G::kHeadDim * 2;
  }
  __device__ __forceinline__ uint32_t to_operand(uint32_t two) const {
    if (p_.q_is_bf16 == G::kBf16) return two;
    float2 x;
    if (p_.q_is_bf16)
      x = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&two));
    else
      x = __half22float2(*reinterpret_cast<__half2*>(&two));
    return pack16<G::kBf16>(x.x, x.y);
  }

  __device__ __forceinline__ void load_query() {
    if constexpr (G::kQueryInShared) {
      constexpr int kUnits = G::kHeadDim / 8;
      for (int i = threadIdx.x % kTeamThreads; i < G::kTeamColumns * kUnits; i += kTeamThreads) {
        const int column = i / kUnits, unit = i % kUnits;
        const uint8_t* from = query_row(column);
        uint4 x = from ? *reinterpret_cast<const uint4*>(from + unit * 16) : make_uint4(0, 0, 0, 0);
        x = {to_operand(x.x), to_operand(x.y), to_operand(x.z), to_operand(x.w)};
        *reinterpret_cast<uint4*>(smem_ + G::kQueryAt + team_ * G::kQueryBytes +
                                  unit_offset(2 * G::kHeadDim, column, unit)) = x;
      }
      fence_async_proxy();
      team_barrier();
    } else {
#pragma unroll
      for (int t = 0; t < kT; t++) {
        const uint8_t* from = query_row(t * 8 + at_.row);
#pragma unroll
        for (int k = 0; k < Query<G>::kSteps; k++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int dim = query_dim<G>(k, h, at_.pair);
            query_.b[t][k][h] =
                from ? to_operand(*reinterpret_cast<const uint32_t*>(from + dim * 2)) : 0;
          }
      }
      query_.sum_up();
    }
  }

  // ---- the ring

  __device__ __forceinline__ uint32_t take() const {
    mbarrier_wait(full_barrier(base_, place_.slot), place_.parity);
    const uint32_t slot = base_ + G::kRingAt + place_.slot * G::kSlotBytes;
    return kWgmma ? __shfl_sync(~0u, slot, 0) : slot;  // uniform, for descriptors
  }
  __device__ __forceinline__ int advance() {
    const int slot = place_.slot;
    place_.next(p_.num_slots);
    return slot;
  }
  __device__ __forceinline__ void release(int slot) const {
    __syncwarp();
    if (at_.lane == 0) mbarrier_arrive(empty_barrier(base_, slot));
  }

  const DecodeParams& p_;
  uint8_t* smem_;
  uint32_t base_;
  int team_;
  Lane at_;
  DecodeItem item_;
  int kv_head_ = 0;
  int used_ = 0;  // columns of this team
  Column* columns_ = nullptr;
  int all_from_ = 0, all_to_ = 0;  // keys that every column sees
  Query<G> query_;
  RingPlace place_;
};

}  // namespace pagoda::cuda
