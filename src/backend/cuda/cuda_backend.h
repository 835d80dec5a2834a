// The CUDA backend: the waist's operations on one GPU, one stream, every kernel a programmatic
// dependent launch of the one before it. Activations are bf16 or f16.
//
// A row's bits are its own: attention has two arithmetics, decode's for sampling rows and prefill's
// for rows of the prompt (AttentionBatch::host_sampling_rows), each a function of the row's query,
// its position and the keys and values that it sees. Copies return when the bytes have arrived. An
// operation that has no kernel throws Error{"cuda.unsupported"} and names it.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"

namespace pagoda::cuda {

struct CudaOptions {
  int32_t device = 0;
  DType activations = DType::bf16;  // or f16
};
// Throws Error{"cuda.no_device"}.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

// GPUs of this machine; 0 too where there is no driver.
int32_t num_devices();
std::string device_name(int32_t device);  // "NVIDIA H200, sm_90"

}  // namespace pagoda::cuda
