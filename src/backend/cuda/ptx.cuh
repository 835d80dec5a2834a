// Thin wrappers for the PTX that kernels here are written in: barriers in shared memory, bulk and
// 16-byte asynchronous copies, programmatic dependent launch, named barriers. One wrapper is one
// instruction; names say what the instruction does. Shared memory is addressed by 32-bit addresses
// (smem_addr).
//
// The same kernels are compiled for sm_90a and, as PTX, for compute_80: what Hopper alone has is
// behind PAGODA_SM90, and each wrapper says what it becomes below.
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PAGODA_SM90 1
#else
#define PAGODA_SM90 0
#endif

namespace pagoda::cuda {

__device__ __forceinline__ uint32_t smem_addr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- mbarrier: phases of `count` arrivals (and, on Hopper, of expected bytes)

__device__ __forceinline__ void mbarrier_init(uint32_t bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
// Makes initialised barriers visible to the copy engine; before the block's barrier.
__device__ __forceinline__ void mbarrier_init_fence() {
#if PAGODA_SM90
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ __forceinline__ void mbarrier_arrive(uint32_t bar) {
#if PAGODA_SM90
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
#else
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(bar)
               : "memory");
#endif
}
// Waits for the end of the phase of this parity (a fresh barrier's parity 1 has ended).
__device__ __forceinline__ void mbarrier_wait(uint32_t bar, uint32_t parity) {
#if PAGODA_SM90
  asm volatile(
      "{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(bar),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred p;\nAGAIN: mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(bar),
      "r"(parity)
      : "memory");
#endif
}

#if PAGODA_SM90
__device__ __forceinline__ bool mbarrier_test(uint32_t bar, uint32_t parity) {
  int ended;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(ended)
      : "r"(bar), "r"(parity)
      : "memory");
  return ended != 0;
}
#endif

// ---- copies, global to shared

#if PAGODA_SM90
// One arrival, and `bytes` more to land before the phase ends.
__device__ __forceinline__ void mbarrier_expect(uint32_t bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
               : "memory");
}
// bytes: a multiple of 16, both addresses too.
__device__ __forceinline__ void bulk_copy(uint32_t dst, const void* src, int bytes, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(dst),
      "l"(src),
      "r"(bytes),
      "r"(bar)
      : "memory");
}
// To the same place of both blocks of a cluster, each of whose barriers `bar` counts the bytes.
__device__ __forceinline__ void bulk_copy_both(uint32_t dst,
                                               const void* src,
                                               int bytes,
                                               uint32_t bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(dst),
      "l"(src),
      "r"(bytes),
      "r"(bar),
      "h"(static_cast<uint16_t>(3))
      : "memory");
}
// The box of a [row, head, column] tensor map that starts there.
__device__ __forceinline__ void box_copy(
    uint32_t dst, const void* map, int column, int row, int head, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4}], [%5];" ::"r"(dst),
      "l"(map),
      "r"(column),
      "r"(row),
      "r"(head),
      "r"(bar)
      : "memory");
}
#endif
__device__ __forceinline__ void copy16(uint32_t dst, const void* src) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(dst), "l"(src)
               : "memory");
}
// Of 16 bytes, the first `bytes` are read (0: none), the others become 0.
__device__ __forceinline__ void copy16_or_zero(uint32_t dst, const void* src, int bytes) {
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes)
      : "memory");
}
// This thread's copies since the last commit are a group; waits for all but the newest kPending.
__device__ __forceinline__ void copy16_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void copy16_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// Arrives at `bar` once this thread's copy16s so far have landed; counts as one of its arrivals.
__device__ __forceinline__ void copy16_arrive(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
// Orders this thread's ordinary writes to shared memory before reads and writes of the copy engine
// and of wgmma; below Hopper there is nothing to order.
__device__ __forceinline__ void fence_async_proxy() {
#if PAGODA_SM90
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if PAGODA_SM90
// ---- clusters of blocks: an address in a peer's shared memory is one's own plus a distance

__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ uint32_t peer_address(uint32_t own, int rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
  return address;
}
__device__ __forceinline__ void cluster_barrier() {  // all threads of all its blocks
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive_cluster(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}
// Two words as one; the reader polls.
__device__ __forceinline__ void store_peer8(uint32_t at, int x, int y) {
  asm volatile("st.volatile.shared::cluster.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(x), "r"(y)
               : "memory");
}
__device__ __forceinline__ void load_volatile8(uint32_t at, int& x, int& y) {
  asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"(at) : "memory");
}
__device__ __forceinline__ void store_shared8(uint32_t at, int x, int y) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(x), "r"(y) : "memory");
}
#endif

// ---- programmatic dependent launch: below Hopper the stream's order does it

// Everything earlier on the stream is done and visible.
__device__ __forceinline__ void pdl_wait() {
#if PAGODA_SM90
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel on the stream may start (up to its own pdl_wait) once all blocks said so.
__device__ __forceinline__ void pdl_launch_next() {
#if PAGODA_SM90
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- small things

// Asks for the line of `from`, which a load soon reads.
__device__ __forceinline__ void prefetch(const void* from) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(from)));
}

__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
#if PAGODA_SM90
// Moves registers between warpgroups; for each a whole warpgroup must call.
template <int kRegisters>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
#endif
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float rcp_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// `count` bits from bit `from` on (32 or more: none are left).
__device__ __forceinline__ uint32_t bit_mask(int from, int count) {
  uint32_t x;
  asm("bmsk.clamp.b32 %0, %1, %2;" : "=r"(x) : "r"(from), "r"(count));
  return x;
}
// (x & mask) | bits as one LOP3; written in C++ it became two.
__device__ __forceinline__ uint32_t and_or(uint32_t x, uint32_t mask, uint32_t bits) {
  uint32_t y;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(y) : "r"(x), "r"(mask), "r"(bits));
  return y;
}

}  // namespace pagoda::cuda
