// prefill_check: prefill attention on this machine's GPU against float64, and the promises about
// bits. Prints one line a group and exits 1 if anything is off. `prefill_check small` runs a few
// cases of each kind, for compute-sanitizer; `prefill_check full WORD` the kinds with that word.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "backend/cuda/check/prefill_kind.h"

namespace pagoda::cuda {
namespace {

using Lens = std::vector<int32_t>;
using Kind = PrefillKind;

class PrefillChecker : Report {
 public:
  PrefillChecker(bool small, std::string only) : small_(small), only_(std::move(only)) {}

  int run() {
    shapes();
    hard();
    bits();
    spans();
    if (!small_) long_caches();
    if (!small_) by_waist();
    if (only_.empty()) big_pool();
    return finish("prefill_check");
  }

 private:
  // Weights and outputs are rounded to 8 (bf16) or 11 bits.
  void check(const PrefillCaseShape& shape, const std::string& what, double loosen = 1) {
    try {
      PrefillCase c(shape);
      c.output();
      const CaseError e = c.error();
      const bool is_bf16 = shape.dtype == KvDType::bf16 ||
                           (kv_bits(shape.dtype) < 16 && shape.q_dtype == DType::bf16);
      const double limit = loosen * (is_bf16 ? 8e-3 : 1.5e-3);
      expect(e.not_finite == 0 && e.worst_row < limit && e.worst_sum < loosen * 2e-3 &&
                 c.ticket() == 0,
             fmt::format("{}: row {:.1e}, sum {:.1e}, {} not finite, ticket {}",
                         what,
                         e.worst_row,
                         e.worst_sum,
                         e.not_finite,
                         c.ticket()));
      remember(e.worst_row);
    } catch (const Error& e) {
      expect(false, fmt::format("{}: {}", what, e.message()));
    }
  }

  std::vector<Kind> kinds() const {
    std::vector<Kind> all;
    for (PrefillPath path : {PrefillPath::automatic, PrefillPath::mma})
      for (KvDType dtype : {KvDType::bf16, KvDType::f16})
        for (int32_t D : {64, 80, 96, 128, 192, 256}) all.push_back({dtype, D, path});
    for (KvDType dtype : {KvDType::int8, KvDType::fp8, KvDType::int4})
      for (int32_t D : {64, 80, 96, 128, 192, 256}) {
        all.push_back({dtype, D});
        all.push_back({dtype, D, PrefillPath::automatic, DType::bf16, true});
      }
    for (KvDType dtype : {KvDType::int8, KvDType::fp8, KvDType::int4})
      for (bool scratch : {false, true})
        all.push_back({dtype, 128, PrefillPath::automatic, DType::f16, scratch});
    std::erase_if(all, [&](const Kind& k) { return k.name().find(only_) == std::string::npos; });
    return all;
  }

  void shapes() {
    for (const Kind& kind : kinds()) {
      const bool brief = small_ && kind.head_dim != 128;
      const std::string who = kind.name();
      PrefillCaseShape s = kind.shape();
      for (int32_t S : {16, 24, 32, 48, 64, 128}) {
        if (small_ ? S != 48 : !kind.is_main() && S % 48 != 0 && S != 64) continue;
        s.block_size = S;
        s.num_multiprocessors = S == 48 ? 2 : 132;  // few: a block has many row tiles
        s.kv_lens = brief ? Lens{70, 300} : Lens{200, 77, 64, 1001, 513, 128, 129};
        s.q_lens = brief ? Lens{40, 300} : Lens{200, 1, 64, 333, 128, 127, 129};
        check(s, fmt::format("{} S{}", who, S));
      }
      // Rows far from what they don't see, up to the last key tile, and a row tile behind them.
      s.block_size = 48;
      s.num_multiprocessors = 2;
      s.kv_lens = {1500, 1372, 70}, s.q_lens = {300, 128, 40};
      check(s, who + " plain steps");
      s.block_size = 16;
      s.num_multiprocessors = 132;
      if (brief) continue;
      s.kv_lens = {300, 700}, s.q_lens = {300, 5};
      s.mask = PrefillMask::full;
      check(s, who + " full");
      s.mask = PrefillMask::causal;
      s.kv_lens = {900, 300, 1500, 64}, s.q_lens = {700, 300, 60, 64};
      for (int32_t window : {1, 33, 128, 129, 500, 2000}) {
        s.window = window;
        check(s, fmt::format("{} window {}", who, window));
        s.block_size = s.block_size == 16 ? 64 : 16;
        s.sinks = !s.sinks;
      }
      s.window = 100, s.softcap = 30.f, s.sinks = true;
      check(s, who + " window softcap sinks");
      s.window = 0;
      s.softcap = 5.f, s.q_gain = 10.f;
      check(s, who + " softcap 5 of large scores", kind.rounds_codes() ? 4 : 2);
      s.softcap = 0.f, s.q_gain = 1.f, s.sinks = false;
      for (int32_t G : {1, 3, 8}) {
        s.num_heads = 2 * G, s.kv_heads = 2;
        s.kv_lens = {260, 40}, s.q_lens = {};
        check(s, fmt::format("{} G{}", who, G));
      }
      s.num_heads = 16;  // many row tiles of one key tile for each multiprocessor
      for (int32_t keys : {60, 64, 96, 128}) {
        s.kv_lens = Lens(100, keys), s.q_lens = Lens(100, keys);
        check(s, fmt::format("{} prompts of {}", who, keys));
      }
      report(who);
    }
  }

  void hard() {
    for (const Kind& kind : kinds()) {
      if (small_ && kind.head_dim != 128) continue;
      const std::string who = kind.name();
      PrefillCaseShape s = kind.shape();
      const double loosen = !kind.rounds_codes() ? 2 : kind.q_dtype == DType::f16 ? 20 : 9;
      s.num_heads = 2, s.kv_heads = 1;
      s.kv_lens = small_ ? Lens{300} : Lens{1300, 77};
      for (Jumps jumps : {Jumps::rising, Jumps::falling, Jumps::spikes}) {
        s.jumps = jumps;
        check(s, fmt::format("{} jumps {}", who, int(jumps)), loosen);
      }
      s.jumps = Jumps::none;
      s.q_gain = 40.f;  // one key takes all
      check(s, who + " huge logits", loosen);
      s.q_gain = 1e-3f;
      check(s, who + " flat logits", 2);
      s.q_gain = 1.f;
      s.kv_lens = {100, 40, 0, 1, 128}, s.q_lens = {200, 40, 3, 1, 0};
      check(s, who + " rows without keys");
      s.sinks = true;
      check(s, who + " rows without keys, sinks");
      report(who + " hard inputs");
    }
  }

  // ---- bits

  static bool same(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 2) == 0;
  }

  void bits() {
    for (const Kind& kind : kinds()) {
      if (small_ && kind.head_dim != 128) continue;
      PrefillCaseShape s = kind.shape();
      s.kv_lens = small_ ? Lens{300, 77} : Lens{1700, 77, 3000};
      s.q_lens = small_ ? Lens{300, 70} : Lens{1700, 70, 900};
      same_bits(s, kind.name());
      s.window = 200;
      s.jumps = Jumps::spikes;
      same_bits(s, kind.name() + " window, spikes");
      same_bits_in_sections(kind);
    }
    fmt::print(
        "bits: twice, alone, chunks, block sizes and orders, launches, sections, few "
        "multiprocessors, replay\n");
  }

  void same_bits(const PrefillCaseShape& s, const std::string& who) {
    PrefillCase batch(s);
    const std::vector<uint16_t> whole = batch.output();
    expect(same(whole, batch.output()), who + " bits: twice");
    for (int32_t rows : {100000, 512, 64, 7, 1}) {
      if (small_ && rows < 64) continue;
      expect(same(whole, batch.output_in_chunks(rows)),
             fmt::format("{} bits: chunks of {}", who, rows));
    }
    for (int32_t S : {24, 64, 128}) {
      PrefillCaseShape other = s;
      other.block_size = S;
      other.rising_blocks = S == 64;
      expect(same(whole, PrefillCase(other).output()), fmt::format("{} bits: S{}", who, S));
    }
    PrefillCaseShape parted = s;
    parted.max_parts = 2500;
    PrefillCase several(parted);
    expect(same(whole, several.output()), who + " bits: several launches");
    if (several.plans().size() > 1) {
      expect(same(whole, several.output_in_chunks(300)), who + " bits: of chunks");
      replayed(several, whole, who + " several launches");
    }
    PrefillCaseShape alone = s;
    alone.ranks = 1;
    expect(same(whole, PrefillCase(alone).output()), who + " bits: without pairs");
    PrefillCaseShape few = s;
    few.num_multiprocessors = 2;
    expect(same(whole, PrefillCase(few).output()), who + " bits: 2 multiprocessors");
    replayed(batch, whole, who);
  }

  // Few heads at a time, all of them, and as many as the number of sequences asks for.
  void same_bits_in_sections(const Kind& kind) {
    for (int32_t seqs : {2, 8, 9}) {
      PrefillCaseShape s = kind.shape();
      s.num_heads = 16, s.kv_heads = 8;
      s.num_multiprocessors = 2;  // few pieces for each would be all heads at once
      for (int32_t i = 0; i < seqs; i++) s.kv_lens.push_back(150 + 37 * i);
      PrefillCase batch(s);
      const std::vector<uint16_t> whole = batch.output();
      const std::string who = fmt::format("{} bits: {} sequences", kind.name(), seqs);
      expect(same(whole, batch.output_in_chunks(100000)), who + ", alone");
      for (int32_t heads : {2, 16}) {
        s.section_heads = heads;
        expect(same(whole, PrefillCase(s).output()), fmt::format("{}, {} heads", who, heads));
      }
    }
  }

  void replayed(PrefillCase& batch, const std::vector<uint16_t>& whole, const std::string& who) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 3; i++) batch.run(stream);
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

  // ---- rows whose keys are attended in spans: short ones, so that many things fall between them

  static PrefillCaseShape in_spans(PrefillCaseShape s) {
    s.span_tiles = 2;
    s.whole_keys = 300;
    return s;
  }
  void spans() {
    for (const Kind& kind : kinds()) {
      if (!kind.knows_spans() || (small_ && kind.head_dim % 128 != 0)) continue;
      const std::string who = kind.name() + " spans";
      PrefillCaseShape s = in_spans(kind.shape());
      s.kv_lens = {200, 77, 301, 1001, 513, 300, 255, 256, 257, 2100};
      s.q_lens = {200, 1, 1, 400, 513, 299, 255, 1, 257, 5};
      check(s, who);
      s.num_multiprocessors = 2;
      s.block_size = 48;
      for (int32_t window : {300, 301, 600, 1500}) {
        s.window = window;
        check(s, fmt::format("{} window {}", who, window));
        s.sinks = !s.sinks;
      }
      s.softcap = 30.f;
      s.span_tiles = 9;
      check(s, who + " window softcap, longer spans");
      if (small_) continue;
      s = in_spans(kind.shape());
      s.kv_lens = {300, 700, 0, 301}, s.q_lens = {300, 5, 3, 400};
      s.sinks = true;
      s.mask = PrefillMask::full;
      check(s, who + " full, sinks, rows without keys");
      s.mask = PrefillMask::causal;
      s.sinks = false;  // which would leave nothing of rows of f16 whose scores are low
      s.kv_lens = {1300, 900}, s.q_lens = {1300, 30};
      for (Jumps jumps : {Jumps::rising, Jumps::falling, Jumps::spikes}) {
        s.jumps = jumps;
        check(s, fmt::format("{} jumps {}", who, int(jumps)), 2);
      }
      s.jumps = Jumps::none;
      s.q_gain = 40.f;
      check(s, who + " huge logits", 2);
      report(who);
      s = in_spans(kind.shape());
      s.span_tiles = 8;
      s.kv_lens = {1700, 77, 3000}, s.q_lens = {1700, 70, 900};
      same_bits(s, who);
      s.window = 700;
      s.jumps = Jumps::spikes;
      same_bits(s, who + " window, spikes");
    }
  }

  // Where rows in spans begin, where spans do, and behind.
  void long_caches() {
    for (const Kind& kind : kinds()) {
      if (!kind.knows_spans() || kind.scratch) continue;
      const std::string who = kind.name() + " long";
      PrefillCaseShape s = kind.shape();
      constexpr int32_t kCut = 3 * kSpanKeys + kSpanKeys / 8;
      s.kv_lens = {
          kWholeKeys + 70, kCut + 40, 40000, kWholeKeys, kWholeKeys + 1, 32640, 32768, 32769};
      s.q_lens = {140, 80, 5, 1, 1, 1, 1, 3};
      check(s, who);
      s.block_size = 64;
      for (int32_t window : {kWholeKeys, kWholeKeys + 1, 30000}) {
        s.window = window, s.sinks = true;
        check(s, fmt::format("{} window {}", who, window));
      }
      if (kind.head_dim == 128) same_bits(s, who + " window");
      report(who);
    }
  }

  // As the backend plans and launches it: several launches, one copy of quantised keys, twice.
  void by_waist() {
    for (const Kind& kind : kinds()) {
      if (!kind.knows_spans() || kind.head_dim != 128) continue;
      PrefillCaseShape s = kind.shape();
      s.num_heads = 32, s.kv_heads = 8;
      s.kv_lens = {45000, 300}, s.q_lens = {2000, 300};
      s.fp8_scales = false;  // the backend has none
      PrefillCase c(s);
      const std::vector<uint16_t> expected = c.output();
      const WorkspaceShape shape = {.max_tokens = 2300,
                                    .max_seqs = 2,
                                    .max_context = 45056,
                                    .num_heads = 32,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .kv_dtype = kind.dtype};
      Attention attention(nullptr, 132);
      const DeviceBytes workspace(attention.workspace_bytes(shape));
      CUDA_CHECK(cudaMemset(workspace.as(), 0, attention.workspace_bytes(shape)));
      attention.reserve(shape, workspace.as());
      for (int i = 0; i < 2; i++) {
        c.poison();
        c.run_by(attention);
        expect(same(expected, c.last_output()), kind.name() + " bits: by the waist");
      }
    }
  }

  void big_pool() {
    if (small_) return;
    for (PrefillPath path : {PrefillPath::automatic, PrefillPath::mma}) {
      PrefillCaseShape s;
      s.path = path;
      s.num_heads = 32, s.kv_heads = 8;
      s.kv_lens = {500, 33};
      s.first_block = 90000;  // x 32768 elements: beyond 2^31
      check(s, "pool beyond 2^31 elements");
    }
    report("pool beyond 2^31 elements");
  }

  bool small_;
  std::string only_;
};

}  // namespace
}  // namespace pagoda::cuda

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string how = argc > 1 ? argv[1] : "full";
  if (how != "small" && how != "full") {
    fmt::print("usage: prefill_check [small | full] [WORD], WORD as in \"bf16 hd64\"\n");
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print("prefill_check: no GPU here, skipped\n");
    return 77;
  }
  try {
    return pagoda::cuda::PrefillChecker(how == "small", argc > 2 ? argv[2] : "").run();
  } catch (const pagoda::Error& e) {
    fmt::print("prefill_check: {}\n", e.message());
    return 1;
  }
}
