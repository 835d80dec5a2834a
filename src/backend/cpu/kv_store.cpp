// The KV store's share of attention.h: rotation, and keys and values into the cache and back.
#include <algorithm>

#include "backend/cpu/attention.h"

namespace pagoda::cpu {
namespace {

constexpr int64_t kWorthWaking =
    16384;  // elements of Q, K and V below which the caller works alone

KvCode code_of(KvDType dtype) {
  switch (dtype) {
    case KvDType::f32:
      return KvCode::f32;
    case KvDType::f16:
      return KvCode::f16;
    case KvDType::bf16:
      return KvCode::bf16;
    case KvDType::int8:
      return KvCode::int8;
    case KvDType::int4:
      return KvCode::int4;
    case KvDType::fp8:
      break;
  }
  PG_CHECK(false, "KV dtype {} on a CPU", name(dtype));
  return KvCode::f32;
}

void check(const RopeStoreKvArgs& args, int64_t rotary_dim) {
  const int64_t dim = args.kv.format.k_dim, rows = args.q.rows();
  PG_CHECK(args.q.cols() == args.num_heads * dim && args.k.cols() == args.kv.kv_heads * dim &&
               args.v.cols() == args.k.cols(),
           "q {} k {} v {} columns, {} and {} heads of {}",
           args.q.cols(),
           args.k.cols(),
           args.v.cols(),
           args.num_heads,
           args.kv.kv_heads,
           dim);
  PG_CHECK(args.k.rows() == rows && args.v.rows() == rows &&
               static_cast<int64_t>(args.slots.size()) == rows,
           "{} q, {} k, {} v, {} slots",
           rows,
           args.k.rows(),
           args.v.rows(),
           args.slots.size());
  PG_CHECK(rotary_dim <= dim && (args.style == RopeStyle::none || args.angles.dim(0) == rows),
           "{} rotary columns of {}",
           rotary_dim,
           dim);
}

RotaryJob rotary_job(const RopeStoreKvArgs& args, ConstTensorView norm) {
  RotaryJob job{};
  job.norm = norm.empty() ? nullptr : norm.as<float>();
  job.epsilon = args.norm_epsilon;
  job.dim = args.kv.format.k_dim;
  job.rotary_dim = args.style == RopeStyle::none ? 0 : static_cast<int32_t>(2 * args.angles.dim(1));
  job.style = args.style == RopeStyle::interleaved  ? RotaryStyle::interleaved
              : args.style == RopeStyle::half_split ? RotaryStyle::half_split
                                                    : RotaryStyle::none;
  return job;
}

}  // namespace

KvPages kv_pages(const KvView& kv) {
  const KvFormat& format = kv.format;
  PG_CHECK(format.k_dim == format.v_dim && format.k_dim % 16 == 0 && format.k_dim > 0 &&
               format.k_dim <= kMaxHeadDim,
           "head size {} of K, {} of V",
           format.k_dim,
           format.v_dim);
  PG_CHECK(format.block_size > 0 && format.block_size % kPageTokens == 0,
           "blocks of {} tokens",
           format.block_size);
  KvPages pages{};
  pages.base = kv.base;
  pages.block_bytes = kv.block_bytes();
  pages.head_bytes = format.head_bytes();
  pages.v_offset = format.v_offset();
  pages.k_scales_offset = format.k_scales_offset();
  pages.v_scales_offset = format.v_scales_offset();
  pages.block_pages = format.block_size / kPageTokens;
  pages.page_bytes = kPageTokens * format.k_dim * kv_bits(format.dtype) / 8;
  pages.scale_bytes = static_cast<int32_t>(format.scale_bytes(format.k_dim) / pages.block_pages);
  pages.dim = format.k_dim;
  pages.code = code_of(format.dtype);
  pages.groups = pages.code == KvCode::int8 ? 1
                 : pages.code == KvCode::int4
                     ? static_cast<int32_t>(ceil_div(format.k_dim, kGroupDims))
                     : 0;
  return pages;
}

void rope_store_kv(Context& context, const RopeStoreKvArgs& args) {
  const RotaryJob q_job = rotary_job(args, args.q_norm), k_job = rotary_job(args, args.k_norm);
  check(args, q_job.rotary_dim);
  const KvPages pages = kv_pages(args.kv);
  const AttentionKernels& kernels = context.kernels.attention;
  const int64_t rows = args.q.rows(), dim = pages.dim, block_size = args.kv.format.block_size;
  const int64_t angle_floats = q_job.rotary_dim;
  const float* angles = angle_floats ? args.angles.as<float>() : nullptr;
  const bool q_changes = q_job.norm || angle_floats > 0;
  const auto work = [&](int thread, int num_threads) {
    const auto [begin, end] = share(rows, thread, num_threads);
    for (int64_t t = begin; q_changes && t < end; t++)
      for (int32_t h = 0; h < args.num_heads; h++)
        kernels.rotate(q_job, args.q.row<float>(t) + h * dim, angles + t * angle_floats);
    // A page of a head is one thread's: int4 tokens share bytes.
    alignas(64) float k[kMaxHeadDim];
    for (int64_t t = 0; t < rows; t++) {
      const int64_t slot = args.slots[t];
      if (slot < 0) continue;
      for (int32_t h = 0; h < args.kv.kv_heads; h++) {
        if ((slot / kPageTokens + h) % num_threads != thread) continue;
        std::copy_n(args.k.row<float>(t) + h * dim, dim, k);
        kernels.rotate(k_job, k, angles + t * angle_floats);
        kernels.store(pages,
                      args.kv.head(slot / block_size, h),
                      static_cast<int>(slot % block_size),
                      k,
                      args.v.row<float>(t) + h * dim);
      }
    }
  };
  if (context.threads.size() == 1 || rows * (args.q.cols() + 2 * args.k.cols()) < kWorthWaking)
    return work(0, 1);
  context.threads.run([&](int thread) { work(thread, context.threads.size()); });
}

void read_kv(const Context& context,
             const KvView& kv,
             int64_t slot,
             std::span<float> k,
             std::span<float> v) {
  const KvPages pages = kv_pages(kv);
  const int64_t block_size = kv.format.block_size, dim = pages.dim;
  PG_CHECK(static_cast<int64_t>(k.size()) == kv.kv_heads * dim && v.size() == k.size(),
           "k {} v {} of {} heads of {}",
           k.size(),
           v.size(),
           kv.kv_heads,
           dim);
  PG_CHECK(slot >= 0 && slot < kv.num_blocks * block_size, "slot {}", slot);
  for (int32_t h = 0; h < kv.kv_heads; h++)
    context.kernels.attention.load(pages,
                                   kv.head(slot / block_size, h),
                                   static_cast<int>(slot % block_size),
                                   k.data() + h * dim,
                                   v.data() + h * dim);
}

}  // namespace pagoda::cpu
