#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace pagoda {
namespace {

std::vector<std::byte> file_with_length(uint64_t length, std::string_view header, size_t data) {
  std::vector<std::byte> out(8 + header.size() + data);
  std::memcpy(out.data(), &length, 8);
  if (!header.empty()) std::memcpy(out.data() + 8, header.data(), header.size());
  return out;
}

// `header` and `data` zero bytes of tensors.
std::vector<std::byte> file_with(std::string_view header, size_t data = 0) {
  return file_with_length(header.size(), header, data);
}

std::string kind_with(std::string_view header, size_t data = 0) {
  const auto bytes = file_with(header, data);
  return kind_of([&] { parse_safetensors(bytes, "x.safetensors"); });
}

TEST(Safetensors, what_the_writer_wrote_is_read_back) {
  SafetensorsWriter w;
  const std::vector<uint16_t> halves{0x3f80, 0x4000, 0x4040};
  w.add_f32("b \"quoted\"", {2, 2}, std::vector<float>{1, 2, 3, 4});
  w.add("a", DType::bf16, {3}, std::as_bytes(std::span(halves)));
  const std::vector<std::byte> bytes = w.bytes();
  const auto tensors = parse_safetensors(bytes, "x.safetensors");
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "b \"quoted\"");
  EXPECT_EQ(tensors[0].view.dim(0), 2);
  EXPECT_EQ(tensors[0].view.row<float>(1)[0], 3);
  EXPECT_EQ(tensors[1].view.dtype(), DType::bf16);
  EXPECT_EQ(tensors[1].view.as<uint16_t>()[2], 0x4040);
}

TEST(Safetensors, a_scalar_has_one_element_and_metadata_is_no_tensor) {
  const auto bytes = file_with(
      R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )",
      4);
  const auto tensors = parse_safetensors(bytes, "x.safetensors");
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_EQ(tensors[0].view.num_elements(), 1);
}

TEST(Safetensors, an_empty_file_of_tensors_is_read) {
  EXPECT_EQ(kind_with("{}"), "");
}

TEST(Safetensors, every_bad_header_length_is_refused) {
  for (uint64_t length :
       {uint64_t{0}, uint64_t{3}, uint64_t{100'000'001}, UINT64_MAX - 7, UINT64_MAX}) {
    const auto bytes = file_with_length(length, "{}", 0);
    EXPECT_EQ(kind_of([&] { parse_safetensors(bytes, "x"); }), "st.header_length") << length;
  }
  for (size_t n = 0; n < 10; n++) {
    const auto bytes = file_with("{}");
    EXPECT_EQ(kind_of([&] { parse_safetensors(std::span(bytes).first(n), "x"); }),
              "st.header_length");
  }
}

#define PG_TENSOR(name, dtype, shape, offsets) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

struct Bad {
  std::string header;
  size_t data_bytes;
  const char* kind;
};

std::string ten_on_the_same_bytes() {
  std::string header = "{";
  for (int i = 0; i < 10; i++)
    header += fmt::format(
        R"({}"t{}":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", i == 0 ? "" : ",", i);
  return header + "}";
}

const Bad kBad[] = {
    // safetensors' own attacks and tests
    {ten_on_the_same_bytes(), 8, "st.bad_offsets"},
    {"{" PG_TENSOR("a", "F32", "[2]", "[4,12]") "}", 12, "st.bad_offsets"},  // a hole before
    {"{" PG_TENSOR("a", "F32", "[1]", "[0,4]") "," PG_TENSOR("b", "F32", "[1]", "[8,12]") "}",
     12,
     "st.bad_offsets"},  // a hole between
    {"{" PG_TENSOR("a", "F32", "[2]", "[0,8]") "," PG_TENSOR("b", "F32", "[2]", "[4,12]") "}",
     12,
     "st.bad_offsets"},                                                           // an overlap
    {"{" PG_TENSOR("a", "F32", "[2]", "[0,8]") "}", 12, "st.incomplete_buffer"},  // bytes behind
    {"{" PG_TENSOR("a", "F32", "[2]", "[0,8]") "}", 6, "st.incomplete_buffer"},   // two missing
    {"{" PG_TENSOR("a", "F32", "[2]", "[0,8]") "}", 0, "st.incomplete_buffer"},
    {"{" PG_TENSOR("a", "F32", "[2,18446744073709551614]", "[0,16]") "}", 16, "st.overflow"},
    {"{" PG_TENSOR("a", "F32", "[4294967296,4294967296]", "[0,16]") "}", 16, "st.overflow"},
    {"{" PG_TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}", 0, "st.overflow"},
    {"{" PG_TENSOR("a", "F32", "[2]", "[0,4]") "}", 4, "st.bad_offsets"},  // not the shape's size
    {"{" PG_TENSOR("a", "F32", "[2]", "[8,0]") "}", 8, "st.bad_offsets"},  // backwards
    {"{" PG_TENSOR("a", "F32", "[2]", "[18446744073709551608,18446744073709551615]") "}",
     8,
     "st.bad_offsets"},
    {"{" PG_TENSOR("a", "F32", "[0]", "[0,0]") "}", 0, "st.bad_shape"},
    {"{" PG_TENSOR("a", "F32", "[1,1,1,1,1]", "[0,4]") "}", 4, "st.bad_shape"},
    {"{" PG_TENSOR("a", "F8_E4M3", "[4]", "[0,4]") "}", 4, "st.bad_dtype"},
    {"{" PG_TENSOR("a", "float32", "[1]", "[0,4]") "}", 4, "st.bad_dtype"},
    {"{" PG_TENSOR("a", "F32", "[1]", "[0,4]") "," PG_TENSOR("a", "F32", "[1]", "[4,8]") "}",
     8,
     "st.duplicate_tensor"},
    // headers that are not headers
    {" {}", 0, "st.bad_header"},
    {"[]", 0, "st.bad_header"},
    {"{", 0, "st.bad_header"},
    {"{}{}", 0, "st.bad_header"},
    {std::string("{}\0\0", 4), 0, "st.bad_header"},
    {"{\"a\xff\":{}}", 0, "st.bad_header"},
    {R"({"a":1})", 0, "st.bad_header"},
    {R"({"a":null})", 0, "st.bad_header"},
    {R"({"a":[]})", 0, "st.bad_header"},
    {R"({"a":{}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1e30],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 0, "st.bad_header"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 0, "st.bad_header"},
    {R"({"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, "st.bad_header"},
    {R"({"__metadata__":{"a":1}})", 0, "st.bad_header"},
    {R"({"__metadata__":{"a":{"b":"c"}}})", 0, "st.bad_header"},
    {"{\"a\":" + std::string(100'000, '['), 0, "st.bad_header"},
    {"{\"a\":" + std::string(100'000, '{'), 0, "st.bad_header"},
};

TEST(Safetensors, every_bad_file_is_refused_with_its_kind_and_a_good_one_beside_it_is_read) {
  for (const Bad& bad : kBad) {
    EXPECT_EQ(kind_with(bad.header, bad.data_bytes), bad.kind) << bad.header.substr(0, 100);
    EXPECT_EQ(kind_with("{" PG_TENSOR("a", "F32", "[2]", "[0,8]") "}", 8), "");
  }
}

TEST(Safetensors, messages_name_the_file_the_tensor_and_both_sides) {
  const auto bytes = file_with("{" PG_TENSOR("lm_head", "F32", "[2]", "[0,4]") "}", 4);
  try {
    parse_safetensors(bytes, "m.safetensors");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(),
              "m.safetensors: tensor lm_head: expected data_offsets 8 bytes apart (shape [2] of "
              "F32), found [0, 4]");
  }
}

}  // namespace
}  // namespace pagoda
