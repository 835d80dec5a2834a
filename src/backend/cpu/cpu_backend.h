// The CPU backend: operations compiled for several x86-64 instruction sets (isa.h), one chosen when
// the backend is made.
//
// Threads come from one persistent pool and split outputs, never a reduction: results are bit-equal
// for any number of threads, rows and sequences, per instruction set. Activations are f32.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "backend/cpu/isa.h"

namespace pagoda::cpu {

struct CpuOptions {
  int num_threads = 0;  // 0: default_num_threads()
  IsaLevel isa = IsaLevel::v3;
};
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace pagoda::cpu
