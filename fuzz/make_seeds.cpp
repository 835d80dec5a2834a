// Writes small good inputs for the fuzz targets: make_seeds fuzz/corpus
#include <fmt/core.h>

#include <filesystem>
#include <fstream>

#include "formats/gguf_writer.h"
#include "formats/safetensors_writer.h"

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
  return 0;
}
