#include "formats/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "formats/gguf_writer.h"
#include "formats/test_folder.h"

namespace pagoda {
namespace {

GgufWriter good_writer() {
  GgufWriter w;
  w.set("general.architecture", "llama");
  w.set("llama.block_count", uint32_t{2});
  w.add_f32("a.weight", {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  w.add_copy("b.weight", DType::q8_0, {1, 32}, std::vector<std::byte>(34, std::byte{1}));
  return w;
}

TEST(Gguf, what_the_writer_wrote_is_read_back) {
  const std::vector<std::byte> bytes = good_writer().bytes();
  const GgufFile file = parse_gguf(bytes, "x.gguf");
  EXPECT_EQ(file.version, 3u);
  EXPECT_EQ(file.metadata.string("general.architecture"), "llama");
  EXPECT_EQ(file.metadata.integer("llama.block_count"), 2);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a.weight");
  EXPECT_EQ(file.tensors[0].view.rank(), 2);
  EXPECT_EQ(file.tensors[0].view.dim(0), 2);
  EXPECT_EQ(file.tensors[0].view.dim(1), 3);
  EXPECT_EQ(file.tensors[0].view.row<float>(1)[2], 6);
  EXPECT_EQ(file.tensors[1].view.dtype(), DType::q8_0);
  EXPECT_EQ(file.tensors[1].view.data() - bytes.data(), file.data_begin + 32);
}

TEST(Gguf, every_metadata_type_is_read) {
  GgufWriter w;
  w.set("u8", uint8_t{255});
  w.set("i8", int8_t{-128});
  w.set("u16", uint16_t{65535});
  w.set("i16", int16_t{-32768});
  w.set("u32", uint32_t{4294967295u});
  w.set("i32", int32_t{-7});
  w.set("f32", 0.5f);
  w.set("bool", true);
  w.set("string", "h\xc3\xa9");
  w.set("u64", uint64_t{1} << 62);
  w.set("i64", int64_t{-1} << 62);
  w.set("f64", 0.1);
  w.set("huge", UINT64_MAX);
  w.set("i8s", std::vector<int8_t>{-1, 1});
  w.set("u64s", std::vector<uint64_t>{1, UINT64_MAX});
  w.set("f32s", std::vector<float>{0.25f, -1});
  w.set("strings", std::vector<std::string>{"", "ab", std::string("\0x", 2)});
  w.set("none", std::vector<int32_t>{});
  const std::vector<std::byte> bytes = w.bytes();
  const GgufFile file = parse_gguf(bytes, "x.gguf");
  const Metadata& m = file.metadata;
  EXPECT_EQ(m.integer("u8"), 255);
  EXPECT_EQ(m.integer("i8"), -128);
  EXPECT_EQ(m.integer("u16"), 65535);
  EXPECT_EQ(m.integer("i16"), -32768);
  EXPECT_EQ(m.integer("u32"), 4294967295);
  EXPECT_EQ(m.integer("i32"), -7);
  EXPECT_EQ(m.real("f32"), 0.5);
  EXPECT_EQ(m.boolean("bool"), true);
  EXPECT_EQ(m.string("string"), "h\xc3\xa9");
  EXPECT_EQ(m.integer("u64"), int64_t{1} << 62);
  EXPECT_EQ(m.integer("i64"), int64_t{-1} << 62);
  EXPECT_EQ(m.real("f64"), 0.1);
  EXPECT_EQ(m.real("huge"), 0x1p64);
  EXPECT_EQ(m.integers("i8s")[0], -1);
  EXPECT_EQ(m.reals("u64s")[1], 0x1p64);
  EXPECT_EQ(m.reals("f32s")[0], 0.25);
  EXPECT_EQ(m.strings("strings")[2], std::string_view("\0x", 2));
  EXPECT_EQ(m.strings("none").size(), 0u);
}

TEST(Gguf, strings_are_views_into_the_file) {
  GgufWriter w;
  w.set("tokens", std::vector<std::string>(1000, "token"));
  const std::vector<std::byte> bytes = w.bytes();
  const GgufFile file = parse_gguf(bytes, "x.gguf");
  for (std::string_view s : file.metadata.strings("tokens")) {
    EXPECT_GE(s.data(), reinterpret_cast<const char*>(bytes.data()));
    EXPECT_LE(s.data() + s.size(), reinterpret_cast<const char*>(bytes.data() + bytes.size()));
  }
}

TEST(Gguf, version_2_is_read_like_version_3) {
  std::vector<std::byte> bytes = good_writer().bytes();
  bytes[4] = std::byte{2};
  EXPECT_EQ(parse_gguf(bytes, "x.gguf").version, 2u);
}

TEST(Gguf, a_file_with_its_own_alignment_is_read_by_it) {
  for (uint32_t alignment : {8u, 64u, 65536u}) {
    GgufWriter w(alignment);
    w.add_f32("a", {1}, std::vector<float>{1});
    w.add_f32("b", {1}, std::vector<float>{2});
    const std::vector<std::byte> bytes = w.bytes();
    const GgufFile file = parse_gguf(bytes, "x.gguf");
    EXPECT_EQ(file.alignment, alignment);
    EXPECT_EQ(file.tensors[1].view.data() - file.tensors[0].view.data(), alignment);
    EXPECT_EQ(*file.tensors[1].view.as<float>(), 2);
  }
}

// Each prefix of a good file is refused, cleanly.
TEST(Gguf, every_truncation_is_refused) {
  const std::vector<std::byte> bytes = good_writer().bytes();
  const GgufFile whole = parse_gguf(bytes, "x.gguf");
  const size_t end = whole.data_begin + 32 + 34;  // the padding after the last tensor may miss
  for (size_t n = 0; n < end; n++) {
    try {
      parse_gguf(std::span(bytes).first(n), "x.gguf");
      ADD_FAILURE() << n << " bytes were accepted";
    } catch (const Error& e) {
      EXPECT_TRUE(e.kind() == "gguf.truncated" || e.kind() == "gguf.count_too_large")
          << n << ": " << e.kind();
    }
  }
  EXPECT_EQ(parse_gguf(std::span(bytes).first(end), "x.gguf").tensors.size(), 2u);
}

TEST(Gguf, split_files_are_brought_by_the_first) {
  const TestFolder folder;
  for (uint16_t i = 0; i < 3; i++) {
    GgufWriter w;
    w.set("split.no", i);
    w.set("split.count", uint16_t{3});
    if (i == 0) w.set("split.tensors.count", int32_t{3});
    w.add_f32(fmt::format("t{}", i), {1}, std::vector<float>{float(i)});
    w.write(folder.path() / fmt::format("m-{:05}-of-00003.gguf", i + 1));
  }
  const auto model = open_gguf(folder.path() / "m-00001-of-00003.gguf");
  EXPECT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(*model->tensor("t2").view.as<float>(), 2);
  model->drop_pages(model->tensor("t2"), 0, model->tensor("t2").view.num_bytes());
  EXPECT_EQ(*model->tensor("t2").view.as<float>(), 2);
  EXPECT_EQ(model->find("t3"), nullptr);
  EXPECT_EQ(kind_of([&] { model->tensor("t3"); }), "model.missing_tensor");
  EXPECT_EQ(kind_of([&] { open_gguf(folder.path() / "m-00002-of-00003.gguf"); }), "gguf.bad_split");
  std::filesystem::remove(folder.path() / "m-00003-of-00003.gguf");
  EXPECT_EQ(kind_of([&] { open_gguf(folder.path() / "m-00001-of-00003.gguf"); }),
            "gguf.missing_split");
  std::filesystem::create_symlink("/etc/passwd", folder.path() / "m-00003-of-00003.gguf");
  EXPECT_EQ(kind_of([&] { open_gguf(folder.path() / "m-00001-of-00003.gguf"); }),
            "gguf.path_escape");
}

// A model of two files, each with one thing that may be wrong.
struct Split {
  uint16_t second_no = 1, second_count = 2;
  int32_t num_tensors = 2;
  const char* first_name = "m-00001-of-00002.gguf";
  const char* second_tensor = "b";
};

std::string kind_of_split(const Split& split) {
  const TestFolder folder;
  for (uint16_t i = 0; i < 2; i++) {
    GgufWriter w;
    w.set("split.no", i == 0 ? i : split.second_no);
    w.set("split.count", i == 0 ? uint16_t{2} : split.second_count);
    if (i == 0) w.set("split.tensors.count", split.num_tensors);
    w.add_f32(i == 0 ? "a" : split.second_tensor, {1}, std::vector<float>{1});
    w.write(folder.path() / (i == 0 ? split.first_name : "m-00002-of-00002.gguf"));
  }
  return kind_of([&] { open_gguf(folder.path() / split.first_name); });
}

TEST(Gguf, split_files_that_do_not_belong_together_are_refused) {
  EXPECT_EQ(kind_of_split({}), "");
  EXPECT_EQ(kind_of_split({.second_no = 0}), "gguf.bad_split");
  EXPECT_EQ(kind_of_split({.second_count = 3}), "gguf.bad_split");
  EXPECT_EQ(kind_of_split({.num_tensors = 3}), "gguf.bad_split");
  EXPECT_EQ(kind_of_split({.first_name = "m.gguf"}), "gguf.bad_split");
  EXPECT_EQ(kind_of_split({.first_name = "m-00001-of-00003.gguf"}), "gguf.bad_split");
  EXPECT_EQ(kind_of_split({.first_name = "n-00001-of-00002.gguf"}), "gguf.missing_split");
  EXPECT_EQ(kind_of_split({.second_tensor = "a"}), "gguf.duplicate_tensor");
}

TEST(GgufWriter, writes_the_same_bytes_to_a_file_and_leaves_no_temporary) {
  const TestFolder folder;
  good_writer().write(folder.path() / "x.gguf");
  const MappedFile file(folder.path() / "x.gguf");
  const std::vector<std::byte> expected = good_writer().bytes();
  EXPECT_TRUE(std::ranges::equal(file.bytes(), expected));
  int entries = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path()))
    entries++;
  EXPECT_EQ(entries, 1);
}

}  // namespace
}  // namespace pagoda
