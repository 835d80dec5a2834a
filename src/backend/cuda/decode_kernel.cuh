// decode_kernel: causal softmax(q kᵀ scale) v for a few query rows per sequence over the paged
// cache.
//   In: q [T, H * D], cache [N][KH][K | V | scales], block table, the plan's items and rows. Out:
//   [T, H * D] for rows of one part; else partials [parts][H][D] f32 for merge.cu.
//   A block walks items (a section of 2048 keys, a chunk of 256, or whole rows) of up to 8, wide
//   16, columns (rows x heads of one KV head) a team. The last warp loads; the 4 warps of a team
//   take 16 keys of each 64 in S = K Qᵀ and a slice of the dims in Oᵀ = Vᵀ P. Moves KV once: 2 D
//   bytes(dtype) per key and KV head; 4 D H FLOPs per key and row. Limits, checked by decode.cpp: S
//   a multiple of 16, columns <= the teams', slots >= min_slots (decode_plan.h). Must equal
//   reference attention; bits depend on the row alone (decode_params.h).
#pragma once

#include "backend/cuda/decode_chunk.cuh"

namespace pagoda::cuda {

template <class G, int kT>
class Consumer : ChunkOfConsumer<G, kT> {
  using Base = ChunkOfConsumer<G, kT>;
  using Base::advance, Base::release, Base::take;
  using Base::at_, Base::item_, Base::kv_head_, Base::p_;
  using typename Base::T;
  using State = typename Base::State;

 public:
  __device__ __forceinline__ Consumer(const DecodeParams& params, uint8_t* smem)
      : Base(params, smem) {}

  __device__ __forceinline__ void run() {
    PlanSize& size = *reinterpret_cast<PlanSize*>(Base::smem_ + kPlanSizeAt);
    if (threadIdx.x == 0) size = plan_size(p_);
    named_barrier(2 * T::kMaxTeams + 1, p_.num_teams * kTeamThreads);
    for (int work = blockIdx.x; work < size.num_work; work += gridDim.x) {
      this->take_item(work / p_.kv_heads, work % p_.kv_heads);
      pdl_wait();  // after the first item it is over
      const ChunkRange chunks = chunks_of(item_, size.chunks_per_part);
      if (this->used_ > 0)
        attend_all(chunks);
      else
        pass_by(chunks);
    }
    pdl_wait();
  }

 private:
  // A team without columns only lets the slots go.
  __device__ __forceinline__ void pass_by(const ChunkRange& chunks) {
    for (int i = 0; i < (chunks.end - chunks.begin) * (2 * kChunk / G::kSlotKeys); i++) {
      take();
      release(advance());
    }
  }

  __device__ __forceinline__ void attend_all(const ChunkRange& chunks) {
    this->load_query();
    this->score_scale_ = p_.score_scale * (p_.k_scales ? p_.k_scales[kv_head_] : 1.f);
    State section;
    section.reset();
    bool earlier = false;  // sections of the item, joined, lie in shared memory
    for (int chunk = chunks.begin; chunk < chunks.end; chunk++) {
      if (chunk % kChunksPerSection == 0 && chunk > chunks.begin) {
        if (earlier) section = joined(section);
        section.put(row_place(), kTeamThreads);
        section.reset();
        earlier = true;
      }
      State now;
      this->attend(chunk, now);
      section.fold_in(now);
    }
    if (earlier) section = joined(section);
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 2; j++) hand_over(section, t, j);
  }

  __device__ __forceinline__ float* row_place() const {
    return reinterpret_cast<float*>(Base::smem_ + Base::team_at_ + T::kRowAt) +
           threadIdx.x % kTeamThreads;
  }
  __device__ __forceinline__ State joined(const State& section) const {
    State row;
    row.get(row_place(), kTeamThreads);
    row.fold_in(section);
    return row;
  }

  // The item's result for one of this lane's columns: a partial, or the answer.
  __device__ __forceinline__ void hand_over(const State& total, int t, int j) const {
    const Column c = this->column(t * 8 + 2 * at_.pair + j);
    if (c.token < 0) return;
    const int dims = p_.head_dim;
    const bool first = at_.warp == 0 && at_.row == 0;
    float values[2 * G::kDimTiles];
#pragma unroll
    for (int k = 0; k < 2 * G::kDimTiles; k++) values[k] = total.values[k / 2][t][k % 2 * 2 + j];
    if (c.part >= 0) {
      const int64_t part = int64_t{c.part} * (p_.kv_heads * p_.group) + c.head;
      if (first) p_.part_sum[part] = {total.maximum[t][j], total.sum[t][j]};
      float* out = p_.part_out + part * p_.head_dim + output_dim<G>(at_, 0, 0);
#pragma unroll
      for (int k = 0; k < 2 * G::kDimTiles; k++)
        if (output_dim<G>(at_, k / 2, k % 2) < dims) out[output_step<G>(k)] = values[k];
      return;
    }
    const Ending end = finish(total.maximum[t][j], total.sum[t][j], p_.sinks, c.head);
    const float gain = end.gain * (p_.v_scales ? p_.v_scales[c.head / p_.group] : 1.f);
    if (first && p_.log_sum_exp)
      p_.log_sum_exp[c.token * p_.sum_row_floats + c.head] = end.log_sum_exp;
    uint8_t* out = static_cast<uint8_t*>(p_.out) + c.token * p_.out_row_bytes +
                   (c.head * p_.head_dim + output_dim<G>(at_, 0, 0)) * 2;
#pragma unroll
    for (int k = 0; k < 2 * G::kDimTiles; k++)
      if (output_dim<G>(at_, k / 2, k % 2) < dims)
        store_out(out, output_step<G>(k), values[k] * gain, p_.q_is_bf16);
  }
};

template <class G, int kT>
__global__ void __launch_bounds__(Team<G, kT>::kMaxThreads,
                                  PAGODA_SM90 ? Team<G, kT>::kBlocksOfTeams : 1)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) uint8_t smem[];
  const uint32_t base = smem_addr(smem);
  pdl_launch_next();
  if (threadIdx.x < kMaxSlots) init_barriers(base, threadIdx.x, kTeamWarps * p.num_teams);
  if (threadIdx.x == kMaxSlots)  // a thread with nothing else to do
    prefetch(p.items + blockIdx.x / p.kv_heads);
  __syncthreads();
  if (threadIdx.x >= p.num_teams * kTeamThreads) return Producer<G>(p, base).run();
  Consumer<G, kT>(p, smem).run();
}

}  // namespace pagoda::cuda
