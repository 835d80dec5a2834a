// decode_check: decode attention, append and block copy on this machine's GPU against float64, and
// the promises about bits. Prints one line a group and exits 1 if anything is off. `decode_check
// small` runs a few cases of each kind, for compute-sanitizer.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "backend/cuda/block_copy.h"
#include "backend/cuda/check/append_check.h"
#include "backend/cuda/check/decode_case.h"

namespace pagoda::cuda {
namespace {

// One table: error of a row against float64 over the stored keys and values. Queries and weights
// are rounded to the operands' 8 (bf16) or 11 bits, outputs to the query's.
double tolerance(KvDType dtype, DType q) {
  if (q == DType::bf16) return 8e-3;
  return dtype == KvDType::bf16 ? 8e-3 : 1.5e-3;
}

class Checker : Report {
 public:
  explicit Checker(bool small) : small_(small) {}

  int run() {
    shapes();
    hard();
    mixed();
    bits();
    big_pool();
    appended();
    copied();
    return finish("decode_check");
  }

 private:
  CaseError check(const CaseShape& shape, const std::string& what, double loosen = 1) {
    try {
      DecodeCase c(shape);
      c.output();
      const CaseError e = c.error();
      const bool good =
          e.not_finite == 0 &&
          e.worst_sum <
              loosen *
                  (shape.q_dtype == DType::f16 && shape.dtype == KvDType::bf16 ? 5e-3 : 2e-3) &&
          e.worst_row < loosen * tolerance(shape.dtype, shape.q_dtype);
      expect(good,
             fmt::format("{}: row {:.1e}, sum {:.1e}, {} not finite",
                         what,
                         e.worst_row,
                         e.worst_sum,
                         e.not_finite));
      remember(e.worst_row);
      return e;
    } catch (const Error& e) {
      expect(false, fmt::format("{}: {}", what, e.message()));
      return {};
    }
  }

  static std::vector<int32_t> lengths(int32_t S) {
    return {1, S - 1, S, S + 1, 0, 63, 64, 65, 255, 256, 257, 700, 2047, 2048, 2049, 4500};
  }

  void shapes() {
    const KvDType dtypes[] = {
        KvDType::bf16, KvDType::f16, KvDType::fp8, KvDType::int8, KvDType::int4};
    for (KvDType dtype : dtypes)
      for (int32_t D : {64, 80, 96, 128, 192, 256}) {
        if (small_ && D != 128 && D != 80) continue;
        CaseShape s;
        s.dtype = dtype;
        s.head_dim = D;
        s.fp8_scales = dtype == KvDType::fp8;
        const auto label = [&](const char* what) {
          return fmt::format("{} hd{} {}", name(dtype), D, what);
        };
        for (int32_t S : {16, 32, 48, 64, 128}) {
          if (small_ && S != 16 && S != 64) continue;
          s.block_size = S;
          s.kv_lens = small_ ? std::vector<int32_t>{1, S + 1, 0, 300} : lengths(S);
          s.num_heads = 8, s.kv_heads = 2;
          check(s, label(fmt::format("S{}", S).c_str()));
          s.q_dtype = DType::f16;
          s.window = 100, s.sinks = true;
          check(s, label(fmt::format("S{} f16 window sinks", S).c_str()));
          s.q_dtype = DType::bf16;
          s.window = 0, s.sinks = false;
        }
        s.block_size = default_block_size(dtype);
        s.kv_lens = small_ ? std::vector<int32_t>{70, 300} : std::vector<int32_t>{5, 70, 300, 2100};
        s.q_lens = small_ ? std::vector<int32_t>{4, 3} : std::vector<int32_t>{5, 8, 1, 3};
        s.softcap = 30.f;
        check(s, label("drafts softcap"));
        s.window = 65;
        check(s, label("drafts softcap window"));
        s.softcap = 0, s.window = 0;
        for (int32_t G : {1, 3, 5, 7, 16, 32, 48, 128}) {
          if (small_ && G != 32) continue;
          s.num_heads = G, s.kv_heads = 1;
          check(s, label(fmt::format("G{}", G).c_str()));
        }
        if (D == 128 || D == 256)
          report(fmt::format("{} hd{}..{}", name(dtype), D == 128 ? 64 : 192, D));
      }
  }

  void hard() {
    for (KvDType dtype : {KvDType::bf16, KvDType::int8, KvDType::int4, KvDType::fp8}) {
      CaseShape s;
      s.dtype = dtype;
      s.kv_lens = small_ ? std::vector<int32_t>{130} : std::vector<int32_t>{130, 3000, 1, 5000};
      s.q_gain = 40.f;  // logits of hundreds: one key takes all
      check(s, fmt::format("{} huge logits", name(dtype)), 2);
      s.q_gain = 1e-3f;
      check(s, fmt::format("{} flat logits", name(dtype)), 2);
      if (small_) continue;
      s.q_gain = 1;
      s.kv_lens.assign(64, 3000);  // sections as items
      check(s, fmt::format("{} sections", name(dtype)));
      s.kv_lens.assign(3, 40000);
      check(s, fmt::format("{} long", name(dtype)));
    }
    report("hard inputs");
  }

  // Items of all numbers of rows one after the other in a block, most with keys that no token
  // wrote: teams without columns of one item run ahead to the next.
  void mixed() {
    for (KvDType dtype : {KvDType::bf16, KvDType::f16, KvDType::fp8, KvDType::int8, KvDType::int4})
      for (int32_t D : {64, 128, 256}) {
        if (small_ && D != 64) continue;
        CaseShape s;
        s.dtype = dtype;
        s.head_dim = D;
        s.num_heads = 8, s.kv_heads = 2;
        for (int32_t b = 0; b < 240; b++) {
          s.kv_lens.push_back(8 + (b * 131 + D) % 293);
          s.q_lens.push_back(b % 7 == 0 ? 8 : 1 + b % 3 * (b % 5 == 0));
        }
        check(s, fmt::format("{} hd{} mixed", name(dtype), D));
        s.window = 50;
        check(s, fmt::format("{} hd{} mixed window", name(dtype), D));
      }
    report("items of many and few rows in turn");
  }

  // ---- bits

  static bool same(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, size_t at = 0) {
    return at + b.size() <= a.size() && std::memcmp(a.data() + at, b.data(), b.size() * 2) == 0;
  }

  void bits() {
    for (KvDType dtype :
         {KvDType::bf16, KvDType::f16, KvDType::int8, KvDType::int4, KvDType::fp8}) {
      if (small_ && dtype != KvDType::bf16) continue;
      CaseShape s;
      s.dtype = dtype;
      s.num_heads = 32, s.kv_heads = 8, s.block_size = 64;
      s.kv_lens = small_ ? std::vector<int32_t>{300, 4200, 77}
                         : std::vector<int32_t>{300,   4200,  77,   9000, 2048, 2049, 6000,
                                                12000, 1,     5000, 4096, 3000, 8000, 2500,
                                                7000,  10000, 4000, 6200, 9100, 11000};
      DecodeCase batch(s);
      const std::vector<uint16_t> whole = batch.output();
      const std::string who(name(dtype));
      const size_t row = 32 * 128;
      expect(same(whole, batch.output()), who + " bits: twice");
      if (dtype == KvDType::bf16 || dtype == KvDType::int4) {
        expect(same(whole, batch.output({1, 3, 2})), who + " bits: 1 block, 3 slots");
        expect(same(whole, batch.output({2, 4, 4})), who + " bits: 2 blocks, 4 slots");
      }
      for (size_t b : {size_t{1}, s.kv_lens.size() - 1}) {
        CaseShape one = s;
        one.kv_lens = {s.kv_lens[b]};
        one.first_seq = static_cast<int32_t>(b);
        expect(same(whole, DecodeCase(one).output(), b * row), who + " bits: alone");
      }
      for (int32_t S : {16, 32, 128}) {
        CaseShape other = s;
        other.block_size = S;
        other.rising_blocks = S == 32;
        expect(same(whole, DecodeCase(other).output()), fmt::format("{} bits: S{}", who, S));
      }
      for (int32_t columns : {16, 24, 32}) {
        if (columns != decode_columns(dtype, 128, columns, 1)) continue;
        CaseShape wide = s;
        wide.columns = columns;
        expect(same(whole, DecodeCase(wide).output()),
               fmt::format("{} bits: {} columns", who, columns));
      }
      drafts(s);
      shared(s);
      replayed(batch, whole, who);
    }
    fmt::print("bits: alone, batch, block sizes and orders, columns, drafts, shared, replay\n");
  }

  // A row with drafts behind it is the row alone with a shorter cache.
  void drafts(const CaseShape& like) {
    CaseShape s = like;
    s.kv_lens = {4100, 700};
    s.q_lens = {4, 2};
    s.window = 500;
    const std::vector<uint16_t> all = DecodeCase(s).output();
    s.q_lens = {1, 1};
    const std::vector<uint16_t> last = DecodeCase(s).output();
    const size_t row = 32 * 128;
    const bool good = std::memcmp(&all[3 * row], &last[0], row * 2) == 0 &&
                      std::memcmp(&all[5 * row], &last[row], row * 2) == 0;
    expect(good, fmt::format("{} bits: drafts", name(like.dtype)));
  }

  void shared(const CaseShape& like) {
    CaseShape s = like;
    s.kv_lens = small_ ? std::vector<int32_t>{4300, 4400}
                       : std::vector<int32_t>{8500, 9000, 8300, 8200, 300, 10000};
    s.shared = {{0, small_ ? 2 : 4, small_ ? 4096 : 8192}};
    const std::vector<uint16_t> cascade = DecodeCase(s).output();
    CaseError e;
    {
      DecodeCase c(s);
      c.output();
      e = c.error();
    }
    expect(e.worst_row < tolerance(s.dtype, s.q_dtype),
           fmt::format("{} shared prefix: {:.1e}", name(s.dtype), e.worst_row));
    // The same cache without the plan knowing: the first sequence owns the blocks either way.
    CaseShape alone = s;
    alone.kv_lens = {s.kv_lens[0]};
    alone.shared = {};
    expect(same(cascade, DecodeCase(alone).output()),
           fmt::format("{} bits: shared prefix", name(s.dtype)));
  }

  void replayed(DecodeCase& batch, const std::vector<uint16_t>& whole, const std::string& who) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 3; i++) batch.run(stream, {}, EarlyLoads::older_keys);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
    batch.poison();
    for (int i = 0; i < 2; i++) CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    expect(same(whole, batch.last_output()), who + " bits: graph replay");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }

  void big_pool() {
    if (small_) return;
    CaseShape s;
    s.num_heads = 32, s.kv_heads = 8;
    s.kv_lens = {500, 33};
    s.first_block = 90000;  // x 32768 elements: beyond 2^31
    check(s, "pool beyond 2^31 elements");
    s.dtype = KvDType::int4;
    s.block_size = 64;
    check(s, "int4 pool beyond 2^31 elements");
    report("pools beyond 2^31 elements");
  }

  // ---- append: norm, rotation, quantisation against float64 on the host

  void appended() {
    for (KvDType dtype : {KvDType::bf16, KvDType::f16, KvDType::fp8, KvDType::int8, KvDType::int4})
      for (int32_t D : {64, 80, 128, 256})
        for (RopeStyle style : {RopeStyle::half_split, RopeStyle::interleaved, RopeStyle::none}) {
          if (small_ && (D != 128 || style != RopeStyle::half_split)) continue;
          const AppendError e = append_error(dtype, D, style);
          expect(e.good(dtype),
                 fmt::format("append {} hd{} style {}: stored {:.1e}, q {:.1e}",
                             name(dtype),
                             D,
                             int(style),
                             e.stored,
                             e.q));
          remember(e.stored);
        }
    report("append");
  }

  void copied() {
    const KvFormat format = {KvDType::bf16, 16, 128, 128};
    const int64_t block = 8 * format.head_bytes(), N = 40;
    std::vector<uint8_t> before(N * block * 2);
    for (size_t i = 0; i < before.size(); i++)
      before[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
    DeviceBytes pools = to_device<uint8_t>(before);
    const KvView layers[2] = {{pools.as(), N, 8, format}, {pools.as() + N * block, N, 8, format}};
    const BlockCopy copies[] = {{3, 17}, {39, 0}, {5, 6}};
    const int32_t zeroed[] = {1, 38};
    copy_blocks(layers, copies, {});
    zero_blocks(layers, zeroed, {});
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<uint8_t> after(before.size());
    CUDA_CHECK(cudaMemcpy(after.data(), pools.as(), after.size(), cudaMemcpyDeviceToHost));
    for (int layer = 0; layer < 2; layer++) {
      uint8_t* base = before.data() + layer * N * block;
      for (const BlockCopy& c : copies)
        std::memcpy(base + c.to * block, base + c.from * block, block);
      for (int32_t b : zeroed) std::memset(base + b * block, 0, block);
    }
    expect(before == after, "block copy and zero");
  }

  bool small_;
};

}  // namespace
}  // namespace pagoda::cuda

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool small = argc == 2 && std::string(argv[1]) == "small";
  if (argc > 1 && !small) {
    fmt::print("usage: decode_check [small]\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print("decode_check: no GPU here, skipped\n");
    return 77;
  }
  try {
    return pagoda::cuda::Checker(small).run();
  } catch (const pagoda::Error& e) {
    fmt::print("decode_check: {}\n", e.message());
    return 1;
  }
}
