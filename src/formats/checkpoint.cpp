#include "formats/checkpoint.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "formats/gguf.h"
#include "formats/huggingface.h"
#include "formats/mapped_checkpoint.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

class MappedCheckpoint final : public Checkpoint {
 public:
  MappedCheckpoint(CheckpointParts parts, std::string_view duplicate_kind)
      : parts_(std::move(parts)),
        by_name_(sort_by_name(
            parts_.tensors, duplicate_kind, printable(parts_.files.front()->path().string()))) {}

  CheckpointFormat format() const override { return parts_.format; }
  const Metadata& metadata() const override { return parts_.metadata; }
  std::span<const CheckpointTensor> tensors() const override { return parts_.tensors; }

  const CheckpointTensor* find(std::string_view name) const override {
    const auto it =
        std::lower_bound(by_name_.begin(), by_name_.end(), name, [&](uint32_t i, auto wanted) {
          return parts_.tensors[i].name < wanted;
        });
    if (it == by_name_.end() || parts_.tensors[*it].name != name) return nullptr;
    return &parts_.tensors[*it];
  }

  void drop_pages(const CheckpointTensor& tensor, int64_t offset, int64_t count) const override {
    const std::byte* data = tensor.view.data();
    for (const auto& file : parts_.files) {
      const auto bytes = file->bytes();
      if (data >= bytes.data() && data < bytes.data() + bytes.size())
        file->drop_pages(data - bytes.data() + offset, count);
    }
  }

  int64_t file_bytes() const override {
    int64_t sum = 0;
    for (const auto& file : parts_.files) sum += static_cast<int64_t>(file->bytes().size());
    return sum;
  }

 private:
  CheckpointParts parts_;
  std::vector<uint32_t> by_name_;
};

constexpr std::string_view kPickleExtensions[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl"};

}  // namespace

bool is_pickle_name(const std::filesystem::path& path) {
  return std::ranges::count(kPickleExtensions, path.extension().string()) > 0;
}

const CheckpointTensor& Checkpoint::tensor(std::string_view name) const {
  if (const CheckpointTensor* found = find(name)) return *found;
  throw Error("model.missing_tensor",
              "tensor {}: expected in the model, not found among its {} tensors",
              printable(name),
              tensors().size());
}

ConstTensorView make_view(const std::byte* data, DType dtype, std::span<const int64_t> shape) {
  switch (shape.size()) {
    case 1:
      return {data, dtype, {shape[0]}};
    case 2:
      return {data, dtype, {shape[0], shape[1]}};
    case 3:
      return {data, dtype, {shape[0], shape[1], shape[2]}};
    case 4:
      return {data, dtype, {shape[0], shape[1], shape[2], shape[3]}};
  }
  PG_CHECK(false, "rank {}", shape.size());
}

std::vector<uint32_t> sort_by_name(std::span<const CheckpointTensor> tensors,
                                   std::string_view duplicate_kind,
                                   std::string_view where) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](uint32_t i) -> std::string_view { return tensors[i].name; });
  for (size_t i = 1; i < order.size(); i++)
    if (tensors[order[i]].name == tensors[order[i - 1]].name)
      throw Error(std::string(duplicate_kind),
                  "{}: tensor {}: expected once, found twice",
                  where,
                  printable(tensors[order[i]].name));
  return order;
}

std::unique_ptr<Checkpoint> make_checkpoint(CheckpointParts parts,
                                            std::string_view duplicate_kind) {
  return std::make_unique<MappedCheckpoint>(std::move(parts), duplicate_kind);
}

std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  if (folder && path.extension() == ".gguf")
    throw Error("model.not_a_file",
                "{}: expected a GGUF file, found a folder",
                printable(path.string(), 1000));
  if (folder) return open_huggingface(path);
  if (is_pickle_name(path) && std::filesystem::exists(path, error))
    throw Error("model.pickle_refused",
                "{}: expected a GGUF file or a folder with safetensors, found a pickle (it can run "
                "code); convert it to safetensors first",
                printable(path.string(), 1000));
  if (path.extension() == ".safetensors" && std::filesystem::exists(path, error))
    throw Error("model.no_config",
                "{}: expected the folder that holds config.json and this file",
                printable(path.string(), 1000));
  if (path.extension() == ".json") return open_bare_config(path);
  return open_gguf(path);
}

}  // namespace pagoda
