// Writes GGUF version 3: for converted models and for the tiny models of tests.
//
//   GgufWriter w;
//   w.set("general.architecture", "llama");
//   w.set("llama.block_count", uint32_t{2});
//   w.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
//   w.add_f32("output_norm.weight", {64}, values);
//   w.write("model.gguf");
//
// The C++ type of a value is its type in the file. Keys and tensors are written in the order in
// which they came. Shapes are outermost first, as in TensorView.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "formats/gguf_types.h"

namespace pagoda {

class GgufWriter {
 public:
  // `alignment` other than 32 is also stored as general.alignment.
  explicit GgufWriter(uint32_t alignment = kGgufDefaultAlignment);
  GgufWriter(GgufWriter&&) = default;
  GgufWriter& operator=(GgufWriter&&) = default;

  // T: bool, any integer of 1 to 8 bytes, float or double; vectors of those (but of bool).
  template <typename T>
  requires std::is_arithmetic_v<T>
  void set(std::string_view key, T value) {
    set_raw(key, type_of<T>(), std::as_bytes(std::span(&value, 1)));
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void set(std::string_view key, const std::vector<T>& values) {
    set_array(key, type_of<T>(), values.size(), std::as_bytes(std::span(values)));
  }
  void set(std::string_view key, std::string_view value);
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  void set(std::string_view key, const std::vector<std::string>& values);
  // A value's bytes as they are to stand in the file.
  void set_raw(std::string_view key, GgufValueType type, std::span<const std::byte> value);

  // `data` has the tensor's bytes; borrowed until the file is written.
  void add_tensor(std::string_view name,
                  DType dtype,
                  const std::vector<int64_t>& shape,
                  std::span<const std::byte> data);
  // The same, of an owned copy.
  void add_copy(std::string_view name,
                DType dtype,
                const std::vector<int64_t>& shape,
                std::span<const std::byte> data);
  void add_f32(std::string_view name,
               const std::vector<int64_t>& shape,
               std::span<const float> values) {
    add_copy(name, DType::f32, shape, std::as_bytes(values));
  }

  // The whole file.
  std::vector<std::byte> bytes() const;
  // Writes to a temporary file beside `path`, then renames it: a model that is mapped stays whole.
  // Throws Error{"file.write_failed"}.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> owned;
    std::span<const std::byte> data;
  };

  template <typename T>
  static constexpr GgufValueType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufValueType::boolean;
    if constexpr (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? GgufValueType::f32 : GgufValueType::f64;
    constexpr GgufValueType kSigned[] = {
        GgufValueType::i8, GgufValueType::i16, GgufValueType::i32, GgufValueType::i64};
    constexpr GgufValueType kUnsigned[] = {
        GgufValueType::u8, GgufValueType::u16, GgufValueType::u32, GgufValueType::u64};
    constexpr int kWidth = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return std::is_signed_v<T> ? kSigned[kWidth] : kUnsigned[kWidth];
  }
  void set_array(std::string_view key,
                 GgufValueType type,
                 uint64_t count,
                 std::span<const std::byte> items);
  // Everything before the data section, padded.
  std::vector<std::byte> header() const;

  uint32_t alignment_;
  uint64_t num_pairs_ = 0;
  std::vector<std::byte> pairs_;
  std::vector<Tensor> tensors_;
};

}  // namespace pagoda
