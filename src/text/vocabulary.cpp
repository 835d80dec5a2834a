#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"
#include "text/token_spelling.h"

namespace pagoda {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kMaxAddedBytes = 1024;  // bounds the work of looking for one at each place
constexpr int kMaxProbes = 4096;         // more collisions than that are made, not met

// Slots of a hash table for `count` entries: a power of two, at most two thirds full, so that a
// search always meets an empty slot.
Checked table_slots(int64_t count) {
  const Checked wanted = (Checked(count) * 3 + 1);
  if (!wanted.valid() || *wanted.get() / 2 > INT64_MAX / 4) return wanted * INT64_MAX;
  return Checked(std::bit_ceil(static_cast<uint64_t>(*wanted.get() / 2)));
}

// The tables in the order in which they lie in the Buffer; ends[i] is where the next one starts.
struct Layout {
  enum Table { text, offsets, kinds, scores, slots, merges, added, kNumTables };
  int64_t starts[kNumTables];
  int64_t bytes;
};

Layout layout_of(const VocabularyCounts& counts) {
  const Checked sizes[Layout::kNumTables] = {Checked(counts.text_bytes),
                                             (Checked(counts.tokens) + 1) * 4,
                                             Checked(counts.tokens),
                                             Checked(counts.scores) * 4,
                                             table_slots(counts.tokens) * 8,
                                             table_slots(counts.merges) * 16,
                                             Checked(counts.added_tokens) * 4};
  Layout layout{};
  Checked end = 0;
  for (int i = 0; i < Layout::kNumTables; i++) {
    layout.starts[i] = end.value("tokenizer.invalid", "vocabulary");
    end = (end + sizes[i]).align_up(kAlignment);
  }
  layout.bytes = end.value("tokenizer.invalid", "vocabulary");
  return layout;
}

uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15, kB = 0xD1B54A32D192ED03;
  const auto word = [&](size_t at, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, count);
    return value;
  };
  uint64_t hash = bytes.size() * kA;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) hash = mix(hash ^ word(at, 8), kB);
  if (at < bytes.size()) {
    // The last bytes as one word: overlapping the word before, or put together when there is none.
    const size_t rest = bytes.size() - at;
    uint64_t last = 0;
    if (bytes.size() >= 8) {
      last = word(bytes.size() - 8, 8);
    } else if (rest >= 4) {
      last = word(0, 4) << 32 | word(rest - 4, 4);
    } else {
      const auto byte = [&](size_t i) { return uint64_t{static_cast<uint8_t>(bytes[i])}; };
      last = byte(0) << 16 | byte(rest / 2) << 8 | byte(rest - 1);
    }
    hash = mix(hash ^ last, kB);
  }
  return mix(hash, kA);
}

uint64_t hash_pair(int32_t left, int32_t right) {
  return mix(uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right),
             0x9E3779B97F4A7C15);
}

[[noreturn]] void throw_collisions(std::string_view table) {
  throw Error("tokenizer.invalid",
              "{}: over {} entries share one place of the hash table",
              table,
              kMaxProbes);
}

bool is_added(TokenKind kind) {
  return kind == TokenKind::control || kind == TokenKind::user_defined ||
         kind == TokenKind::unknown;
}

}  // namespace

VocabularyCounts count_vocabulary(const VocabularySpec& spec) {
  VocabularyCounts counts{.tokens = static_cast<int64_t>(spec.tokens.size()),
                          .scores = static_cast<int64_t>(spec.scores.size()),
                          .merges = static_cast<int64_t>(spec.merges.size())};
  for (size_t id = 0; id < spec.tokens.size(); id++) {
    counts.text_bytes += spelled_size(spec.tokens[id], spec.kinds[id], spec.spelling);
    counts.added_tokens += is_added(spec.kinds[id]) && !spec.tokens[id].empty();
  }
  return counts;
}

int64_t vocabulary_bytes(const VocabularyCounts& counts) {
  return layout_of(counts).bytes;
}

Vocabulary::Vocabulary(const VocabularySpec& spec, Allocator& allocator) {
  const VocabularyCounts counts = count_vocabulary(spec);
  if (counts.tokens > INT32_MAX - 1 || counts.text_bytes > INT64_C(0xFFFFFFFF) ||
      counts.merges > INT32_MAX - 1) {
    throw Error("tokenizer.invalid",
                "vocabulary: {} tokens with {} bytes and {} merges; ids and places are 31 bits",
                counts.tokens,
                counts.text_bytes,
                counts.merges);
  }
  buffer_ = allocator.allocate(vocabulary_bytes(counts), MemoryTag::vocabulary);
  num_tokens_ = counts.tokens;
  num_added_ = counts.added_tokens;
  place_tables(counts);
  fill_tokens(spec);
  fill_byte_tokens(spec);
  fill_scores(spec);
  fill_merges(spec);
  fill_added();
}

void Vocabulary::place_tables(const VocabularyCounts& counts) {
  const Layout layout = layout_of(counts);
  char* base = buffer_.as<char>();
  const auto at = [&](Layout::Table table) { return base + layout.starts[table]; };
  text_ = at(Layout::text);
  offsets_ = reinterpret_cast<uint32_t*>(at(Layout::offsets));
  kinds_ = reinterpret_cast<TokenKind*>(at(Layout::kinds));
  score_keys_ = reinterpret_cast<uint32_t*>(at(Layout::scores));
  slots_ = reinterpret_cast<Slot*>(at(Layout::slots));
  merges_ = reinterpret_cast<Merge*>(at(Layout::merges));
  added_ = reinterpret_cast<int32_t*>(at(Layout::added));
  slot_mask_ = static_cast<uint64_t>(table_slots(counts.tokens).value("", "")) - 1;
  merge_mask_ = static_cast<uint64_t>(table_slots(counts.merges).value("", "")) - 1;
}

void Vocabulary::fill_tokens(const VocabularySpec& spec) {
  uint32_t end = 0;
  for (int32_t id = 0; id < num_tokens_; id++) {
    end += spell_token(spec.tokens[id], spec.kinds[id], spec.spelling, text_ + end);
    offsets_[id + 1] = end;
    kinds_[id] = spec.kinds[id];
    const bool is_plain = kinds_[id] == TokenKind::normal || kinds_[id] == TokenKind::unused;
    if (spec.spelling == TokenSpelling::byte_level && is_plain &&
        !is_in_alphabet(spec.tokens[id])) {
      kinds_[id] = TokenKind::unreachable;
    }
  }
  for (int32_t id = 0; id < num_tokens_; id++) {
    insert_token(id);
    if (reach(id) != Reach::text) continue;
    const std::string_view token = bytes(id);
    for (size_t i = 1; i < token.size(); i++) {
      if (token[i] == ' ') byte_before_space_[static_cast<uint8_t>(token[i - 1])] = true;
    }
  }
  byte_before_space_[' '] = true;
}

void Vocabulary::insert_token(int32_t id) {
  const std::string_view token = bytes(id);
  if (token.empty() || kinds_[id] == TokenKind::byte) return;
  const uint64_t hash = hash_bytes(token);
  const Slot wanted{static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(id) + 1};
  for (int probe = 0; probe < kMaxProbes; probe++) {
    Slot& slot = slots_[(hash + static_cast<uint64_t>(probe)) & slot_mask_];
    if (slot.id_plus_one == 0) {
      slot = wanted;
      return;
    }
    const int32_t other = static_cast<int32_t>(slot.id_plus_one - 1);
    if (slot.tag == wanted.tag && bytes(other) == token && reach(other) == reach(id)) return;
  }
  throw_collisions("tokens");
}

int32_t Vocabulary::find(std::string_view wanted, Reach wanted_reach) const {
  if (wanted.empty()) return -1;
  const uint64_t hash = hash_bytes(wanted);
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (uint64_t place = hash;; place++) {
    const Slot slot = slots_[place & slot_mask_];
    if (slot.id_plus_one == 0) return -1;
    if (slot.tag != tag) continue;
    const int32_t id = static_cast<int32_t>(slot.id_plus_one - 1);
    if (bytes(id) == wanted && reach(id) == wanted_reach) return id;
  }
}

void Vocabulary::fill_byte_tokens(const VocabularySpec& spec) {
  byte_tokens_.fill(-1);
  if (spec.spelling == TokenSpelling::byte_level) {
    for (int b = 0; b < 256; b++) {
      const char byte = static_cast<char>(b);
      byte_tokens_[b] = find({&byte, 1}, Reach::text);
    }
    return;
  }
  for (int32_t id = 0; id < num_tokens_; id++) {
    if (kinds_[id] != TokenKind::byte) continue;
    int32_t& token = byte_tokens_[static_cast<uint8_t>(bytes(id)[0])];
    if (token < 0) token = id;
  }
}

void Vocabulary::fill_scores(const VocabularySpec& spec) {
  for (size_t id = 0; id < spec.scores.size(); id++) {
    if (!std::isfinite(spec.scores[id])) {
      throw Error("tokenizer.invalid", "scores: the score of token {} is not finite", id);
    }
    // IEEE floats order as their bits do, once negative ones are flipped; then the order is turned.
    // Adding 0 makes one zero of the two.
    const auto bits = std::bit_cast<uint32_t>(spec.scores[id] + 0.0f);
    score_keys_[id] = ~(bits & 0x80000000 ? ~bits : bits | 0x80000000);
  }
}

void Vocabulary::fill_merges(const VocabularySpec& spec) {
  std::string left, right;
  const auto spell = [&](std::string_view text, std::string& bytes) {
    bytes.resize(text.size());
    bytes.resize(spell_token(text, TokenKind::normal, spec.spelling, bytes.data()));
  };
  for (size_t rank = 0; rank < spec.merges.size(); rank++) {
    const auto& [left_text, right_text] = spec.merges[rank];
    spell(left_text, left);
    spell(right_text, right);
    Merge merge{.left = find(left, Reach::text),
                .right = find(right, Reach::text),
                .rank = static_cast<int32_t>(rank) + 1,
                .merged = find(left + right, Reach::text)};
    if (merge.left >= 0 && merge.right >= 0 && merge.merged >= 0) {
      insert_merge(merge);
      continue;
    }
    // Plain text never becomes a control token: a rule that would make one is left out.
    const std::string* parts[] = {&left, &right};
    const std::string whole = left + right;
    for (const std::string* part : {parts[0], parts[1], &whole}) {
      if (find(*part, Reach::text) >= 0 || find(*part, Reach::special) >= 0) continue;
      throw Error("tokenizer.invalid",
                  "merges: rule {} (\"{}\" + \"{}\") needs \"{}\", which is not a token",
                  rank,
                  left_text,
                  right_text,
                  *part);
    }
  }
}

void Vocabulary::insert_merge(const Merge& merge) {
  const uint64_t hash = hash_pair(merge.left, merge.right);
  for (int probe = 0; probe < kMaxProbes; probe++) {
    Merge& slot = merges_[(hash + static_cast<uint64_t>(probe)) & merge_mask_];
    if (slot.rank == 0) {
      slot = merge;
      return;
    }
    if (slot.left == merge.left && slot.right == merge.right) return;
  }
  throw_collisions("merges");
}

const Vocabulary::Merge* Vocabulary::find_merge(int32_t left, int32_t right) const {
  for (uint64_t place = hash_pair(left, right);; place++) {
    const Merge& slot = merges_[place & merge_mask_];
    if (slot.rank == 0) return nullptr;
    if (slot.left == left && slot.right == right) return &slot;
  }
}

void Vocabulary::fill_added() {
  int64_t count = 0;
  for (int32_t id = 0; id < num_tokens_; id++) {
    if (!is_added(kinds_[id]) || bytes(id).empty()) continue;
    if (bytes(id).size() > kMaxAddedBytes) {
      throw Error("tokenizer.invalid",
                  "added tokens: token {} has {} bytes; {} are the most",
                  id,
                  bytes(id).size(),
                  kMaxAddedBytes);
    }
    added_[count++] = id;
  }
  PG_CHECK(count == num_added_, "added {} counted {}", count, num_added_);
  std::sort(added_, added_ + count, [&](int32_t a, int32_t b) {
    const std::string_view x = bytes(a), y = bytes(b);
    return x != y ? x < y : a < b;
  });
  for (int64_t i = 0; i < count; i++) added_first_[static_cast<uint8_t>(bytes(added_[i])[0]) + 1]++;
  std::partial_sum(added_first_.begin(), added_first_.end(), added_first_.begin());
}

int32_t Vocabulary::match_added(std::string_view text, size_t position, size_t control_end) const {
  const auto first = static_cast<uint8_t>(text[position]);
  const int32_t* low = added_ + added_first_[first];
  const int32_t* high = added_ + added_first_[first + 1];
  int32_t best = -1;
  // [low, high) are the added tokens that start with the text's next `length` bytes; those that end
  // there come first.
  for (size_t length = 1; low < high; length++) {
    for (; low < high && bytes(*low).size() == length; low++) {
      if (is_control(*low) ? position + length <= control_end : true) {
        if (best < 0 || bytes(best).size() < length) best = *low;
      }
    }
    if (low == high || position + length >= text.size()) break;
    const auto next = static_cast<uint8_t>(text[position + length]);
    const auto byte_at = [&](int32_t id) { return static_cast<uint8_t>(bytes(id)[length]); };
    low = std::lower_bound(low, high, next, [&](int32_t id, uint8_t b) { return byte_at(id) < b; });
    high =
        std::upper_bound(low, high, next, [&](uint8_t b, int32_t id) { return b < byte_at(id); });
  }
  return best;
}

}  // namespace pagoda
