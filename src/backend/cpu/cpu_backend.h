// The CPU backend: operations compiled for several x86-64 instruction sets, one chosen when the
// backend is made.
//
// IsaLevel names what a machine can do; PAGODA_CPU_ISA lowers the choice for tests. Threads come
// from one persistent pool and split outputs, never a reduction: results are bit-equal for any
// number of threads, rows and sequences, per instruction set.
#pragma once

#include <memory>
#include <string_view>

#include "backend/backend.h"

namespace pagoda::cpu {

enum class IsaLevel : uint8_t {
  v3,          // AVX2, FMA, F16C
  v3_avxvnni,  // and AVX-VNNI
  v4,          // AVX-512 F, BW, CD, DQ, VL
  v4_vnni,     // and AVX-512 VNNI, VBMI
  v4_bf16,     // and AVX-512 BF16
};
std::string_view name(IsaLevel level);  // "v4-bf16": the words of PAGODA_CPU_ISA

// The best level of this machine. Throws Error{"cpu.unsupported"} on one below x86-64-v3.
IsaLevel detected_isa();
// detected_isa(), lowered by PAGODA_CPU_ISA. Throws Error{"cpu.bad_isa"} for an unknown name or a
// level above the machine's.
IsaLevel chosen_isa();

struct CpuOptions {
  int num_threads = 0;  // 0: default_num_threads()
  IsaLevel isa = IsaLevel::v3;
};
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace pagoda::cpu
