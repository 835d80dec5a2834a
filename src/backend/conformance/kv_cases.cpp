// rope_store_kv, read_kv, copy_blocks, zero_blocks.
#include <cmath>

#include "backend/conformance/paged_cache.h"

namespace pagoda::conformance {
namespace {

struct Shape {
  KvDType dtype;
  RopeStyle style;
  int32_t head_dim;
  int32_t rotary_dim;
  bool norms = false;
  int32_t num_heads = 6;
  int32_t kv_heads = 2;
  float size = 1;  // of the activations
};

constexpr int64_t kRows = 64;

Array random_angles(Session& s, int64_t pairs) {
  std::vector<float> angles;
  for (int64_t i = 0; i < kRows * pairs; i++) {
    const float angle = s.uniform(-3.2f, 3.2f);
    angles.push_back(std::cos(angle));
    angles.push_back(std::sin(angle));
  }
  return s.array(kRows, pairs * 2, std::move(angles), Session::Precision::f32);
}

void rope_store_case(Session& s, const Shape& shape) {
  const int64_t d = shape.head_dim, pairs = shape.rotary_dim / 2;
  const int64_t q_cols = shape.num_heads * d, kv_cols = shape.kv_heads * d;
  KvFormat format{shape.dtype, default_block_size(shape.dtype), shape.head_dim, shape.head_dim};
  PagedCache cache(s, format, shape.kv_heads, 12);
  const std::vector<int32_t> blocks = cache.take(ceil_div(kRows, format.block_size) + 1);
  // Each token has a slot of its own, in no order; every seventh is not stored.
  std::vector<int32_t> slots = s.shuffled(int32_t(blocks.size()) * format.block_size);
  for (int32_t& slot : slots)
    slot = blocks[slot / format.block_size] * format.block_size + slot % format.block_size;
  const std::vector<int32_t> all_slots = slots;
  slots.resize(kRows);
  for (int64_t t = 0; t < kRows; t += 7) slots[t] = -1;
  const IntArray slots_on = s.ints(slots);

  Array qkv = s.activations(kRows, q_cols + 2 * kv_cols, shape.size);
  Array angles = random_angles(s, std::max<int64_t>(1, pairs));
  Array q_norm = s.vector(d, 1, 0.2f), k_norm = s.vector(d, 1, 0.2f);
  const auto call = [&](Backend& backend, Side side, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const TensorView rows = qkv.on(side).slice_rows(begin, count);
    RopeStoreKvArgs args{.q = rows.slice_cols(0, q_cols),
                         .k = rows.slice_cols(q_cols, kv_cols),
                         .v = rows.slice_cols(q_cols + kv_cols, kv_cols),
                         .num_heads = shape.num_heads,
                         .style = shape.style,
                         .slots = slots_on.on(side).subspan(begin, count),
                         .kv = cache.on(side)};
    if (shape.norms) {
      args.q_norm = q_norm.on(side);
      args.k_norm = k_norm.on(side);
    }
    if (shape.style != RopeStyle::none)
      args.angles =
          ConstTensorView(reinterpret_cast<const std::byte*>(angles.on(side).row<float>(begin)),
                          DType::f32,
                          {count, pairs, 2});
    backend.rope_store_kv(args);
  };
  s.check({.what = "rope_store_kv",
           .rows = kRows,
           .call = call,
           .outputs = {&qkv},
           .tolerance = kRope});
  const std::vector<std::byte> in_chunks = cache.device_bytes();
  call(s.on(Side::device), Side::device, 0, kRows);
  if (cache.device_bytes() != in_chunks) s.fail("stored bytes depend on chunks or threads");
  for (const int32_t slot : all_slots) cache.compare_slot(slot);
}

// A copied block reads as its source, a zeroed one as zeros, the others as before.
void blocks_case(Session& s, KvDType dtype) {
  const KvFormat format{dtype, default_block_size(dtype), 64, 64};
  PagedCache cache(s, format, 2, 8);
  const std::vector<int32_t> blocks = cache.take(4);
  const int64_t rows = 2 * format.block_size;
  Array q = s.activations(rows, 2 * 64), k = s.activations(rows, 2 * 64),
        v = s.activations(rows, 2 * 64);
  std::vector<int32_t> slots;
  for (int64_t t = 0; t < rows; t++)
    slots.push_back(blocks[t / format.block_size] * format.block_size +
                    int32_t(t % format.block_size));
  const IntArray slots_on = s.ints(slots);
  const int32_t zeroed[] = {blocks[1]};
  const BlockCopy copies[] = {{blocks[0], blocks[2]}, {blocks[1], blocks[3]}};
  for (const Side side : {Side::reference, Side::device}) {
    const KvView view = cache.on(side);
    s.on(side).rope_store_kv({.q = q.on(side),
                              .k = k.on(side),
                              .v = v.on(side),
                              .num_heads = 2,
                              .style = RopeStyle::none,
                              .slots = slots_on.on(side),
                              .kv = view});
    s.on(side).copy_blocks({&view, 1}, copies);
    s.on(side).zero_blocks({&view, 1}, zeroed);
    s.on(side).synchronize();
  }
  for (const int32_t block : blocks)
    for (int32_t i = 0; i < format.block_size; i++)
      cache.compare_slot(int64_t{block} * format.block_size + i);
}

}  // namespace

void add_kv_cases(std::vector<Case>& cases, const std::vector<KvDType>& kv_dtypes) {
  const auto add = [&](std::string_view what, const Shape& shape) {
    cases.push_back({fmt::format("rope_store_kv_{}_{}", name(shape.dtype), what),
                     [=](Session& s) { rope_store_case(s, shape); }});
  };
  using enum RopeStyle;
  for (const KvDType t : kv_dtypes) {
    add("half_64", {t, half_split, 64, 64});
    add("half_256_norms", {t, half_split, 256, 256, true, 4, 1});
    add("half_partial", {t, half_split, 80, 32});
    add("interleaved_64", {t, interleaved, 64, 64});
    add("interleaved_128_norms", {t, interleaved, 128, 128, true, 4, 4});
    add("interleaved_partial", {t, interleaved, 96, 48});
    add("none_64", {t, none, 64, 0});
    add("small_values", {t, half_split, 64, 64, false, 6, 2, 1e-3f});
    add("large_values", {t, half_split, 64, 64, false, 6, 2, 1e3f});
    cases.push_back(
        {fmt::format("copy_and_zero_blocks_{}", name(t)), [=](Session& s) { blocks_case(s, t); }});
  }
}

}  // namespace pagoda::conformance
