// What linear's kernels share: how a tile of kColumns vectors of weight rows lies over panels, the
// split of all rows into near-equal tiles, and the end of each output (bias, scale, softcap,
// residual). "Column" here is one vector of weight rows; `lane` its first row within its panel.
// Included in *_kernels.cpp only.
#pragma once

#include <math.h>

#include "backend/cpu/linear_kernels.h"

namespace pagoda::cpu::PAGODA_ISA {

// Four or eight bytes of any alignment and type.
template <typename T>
[[gnu::always_inline]] inline T load(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

}  // namespace pagoda::cpu::PAGODA_ISA

#if defined(__AVX512F__)
#include "backend/cpu/linear_avx512.h"
#else
#include "backend/cpu/linear_avx2.h"
#endif

namespace pagoda::cpu::PAGODA_ISA {

constexpr int kColumns = 2;  // vectors of weight rows in a tile
constexpr int kUnitPanels = kColumns * kLanes / kPanelRows;
constexpr int kUnitRows = kUnitPanels * kPanelRows;

// Column `column` of a tile: which panel, and its first row there.
constexpr int panel_of(int column) {
  return column * kLanes / kPanelRows;
}
constexpr int lane_of(int column) {
  return column * kLanes % kPanelRows;
}

// out = softcap(scale * (sums + bias)) + residual for one row of a tile; `rows` of it exist.
[[gnu::always_inline]] inline void finish_row(const Floats (&sums)[kColumns],
                                              const PanelProduct& a,
                                              int64_t row,
                                              int64_t token) {
  float* out = a.out + token * a.out_stride + row;
  const float* bias = a.bias != nullptr ? a.bias + row : nullptr;
  const float* residual =
      a.residual != nullptr ? a.residual + token * a.residual_stride + row : nullptr;
  if (a.num_rows - row >= kUnitRows && a.softcap == 0.f) {
    for (int c = 0; c < kColumns; c++) {
      Floats y = sums[c];
      if (bias != nullptr) y = add(y, load_floats(bias + c * kLanes));
      y = mul(y, all_floats(a.scale));
      if (residual != nullptr) y = add(y, load_floats(residual + c * kLanes));
      store_floats(out + c * kLanes, y);
    }
    return;
  }
  float y[kUnitRows];
  for (int c = 0; c < kColumns; c++) store_floats(y + c * kLanes, sums[c]);
  const int64_t count = a.num_rows - row < kUnitRows ? a.num_rows - row : kUnitRows;
  for (int64_t i = 0; i < count; i++) {
    float v = y[i];
    if (bias != nullptr) v += bias[i];
    v *= a.scale;
    if (a.softcap > 0.f) v = a.softcap * tanhf(v / a.softcap);
    if (residual != nullptr) v += residual[i];
    out[i] = v;
  }
}

// Runs Tile<1 … kMaxRows>::run over all rows in near-equal tiles, for one unit of panels.
template <template <int> class Tile, int kMaxRows>
[[gnu::always_inline]] inline void all_tiles(const PanelProduct& a,
                                             const uint8_t* const (&panels)[2],
                                             int64_t row) {
  static_assert(kMaxRows == 4 || kMaxRows == 6);
  const int64_t tiles = (a.num_tokens + kMaxRows - 1) / kMaxRows;
  int64_t token = 0;
  for (int64_t i = 0; i < tiles; i++) {
    const int64_t end = a.num_tokens * (i + 1) / tiles;
    switch (end - token) {
      case 1:
        Tile<1>::run(a, panels, row, token);
        break;
      case 2:
        Tile<2>::run(a, panels, row, token);
        break;
      case 3:
        Tile<3>::run(a, panels, row, token);
        break;
      case 4:
        Tile<4>::run(a, panels, row, token);
        break;
      case 5:
        if constexpr (kMaxRows == 6) Tile<5>::run(a, panels, row, token);
        break;
      default:
        if constexpr (kMaxRows == 6) Tile<6>::run(a, panels, row, token);
        break;
    }
    token = end;
  }
}

template <template <int> class Tile, int kMaxRows>
[[gnu::always_inline]] inline void all_units(const PanelProduct& a) {
  const int64_t panel_bytes = a.layout.panel_bytes;
  for (int64_t row = 0; row < a.num_rows; row += kUnitRows) {
    const uint8_t* first = a.panels + row / kPanelRows * panel_bytes;
    const bool has_second = kUnitPanels == 2 && a.num_rows - row > kPanelRows;
    const uint8_t* const panels[2] = {first, has_second ? first + panel_bytes : first};
    all_tiles<Tile, kMaxRows>(a, panels, row);
  }
}

}  // namespace pagoda::cpu::PAGODA_ISA
