#include "kv/kv_cache.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "kv/audit.h"

namespace pagoda {
namespace {

constexpr int32_t kS = 16;

std::vector<int32_t> count_up(int32_t n) {
  std::vector<int32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

KvCache make(int32_t num_blocks, std::vector<int32_t> windows = {0}) {
  return KvCache({.block_size = kS, .num_blocks = num_blocks, .windows = std::move(windows)});
}

// Admits, computes in one go and commits.
SequenceKv compute(KvCache& kv, std::span<const int32_t> tokens, std::string_view salt = "") {
  SequenceKv sequence;
  const PrefixMatch match = kv.match(tokens, salt);
  kv.adopt(sequence, match);
  EXPECT_TRUE(kv.reserve(sequence, match.num_tokens, static_cast<int32_t>(tokens.size())));
  kv.commit(sequence, tokens, static_cast<int32_t>(tokens.size()), salt);
  return sequence;
}

TEST(KvCache, a_hit_never_covers_the_last_token) {
  KvCache kv = make(8);
  SequenceKv first = compute(kv, count_up(3 * kS));
  EXPECT_EQ(kv.match(count_up(3 * kS), "").num_tokens, 2 * kS);
  EXPECT_EQ(kv.match(count_up(3 * kS + 1), "").num_tokens, 3 * kS);
  EXPECT_EQ(kv.match(count_up(1), "").num_tokens, 0);
  kv.release(first);
  EXPECT_EQ(kv.match(count_up(3 * kS), "").num_tokens, 2 * kS);
}

TEST(KvCache, only_full_computed_blocks_are_indexed) {
  KvCache kv = make(8);
  SequenceKv sequence;
  kv.adopt(sequence, {});
  const std::vector<int32_t> tokens = count_up(40);
  ASSERT_TRUE(kv.reserve(sequence, 0, 40));
  EXPECT_EQ(kv.match(count_up(41), "").num_tokens, 0);
  kv.commit(sequence, tokens, 31, "");
  EXPECT_EQ(kv.match(count_up(41), "").num_tokens, kS);
  kv.commit(sequence, tokens, 40, "");
  EXPECT_EQ(kv.match(count_up(41), "").num_tokens, 2 * kS);
}

TEST(KvCache, salts_do_not_share) {
  KvCache kv = make(8);
  SequenceKv sequence = compute(kv, count_up(40), "a");
  EXPECT_EQ(kv.match(count_up(40), "a").num_tokens, 2 * kS);
  EXPECT_EQ(kv.match(count_up(40), "b").num_tokens, 0);
}

TEST(KvCache, reserve_takes_nothing_when_there_is_too_little) {
  KvCache kv = make(3);
  SequenceKv sequence;
  kv.adopt(sequence, {});
  EXPECT_FALSE(kv.reserve(sequence, 0, 4 * kS));
  EXPECT_EQ(kv.pool().num_free(), 3);
  EXPECT_TRUE(kv.reserve(sequence, 0, 3 * kS));
}

TEST(KvCache, the_end_of_a_sequence_is_evicted_first) {
  KvCache kv = make(4);
  SequenceKv sequence = compute(kv, count_up(4 * kS));
  kv.release(sequence);
  SequenceKv other;
  kv.adopt(other, {});
  ASSERT_TRUE(kv.reserve(other, 0, kS));
  EXPECT_EQ(kv.match(count_up(5 * kS), "").num_tokens, 3 * kS);
}

TEST(KvCache, taken_blocks_are_to_be_zeroed_once) {
  KvCache kv = make(4);
  SequenceKv sequence = compute(kv, count_up(20));
  EXPECT_EQ(kv.pending_step().zero, (std::vector<int32_t>{0, 1}));
  kv.step_submitted();
  EXPECT_TRUE(kv.pending_step().zero.empty());
}

TEST(KvCache, a_fork_shares_and_the_first_to_write_copies) {
  KvCache kv = make(8);
  SequenceKv parent = compute(kv, count_up(20)), child;
  kv.fork(parent, child);
  EXPECT_EQ(child.tables, parent.tables);
  EXPECT_EQ(kv.pool().num_referenced(), 2);
  const int32_t shared = parent.tables[0][1];
  ASSERT_TRUE(kv.reserve(parent, 20, 21));
  ASSERT_EQ(kv.pending_step().copies.size(), 1u);
  EXPECT_EQ(kv.pending_step().copies[0].from, shared);
  EXPECT_EQ(kv.pending_step().copies[0].to, parent.tables[0][1]);
  ASSERT_TRUE(kv.reserve(child, 20, 21));  // alone with it now
  EXPECT_EQ(kv.pending_step().copies.size(), 1u);
  EXPECT_EQ(child.tables[0][1], shared);
  EXPECT_EQ(child.tables[0][0], parent.tables[0][0]);
}

TEST(KvCache, the_source_of_a_copy_stays_until_the_copy_is_done) {
  KvCache kv = make(3);
  SequenceKv parent = compute(kv, count_up(20)), child;
  kv.fork(parent, child);
  kv.step_submitted();
  kv.step_returned();
  const int32_t shared = parent.tables[0][1];
  ASSERT_TRUE(kv.reserve(parent, 20, 21));
  kv.release(child);
  EXPECT_EQ(kv.pool().references(shared), 1);
  EXPECT_TRUE(kv.awaits_blocks());
  kv.step_submitted();
  kv.step_returned();
  EXPECT_EQ(kv.pool().references(shared), 0);
}

TEST(KvCache, blocks_released_during_a_step_go_free_when_it_returns) {
  KvCache kv = make(4);
  SequenceKv sequence;
  kv.adopt(sequence, {});
  ASSERT_TRUE(kv.reserve(sequence, 0, 20));
  kv.step_submitted();
  kv.release(sequence);
  EXPECT_EQ(kv.pool().num_free(), 2);
  kv.step_returned();
  EXPECT_EQ(kv.pool().num_free(), 4);
}

TEST(KvCache, a_window_group_frees_what_it_left_behind) {
  constexpr int32_t kWindow = 32;
  KvCache kv = make(64, {0, kWindow});
  SequenceKv sequence;
  kv.adopt(sequence, {});
  for (int32_t begin = 0; begin < 320; begin += 8) {
    ASSERT_TRUE(kv.reserve(sequence, begin, begin + 8));
    EXPECT_LE(kv.pool().num_referenced(), kv.blocks_of_sequence(begin + 8, 8));
  }
  EXPECT_EQ(sequence.tables[1][0], -1);
  EXPECT_EQ(sequence.tables[1].size(), sequence.tables[0].size());
  EXPECT_LE(kv.pool().num_referenced(), 20 + (kWindow - 1 + 8 + 15) / 16 + 1);
}

TEST(KvCache, a_hit_shrinks_to_where_the_window_is_whole) {
  constexpr int32_t kWindow = 32;
  KvCache kv = make(64, {0, kWindow});
  const std::vector<int32_t> tokens = count_up(160);
  SequenceKv sequence;
  kv.adopt(sequence, {});
  // Only up to 80 is the window's part indexed; beyond, blocks are given up before they are full.
  ASSERT_TRUE(kv.reserve(sequence, 0, 80));
  kv.commit(sequence, tokens, 80, "");
  ASSERT_TRUE(kv.reserve(sequence, 80, 160));
  ASSERT_TRUE(kv.reserve(sequence, 159, 160));
  kv.commit(sequence, tokens, 160, "");
  EXPECT_EQ(kv.match(count_up(161), "").num_tokens, 160);
  EXPECT_EQ(kv.match(count_up(120), "").num_tokens, 80);
  SequenceKv next;
  kv.adopt(next, kv.match(count_up(120), ""));
  EXPECT_EQ(next.first_blocks[1], (80 - kWindow + 1) / kS);
  const SequenceKv* live[] = {&sequence, &next};
  EXPECT_EQ(audit(kv, live), "");
}

TEST(KvCache, what_is_not_trusted_leaves_the_index_with_all_that_was_built_on_it) {
  KvCache kv = make(16);
  SequenceKv first = compute(kv, count_up(5 * kS)), second = compute(kv, count_up(7 * kS));
  EXPECT_EQ(kv.match(count_up(8 * kS), "").num_tokens, 7 * kS);
  kv.distrust(count_up(5 * kS), "");
  kv.release(first);
  EXPECT_EQ(kv.match(count_up(8 * kS), "").num_tokens, 0);
  const SequenceKv* live[] = {&second};
  EXPECT_EQ(audit(kv, live), "");
  kv.commit(second, count_up(8 * kS), 7 * kS, "");
  EXPECT_EQ(kv.match(count_up(8 * kS), "").num_tokens, 0);
}

TEST(KvCache, clearing_prefixes_frees_every_idle_block) {
  KvCache kv = make(8);
  SequenceKv used = compute(kv, count_up(20));
  SequenceKv gone = compute(kv, count_up(70));
  kv.release(gone);
  kv.clear_prefixes();
  EXPECT_EQ(kv.pool().num_free(), 6);
  EXPECT_EQ(kv.match(count_up(70), "").num_tokens, kS);
}

TEST(KvCache, without_prefix_caching_nothing_is_kept) {
  KvCache kv({.block_size = kS, .num_blocks = 8, .windows = {0}, .prefix_caching = false});
  SequenceKv sequence = compute(kv, count_up(40));
  EXPECT_EQ(kv.match(count_up(40), "").num_tokens, 0);
  kv.release(sequence);
  EXPECT_EQ(kv.pool().num_free(), 8);
}

// Random operations. The model: what each slot of each block holds is the hash of the tokens up to
// there; a sequence that reads through its tables must find its own hashes in every visible slot.
struct RandomRun {
  struct Live {
    std::vector<int32_t> tokens;
    int32_t num_computed = 0;
    SequenceKv kv;
  };
  std::mt19937 random;
  std::vector<int32_t> windows;
  KvCache kv;
  std::vector<Live> live;
  std::vector<std::vector<uint64_t>> slots;  // [groups][N * S]
  int64_t num_hits = 0, num_copies = 0, steps_out = 0;

  RandomRun(uint32_t seed, std::vector<int32_t> w)
      : random(seed),
        windows(w),
        kv(make(24, w)),
        slots(w.size(), std::vector<uint64_t>(24 * kS, 0)) {}

  static uint64_t hash_to(std::span<const int32_t> tokens, int32_t position) {
    uint64_t hash = 1;
    for (int32_t i = 0; i <= position; i++) hash = (hash ^ tokens[i]) * 0x9E3779B97F4A7C15u + i;
    return hash;
  }
  uint64_t& slot(size_t group, const SequenceKv& s, int32_t position) {
    return slots[group][s.tables[group][position / kS] * kS + position % kS];
  }
  void start() {
    Live next;
    const auto length = 1 + static_cast<int32_t>(random() % 100);
    for (int32_t i = 0; i < length; i++) next.tokens.push_back(i % 24 == 23 ? random() % 2 : 0);
    const PrefixMatch match = kv.match(next.tokens, "");
    ASSERT_LT(match.num_tokens, length);
    if (!kv.fits(match, length, 16, 0)) return;
    kv.adopt(next.kv, match);
    next.num_computed = match.num_tokens;
    num_hits += match.num_tokens > 0;
    live.push_back(std::move(next));
  }
  void advance(Live& s) {
    if (s.num_computed == std::ssize(s.tokens)) s.tokens.push_back(random() % 2);
    const int32_t end = std::min(static_cast<int32_t>(s.tokens.size()),
                                 s.num_computed + 1 + static_cast<int32_t>(random() % 16));
    if (!kv.reserve(s.kv, s.num_computed, end)) return;
    for (const int32_t block : kv.pending_step().zero)
      for (auto& group : slots) std::fill_n(group.begin() + block * kS, kS, 0);
    for (const BlockCopy& copy : kv.pending_step().copies)
      for (auto& group : slots)
        std::copy_n(group.begin() + copy.from * kS, kS, group.begin() + copy.to * kS);
    num_copies += std::ssize(kv.pending_step().copies);
    for (size_t g = 0; g < windows.size(); g++)
      for (int32_t i = s.num_computed; i < end; i++) slot(g, s.kv, i) = hash_to(s.tokens, i);
    s.num_computed = end;
    kv.step_submitted();
    if (random() % 2 == 0 || steps_out > 0)
      kv.step_returned();
    else
      steps_out++;
    kv.commit(s.kv, s.tokens, end, "");
  }
  void stop(size_t i) {
    if (random() % 8 == 0) kv.distrust(live[i].tokens, "");
    kv.release(live[i].kv);
    live.erase(live.begin() + static_cast<ptrdiff_t>(i));
  }
  void fork(size_t i) {
    if (live[i].num_computed == 0) return;
    Live child = {.tokens = live[i].tokens, .num_computed = live[i].num_computed, .kv = {}};
    kv.fork(live[i].kv, child.kv);
    live.push_back(std::move(child));
  }
  void check() {
    std::vector<const SequenceKv*> tables;
    for (const Live& s : live) tables.push_back(&s.kv);
    ASSERT_EQ(audit(kv, tables), "");
    for (Live& s : live)
      for (size_t g = 0; g < windows.size(); g++) {
        const int32_t first = windows[g] == 0 ? 0 : std::max(0, s.num_computed - windows[g] + 1);
        for (int32_t i = first; i < s.num_computed; i++)
          ASSERT_EQ(slot(g, s.kv, i), hash_to(s.tokens, i)) << "position " << i;
      }
  }
  void step() {
    const uint32_t what = random() % 16;
    if (live.empty() || (what < 3 && live.size() < 6)) return start();
    const size_t i = random() % live.size();
    if (what == 3) return stop(i);
    if (what == 4 && live.size() < 6) return fork(i);
    if (what == 5 && steps_out > 0) {
      steps_out--;
      return kv.step_returned();
    }
    advance(live[i]);
  }
};

TEST(KvCache, random_operations_keep_every_visible_slot_and_the_books_right) {
  int64_t num_hits = 0, num_copies = 0;
  for (uint32_t seed = 0; seed < 24; seed++) {
    const std::vector<std::vector<int32_t>> kWindows = {{0}, {0, 20}, {33, 0, 16}, {40}};
    RandomRun run(seed, kWindows[seed % kWindows.size()]);
    for (int i = 0; i < 600; i++) {
      run.step();
      run.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    num_hits += run.num_hits;
    num_copies += run.num_copies;
  }
  EXPECT_GT(num_hits, 200);
  EXPECT_GT(num_copies, 100);
}

}  // namespace
}  // namespace pagoda
