#include "text/text_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "text/normalize.h"
#include "text/token_spelling.h"
#include "text/unicode.h"

namespace pagoda {
namespace {

constexpr size_t kMaxTextBytes = INT32_MAX;
constexpr size_t kMaxCachedPieces = 4096;  // 128 KiB
constexpr size_t kMinCachedText = 512;     // a shorter text repeats too little

uint32_t cache_place(std::string_view word) {
  uint64_t first = 0, last = 0;
  const size_t n = std::min<size_t>(word.size(), 8);
  std::memcpy(&first, word.data(), n);
  std::memcpy(&last, word.data() + word.size() - n, n);
  const uint64_t hash = (first * 0x9E3779B97F4A7C15) ^ (last * 0xD1B54A32D192ED03) ^ word.size();
  return static_cast<uint32_t>((hash * 0x9E3779B97F4A7C15) >> 40);
}

bool is_space_at(std::string_view text, size_t at) {
  return char_class(decode_utf8(text, at).value) == CharClass::space;
}

}  // namespace

TextEncoder::TextEncoder(const Tokenizer& tokenizer, bool add_bos)
    : tokenizer_(tokenizer), merger_(tokenizer.vocabulary_, tokenizer.bpe_) {
  if (add_bos && tokenizer.bos_ >= 0) ids_.push_back(tokenizer.bos_);
}

void TextEncoder::add(std::string_view text, TextOrigin origin) {
  const size_t begin = is_joined_ ? joined_.size() : single_.size();
  if (text.size() > kMaxTextBytes - begin) {
    throw Error("tokenizer.text_too_long",
                "a text of over {} bytes can't be tokenised at once",
                kMaxTextBytes);
  }
  std::string changed;
  if (tokenizer_.bpe_.by_characters && has_space_marker(text)) {
    replace_space_markers(text, changed);
    text = changed;
  }
  if (!is_joined_ && single_.empty() && changed.empty()) {
    single_ = text;
  } else {
    if (!is_joined_) joined_ = single_;
    is_joined_ = true;
    joined_ += text;
  }
  if (origin == TextOrigin::plain || text.empty()) return;
  if (!markup_.empty() && markup_.back().end == begin) {
    markup_.back().end += text.size();
  } else {
    markup_.push_back({begin, begin + text.size()});
  }
}

std::vector<int32_t> TextEncoder::finish(int64_t* num_steps) {
  const size_t first = ids_.size();
  const std::string_view text = is_joined_ ? std::string_view(joined_) : single_;
  if (text.size() >= kMinCachedText) {
    cache_.resize(std::min(kMaxCachedPieces, std::bit_floor(text.size() / 16)));
  }
  encode_text(text);
  if (first == 1 && ids_.size() > 1 && ids_[1] == ids_[0]) ids_.erase(ids_.begin());
  if (num_steps != nullptr) *num_steps = merger_.num_steps();
  return std::move(ids_);
}

// The end of the markup that `position` lies in, or `position`. Positions only grow.
size_t TextEncoder::control_end(size_t position) {
  while (next_markup_ < markup_.size() && markup_[next_markup_].end <= position) next_markup_++;
  const bool inside = next_markup_ < markup_.size() && markup_[next_markup_].begin <= position;
  return inside ? markup_[next_markup_].end : position;
}

void TextEncoder::encode_text(std::string_view text) {
  const Vocabulary& vocabulary = tokenizer_.vocabulary_;
  size_t stretch = 0;
  for (size_t at = 0; at < text.size();) {
    if (!vocabulary.may_start_added(static_cast<uint8_t>(text[at]))) {
      at++;
      continue;
    }
    const int32_t id = vocabulary.match_added(text, at, control_end(at));
    if (id < 0) {
      at++;
      continue;
    }
    const AddedTokenStrip* strip = strip_of(id);
    size_t end = at;
    while (strip != nullptr && strip->left && end > stretch) {
      size_t previous = end - 1;
      while (previous > stretch && (text[previous] & 0xC0) == 0x80) previous--;
      if (!is_space_at(text, previous)) break;
      end = previous;
    }
    encode_stretch(text.substr(stretch, end - stretch));
    ids_.push_back(id);
    is_first_stretch_ = false;
    at += vocabulary.bytes(id).size();
    while (strip != nullptr && strip->right && at < text.size() && is_space_at(text, at)) {
      at += decode_utf8(text, at).bytes;
    }
    stretch = at;
  }
  encode_stretch(text.substr(stretch));
}

const AddedTokenStrip* TextEncoder::strip_of(int32_t id) const {
  const auto& strips = tokenizer_.strips_;
  const auto it =
      std::lower_bound(strips.begin(), strips.end(), id, [](const AddedTokenStrip& s, int32_t i) {
        return s.id < i;
      });
  return it != strips.end() && it->id == id ? &*it : nullptr;
}

void TextEncoder::encode_stretch(std::string_view stretch) {
  if (stretch.empty()) return;
  if (tokenizer_.normalize_nfc_ && normalize_nfc(stretch, stretch_)) stretch = stretch_;
  const SpacePrefix prefix = tokenizer_.space_prefix_;
  const bool has_space = stretch[0] == ' ';
  if (prefix == SpacePrefix::always || (prefix == SpacePrefix::where_missing && !has_space) ||
      (prefix == SpacePrefix::first_where_missing && !has_space && is_first_stretch_)) {
    std::string prefixed = " ";
    prefixed += stretch;
    stretch_ = std::move(prefixed);
    stretch = stretch_;
  }
  is_first_stretch_ = false;
  tokenizer_.pre_tokenizer_.split(stretch, piece_ends_);
  size_t begin = 0;
  for (const uint32_t end : piece_ends_) {
    encode_words(stretch.substr(begin, end - begin));
    begin = end;
  }
}

// Where no token holds the byte before a space and that space, nothing merges across the two: text
// may be cut there, which makes short words of long text.
void TextEncoder::encode_words(std::string_view piece) {
  if (!tokenizer_.bpe_.by_characters || tokenizer_.bpe_.whole_piece_first) {
    encode_word(piece);
    return;
  }
  size_t begin = 0;
  for (size_t space = piece.find(' ', 1); space != std::string_view::npos;
       space = piece.find(' ', space + 1)) {
    if (!tokenizer_.vocabulary_.splits_before_space(static_cast<uint8_t>(piece[space - 1])))
      continue;
    encode_word(piece.substr(begin, space - begin));
    begin = space;
  }
  encode_word(piece.substr(begin));
}

void TextEncoder::encode_word(std::string_view word) {
  if (cache_.empty() || word.size() > CachedPiece::kMaxBytes) {
    merger_.encode(word, ids_);
    return;
  }
  CachedPiece& cached = cache_[cache_place(word) & (cache_.size() - 1)];
  if (std::string_view(cached.bytes, cached.size) == word) {
    for (uint32_t i = 0; i < cached.num_ids; i++) {
      const int32_t id = ids_[cached.first_id + i];
      ids_.push_back(id);
    }
    return;
  }
  const size_t first = ids_.size();
  merger_.encode(word, ids_);
  cached.size = static_cast<uint8_t>(word.size());
  word.copy(cached.bytes, word.size());
  cached.first_id = static_cast<uint32_t>(first);
  cached.num_ids = static_cast<uint32_t>(ids_.size() - first);
}

}  // namespace pagoda
