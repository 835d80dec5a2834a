// The matrix units: ldmatrix, stmatrix, mma.sync m16n8k16, and wgmma with both operands in shared
// memory. Fragments: lane l holds row l / 4 (and + 8) and columns 2 (l % 4), + 1 of a 16 x 8
// result. mma.sync and wgmma give equal bits for equal operands, so a kernel may choose either.
//
// wgmma operands lie in 8-row groups of 128-byte atoms with the 128-byte swizzle (kv_layout.h):
// smem_descriptor(address, leading, stride) takes the byte distances that the PTX manual calls LBO
// and SBO.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr)
               : "memory");
}
#if PAGODA_SM90
__device__ __forceinline__ void stmatrix_x2_trans(uint32_t addr, uint32_t x, uint32_t y) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(addr), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void stmatrix_x4(
    uint32_t addr, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(addr),
               "r"(x),
               "r"(y),
               "r"(z),
               "r"(w)
               : "memory");
}
#endif
__device__ __forceinline__ void store_shared_u16(uint32_t addr, uint32_t x) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(addr), "h"(static_cast<uint16_t>(x)) : "memory");
}
__device__ __forceinline__ uint4 load_shared16(uint32_t addr) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(addr)
               : "memory");
  return v;
}
__device__ __forceinline__ void load_shared8(uint32_t addr, uint32_t& x, uint32_t& y) {
  asm volatile("ld.shared.v2.b32 {%0,%1}, [%2];" : "=r"(x), "=r"(y) : "r"(addr) : "memory");
}
__device__ __forceinline__ uint32_t load_shared4(uint32_t addr) {
  uint32_t x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(addr) : "memory");
  return x;
}
__device__ __forceinline__ uint16_t load_shared2(uint32_t addr) {
  uint16_t x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(addr) : "memory");
  return x;
}
__device__ __forceinline__ void store_shared16(uint32_t addr, const uint4& v) {
  asm volatile(
      "st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(addr), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}
__device__ __forceinline__ void store_shared_zero16(uint32_t addr) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};" ::"r"(addr), "r"(0) : "memory");
}

// c += a b, f32 accumulation; operands bf16 or f16.
template <bool kBf16>
__device__ __forceinline__ void mma(float (&c)[4],
                                    const uint32_t (&a)[4],
                                    uint32_t b0,
                                    uint32_t b1) {
  if constexpr (kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
// Two floats as a pair of 16 bits, `lo` in the low half.
template <bool kBf16>
__device__ __forceinline__ uint32_t pack16(float lo, float hi) {
  uint32_t r;
  if constexpr (kBf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  }
  return r;
}

#if PAGODA_SM90
__device__ __forceinline__ uint64_t smem_descriptor(uint32_t addr, int leading, int stride) {
  return static_cast<uint64_t>((addr & 0x3FFFF) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | uint64_t{1} << 62;
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// d = a b, or d += a b with `add`: m64n16k16; kTransA: A is M-major in memory.
template <bool kBf16, int kTransA>
__device__ __forceinline__ void wgmma_n16(float (&d)[2][4], uint64_t a, uint64_t b, int add) {
#define PAGODA_WGMMA_N16(TYPE)                                                                 \
  asm volatile(                                                                                \
      "{.reg .pred p; setp.ne.b32 p, %10, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, %11, 0;}"                                  \
      : "+f"(d[0][0]),                                                                         \
        "+f"(d[0][1]),                                                                         \
        "+f"(d[0][2]),                                                                         \
        "+f"(d[0][3]),                                                                         \
        "+f"(d[1][0]),                                                                         \
        "+f"(d[1][1]),                                                                         \
        "+f"(d[1][2]),                                                                         \
        "+f"(d[1][3])                                                                          \
      : "l"(a), "l"(b), "r"(add), "n"(kTransA))
  if constexpr (kBf16) {
    PAGODA_WGMMA_N16("bf16.bf16");
  } else {
    PAGODA_WGMMA_N16("f16.f16");
  }
#undef PAGODA_WGMMA_N16
}
#endif

}  // namespace pagoda::cuda
