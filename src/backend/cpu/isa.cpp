#include "backend/cpu/isa.h"

#include <cpuid.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace pagoda::cpu {
namespace {

constexpr std::array<std::string_view, kNumIsaLevels> kNames = {
    "v3", "v3-avxvnni", "v4", "v4-vnni", "v4-bf16"};

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return {};
  return r;
}

// XCR0: the register states that the system saves and restores.
unsigned enabled_states() {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

bool has(unsigned word, unsigned bits) {
  return (word & bits) == bits;
}

}  // namespace

std::string_view name(IsaLevel level) {
  return kNames[static_cast<size_t>(level)];
}

// Bits: Intel SDM volume 2A, CPUID; volume 1, chapter 13 (XCR0: 1 SSE, 2 AVX, 5-7 AVX-512).
CpuFeatures cpu_features() {
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0), seven1 = cpuid(7, 1);
  constexpr unsigned kFma = 1u << 12, kOsXsave = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
  constexpr unsigned kAvx2 = 1u << 5, kBmi2 = 1u << 8;
  constexpr unsigned kAvx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  CpuFeatures f;
  if (!has(one.ecx, kFma | kOsXsave | kAvx | kF16c)) return f;
  const unsigned states = enabled_states();
  f.v3 = has(states, 0x6) && has(seven.ebx, kAvx2 | kBmi2);
  f.avx_vnni = has(seven1.eax, 1u << 4);
  f.avx512 = has(states, 0xe6) && has(seven.ebx, kAvx512);
  f.avx512_vnni_vbmi = has(seven.ecx, 1u << 11 | 1u << 1);
  f.avx512_bf16 = has(seven1.eax, 1u << 5);
  return f;
}

bool supports(const CpuFeatures& f, IsaLevel level) {
  switch (level) {
    case IsaLevel::v3:
      return f.v3;
    case IsaLevel::v3_avxvnni:
      return f.v3 && f.avx_vnni;
    case IsaLevel::v4:
      return f.v3 && f.avx512;
    case IsaLevel::v4_vnni:
      return f.v3 && f.avx512 && f.avx512_vnni_vbmi;
    case IsaLevel::v4_bf16:
      return f.v3 && f.avx512 && f.avx512_vnni_vbmi && f.avx512_bf16;
  }
  return false;
}

std::vector<IsaLevel> supported_isas() {
  std::vector<IsaLevel> levels;
  const CpuFeatures features = cpu_features();
  for (int i = 0; i < kNumIsaLevels; i++)
    if (supports(features, static_cast<IsaLevel>(i))) levels.push_back(static_cast<IsaLevel>(i));
  return levels;
}

IsaLevel detected_isa() {
  const std::vector<IsaLevel> levels = supported_isas();
  if (levels.empty())
    throw Error("cpu.unsupported",
                "this processor lacks AVX2, FMA, F16C or BMI2 (x86-64-v3), which Pagoda needs");
  return levels.back();
}

IsaLevel chosen_isa() {
  const IsaLevel best = detected_isa();
  const char* wanted = std::getenv("PAGODA_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return best;
  std::string names;
  for (const IsaLevel level : supported_isas()) {
    if (name(level) == wanted) return level;
    names += (names.empty() ? "" : ", ") + std::string(name(level));
  }
  throw Error("cpu.bad_isa", "PAGODA_CPU_ISA is \"{}\"; this machine has {}", wanted, names);
}

}  // namespace pagoda::cpu
