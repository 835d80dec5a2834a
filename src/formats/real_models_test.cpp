// The public models, where they have been fetched (scripts/fetch-model); skipped, and said so,
// where not.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>

#include "base/checked.h"
#include "base/dequantise.h"
#include "formats/checkpoint.h"

namespace pagoda {
namespace {

std::filesystem::path models_folder() {
  if (const char* models = std::getenv("PAGODA_MODELS")) return models;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"))
    return std::filesystem::path(cache) / "pagoda/models";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home == nullptr ? "/" : home) / ".cache/pagoda/models";
}

std::unique_ptr<Checkpoint> open_or_null(const char* name) {
  const std::filesystem::path path = models_folder() / name;
  return std::filesystem::exists(path) ? open_checkpoint(path) : nullptr;
}

uint64_t hash_of(const CheckpointTensor& tensor, uint64_t hash) {
  std::vector<float> row(tensor.view.cols());
  for (int64_t r = 0; r < tensor.view.rows(); r++) {
    dequantise_row(tensor.view.dtype(), tensor.view.row<std::byte>(r), row);
    for (float v : row) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3u;
  }
  return hash;
}

// Equal, tensor for tensor, to what gguf-py's reader and dequantiser make of the file.
TEST(RealModels, all_weights_of_smollm2_are_those_that_gguf_py_reads) {
  const auto model = open_or_null("smollm2-135m.gguf");
  if (!model) GTEST_SKIP() << "smollm2-135m.gguf is not in the model folder";
  EXPECT_EQ(model->tensors().size(), 272u);
  uint64_t hash = 0xcbf29ce484222325u;
  for (const CheckpointTensor& tensor : model->tensors()) hash = hash_of(tensor, hash);
  EXPECT_EQ(hash, 0x351ddd0c39139965u);
}

TEST(RealModels, the_tensors_of_gemma3_fill_the_file_to_its_end) {
  const auto model = open_or_null("gemma-3-270m.gguf");
  if (!model) GTEST_SKIP() << "gemma-3-270m.gguf is not in the model folder";
  EXPECT_EQ(model->tensors().size(), 236u);
  EXPECT_EQ(model->metadata().strings("tokenizer.ggml.tokens").size(), 262144u);
  EXPECT_EQ(model->metadata().strings("tokenizer.ggml.tokens")[2], "<bos>");
  EXPECT_EQ(model->tensor("token_embd.weight").view.dtype(), DType::q8_0);
  EXPECT_EQ(model->tensor("token_embd.weight").view.dim(0), 262144);
  const std::byte* next = model->tensors().front().view.data();
  int64_t bytes = 0;
  for (const CheckpointTensor& tensor : model->tensors()) {
    EXPECT_EQ(tensor.view.data(), next) << tensor.name;
    const int64_t padded = round_up(tensor.view.num_bytes(), 32);
    next += padded;
    bytes += padded;
  }
  EXPECT_LT(bytes, model->file_bytes());
}

}  // namespace
}  // namespace pagoda
