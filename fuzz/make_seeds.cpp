// Writes small good inputs for the fuzz targets: make_seeds fuzz/corpus
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "formats/gguf_writer.h"
#include "formats/safetensors_writer.h"
#include "text/test_vocabulary.h"

using namespace pagoda;

namespace {

GgufWriter gguf_seed() {
  GgufWriter w(64);
  w.set("general.architecture", "llama");
  w.set("u8", uint8_t{1});
  w.set("i16", int16_t{-2});
  w.set("u64", uint64_t{1} << 63);
  w.set("f32", 0.5f);
  w.set("f64", -0.5);
  w.set("bool", true);
  w.set("tokens", std::vector<std::string>{"<s>", "", "\xc3\xa9"});
  w.set("types", std::vector<int32_t>{1, 2, 3});
  w.set("bytes", std::vector<uint8_t>{1, 2, 3});
  w.set("scores", std::vector<float>{0, -1});
  return w;
}

void add_tensor(GgufWriter& w, DType dtype) {
  const DTypeInfo& type = info(dtype);
  const std::vector<std::byte> data(2 * type.block_bytes, std::byte{1});
  w.add_copy(type.name, dtype, {2, type.block_elements}, data);
}

void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A byte-level tokenizer.json with a Split, and texts for encoding and for streaming back.
void write_tokenizer_seeds(const std::filesystem::path& folder) {
  for (const char* target : {"tokenizer_encode", "tokenizer_json_load", "detok_stream"})
    std::filesystem::create_directories(folder / target);
  write_text(folder / "tokenizer_json_load" / "s_tok", s_tok_json());
  write_text(folder / "tokenizer_json_load" / "byte_level", R"({"normalizer":{"type":"NFC"},
"added_tokens":[{"id":4,"content":"<s>","special":true,"lstrip":true,"rstrip":true}],
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},
{"type":"Split","pattern":{"Regex":" ?[a-z]+"},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]},"decoder":{"type":"ByteLevel"},
"model":{"type":"BPE","ignore_merges":true,"vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[["a","b"]]}})");
  const std::string texts[] = {"hello  hello<tag>\n12 it's",
                               "<|start|>hello<|end|>",
                               "\xE4\xBD\xA0\xF0\x9F\x98\x80 \xFF\xE4\xBD",
                               std::string(100, 'a') + std::string(100, ' ')};
  for (int i = 0; i < 4; i++) {
    const std::string name = std::to_string(i);
    write_text(folder / "detok_stream" / name, texts[i]);
    write_text(folder / "tokenizer_encode" / name,
               std::string(1, static_cast<char>(i * 9)) + texts[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "make_seeds FOLDER: writes seeds into FOLDER/TARGET/\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  for (const char* target :
       {"gguf_load", "safetensors_load", "safetensors_structure", "st_index", "dequant_blocks"})
    std::filesystem::create_directories(folder / target);

  gguf_seed().write(folder / "gguf_load" / "metadata");
  GgufWriter all;
  SafetensorsWriter plain;
  for (const DTypeInfo& type : kDTypes) {
    if (gguf_type_id(type.dtype)) add_tensor(all, type.dtype);
    const std::vector<std::byte> two(2 * type.block_bytes, std::byte{2});
    if (!is_quantised(type.dtype)) plain.add(type.name, type.dtype, {1, 2}, two);
    const auto index = static_cast<char>(type.dtype);
    write_text(folder / "dequant_blocks" / std::string(type.name),
               index + std::string(type.block_bytes, 'x'));
  }
  all.write(folder / "gguf_load" / "tensors");
  plain.write(folder / "safetensors_load" / "tensors");
  write_text(
      folder / "st_index" / "two",
      R"({"metadata":{"total_size":8},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
  write_text(folder / "st_index" / "link", R"({"weight_map":{"a":"link.safetensors"}})");
  write_text(folder / "st_index" / "inside", R"({"weight_map":{"a":"inside.safetensors"}})");
  write_text(folder / "st_index" / "up", R"({"weight_map":{"a":"../outside.safetensors"}})");
  write_text(folder / "st_index" / "sub", R"({"weight_map":{"a":"sub/a.safetensors"}})");
  // How wrong the data's size is, then per tensor: type, dimension, how wrong begin and end are.
  const char structure[] = {0, 0, 2, 0, 0, 2, 1, 0, 0, 1, 3, 0, 0};
  write_text(folder / "safetensors_structure" / "three", {structure, sizeof(structure)});
  write_tokenizer_seeds(folder);
  return 0;
}
