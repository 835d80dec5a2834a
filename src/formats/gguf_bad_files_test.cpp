// Handcrafted bad GGUF files: GG-01 to GG-05, the list of llama.cpp's test-gguf.cpp, and the shapes
// of published failures. Each has exactly one fault and expects exactly one kind.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "formats/gguf.h"
#include "formats/gguf_types.h"
#include "formats/test_folder.h"

namespace pagoda {
namespace {

// Bytes written field by field, so that any field can lie.
class Raw {
 public:
  template <typename T>
  Raw& put(T value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(value));
    return *this;
  }
  Raw& text(std::string_view s) {
    for (char c : s) put(c);
    return *this;
  }
  Raw& string(std::string_view s) { return put(uint64_t(s.size())).text(s); }
  Raw& header(uint64_t num_tensors, uint64_t num_pairs, uint32_t version = 3) {
    return text("GGUF").put(version).put(num_tensors).put(num_pairs);
  }
  Raw& pair(std::string_view key, GgufValueType type) { return string(key).put(uint32_t(type)); }
  Raw& tensor(std::string_view name,
              const std::vector<uint64_t>& dims,
              uint32_t type,
              uint64_t offset = 0) {
    string(name).put(uint32_t(dims.size()));
    for (uint64_t n : dims) put(n);
    return put(type).put(offset);
  }
  Raw& zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  Raw& pad(size_t alignment = 32) {
    return zeros((alignment - bytes_.size() % alignment) % alignment);
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

using V = GgufValueType;
constexpr uint32_t kF32 = 0, kQ8_0 = 8, kQ4K = 12, kI8 = 24, kI64 = 27;
constexpr uint64_t kMax = UINT64_MAX;

// One pair, and 64 bytes behind it so that nothing is truncated but by a lie.
Raw one_pair() {
  return Raw().header(0, 1);
}
// One tensor and `data` bytes.
Raw one_tensor(std::string_view name,
               const std::vector<uint64_t>& dims,
               uint32_t type,
               uint64_t offset = 0,
               size_t data = 64) {
  return Raw().header(1, 0).tensor(name, dims, type, offset).pad().zeros(data);
}
Raw aligned(uint32_t alignment) {
  return one_pair().pair("general.alignment", V::u32).put(alignment);
}

struct Bad {
  const char* name;
  const char* kind;
  std::function<Raw()> make;
};

const Bad kBadHeaders[] = {
    {"empty", "gguf.truncated", [] { return Raw(); }},
    {"magic_only", "gguf.truncated", [] { return Raw().text("GGUF"); }},
    {"half_a_magic", "gguf.truncated", [] { return Raw().text("GG"); }},
    {"no_counts", "gguf.truncated", [] { return Raw().text("GGUF").put(uint32_t{3}); }},
    {"bad_magic", "gguf.bad_magic", [] { return Raw().text("FUGG").zeros(60); }},
    {"old_ggml_magic", "gguf.bad_magic", [] { return Raw().text("lmgg").zeros(60); }},
    {"version_0", "gguf.unsupported_version", [] { return Raw().header(0, 0, 0); }},
    {"version_1", "gguf.unsupported_version", [] { return Raw().header(0, 0, 1); }},
    {"version_4", "gguf.unsupported_version", [] { return Raw().header(0, 0, 4); }},
    {"version_99", "gguf.unsupported_version", [] { return Raw().header(0, 0, 99); }},
    {"big_endian", "gguf.unsupported_version", [] { return Raw().header(0, 0, 3u << 24); }},
    {"num_tensors_max", "gguf.count_too_large", [] { return Raw().header(kMax, 0).zeros(76); }},
    {"num_pairs_max", "gguf.count_too_large", [] { return Raw().header(0, kMax).zeros(76); }},
    {"num_tensors_times_size_wraps",
     "gguf.count_too_large",
     [] { return Raw().header(kMax / 33 + 2, 0).zeros(76); }},
    {"num_pairs_beyond_the_file",
     "gguf.count_too_large",
     [] { return Raw().header(0, 8).zeros(76); }},
};

const Bad kBadPairs[] = {
    {"key_length_max", "gguf.count_too_large", [] { return one_pair().put(kMax).zeros(68); }},
    {"key_length_beyond_the_end",
     "gguf.truncated",
     [] { return one_pair().put(uint64_t{70}).zeros(60); }},
    {"empty_key", "gguf.bad_key", [] { return one_pair().pair("", V::u8).zeros(64); }},
    {"long_key",
     "gguf.bad_key",
     [] { return one_pair().pair(std::string(65536, 'k'), V::u8).zeros(64); }},
    {"value_type_13", "gguf.bad_value_type", [] { return one_pair().pair("k", V(13)).zeros(64); }},
    {"value_type_max",
     "gguf.bad_value_type",
     [] { return one_pair().pair("k", V(~0u)).zeros(64); }},
    {"element_type_13",
     "gguf.bad_value_type",
     [] { return one_pair().pair("k", V::array).put(13u).put(uint64_t{1}).zeros(64); }},
    {"array_of_arrays",
     "gguf.nested_array",
     [] { return one_pair().pair("k", V::array).put(V::array).put(uint64_t{1}).zeros(64); }},
    {"string_length_max",
     "gguf.count_too_large",
     [] { return one_pair().pair("k", V::string).put(kMax).zeros(60); }},
    {"string_length_int32_negative",
     "gguf.count_too_large",
     [] { return one_pair().pair("k", V::string).put(uint64_t{0xffffffff}).zeros(60); }},
    {"array_count_max",
     "gguf.count_too_large",
     [] { return one_pair().pair("k", V::array).put(V::u8).put(kMax).zeros(60); }},
    {"array_bytes_wrap",
     "gguf.count_too_large",
     [] { return one_pair().pair("k", V::array).put(V::u64).put(uint64_t{1} << 61).zeros(60); }},
    {"array_of_strings_count_beyond_the_file",
     "gguf.count_too_large",
     [] { return one_pair().pair("k", V::array).put(V::string).put(uint64_t{100}).zeros(64); }},
    {"array_cut",
     "gguf.truncated",
     [] { return one_pair().pair("k", V::array).put(V::u32).put(uint64_t{16}).zeros(60); }},
    {"last_string_of_an_array_cut",
     "gguf.truncated",
     [] {
       Raw r = one_pair().pair("k", V::array).put(V::string).put(uint64_t{2}).string("a");
       return r.put(uint64_t{30}).text("abc");
     }},
    {"string_element_length_max",
     "gguf.count_too_large",
     [] {
       Raw r = one_pair().pair("k", V::array).put(V::string).put(uint64_t{2}).string("a");
       return r.put(kMax).zeros(64);
     }},
    {"boolean_2",
     "gguf.bad_value",
     [] { return one_pair().pair("k", V::boolean).put(uint8_t{2}); }},
    {"boolean_in_array_2",
     "gguf.bad_value",
     [] {
       return one_pair().pair("k", V::array).put(V::boolean).put(uint64_t{1}).put(uint8_t{2});
     }},
    {"duplicate_key",
     "gguf.duplicate_key",
     [] {
       Raw r = Raw().header(0, 2).pair("k", V::u32).put(1u);
       return r.pair("k", V::u8).put(uint8_t{1}).zeros(64);
     }},
};

const Bad kBadAlignments[] = {
    {"alignment_0", "gguf.bad_alignment", [] { return aligned(0); }},
    {"alignment_1", "gguf.bad_alignment", [] { return aligned(1); }},
    {"alignment_13", "gguf.bad_alignment", [] { return aligned(13); }},
    {"alignment_48", "gguf.bad_alignment", [] { return aligned(48); }},
    {"alignment_128_ki", "gguf.bad_alignment", [] { return aligned(128 * 1024); }},
    {"alignment_2_31", "gguf.bad_alignment", [] { return aligned(1u << 31); }},
    {"alignment_max", "gguf.bad_alignment", [] { return aligned(~0u); }},
    {"alignment_as_i32",
     "gguf.bad_alignment",
     [] { return one_pair().pair("general.alignment", V::i32).put(int32_t{32}); }},
    {"alignment_as_u64",
     "gguf.bad_alignment",
     [] { return one_pair().pair("general.alignment", V::u64).put(uint64_t{32}); }},
    {"alignment_as_string",
     "gguf.bad_alignment",
     [] { return one_pair().pair("general.alignment", V::string).string("32"); }},
    {"alignment_13_with_a_tensor",
     "gguf.bad_alignment",
     [] {
       Raw r = Raw().header(1, 1).pair("general.alignment", V::u32).put(13u);
       return r.tensor("t", {16}, kF32).pad(13).zeros(64);
     }},
};

const Bad kBadTensors[] = {
    {"name_length_max",
     "gguf.count_too_large",
     [] { return Raw().header(1, 0).put(kMax).zeros(64); }},
    {"empty_name", "gguf.bad_name", [] { return one_tensor("", {16}, kF32); }},
    {"name_of_65_bytes",
     "gguf.bad_name",
     [] { return one_tensor(std::string(65, 'n'), {16}, kF32); }},
    {"no_dimensions", "gguf.bad_shape", [] { return one_tensor("t", {}, kF32); }},
    {"five_dimensions",
     "gguf.bad_shape",
     [] {
       return one_tensor("t", {1, 1, 1, 1, 1}, kF32);
     }},
    {"rank_max",
     "gguf.bad_shape",
     [] { return Raw().header(1, 0).string("t").put(~0u).zeros(64); }},
    {"dimension_0",
     "gguf.bad_shape",
     [] {
       return one_tensor("t", {16, 0}, kF32);
     }},
    {"dimension_0_first",
     "gguf.bad_shape",
     [] {
       return one_tensor("t", {0, 16}, kF32);
     }},
    {"dimension_minus_1", "gguf.bad_shape", [] { return one_tensor("t", {kMax}, kF32); }},
    {"row_not_of_blocks", "gguf.bad_shape", [] { return one_tensor("t", {33}, kQ8_0); }},
    {"row_not_of_k_blocks",
     "gguf.bad_shape",
     [] {
       return one_tensor("t", {128, 2}, kQ4K, 0, 144);
     }},
    {"elements_wrap_to_0",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, kF32);
     }},
    {"elements_wrap_to_a_little",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {(uint64_t{1} << 62) + 4, 4}, kI8);
     }},
    {"four_dimensions_wrap",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {65536, 65536, 65536, 65536}, kI8);
     }},
    {"ne_too_big",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {8589934588u, 8589934588u}, kF32);
     }},
    {"bytes_wrap",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {1533916801, 1533916801}, kI64);
     }},
    {"padding_wraps",
     "gguf.size_overflow",
     [] {
       return one_tensor("t", {4, 1073741823, 1073741825}, kF32);
     }},
    {"padding_wraps_63_bits",
     "gguf.size_overflow",
     [] { return one_tensor("t", {0x7ffffffffffffff0}, kI8); }},
    {"sum_wraps",
     "gguf.size_overflow",
     [] {
       Raw r = Raw().header(2, 0).tensor("a", {0x7fffffffffffffc0}, kI8);
       return r.tensor("b", {0x7fffffffffffffc0}, kI8, 0x7fffffffffffffc0).pad().zeros(64);
     }},
    {"sum_of_two_halves_wraps",
     "gguf.size_overflow",
     [] {
       Raw r = Raw().header(2, 0).tensor("a", {uint64_t{1} << 62}, kI8);
       return r.tensor("b", {uint64_t{1} << 62}, kI8, uint64_t{1} << 62).pad().zeros(64);
     }},
    {"type_4_removed", "gguf.unsupported_type", [] { return one_tensor("t", {32}, 4); }},
    {"type_31_removed", "gguf.unsupported_type", [] { return one_tensor("t", {32}, 31); }},
    {"type_10_q2_k", "gguf.unsupported_type", [] { return one_tensor("t", {256}, 10); }},
    {"type_250_unknown", "gguf.unsupported_type", [] { return one_tensor("t", {32}, 250); }},
    {"type_max", "gguf.unsupported_type", [] { return one_tensor("t", {32}, ~0u); }},
    {"offset_max", "gguf.bad_offset", [] { return one_tensor("t", {16}, kF32, kMax); }},
    {"offset_aligned_near_max",
     "gguf.bad_offset",
     [] { return one_tensor("t", {16}, kF32, kMax - 31); }},
    {"offset_not_aligned", "gguf.bad_offset", [] { return one_tensor("t", {8}, kF32, 4); }},
    {"offset_beyond_the_file", "gguf.truncated", [] { return one_tensor("t", {16}, kF32, 64); }},
    {"data_missing", "gguf.truncated", [] { return one_tensor("t", {16}, kF32, 0, 0); }},
    {"data_cut_by_1", "gguf.truncated", [] { return one_tensor("t", {16}, kF32, 0, 63); }},
    {"declared_larger_than_the_file",
     "gguf.truncated",
     [] { return one_tensor("t", {1 << 20}, kF32); }},
    {"two_on_the_same_bytes",
     "gguf.bad_offset",
     [] {
       return Raw().header(2, 0).tensor("a", {16}, kF32).tensor("b", {16}, kF32).pad().zeros(64);
     }},
    {"the_second_begins_in_the_first",
     "gguf.bad_offset",
     [] {
       Raw r = Raw().header(2, 0).tensor("a", {16}, kF32);
       return r.tensor("b", {16}, kF32, 32).pad().zeros(128);
     }},
    {"duplicate_name",
     "gguf.duplicate_tensor",
     [] {
       Raw r = Raw().header(2, 0).tensor("a", {16}, kF32);
       return r.tensor("a", {16}, kF32, 64).pad().zeros(128);
     }},
};

void expect_refused(std::span<const Bad> table) {
  const Raw good = one_tensor("t", {16}, kF32);
  for (const Bad& bad : table) {
    const Raw file = bad.make();
    EXPECT_EQ(kind_of([&] { parse_gguf(file.bytes(), "x.gguf"); }), bad.kind) << bad.name;
    EXPECT_EQ(kind_of([&] { parse_gguf(good.bytes(), "x.gguf"); }), "");
  }
}

TEST(GgufBadFiles, headers_are_refused) {
  expect_refused(kBadHeaders);
}
TEST(GgufBadFiles, metadata_is_refused) {
  expect_refused(kBadPairs);
}
TEST(GgufBadFiles, alignments_are_refused) {
  expect_refused(kBadAlignments);
}
TEST(GgufBadFiles, tensors_are_refused) {
  expect_refused(kBadTensors);
}

TEST(GgufBadFiles, a_file_of_nothing_and_a_name_of_64_bytes_are_good) {
  EXPECT_EQ(kind_of([] { parse_gguf(Raw().header(0, 0).bytes(), "x"); }), "");
  EXPECT_EQ(kind_of([] { parse_gguf(one_tensor(std::string(64, 'n'), {16}, kF32).bytes(), "x"); }),
            "");
  EXPECT_EQ(kind_of([] { parse_gguf(aligned(32).bytes(), "x"); }), "");
}

std::string message_of(const Raw& file) {
  try {
    parse_gguf(file.bytes(), "m.gguf");
  } catch (const Error& e) {
    return e.message();
  }
  return "";
}

TEST(GgufBadFiles, messages_name_the_file_the_item_and_both_sides) {
  EXPECT_EQ(message_of(Raw().header(0, 0, 99)), "m.gguf: expected GGUF version 2 or 3, found 99");
  EXPECT_EQ(
      message_of(one_tensor("blk.0.x", {33}, kQ8_0)),
      "m.gguf: tensor blk.0.x: expected rows that are a multiple of q8_0's block of 32, found "
      "33");
  const std::string type = message_of(one_tensor("blk.0.x", {256}, 10));
  EXPECT_NE(type.find("blk.0.x"), std::string::npos);
  EXPECT_NE(type.find("10 (Q2_K)"), std::string::npos);
}

TEST(GgufBadFiles, names_in_messages_are_printable) {
  const std::string message = message_of(one_tensor("a\xff\n\"\xc3\xa9", {0}, kF32));
  EXPECT_NE(message.find("tensor a\\xff\\x0a\"\xc3\xa9:"), std::string::npos) << message;
}

}  // namespace
}  // namespace pagoda
