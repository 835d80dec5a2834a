// How keys and values are stored: KvFormat (dtype, block size, sizes and offsets inside one block),
// KvLayerSpec (what a layer asks of the cache) and KvView (where one layer's blocks lie). Pure
// values; the one formula for KV memory.
//
// Per layer the order in memory is [N][KH][K | V | K scales | V scales]: one (block, KV head) is
// one contiguous range of head_bytes(), copying a block is one copy. The order of elements inside K
// and V is the backend's own.
//   bytes per token and layer = KH * head_bytes() / S = 2 * KH * D * bytes(dtype) (+ scales).
// int8: symmetric, one f16 scale per (token, KV head). int4: x = scale * n + zero with n in 0..15,
// one f16 scale and one f16 zero per 64 dims of (token, KV head): 4.5 bits an element. fp8 (e4m3):
// one f32 scale per layer and head, held outside the block. What is written once is never
// rewritten.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/checked.h"

namespace pagoda {

enum class KvDType : uint8_t { f32, f16, bf16, fp8, int8, int4 };
constexpr std::array<std::string_view, 6> kKvDTypeNames = {
    "f32", "f16", "bf16", "fp8", "int8", "int4"};
constexpr std::string_view name(KvDType dtype) {
  return kKvDTypeNames[static_cast<int>(dtype)];
}
constexpr int kv_bits(KvDType dtype) {
  constexpr int kBits[] = {32, 16, 16, 8, 8, 4};
  return kBits[static_cast<int>(dtype)];
}
constexpr std::optional<KvDType> kv_dtype_named(std::string_view wanted) {
  for (size_t i = 0; i < kKvDTypeNames.size(); i++)
    if (kKvDTypeNames[i] == wanted) return static_cast<KvDType>(i);
  return std::nullopt;
}

// Tokens in a block by default: one (block, head) stays near the same bytes whatever the dtype.
constexpr int32_t default_block_size(KvDType dtype) {
  return kv_bits(dtype) >= 16 ? 16 : kv_bits(dtype) == 8 ? 32 : 64;
}

constexpr int32_t kKvScaleDims = 64;  // dims that share an int4 scale and zero

struct KvFormat {
  KvDType dtype = KvDType::bf16;
  int32_t block_size = 16;  // S: tokens in a block, a multiple of 16
  int32_t k_dim = 0;        // head size of K, a multiple of 8
  int32_t v_dim = 0;

  // Rows of int4 fill whole units of 16 bytes, 32 dims, so that every row begins on one.
  constexpr int64_t row_bytes(int32_t dim) const {
    return dtype == KvDType::int4 ? ceil_div(dim, 32) * 16 : int64_t{dim} * kv_bits(dtype) / 8;
  }
  constexpr int64_t data_bytes(int32_t dim) const { return block_size * row_bytes(dim); }
  constexpr int64_t scale_bytes(int32_t dim) const {
    if (dtype == KvDType::int8) return int64_t{block_size} * 2;
    if (dtype == KvDType::int4) return int64_t{block_size} * 4 * ceil_div(dim, kKvScaleDims);
    return 0;
  }
  // Offsets from the start of a (block, KV head).
  constexpr int64_t k_offset() const { return 0; }
  constexpr int64_t v_offset() const { return data_bytes(k_dim); }
  constexpr int64_t k_scales_offset() const { return v_offset() + data_bytes(v_dim); }
  constexpr int64_t v_scales_offset() const { return k_scales_offset() + scale_bytes(k_dim); }
  constexpr int64_t head_bytes() const { return v_scales_offset() + scale_bytes(v_dim); }

  friend bool operator==(const KvFormat&, const KvFormat&) = default;
};

// What one layer needs of the KV cache. Layers of one `group` share a block table.
struct KvLayerSpec {
  int32_t kv_heads = 0;
  int32_t k_dim = 0;
  int32_t v_dim = 0;
  int32_t window = 0;  // keys a query may see, itself included; 0: all
  int32_t group = 0;

  friend bool operator==(const KvLayerSpec&, const KvLayerSpec&) = default;
};

// One layer's blocks, as kernels see them. Token t of a sequence lies in block block_table[t / S]
// at slot t % S; a slot number is block * S + t % S.
struct KvView {
  std::byte* base = nullptr;  // [N][KH][head_bytes], in backend memory, 64-byte aligned
  int64_t num_blocks = 0;     // N
  int32_t kv_heads = 0;       // KH
  KvFormat format;

  constexpr int64_t block_bytes() const { return kv_heads * format.head_bytes(); }
  std::byte* head(int64_t block, int32_t kv_head) const {
    return base + block * block_bytes() + kv_head * format.head_bytes();
  }
};

struct BlockCopy {
  int32_t from;
  int32_t to;
};

}  // namespace pagoda
