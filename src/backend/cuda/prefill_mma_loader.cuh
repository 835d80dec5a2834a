// How a block of a prefill kernel by mma.sync gets its keys and values: PrefillMmaLoader, a warp's
// part of it. A warp loads its own groups of 8 keys, by 16-byte asynchronous copies. 16-bit rows go
// straight to their place in the K or V tile; codes of quantised KV go to the warp's own slots, one
// key tile ahead, and the same warp converts them into the tile once a tile, so that codes need no
// barrier of the block. Keys outside [first key that the row tile sees, kv_len) are zeros in shared
// memory and are not read (codes: but for the rest of their 8 rows).
#pragma once

#include "backend/cuda/codes.cuh"
#include "backend/cuda/prefill_mma_geometry.cuh"

namespace pagoda::cuda {

template <class G>
class PrefillMmaLoader {
 public:
  __device__ __forceinline__ PrefillMmaLoader(const PrefillMmaParams& params, uint32_t shared)
      : p_(params), shared_(shared) {}

  __device__ __forceinline__ bool is_plain() const { return G::kBf16 || p_.format == Format::f16; }

  // Reads the block table for key tile n, which the next copies are of.
  __device__ __forceinline__ void locate(const PrefillMmaSlot& slot, int n) {
    const KeyRange range = range_of(slot);
    const int lane = thread_index() % 32;
#pragma unroll
    for (int i = 0; i < kKept; i++) {
      const int key = first_key(n, kShared ? lane : i);
      const int at = slot.tile.seq * p_.max_blocks + block_index(key);
      const bool is_read = range.has_group(key) && (!kShared || lane < G::kWarpGroups);
      blocks_[i] = is_read ? __ldg(p_.block_table + at) : 0;
    }
  }

  // Key tile n was located. 16-bit K goes straight to its tile, which must be free, and V after it;
  // codes of K and V go to the warp's slots.
  __device__ __forceinline__ void start(const PrefillMmaSlot& slot, int n) const {
    if (is_plain()) return copy_plain(slot, n, G::kKAt, 0);
    copy_codes(slot, n, 0, 0, p_.k_scales_offset);
    copy_codes(slot, n, G::kCodesBytes, p_.v_offset, p_.v_scales_offset);
    copy16_commit();
  }
  __device__ __forceinline__ void start_values(const PrefillMmaSlot& slot, int n) const {
    copy_plain(slot, n, G::kVAt, p_.v_offset);
  }
  // Codes that have landed for the warp become rows of the tiles, which must be free; then the
  // slots are free.
  __device__ __forceinline__ void convert(const PrefillMmaSlot& slot, int n) const {
    switch (p_.format) {
      case Format::int8:
        return convert_as<Format::int8>(slot, n);
      case Format::int4:
        return convert_as<Format::int4>(slot, n);
      default:
        return convert_as<Format::fp8>(slot, n);
    }
  }

 private:
  // Where registers are short a block number is kept by one lane and shuffled when it is needed,
  // which costs time.
  static constexpr bool kShared = G::kWarpGroups > 2;
  static constexpr int kKept = kShared ? 1 : G::kWarpGroups;

  __device__ __forceinline__ bool is_native() const {
    return p_.head_dim == G::kDims;
  }
  __device__ __forceinline__ static int group(int i) {
    return thread_index() / 32 + i * G::kWarps;
  }
  __device__ __forceinline__ static int first_key(int n, int i) {
    return n * G::kKeys + group(i) * 8;
  }
  __device__ __forceinline__ int block_index(int key) const {
    return static_cast<int>(__umulhi(key, p_.block_inverse));
  }
  // Of keys that a row of the row tile may see.
  struct KeyRange {
    int begin, end;
    __device__ __forceinline__ bool has(int key) const { return key >= begin && key < end; }
    __device__ __forceinline__ bool has_group(int key) const {
      return key + 8 > begin && key < end;
    }
  };
  __device__ __forceinline__ KeyRange range_of(const PrefillMmaSlot& slot) const {
    return {max(0, slot.tile.limit - p_.window), slot.tile.kv_len};
  }
  __device__ __forceinline__ int block(int i) const {
    return kShared ? __shfl_sync(~0u, blocks_[0], i) : blocks_[i];
  }
  __device__ __forceinline__ const uint8_t* head(const PrefillMmaSlot& slot, int i) const {
    return p_.kv + block(i) * p_.block_bytes + slot.head_offset;
  }
  __device__ __forceinline__ int row_in_block(int key) const {
    return key - block_index(key) * p_.block_size;
  }

  __device__ __forceinline__ void copy_plain(const PrefillMmaSlot& slot,
                                             int n,
                                             int tile,
                                             int offset) const {
    if (is_native())
      copy_rows<true>(slot, n, tile, offset);
    else
      copy_rows<false>(slot, n, tile, offset);
    copy16_commit();
  }
  template <bool kNative>
  __device__ __forceinline__ void copy_rows(const PrefillMmaSlot& slot,
                                            int n,
                                            int tile,
                                            int offset) const {
    const KeyRange range = range_of(slot);
    const int lane = thread_index() % 32;
#pragma unroll
    for (int i = 0; i < G::kWarpGroups; i++) {
      const int key = first_key(n, i);
      const uint8_t* from = head(slot, i) + offset + row_in_block(key) * p_.row_bytes;
      const uint32_t to = shared_ + tile + group(i) * G::kGroupBytes;
#pragma unroll(kNative ? G::kGroupBytes / 512 : 1)
      for (int at = 0; at < G::kGroupBytes / 512; at++) {
        const int flat = at * 32 + lane, row = flat / G::kUnits, unit = flat % G::kUnits;
        const int place = unit_offset(G::kRowBytes, row, unit);
        const int num_bytes = range.has(key + row) ? 16 : 0;
        if constexpr (kNative)
          copy16_or_zero(to + place, from + place, num_bytes);
        else if (unit < p_.head_dim / 8)
          copy16_or_zero(
              to + place, from + cache_unit_offset(p_.log_atom_bytes, row, unit), num_bytes);
      }
    }
  }

  __device__ __forceinline__ uint32_t codes_of(int i, int which) const {
    return shared_ + G::kCodesAt + which + group(i) * G::kSlotBytes;
  }
  __device__ __forceinline__ int scale_bytes() const {  // of 8 tokens
    if (p_.format == Format::int8) return 16;
    return p_.format == Format::int4 ? 32 * ((p_.head_dim + kScaleDims - 1) / kScaleDims) : 0;
  }
  __device__ __forceinline__ void copy_codes(
      const PrefillMmaSlot& slot, int n, int which, int offset, int scales) const {
    const int num_bytes = 8 * p_.row_bytes, num_scales = scale_bytes();
    const KeyRange range = range_of(slot);
    const int lane = thread_index() % 32;
#pragma unroll
    for (int i = 0; i < G::kWarpGroups; i++) {
      const int key = first_key(n, i);
      const uint8_t* from = head(slot, i);
      if (!range.has_group(key)) continue;
      const int row = row_in_block(key);
      const uint32_t to = codes_of(i, which);
      for (int at = lane * 16; at < num_bytes; at += 512)
        copy16(to + at, from + (offset + row * p_.row_bytes + at));
      if (lane * 16 < num_scales)
        copy16(to + num_bytes + lane * 16, from + (scales + row / 8 * num_scales + lane * 16));
    }
  }

  template <Format kFormat>
  __device__ __forceinline__ void convert_as(const PrefillMmaSlot& slot, int n) const {
    if (is_native()) {
      convert_rows<kFormat, KeyOrValue::key, true>(slot, n);
      convert_rows<kFormat, KeyOrValue::value, true>(slot, n);
    } else {
      convert_rows<kFormat, KeyOrValue::key, false>(slot, n);
      convert_rows<kFormat, KeyOrValue::value, false>(slot, n);
    }
  }
  template <Format kFormat, KeyOrValue kWhich, bool kNative>
  __device__ __forceinline__ void convert_rows(const PrefillMmaSlot& slot, int n) const {
    constexpr int kSteps = G::kGroupBytes / 512, kBatch = kSteps < 4 ? kSteps : 4;
#pragma unroll
    for (int i = 0; i < G::kWarpGroups; i++)
#pragma unroll(kNative ? kSteps / kBatch : 1)
      for (int at = 0; at < kSteps; at += kBatch)
        convert_batch<kFormat, kWhich, kNative, kBatch>(slot, n, i, at);
  }
  // Of group i: all loads, then all stores, so that their latencies overlap.
  template <Format kFormat, KeyOrValue kWhich, bool kNative, int kBatch>
  __device__ __forceinline__ void convert_batch(const PrefillMmaSlot& slot,
                                                int n,
                                                int i,
                                                int first) const {
    constexpr bool kIsV = kWhich == KeyOrValue::value;
    constexpr int kCodeRow = G::kUnits * kUnitCodeBytes<kFormat>;  // of a native head
    const int code_row = kNative ? kCodeRow : p_.row_bytes, lane = thread_index() % 32;
    const KeyRange range = range_of(slot);
    const int key = first_key(n, i);
    const uint32_t from = codes_of(i, kIsV ? G::kCodesBytes : 0);
    const uint32_t to = shared_ + (kIsV ? G::kVAt : G::kKAt) + group(i) * G::kGroupBytes;
    uint32_t x[kBatch], y[kBatch] = {};
    CodeScale s[kBatch];
#pragma unroll
    for (int at = 0; at < kBatch; at++) {
      const int flat = (first + at) * 32 + lane, row = flat / G::kUnits, unit = flat % G::kUnits;
      const int byte = unit * kUnitCodeBytes<kFormat>;
      const uint32_t code = from + byte % 16 +
                            (kNative ? unit_offset(kCodeRow, row, byte / 16)
                                     : cache_unit_offset(p_.log_atom_bytes, row, byte / 16));
      if constexpr (kFormat == Format::int4)
        x[at] = load_shared4(code);
      else
        load_shared8(code, x[at], y[at]);
      s[at] = scale_of<kFormat>(from + 8 * code_row, row, unit);
    }
#pragma unroll
    for (int at = 0; at < kBatch; at++) {
      const int flat = (first + at) * 32 + lane, row = flat / G::kUnits, unit = flat % G::kUnits;
      if (!kNative && unit >= p_.head_dim / 8) continue;
      if (!range.has(key + row)) x[at] = y[at] = 0, s[at] = {};
      store_shared16(to + unit_offset(G::kRowBytes, row, unit),
                     scaled<kFormat>(code_numbers<kFormat, kWhich>(x[at], y[at]), s[at]));
    }
  }
  // Of a token (and 64 dims): x = scale n + zero; fp8 has one scale for all, which is not in here.
  struct CodeScale {
    __half2 scale, zero;
  };
  template <Format kFormat>
  __device__ __forceinline__ static uint4 scaled(Half8 n, CodeScale s) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (kFormat == Format::int8) n.of[i] = __hmul2(n.of[i], s.scale);
      if (kFormat == Format::int4) n.of[i] = __hfma2(n.of[i], s.scale, s.zero);
    }
    return {as_word(n.of[0]), as_word(n.of[1]), as_word(n.of[2]), as_word(n.of[3])};
  }
  template <Format kFormat>
  __device__ __forceinline__ CodeScale scale_of(uint32_t scales, int row, int unit) const {
    CodeScale s = {};
    if constexpr (kFormat == Format::int8) {
      s.scale = __half2half2(__ushort_as_half(load_shared2(scales + 2 * row)));
    } else if constexpr (kFormat == Format::int4) {
      const int groups = (p_.head_dim + kScaleDims - 1) / kScaleDims;
      const __half2 both = as_half2(load_shared4(scales + 4 * (row * groups + unit / 8)));
      s = {__low2half2(both), __high2half2(both)};
    }
    return s;
  }

  const PrefillMmaParams& p_;
  const uint32_t shared_;
  int blocks_[kKept];  // of the key tile that comes next
};

}  // namespace pagoda::cuda
