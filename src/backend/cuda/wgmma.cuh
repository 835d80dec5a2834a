// wgmma.m64nNk16 with f32 accumulators for the widths that prefill uses: S = Q Kᵀ with both
// operands in shared memory (multiply_shared, K-major), O += P V with P in registers
// (multiply_registers, V MN-major, as it lies). A thread of the warpgroup holds N / 2 accumulators:
// row l / 4 of its warp's 16 (and + 8), columns 8 i + 2 (l % 4), + 1. The register lists are
// spelled by macros, since PTX wants each named; nothing else is in this file.
#pragma once

#include <cstdint>

#include "backend/cuda/mma.cuh"

#if PAGODA_SM90
namespace pagoda::cuda {

template <int N>
struct Wgmma;

// clang-format off
#define PG_TEN(t) "%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define PG_L30 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9," PG_TEN(1) "," PG_TEN(2)
#define PG_L32 PG_L30 ",%30,%31"
#define PG_L40 PG_L30 "," PG_TEN(3)
#define PG_L48 PG_L40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define PG_L64 PG_L40 "," PG_TEN(4) "," PG_TEN(5) ",%60,%61,%62,%63"
#define PG_L96 PG_L40 "," PG_TEN(4) "," PG_TEN(5) "," PG_TEN(6) "," PG_TEN(7) "," PG_TEN(8) ",%90,%91,%92,%93,%94,%95"
#define PG_L128 PG_L40 "," PG_TEN(4) "," PG_TEN(5) "," PG_TEN(6) "," PG_TEN(7) "," PG_TEN(8) "," PG_TEN(9) "," PG_TEN(10) "," PG_TEN(11) ",%120,%121,%122,%123,%124,%125,%126,%127"
#define PG_F8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PG_F32 PG_F8(0), PG_F8(8), PG_F8(16), PG_F8(24)
#define PG_F40 PG_F32, PG_F8(32)
#define PG_F48 PG_F40, PG_F8(40)
#define PG_F64 PG_F48, PG_F8(48), PG_F8(56)
#define PG_F96 PG_F64, PG_F8(64), PG_F8(72), PG_F8(80), PG_F8(88)
#define PG_F128 PG_F96, PG_F8(96), PG_F8(104), PG_F8(112), PG_F8(120)

#define PG_SHARED(N, R, TYPE, a0, a1, a2)                                                          \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #a2 ", 0; wgmma.mma_async.sync.aligned.m64n" #N   \
               "k16.f32." TYPE " {" PG_L##R "}, %" #a0 ", %" #a1 ", p, 1, 1, 0, 0;}"               \
               : PG_F##R : "l"(a), "l"(b), "r"(add))
#define PG_REGISTERS(N, R, TYPE, a0, a1, a2, a3, a4, a5)                                           \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %" #a5 ", 0; wgmma.mma_async.sync.aligned.m64n" #N   \
               "k16.f32." TYPE " {" PG_L##R "}, {%" #a0 ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #a4      \
               ", p, 1, 1, 1;}"                                                                    \
               : PG_F##R : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))
#define PG_WGMMA(N, R, a0, a1, a2, a3, a4, a5)                                                     \
  template <>                                                                                      \
  struct Wgmma<N> {                                                                                \
    template <bool kBf16>                                                                          \
    __device__ static __forceinline__ void multiply_shared(float (&d)[R], uint64_t a, uint64_t b,  \
                                                           int add) {                              \
      if constexpr (kBf16) PG_SHARED(N, R, "bf16.bf16", a0, a1, a2);                               \
      else PG_SHARED(N, R, "f16.f16", a0, a1, a2);                                                 \
    }                                                                                              \
    template <bool kBf16>                                                                          \
    __device__ static __forceinline__ void multiply_registers(float (&d)[R],                       \
                                                              const uint32_t (&a)[4], uint64_t b) {\
      if constexpr (kBf16) PG_REGISTERS(N, R, "bf16.bf16", a0, a1, a2, a3, a4, a5);                \
      else PG_REGISTERS(N, R, "f16.f16", a0, a1, a2, a3, a4, a5);                                  \
    }                                                                                              \
  }
PG_WGMMA(64, 32, 32, 33, 34, 35, 36, 37);
PG_WGMMA(80, 40, 40, 41, 42, 43, 44, 45);
PG_WGMMA(96, 48, 48, 49, 50, 51, 52, 53);
PG_WGMMA(128, 64, 64, 65, 66, 67, 68, 69);
PG_WGMMA(192, 96, 96, 97, 98, 99, 100, 101);
PG_WGMMA(256, 128, 128, 129, 130, 131, 132, 133);
#undef PG_TEN
#undef PG_L30
#undef PG_L32
#undef PG_L40
#undef PG_L48
#undef PG_L64
#undef PG_L96
#undef PG_L128
#undef PG_F8
#undef PG_F32
#undef PG_F40
#undef PG_F48
#undef PG_F64
#undef PG_F96
#undef PG_F128
#undef PG_SHARED
#undef PG_REGISTERS
#undef PG_WGMMA
// clang-format on

}  // namespace pagoda::cuda
#endif
