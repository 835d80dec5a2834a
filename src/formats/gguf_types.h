// The numbers of the GGUF format (the specification in ggml's docs/gguf.md): the types of metadata
// values and of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace pagoda {

constexpr int64_t kGgufDefaultAlignment = 32;
constexpr int64_t kGgufMinAlignment = 8;          // the specification: a multiple of 8
constexpr int64_t kGgufMaxAlignment = 64 * 1024;  // rule R2
constexpr int64_t kGgufMaxNameBytes = 64;         // of a tensor
constexpr int64_t kGgufMaxKeyBytes = 65535;       // of a metadata key

enum class GgufValueType : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
constexpr uint32_t kNumGgufValueTypes = 13;

struct GgufTensorType {
  uint32_t id;
  std::string_view name;       // as ggml writes it
  std::optional<DType> dtype;  // none: known, but not supported here
};

constexpr GgufTensorType kGgufTensorTypes[] = {
    {0, "F32", DType::f32},    {1, "F16", DType::f16},    {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},  {4, "Q4_2", {}},           {5, "Q4_3", {}},
    {6, "Q5_0", DType::q5_0},  {7, "Q5_1", DType::q5_1},  {8, "Q8_0", DType::q8_0},
    {9, "Q8_1", {}},           {10, "Q2_K", {}},          {11, "Q3_K", {}},
    {12, "Q4_K", DType::q4_k}, {13, "Q5_K", DType::q5_k}, {14, "Q6_K", DType::q6_k},
    {15, "Q8_K", {}},          {16, "IQ2_XXS", {}},       {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},       {19, "IQ1_S", {}},         {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},         {22, "IQ2_S", {}},         {23, "IQ4_XS", {}},
    {24, "I8", DType::i8},     {25, "I16", DType::i16},   {26, "I32", DType::i32},
    {27, "I64", DType::i64},   {28, "F64", DType::f64},   {29, "IQ1_M", {}},
    {30, "BF16", DType::bf16}, {31, "Q4_0_4_4", {}},      {32, "Q4_0_4_8", {}},
    {33, "Q4_0_8_8", {}},      {34, "TQ1_0", {}},         {35, "TQ2_0", {}},
    {36, "IQ4_NL_4_4", {}},    {37, "IQ4_NL_4_8", {}},    {38, "IQ4_NL_8_8", {}},
    {39, "MXFP4", {}},         {40, "NVFP4", {}},         {41, "Q1_0", {}},
    {42, "Q2_0", {}},
};

// nullptr: no such type.
constexpr const GgufTensorType* gguf_tensor_type(uint32_t id) {
  for (const GgufTensorType& type : kGgufTensorTypes)
    if (type.id == id) return &type;
  return nullptr;
}
// Empty: GGUF has no such type (u8).
constexpr std::optional<uint32_t> gguf_type_id(DType dtype) {
  for (const GgufTensorType& type : kGgufTensorTypes)
    if (type.dtype == dtype) return type.id;
  return std::nullopt;
}

}  // namespace pagoda
