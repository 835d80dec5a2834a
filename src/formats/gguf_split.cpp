#include "formats/gguf.h"
#include "formats/mapped_checkpoint.h"
#include "formats/model_folder.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

constexpr int64_t kMaxSplits = 99999;  // five digits in the name

// "NAME-00001-of-00003.gguf" for number 1 of 3.
std::string split_name(std::string_view prefix, int64_t number, int64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

// NAME of the `number`-th of `count` files; throws when the file is called otherwise.
std::string split_prefix(const std::filesystem::path& path, int64_t number, int64_t count) {
  const std::string name = path.filename().string();
  const std::string ending = split_name("", number, count);
  if (name.size() <= ending.size() || !name.ends_with(ending))
    throw Error("gguf.bad_split",
                "{}: expected a name that ends in {} (the metadata says so), found {}",
                printable(path.string(), 1000),
                ending,
                printable(name));
  return name.substr(0, name.size() - ending.size());
}

void check_split(const GgufFile& file, std::string_view path, int64_t index, int64_t count) {
  const int64_t found_index = file.metadata.integer_or("split.no", -1);
  const int64_t found_count = file.metadata.integer_or("split.count", -1);
  if (found_index == index && found_count == count) return;
  throw Error("gguf.bad_split",
              "{}: expected split.no {} and split.count {}, found {} and {}",
              path,
              index,
              count,
              found_index,
              found_count);
}

// Adds the tensors of files 2 to `count`, which lie beside the first.
void add_other_files(CheckpointParts& parts, const std::filesystem::path& first, int64_t count) {
  if (count > kMaxSplits)
    throw Error("gguf.bad_split",
                "{}: expected split.count up to {}, found {}",
                printable(first.string(), 1000),
                kMaxSplits,
                count);
  const std::string prefix = split_prefix(first, 1, count);
  const ModelFolder folder(first.parent_path());
  for (int64_t index = 1; index < count; index++) {
    const std::string name = split_name(prefix, index + 1, count);
    if (!folder.has(name))
      throw Error("gguf.missing_split",
                  "{}: expected the file {} beside it, not found",
                  printable(first.string(), 1000),
                  printable(name));
    parts.files.push_back(folder.open(name, "gguf.path_escape"));
    const std::string path = printable((folder.path() / name).string(), 1000);
    GgufFile file = parse_gguf(parts.files.back()->bytes(), path);
    check_split(file, path, index, count);
    for (CheckpointTensor& tensor : file.tensors) parts.tensors.push_back(std::move(tensor));
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& path) {
  CheckpointParts parts;
  parts.format = CheckpointFormat::gguf;
  parts.files.push_back(std::make_unique<MappedFile>(path));
  const std::string shown = printable(path.string(), 1000);
  GgufFile first = parse_gguf(parts.files.front()->bytes(), shown);
  parts.metadata = std::move(first.metadata);
  parts.tensors = std::move(first.tensors);
  const int64_t count = parts.metadata.integer_or("split.count", 1);
  if (count > 1) {
    const int64_t index = parts.metadata.integer_or("split.no", 0);
    if (index != 0)
      throw Error("gguf.bad_split",
                  "{}: expected the first file of {} (split.no 0), found split.no {}",
                  shown,
                  count,
                  index);
    add_other_files(parts, path, count);
    const auto found = static_cast<int64_t>(parts.tensors.size());
    const int64_t expected = parts.metadata.integer_or("split.tensors.count", found);
    if (expected != found)
      throw Error("gguf.bad_split",
                  "{}: expected {} tensors in its {} files, found {}",
                  shown,
                  expected,
                  count,
                  found);
  }
  return make_checkpoint(std::move(parts), "gguf.duplicate_tensor");
}

}  // namespace pagoda
