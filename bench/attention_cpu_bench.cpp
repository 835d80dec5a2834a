// Speed of the CPU backend's attention, beside what the machine can do in the same run.
//
// Prefill: 512 tokens at depth 0 and 4096, as a fraction of the measured peak of the instruction
// that multiplies (vdpbf16ps or FMA). Decode: one token over 4096 and over few keys; bytes of K and
// V per second as a fraction of the measured read bandwidth, round copies that exceed the caches,
// blocks in random order. Fractions are left out on a busy machine unless --anyway. With one thread
// CPU time is what counts, so that a busy machine disturbs less.
//   attention_cpu_bench [--anyway] [--threads N] [prefill|decode|short|store …]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_limits.h"
#include "base/threads.h"

namespace {

using namespace pagoda;  // NOLINT: a program's main file
using cpu::IsaLevel;

struct Shape {
  const char* name;
  int32_t kv_heads, group, dim, window;
};
constexpr Shape kShapes[] = {{"hd64 KH4 G8", 4, 8, 64, 0},
                             {"hd128 KH8 G4", 8, 4, 128, 0},
                             {"SmolLM2", 3, 3, 64, 0},
                             {"Gemma 3 270M", 1, 4, 256, 0},
                             {"Gemma 3, window 512", 1, 4, 256, 512}};

// One sequence of `keys` tokens, in as many copies (layers) as were asked for.
class Cache {
 public:
  Cache(Backend& backend, const Shape& shape, KvDType dtype, int32_t keys, int64_t copies)
      : backend_(backend), shape_(shape), keys_(keys) {
    const int32_t block_size = default_block_size(dtype);
    const auto blocks = static_cast<int32_t>(ceil_div(keys, block_size));
    table_.resize(blocks);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
    const KvFormat format{dtype, block_size, shape.dim, shape.dim};
    layer_bytes_ = blocks * shape.kv_heads * format.head_bytes();
    memory_ = backend.allocator().allocate(layer_bytes_ * copies, MemoryTag::kv);
    std::mt19937 random(2);
    // Small finite numbers in every format, as bytes and as scales.
    for (int64_t i = 0; i < layer_bytes_; i += 4) {
      const auto word = static_cast<uint32_t>(random()) & 0x3b3b3b3bu;
      std::memcpy(memory_.data() + i, &word, 4);
    }
    for (int64_t c = 0; c < copies; c++) {
      if (c > 0) std::memcpy(memory_.data() + c * layer_bytes_, memory_.data(), layer_bytes_);
      layers_.push_back({memory_.data() + c * layer_bytes_, blocks, shape.kv_heads, format});
    }
  }

  int64_t layer_bytes() const { return layer_bytes_; }

  // The last `tokens` of the sequence as queries, in every copy.
  void attend(int32_t tokens) {
    const int32_t heads = shape_.kv_heads * shape_.group;
    const int64_t cols = int64_t{heads} * shape_.dim;
    q_.resize(tokens * cols, 0.1f);
    out_.resize(tokens * cols);
    const int32_t bounds[] = {0, tokens}, kv_lens[] = {keys_};
    const AttentionBatch batch{
        bounds, kv_lens, table_, static_cast<int32_t>(table_.size()), bounds, kv_lens};
    for (const KvView& kv : layers_)
      backend_.attention(
          {.q = {reinterpret_cast<std::byte*>(q_.data()), DType::f32, {tokens, cols}},
           .kv = kv,
           .batch = batch,
           .num_heads = heads,
           .scale = 1.f / std::sqrt(static_cast<float>(shape_.dim)),
           .window = shape_.window,
           .out = {reinterpret_cast<std::byte*>(out_.data()), DType::f32, {tokens, cols}}});
  }

  void store(int32_t tokens) {
    const int64_t cols = int64_t{shape_.kv_heads} * shape_.dim, q_cols = cols * shape_.group;
    q_.resize(tokens * q_cols, 0.1f);
    out_.resize(tokens * cols, 0.1f);
    std::vector<float> angles(int64_t{tokens} * shape_.dim, 0.7f);
    std::vector<int32_t> slots(tokens);
    const int32_t block_size = layers_[0].format.block_size;
    for (int32_t t = 0; t < tokens; t++)
      slots[t] = table_[t / block_size] * block_size + t % block_size;
    const ConstTensorView kv_rows{
        reinterpret_cast<std::byte*>(out_.data()), DType::f32, {tokens, cols}};
    backend_.rope_store_kv(
        {.q = {reinterpret_cast<std::byte*>(q_.data()), DType::f32, {tokens, q_cols}},
         .k = kv_rows,
         .v = kv_rows,
         .num_heads = shape_.kv_heads * shape_.group,
         .angles = {reinterpret_cast<std::byte*>(angles.data()),
                    DType::f32,
                    {tokens, shape_.dim / 2, 2}},
         .slots = slots,
         .kv = layers_[0]});
  }

 private:
  Backend& backend_;
  Shape shape_;
  int32_t keys_;
  int64_t layer_bytes_ = 0;
  std::vector<int32_t> table_;
  Buffer memory_;
  std::vector<KvView> layers_;
  std::vector<float> q_, out_;
};

constexpr KvDType kDTypes[] = {
    KvDType::bf16, KvDType::f16, KvDType::f32, KvDType::int8, KvDType::int4};

struct Machine {
  ThreadPool& pool;
  Backend& backend;
  bool print_fractions;
  cpu::MachineLimits limits;

  double peak_for(KvDType dtype) const {
    return dtype == KvDType::f32 || dtype == KvDType::f16 ? limits.f32_ops_per_s
                                                          : limits.bf16_ops_per_s;
  }
};

std::string fraction(const Machine& m, double part) {
  return m.print_fractions ? fmt::format(" ({:3.0f} %)", 100 * part) : "";
}

void prefill(const Machine& m) {
  constexpr int32_t kTokens = 512;
  for (const Shape& shape : kShapes)
    for (int32_t depth : {0, 4096})
      for (KvDType dtype : kDTypes) {
        if (depth == 0 && dtype != KvDType::bf16) continue;
        Cache cache(m.backend, shape, dtype, depth + kTokens, 1);
        double pairs = 0;
        for (int32_t i = 0; i < kTokens; i++)
          pairs += shape.window ? std::min(depth + i + 1, shape.window) : depth + i + 1;
        const double flops = 4 * pairs * shape.dim * shape.kv_heads * shape.group;
        const double time = cpu::shortest_time([&] { cache.attend(kTokens); }, m.pool.size());
        fmt::print("prefill 512  {:20} {:5} depth {:5}: {:8.3f} ms {:6.1f} GFLOP/s{}\n",
                   shape.name,
                   name(dtype),
                   depth,
                   time * 1e3,
                   flops / time / 1e9,
                   fraction(m, flops / time / m.peak_for(dtype)));
        std::fflush(stdout);
      }
}

void decode(const Machine& m) {
  constexpr int32_t kKeys = 4096;
  for (const Shape& shape : kShapes)
    for (KvDType dtype : kDTypes) {
      if (shape.window) continue;
      const int64_t bytes = Cache(m.backend, shape, dtype, kKeys, 1).layer_bytes();
      const int64_t copies = ceil_div(int64_t{128} << 20, bytes);
      Cache cache(m.backend, shape, dtype, kKeys, copies);
      const double time = cpu::shortest_time([&] { cache.attend(1); }, m.pool.size());
      const double rate = static_cast<double>(bytes * copies) / time;
      fmt::print("decode  {:20} {:5} keys {}: {:7.1f} us a layer {:6.1f} GB/s{}\n",
                 shape.name,
                 name(dtype),
                 kKeys,
                 time / copies * 1e6,
                 rate / 1e9,
                 fraction(m, rate / m.limits.read_bytes_per_s));
      std::fflush(stdout);
    }
}

// What a call costs when there is little to do.
void short_context(const Machine& m) {
  for (const Shape& shape : kShapes)
    for (int32_t keys : {1, 32, 128, 512}) {
      Cache cache(m.backend, shape, KvDType::bf16, keys, 30);
      const double time = cpu::shortest_time([&] { cache.attend(1); }, m.pool.size());
      fmt::print("decode  {:20} bf16  keys {:4}: {:7.2f} us a layer, from cache\n",
                 shape.name,
                 keys,
                 time / 30 * 1e6);
    }
}

// Rotation of Q and K, and K and V into the cache.
void store(const Machine& m) {
  constexpr int32_t kTokens = 512;
  for (const Shape& shape : kShapes)
    for (KvDType dtype : kDTypes) {
      if (shape.window) continue;
      Cache cache(m.backend, shape, dtype, kTokens, 1);
      const double time = cpu::shortest_time([&] { cache.store(kTokens); }, m.pool.size());
      fmt::print(
          "store 512  {:20} {:5}: {:8.3f} ms a layer\n", shape.name, name(dtype), time * 1e3);
    }
}

}  // namespace

int main(int argc, char** argv) {
  bool anyway = false;
  int num_threads = 0;
  std::vector<std::string> parts;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word == "--anyway")
      anyway = true;
    else if (word == "--threads" && i + 1 < argc)
      num_threads = std::atoi(argv[++i]);
    else
      parts.push_back(word);
  }
  const bool busy = cpu::load_average() > cpu::kIdleLoad;
  if (busy && !anyway)
    fmt::print("load {:.1f}: fractions left out (--anyway)\n", cpu::load_average());
  ThreadPool pool(num_threads > 0 ? num_threads : default_num_threads());
  const IsaLevel isa = cpu::chosen_isa();
  const auto backend = cpu::make_cpu_backend({.num_threads = pool.size(), .isa = isa});
  backend->reserve_workspace({.max_tokens = 512,
                              .max_seqs = 1,
                              .max_context = 8192,
                              .num_heads = 32,
                              .kv_heads = 8,
                              .head_dim = 256});
  const Machine machine{pool, *backend, anyway || !busy, cpu::measure_machine_limits(pool, isa)};
  fmt::print("{}: peak {:.0f} GFLOP/s over bf16, {:.0f} over f32; memory {:.1f} GB/s\n",
             backend->name(),
             machine.limits.bf16_ops_per_s / 1e9,
             machine.limits.f32_ops_per_s / 1e9,
             machine.limits.read_bytes_per_s / 1e9);
  const auto wanted = [&](const char* part) {
    return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  if (wanted("prefill")) prefill(machine);
  if (wanted("decode")) decode(machine);
  if (wanted("short")) short_context(machine);
  if (wanted("store")) store(machine);
}
