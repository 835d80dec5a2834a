#include "backend/cpu/pack.h"

#include <cstring>

#include "backend/cpu/panel_format.h"
#include "base/half.h"

namespace pagoda::cpu {
namespace {

template <typename T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}
template <typename T>
void store(uint8_t* p, T value) {
  std::memcpy(p, &value, sizeof(T));
}

bool packable(DType dtype) {
  return panel_format(dtype).blocks_per_record > 0 || dtype == DType::f32 || dtype == DType::f16 ||
         dtype == DType::bf16;
}

// ---- Reading GGUF blocks (ggml-common.h's structs) --------------------------------------------

// The unsigned codes of block `sub` (of 32 columns) of a GGUF block.
template <DType kType>
void read_codes(const uint8_t* gguf, int sub, uint8_t* codes) {
  if constexpr (kType == DType::q8_0) {
    for (int i = 0; i < 32; i++) codes[i] = gguf[2 + i] ^ 0x80;
  } else if constexpr (kType == DType::q6_k) {
    const int quarter = sub % 4, low_shift = quarter / 2 * 4, high_shift = quarter * 2;
    const uint8_t* low = gguf + sub / 4 * 64 + quarter % 2 * 32;
    const uint8_t* high = gguf + 128 + sub / 4 * 32;
    for (int i = 0; i < 32; i++)
      codes[i] = ((low[i] >> low_shift) & 15) | ((high[i] >> high_shift) & 3) << 4;
  } else if constexpr (kType == DType::q4_k || kType == DType::q5_k) {
    const int shift = sub % 2 * 4;
    const uint8_t* low = gguf + (kType == DType::q4_k ? 16 : 48) + sub / 2 * 32;
    for (int i = 0; i < 32; i++) codes[i] = (low[i] >> shift) & 15;
    if constexpr (kType == DType::q5_k)
      for (int i = 0; i < 32; i++) codes[i] |= ((gguf[16 + i] >> sub) & 1) << 4;
  } else {
    const uint8_t* low = gguf + info(kType).block_bytes - 16;
    for (int i = 0; i < 16; i++) {
      codes[i] = low[i] & 15;
      codes[i + 16] = low[i] >> 4;
    }
    if constexpr (panel_format(kType).code_bits == 5) {
      const uint32_t high = load<uint32_t>(low - 4);
      for (int i = 0; i < 32; i++) codes[i] |= ((high >> i) & 1) << 4;
    }
  }
}

// The 6-bit scale and minimum of sub-block `sub` in the 12 bytes of q4_k and q5_k.
struct ScaleMin {
  uint8_t scale;
  uint8_t min;
};
ScaleMin k_scale_min(const uint8_t* packed, int sub) {
  if (sub < 4) return {uint8_t(packed[sub] & 63), uint8_t(packed[sub + 4] & 63)};
  return {uint8_t((packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4),
          uint8_t((packed[sub + 4] >> 4) | (packed[sub] >> 6) << 4)};
}

// ---- Writing panels -----------------------------------------------------------------------------

// Bit 4 of each of four codes, as 4 bits.
uint32_t fifth_bits(uint32_t four_codes) {
  return (((four_codes >> 4) & 0x01010101) * 0x01020408) >> 24;
}

template <DType kType>
void write_codes(const uint8_t* codes, int row, uint8_t* block) {
  constexpr int kBits = panel_format(kType).code_bits;
  uint32_t groups[8];
  std::memcpy(groups, codes, sizeof groups);
  uint8_t* lanes = block + 4 * row;
  if constexpr (kBits == 8) {
    for (int j = 0; j < 8; j++) store(lanes + 64 * j, groups[j]);
    return;
  }
  for (int j = 0; j < 4; j++)
    store(lanes + 64 * j, (groups[j] & 0x0f0f0f0f) | (groups[j + 4] & 0x0f0f0f0f) << 4);
  if constexpr (kBits == 5) {
    uint8_t* nibble = block + 256 + row / 2;
    for (int j = 0; j < 8; j++) nibble[8 * j] |= fifth_bits(groups[j]) << (row % 2 * 4);
  }
  if constexpr (kBits == 6) {
    for (int vector = 0; vector < 2; vector++) {
      uint32_t pairs = 0;
      for (int j = 0; j < 4; j++) pairs |= ((groups[4 * vector + j] >> 4) & 0x03030303) << (2 * j);
      store(lanes + 256 + 64 * vector, pairs);
    }
  }
}

template <DType kType>
void write_scales(const uint8_t* gguf, int row, uint8_t* record) {
  constexpr PanelFormat kFormat = panel_format(kType);
  if constexpr (kType == DType::q6_k) {
    store(record + 2 * row, load<uint16_t>(gguf + 208));
    for (int i = 0; i < 16; i++) record[32 + 16 * i + row] = gguf[192 + i];
    return;
  }
  store(record + 2 * row, load<uint16_t>(gguf));
  if constexpr (kFormat.has_min) store(record + 32 + 2 * row, load<uint16_t>(gguf + 2));
  if constexpr (kFormat.sub_bytes > 0) {
    for (int sub = 0; sub < 8; sub++) {
      const ScaleMin s = k_scale_min(gguf + 4, sub);
      record[kFormat.head_bytes + 32 * sub + row] = s.scale;
      record[kFormat.head_bytes + 32 * sub + 16 + row] = s.min;
    }
  }
}

template <DType kType>
void pack_quantised(const ConstTensorView& tensor, int64_t panel, uint8_t* out) {
  constexpr PanelFormat kFormat = panel_format(kType);
  constexpr int kSubs = kFormat.blocks_per_record;
  const int64_t records = tensor.cols() / (kSubs * kBlockCols);
  const int64_t rows = std::min<int64_t>(kPanelRows, tensor.rows() - panel * kPanelRows);
  uint8_t* codes = out + panel_layout(kType, tensor.cols()).scale_bytes;
  for (int64_t record = 0; record < records; record++) {
    for (int row = 0; row < rows; row++) {
      const uint8_t* gguf =
          tensor.row<uint8_t>(panel * kPanelRows + row) + record * info(kType).block_bytes;
      write_scales<kType>(gguf, row, out);
      for (int sub = 0; sub < kSubs; sub++) {
        uint8_t block[kBlockCols];
        read_codes<kType>(gguf, sub, block);
        write_codes<kType>(block, row, codes + sub * kFormat.code_bytes);
      }
    }
    out += kFormat.head_bytes + kSubs * kFormat.sub_bytes;
    codes += kSubs * kFormat.code_bytes;
  }
}

// kGroup consecutive columns of a row stay together.
template <typename T, int kGroup>
void pack_float(const ConstTensorView& tensor, int64_t panel, uint8_t* out) {
  constexpr int64_t kTile = 64;  // columns: 16 rows of it stay in the first-level cache
  const int64_t rows = std::min<int64_t>(kPanelRows, tensor.rows() - panel * kPanelRows);
  T* to = reinterpret_cast<T*>(out);
  for (int64_t begin = 0; begin < tensor.cols(); begin += kTile) {
    const int64_t end = std::min(begin + kTile, tensor.cols());
    for (int row = 0; row < rows; row++) {
      const uint8_t* from = tensor.row<uint8_t>(panel * kPanelRows + row);
      for (int64_t k = begin; k < end; k++)
        to[(k / kGroup * kPanelRows + row) * kGroup + k % kGroup] = load<T>(from + k * sizeof(T));
    }
  }
}

using PackPanel = void (*)(const ConstTensorView& tensor, int64_t panel, uint8_t* out);

PackPanel pack_panel(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return pack_float<uint32_t, 1>;
    case DType::f16:
      return pack_float<uint16_t, 1>;
    case DType::bf16:
      return pack_float<uint16_t, 2>;
    case DType::q8_0:
      return pack_quantised<DType::q8_0>;
    case DType::q4_0:
      return pack_quantised<DType::q4_0>;
    case DType::q4_1:
      return pack_quantised<DType::q4_1>;
    case DType::q5_0:
      return pack_quantised<DType::q5_0>;
    case DType::q5_1:
      return pack_quantised<DType::q5_1>;
    case DType::q4_k:
      return pack_quantised<DType::q4_k>;
    case DType::q5_k:
      return pack_quantised<DType::q5_k>;
    case DType::q6_k:
      return pack_quantised<DType::q6_k>;
    default:
      PG_CHECK(false, "pack {}", name(dtype));
      return nullptr;
  }
}

// ---- Reading panels -----------------------------------------------------------------------------

int read_code(const PanelFormat& f, const uint8_t* block, int row, int col) {
  const int group = col / 4, lane = 4 * row + col % 4;
  if (f.code_bits == 8) return block[64 * group + lane];
  const int low = (block[64 * (group % 4) + lane] >> (group / 4 * 4)) & 15;
  const uint8_t* high = block + 256;
  if (f.code_bits == 5) return low | ((high[8 * group + lane / 8] >> (lane % 8)) & 1) << 4;
  if (f.code_bits == 6)
    return low | ((high[64 * (group / 4) + lane] >> (2 * (group % 4))) & 3) << 4;
  return low;
}

void unpack_quantised(const Weight& weight, const uint8_t* panel, int row, float* out) {
  const PanelFormat f = panel_format(weight.dtype);
  const int64_t record_bytes = f.head_bytes + f.blocks_per_record * f.sub_bytes;
  const uint8_t* codes = panel + panel_layout(weight.dtype, weight.cols).scale_bytes;
  for (int64_t b = 0; b < weight.cols / kBlockCols; b++, codes += f.code_bytes) {
    const uint8_t* record = panel + b / f.blocks_per_record * record_bytes;
    const uint8_t* sub = record + f.head_bytes + b % f.blocks_per_record * f.sub_bytes + row;
    const float d = f16_to_f32(load<uint16_t>(record + 2 * row));
    float scales[2] = {d, d};  // of the block's halves
    float min = f.has_min ? f16_to_f32(load<uint16_t>(record + 32 + 2 * row)) : 0.f;
    if (weight.dtype == DType::q6_k) {
      for (int half = 0; half < 2; half++) scales[half] = d * float(int8_t(sub[16 * half]));
    } else if (f.sub_bytes > 0) {
      scales[0] = scales[1] = d * float(sub[0]);
      min = -(min * float(sub[16]));
    }
    for (int i = 0; i < kBlockCols; i++) {
      const float product = scales[i / 16] * float(read_code(f, codes, row, i) - f.bias);
      *out++ = f.has_min ? product + min : product;
    }
  }
}

}  // namespace

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) {
  if (!packable(dtype))
    throw Error("model.unsupported_type", "weights of type {} cannot be multiplied", name(dtype));
  return ceil_div(rows, kPanelRows) * panel_layout(dtype, cols).panel_bytes;
}

void pack_rows(Context& context, Weight& weight, int64_t first_row, ConstTensorView rows) {
  PG_CHECK(rows.dtype() == weight.dtype && rows.cols() == weight.cols, "{} columns", rows.cols());
  PG_CHECK(first_row % kPanelRows == 0 && first_row + rows.rows() <= weight.rows,
           "{} rows from {} of {}",
           rows.rows(),
           first_row,
           weight.rows);
  const PackPanel pack_one = pack_panel(weight.dtype);
  const int64_t panels = ceil_div(rows.rows(), kPanelRows);
  const int64_t panel_bytes = panel_layout(weight.dtype, weight.cols).panel_bytes;
  uint8_t* first = weight.data.as<uint8_t>() + first_row / kPanelRows * panel_bytes;
  context.threads.run([&](int thread) {
    const Range mine = share(panels, thread, context.threads.size());
    for (int64_t panel = mine.begin; panel < mine.end; panel++)
      pack_one(rows, panel, first + panel * panel_bytes);
  });
}

Weight pack(Context& context, ConstTensorView tensor) {
  const int64_t bytes = packed_bytes(tensor.dtype(), tensor.rows(), tensor.cols());
  Weight weight{tensor.dtype(), tensor.rows(), tensor.cols(), {}};
  weight.data = context.allocator.allocate(bytes, MemoryTag::weights);
  pack_rows(context, weight, 0, tensor);
  return weight;
}

void unpack_row(const Context&, const Weight& weight, int64_t row, float* out) {
  PG_CHECK(row >= 0 && row < weight.rows, "row {} of {}", row, weight.rows);
  const int64_t panel_bytes = panel_layout(weight.dtype, weight.cols).panel_bytes;
  const uint8_t* panel = weight.data.as<const uint8_t>() + row / kPanelRows * panel_bytes;
  const int lane = static_cast<int>(row % kPanelRows);
  const auto* words = reinterpret_cast<const uint16_t*>(panel);
  switch (weight.dtype) {
    case DType::f32:
      for (int64_t k = 0; k < weight.cols; k++)
        out[k] = reinterpret_cast<const float*>(panel)[k * kPanelRows + lane];
      return;
    case DType::f16:
      for (int64_t k = 0; k < weight.cols; k++) out[k] = f16_to_f32(words[k * kPanelRows + lane]);
      return;
    case DType::bf16:
      for (int64_t k = 0; k < weight.cols; k++)
        out[k] = bf16_to_f32(words[(k / 2 * kPanelRows + lane) * 2 + k % 2]);
      return;
    default:
      unpack_quantised(weight, panel, lane, out);
  }
}

}  // namespace pagoda::cpu
