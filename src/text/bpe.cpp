#include "text/bpe.h"

#include <algorithm>
#include <limits>

#include "text/unicode.h"

namespace pagoda {
namespace {

constexpr size_t kShortPiece = 24;  // symbols; below, a scan beats a heap
constexpr uint64_t kNoPriority = std::numeric_limits<uint64_t>::max();

// Higher scores first, then longer left parts, then longer right ones.
uint64_t score_priority(uint32_t score_key, uint32_t left_characters, uint32_t right_characters) {
  const auto shorter = [](uint32_t n) { return uint64_t{0xFFFF - std::min(n, 0xFFFFu)}; };
  return uint64_t{score_key} << 32 | shorter(left_characters) << 16 | shorter(right_characters);
}

}  // namespace

BpeMerger::BpeMerger(const Vocabulary& vocabulary, const BpeOptions& options)
    : vocabulary_(vocabulary), options_(options) {}

void BpeMerger::encode(std::string_view piece, std::vector<int32_t>& ids) {
  first_id_ = ids.size();
  if (options_.whole_piece_first) {
    const int32_t whole = vocabulary_.find(piece, Vocabulary::Reach::text);
    num_steps_++;
    if (whole >= 0) {
      ids.push_back(whole);
      return;
    }
  }
  make_symbols(piece);
  if (symbols_.size() <= kShortPiece) {
    merge_short(piece);
    for (const Symbol& symbol : symbols_) emit(piece, symbol, ids);
    return;
  }
  merge_long(piece);
  // The first symbol is never merged away: merges keep the left one.
  for (int32_t i = 0; i >= 0; i = symbols_[i].next) emit(piece, symbols_[i], ids);
}

void BpeMerger::make_symbols(std::string_view piece) {
  symbols_.clear();
  for (uint32_t at = 0; at < piece.size();) {
    uint32_t size = 1;
    int32_t id;
    if (options_.by_characters) {
      size = decode_utf8(piece, at).bytes;
      id = vocabulary_.find(piece.substr(at, size), Vocabulary::Reach::text);
      num_steps_++;
    } else {
      id = vocabulary_.byte_token(static_cast<uint8_t>(piece[at]));
    }
    // A byte without a token of its own and without a token for unknown ones is not there.
    if (id >= 0 || options_.by_characters || options_.unknown >= 0) {
      const auto index = static_cast<int32_t>(symbols_.size());
      symbols_.push_back({.begin = at,
                          .size = size,
                          .id = id,
                          .characters = 1,
                          .previous = index - 1,
                          .next = index + 1});
    }
    at += size;
  }
  if (!symbols_.empty()) symbols_.back().next = -1;
}

bool BpeMerger::find_candidate(std::string_view piece,
                               const Symbol& a,
                               const Symbol& b,
                               Candidate& out) {
  num_steps_++;
  if (a.id < 0 || b.id < 0) return false;
  out.size = a.size + b.size;
  if (!options_.by_score) {
    const Vocabulary::Merge* merge = vocabulary_.find_merge(a.id, b.id);
    if (merge == nullptr) return false;
    out.priority = static_cast<uint64_t>(merge->rank);
    out.merged = merge->merged;
    return true;
  }
  out.merged = vocabulary_.find(piece.substr(a.begin, out.size), Vocabulary::Reach::text);
  if (out.merged < 0) return false;
  out.priority = score_priority(vocabulary_.score_key(out.merged), a.characters, b.characters);
  return true;
}

// candidates_[i] is the pair (i, i + 1); merged symbols are moved together.
void BpeMerger::merge_short(std::string_view piece) {
  if (symbols_.size() < 2) return;
  const auto refresh = [&](size_t i) {
    Candidate& c = candidates_[i];
    if (!find_candidate(piece, symbols_[i], symbols_[i + 1], c)) c.priority = kNoPriority;
    c.left = static_cast<int32_t>(i);
  };
  candidates_.resize(symbols_.size() - 1);
  for (size_t i = 0; i + 1 < symbols_.size(); i++) refresh(i);
  while (!candidates_.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < candidates_.size(); i++) {
      if (candidates_[best] < candidates_[i]) best = i;
    }
    if (candidates_[best].priority == kNoPriority) return;
    symbols_[best].size += symbols_[best + 1].size;
    symbols_[best].characters += symbols_[best + 1].characters;
    symbols_[best].id = candidates_[best].merged;
    symbols_.erase(symbols_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(best));
    for (size_t i = best; i < candidates_.size(); i++)
      candidates_[i].left = static_cast<int32_t>(i);
    if (best > 0) refresh(best - 1);
    if (best < candidates_.size()) refresh(best);
  }
}

void BpeMerger::push_candidate(std::string_view piece, int32_t left) {
  const Symbol& a = symbols_[left];
  Candidate candidate{};
  if (a.next < 0 || !find_candidate(piece, a, symbols_[a.next], candidate)) return;
  candidate.left = left;
  candidates_.push_back(candidate);
  std::push_heap(candidates_.begin(), candidates_.end());
}

void BpeMerger::merge_long(std::string_view piece) {
  candidates_.clear();
  Candidate candidate{};
  for (int32_t i = 0; symbols_[i].next >= 0; i++) {
    if (!find_candidate(piece, symbols_[i], symbols_[i + 1], candidate)) continue;
    candidate.left = i;
    candidates_.push_back(candidate);
  }
  std::make_heap(candidates_.begin(), candidates_.end());
  while (!candidates_.empty()) {
    std::pop_heap(candidates_.begin(), candidates_.end());
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    num_steps_++;
    Symbol& a = symbols_[best.left];
    // Boundaries only ever vanish: the same left symbol and the same size mean the same pair.
    if (a.size == 0 || a.next < 0 || a.size + symbols_[a.next].size != best.size) continue;
    Symbol& b = symbols_[a.next];
    a.size += b.size;
    a.characters += b.characters;
    a.id = best.merged;
    a.next = b.next;
    b.size = 0;
    if (a.next >= 0) symbols_[a.next].previous = best.left;
    if (a.previous >= 0) push_candidate(piece, a.previous);
    push_candidate(piece, best.left);
  }
}

void BpeMerger::emit(std::string_view piece, const Symbol& symbol, std::vector<int32_t>& ids) {
  if (symbol.id >= 0) {
    ids.push_back(symbol.id);
    return;
  }
  const std::string_view bytes = piece.substr(symbol.begin, symbol.size);
  const bool has_bytes =
      options_.by_characters && std::all_of(bytes.begin(), bytes.end(), [&](char c) {
        return vocabulary_.byte_token(static_cast<uint8_t>(c)) >= 0;
      });
  if (has_bytes) {
    for (const char c : bytes) ids.push_back(vocabulary_.byte_token(static_cast<uint8_t>(c)));
    return;
  }
  if (options_.unknown < 0) return;
  if (options_.fuse_unknown && ids.size() > first_id_ && ids.back() == options_.unknown) return;
  ids.push_back(options_.unknown);
}

}  // namespace pagoda
