// BpeMerger: one piece of text to token ids by merging neighbours, best pair first.
//
// The same engine for both kinds of vocabulary: pairs are ranked by the merge list (GPT-2, Hugging
// Face), or by the score of the token that a pair makes (SentencePiece; ties are broken as Hugging
// Face's conversion to a merge list breaks them: longer left part, longer right part, lower id).
// Among equals the leftmost pair merges first. Short pieces are scanned, long ones use a heap:
// O(n log n) for any text. Holds scratch, so one object for each thread; borrows the Vocabulary.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace pagoda {

struct BpeOptions {
  bool by_characters = false;      // the first symbols are UTF-8 characters, else bytes
  bool by_score = false;           // else by rank
  bool whole_piece_first = false;  // a piece that is a token is not merged
  bool fuse_unknown = false;
  int32_t unknown = -1;  // stands for a character without tokens; -1: it is left out
};

class BpeMerger {
 public:
  BpeMerger(const Vocabulary& vocabulary, const BpeOptions& options);

  // Appends the ids of `piece`, which is shorter than 2^31 bytes.
  void encode(std::string_view piece, std::vector<int32_t>& ids);
  // Table look-ups and heap steps so far: what encoding costs, for tests.
  int64_t num_steps() const { return num_steps_; }

 private:
  struct Symbol {
    uint32_t begin, size;  // bytes of the piece
    int32_t id;            // -1: no token
    uint32_t characters;
    int32_t previous, next;  // -1: none
  };
  struct Candidate {
    uint64_t priority;  // lower is better
    int32_t merged;
    int32_t left;   // index of a symbol
    uint32_t size;  // bytes of both symbols: tells a candidate whose symbols have changed
    bool operator<(const Candidate& other) const {  // "is worse than": the heap's top is the best
      if (priority != other.priority) return priority > other.priority;
      if (merged != other.merged) return merged > other.merged;
      return left > other.left;
    }
  };

  void make_symbols(std::string_view piece);
  bool find_candidate(std::string_view piece, const Symbol& a, const Symbol& b, Candidate& out);
  void merge_short(std::string_view piece);
  void merge_long(std::string_view piece);
  void push_candidate(std::string_view piece, int32_t left);
  void emit(std::string_view piece, const Symbol& symbol, std::vector<int32_t>& ids);

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
  size_t first_id_ = 0;  // of the piece, in `ids`
  int64_t num_steps_ = 0;
};

}  // namespace pagoda
