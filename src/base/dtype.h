// The element types of tensors: plain ones and the block-quantised ones of GGUF (a block of
// `block_elements` weights of one row is stored in `block_bytes` bytes). One row here is what a new
// weight dtype adds; backends add a pack/dot pair. Layouts: the GGUF specification and
// ggml-common.h's block structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pagoda {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  u8,
  i16,
  i32,
  i64,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // as people write it: "q4_k"
  int32_t block_elements;  // 1 for plain types
  int32_t block_bytes;
};

// Every type, in the order of the enum.
constexpr DTypeInfo kDTypes[] = {
    {DType::f32, "f32", 1, 4},
    {DType::f16, "f16", 1, 2},
    {DType::bf16, "bf16", 1, 2},
    {DType::f64, "f64", 1, 8},
    {DType::i8, "i8", 1, 1},
    {DType::u8, "u8", 1, 1},
    {DType::i16, "i16", 1, 2},
    {DType::i32, "i32", 1, 4},
    {DType::i64, "i64", 1, 8},
    {DType::q8_0, "q8_0", 32, 34},
    {DType::q4_0, "q4_0", 32, 18},
    {DType::q4_1, "q4_1", 32, 20},
    {DType::q5_0, "q5_0", 32, 22},
    {DType::q5_1, "q5_1", 32, 24},
    {DType::q4_k, "q4_k", 256, 144},
    {DType::q5_k, "q5_k", 256, 176},
    {DType::q6_k, "q6_k", 256, 210},
};

constexpr const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<int>(dtype)];
}
constexpr std::string_view name(DType dtype) {
  return info(dtype).name;
}
constexpr bool is_quantised(DType dtype) {
  return info(dtype).block_elements > 1;
}

// Bytes of `elements` consecutive elements of one row (a multiple of the block).
constexpr int64_t bytes_of(DType dtype, int64_t elements) {
  return elements / info(dtype).block_elements * info(dtype).block_bytes;
}

constexpr std::optional<DType> dtype_named(std::string_view wanted) {
  for (const DTypeInfo& row : kDTypes)
    if (row.name == wanted) return row.dtype;
  return std::nullopt;
}

}  // namespace pagoda
