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

template <class G, int kT>
class ItemOfConsumer {
 protected:
  using T = Team<G, kT>;

  __device__ __forceinline__ ItemOfConsumer(const DecodeParams& params, uint8_t* smem)
      : p_(params),
        smem_(smem),
        base_(smem_addr(smem)),
        team_(threadIdx.x / kTeamThreads),
        team_at_(T::kAt + team_ * params.team_bytes),
        columns_at_(team_at_ + T::kColumnsAt) {}

  // Reads item `index` and describes its columns; only the plan is read.
  __device__ __forceinline__ void take_item(int index, int kv_head) {
    item_ = read_item(p_, index);
    kv_head_ = kv_head;
    columns_at_ ^= T::kColumns * int{sizeof(Column)};  // others may still read the last item's
    describe_columns();
  }
  __device__ __forceinline__ void team_barrier() const { named_barrier(1 + team_, kTeamThreads); }
  // For teams that have columns of the item: the others pass it by and may be items ahead, so each
  // number of teams has a barrier of its own.
  __device__ __forceinline__ void item_barrier() const {
    const int teams = (item_.num_rows * item_.num_heads + T::kColumns - 1) / T::kColumns;
    named_barrier(T::kMaxTeams + teams, teams * kTeamThreads);
  }

  // ---- the item's columns and queries

  __device__ __forceinline__ void describe_columns() {
    const int num_heads = item_.num_heads, thread = threadIdx.x % kTeamThreads;
    used_ = min(item_.num_rows * num_heads - team_ * T::kColumns, T::kColumns);
    if (thread < T::kColumns) {
      Column x = {-1, 0, -1, 0, -1, {}};
      if (thread < used_) {
        const int c = team_ * T::kColumns + thread;
        const int4* row = reinterpret_cast<const int4*>(p_.rows + item_.first_row + c / num_heads);
        const int4 a = __ldg(row), b = __ldg(row + 1);  // DecodeRow
        x.token = a.x;
        x.position = a.y;
        x.first_key = a.z;
        x.head = kv_head_ * p_.group + item_.first_head + c % num_heads;
        x.part = b.y == 1 ? -1 : a.w + item_.part;
      }
      column(thread) = x;
    }
    team_barrier();
  }

  __device__ __forceinline__ Column& column(int i) const {
    return reinterpret_cast<Column*>(smem_ + columns_at_)[i];
  }
  __device__ __forceinline__ bool all_see(int begin, int end) const {  // every key of a range
    return begin >= column(used_ - 1).first_key && end <= column(0).position + 1;
  }

  // The operands of both products are bf16, else f16.
  __device__ __forceinline__ bool is_bf16() const { return T::kWide ? p_.kv_is_bf16 : G::kBf16; }
  __device__ __forceinline__ uint32_t pack(float lo, float hi) const {
    return is_bf16() ? pack16<true>(lo, hi) : pack16<false>(lo, hi);
  }

  __device__ __forceinline__ const uint8_t* query_row(int index) const {
    const Column& c = this->column(index);
    if (c.token < 0) return nullptr;
    return static_cast<const uint8_t*>(p_.q) + c.token * p_.q_row_bytes +
           int64_t{c.head} * p_.head_dim * 2;
  }
  __device__ __forceinline__ uint32_t to_operand(uint32_t two) const {
    float2 x;
    if (p_.q_is_bf16)
      x = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&two));
    else
      x = __half22float2(*reinterpret_cast<__half2*>(&two));
    return pack(x.x, x.y);
  }

  __device__ __forceinline__ void load_query() {
    if constexpr (T::kWgmma)
      load_query_shared();
    else
      load_query_registers();
  }
  __device__ __forceinline__ void load_query_shared() {
    constexpr int kUnits = G::kDims / 8;
    for (int i = threadIdx.x % kTeamThreads; i < T::kColumns * kUnits; i += kTeamThreads) {
      const int column = i / kUnits, unit = i % kUnits;
      const uint8_t* from = query_row(column);
      uint4 x = from ? *reinterpret_cast<const uint4*>(from + unit * 16) : make_uint4(0, 0, 0, 0);
      if (p_.q_is_bf16 != is_bf16())
        x = {to_operand(x.x), to_operand(x.y), to_operand(x.z), to_operand(x.w)};
      *reinterpret_cast<uint4*>(smem_ + team_at_ + T::kQueryAt +
                                unit_offset(2 * G::kDims, column, unit)) = x;
    }
    fence_async_proxy();
    team_barrier();
  }
  __device__ __forceinline__ void load_query_registers() {
#pragma unroll
    for (int t = 0; t < kT; t++) {
      const uint8_t* from = query_row(t * 8 + at_.row);
#pragma unroll
      for (int k = 0; k < G::kDims / 16; k++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int dim = query_dim<G>(k, h, at_.pair);
          const bool present = from && dim < p_.head_dim;
          query_.b[t][k][h] = present ? *reinterpret_cast<const uint32_t*>(from + dim * 2) : 0;
        }
      if (p_.q_is_bf16 == is_bf16()) continue;
#pragma unroll
      for (int k = 0; k < G::kDims / 16; k++)
#pragma unroll
        for (int h = 0; h < 2; h++) query_.b[t][k][h] = to_operand(query_.b[t][k][h]);
    }
    query_.sum_up();
  }

  // ---- the ring

  __device__ __forceinline__ uint32_t wait_for(const RingPlace& place) const {
    mbarrier_wait(full_barrier(base_, place.slot), place.parity);
    const uint32_t slot = base_ + p_.ring_at + place.slot * p_.slot_bytes;
    return T::kWgmma ? __shfl_sync(~0u, slot, 0) : slot;  // uniform, for descriptors
  }
  __device__ __forceinline__ uint32_t take() const {
    return wait_for(place_);
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
  int team_, team_at_;  // at: in shared memory
  Lane at_;
  DecodeItem item_;
  int kv_head_ = 0;
  int used_ = 0;    // columns of this team
  int columns_at_;  // in shared memory
  Query<G, kT> query_;
  RingPlace place_;
};

}  // namespace pagoda::cuda
