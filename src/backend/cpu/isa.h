// Instruction sets, and how an operation is compiled for each of them.
//
// A family of operations F (linear, attention, …) has
//   F_kernels.h    struct FKernels of plain function pointers over raw pointers and sizes, and its
//   fillers:
//                  namespace v3 { void fill(FKernels&); }  namespace v4 { void fill(FKernels&); } …
//                  FKernels F_kernels(IsaLevel): calls the filler of the highest compiled level
//                  that the machine's level contains;
//   F*_kernels.cpp the kernels, all inside `namespace pagoda::cpu::PAGODA_ISA`, compiled once per
//   level named in CMakeLists.txt with
//                  its own -m flags (tell levels apart by __AVX512F__, __AVX512VNNI__,
//                  __AVX512BF16__, __AVXVNNI__);
//   F.h, F.cpp     compiled for every machine: checks, splitting over threads, and the calls.
// Include in *_kernels.cpp only <immintrin.h>, C headers and headers of plain structs: an inline
// function or template of the standard library or of base/ emitted there could become the program's
// only copy. A ctest reads the objects' symbols. To plug in: add FKernels to kernel_table.h (member
// and the line that fills it); F's files are globbed.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace pagoda::cpu {

enum class IsaLevel : uint8_t {
  v3,          // AVX2, FMA, F16C, BMI2
  v3_avxvnni,  // and AVX-VNNI
  v4,          // v3 and AVX-512 F, BW, CD, DQ, VL (not AVX-VNNI)
  v4_vnni,     // and AVX-512 VNNI, VBMI
  v4_bf16,     // and AVX-512 BF16
};
constexpr int kNumIsaLevels = 5;
std::string_view name(IsaLevel level);  // "v4-bf16": the words of PAGODA_CPU_ISA

// What CPUID and XGETBV say: instructions, and whether the system saves their registers.
struct CpuFeatures {
  bool v3 = false, avx_vnni = false, avx512 = false, avx512_vnni_vbmi = false, avx512_bf16 = false;
};
CpuFeatures cpu_features();
bool supports(const CpuFeatures& features, IsaLevel level);

// The levels that this machine can run, ascending; none below x86-64-v3.
std::vector<IsaLevel> supported_isas();
// The best level of this machine. Throws Error{"cpu.unsupported"} on one below x86-64-v3.
IsaLevel detected_isa();
// detected_isa(), lowered by PAGODA_CPU_ISA. Throws Error{"cpu.bad_isa"} for an unknown name or a
// level that the machine does not have.
IsaLevel chosen_isa();

}  // namespace pagoda::cpu
