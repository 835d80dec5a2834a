#include "formats/gguf_writer.h"

#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "formats/file_output.h"

namespace pagoda {
namespace {

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  const size_t end = out.size();
  out.resize(end + bytes.size());
  if (!bytes.empty()) std::memcpy(out.data() + end, bytes.data(), bytes.size());
}

template <typename T>
void append_number(std::vector<std::byte>& out, T value) {
  append(out, std::as_bytes(std::span(&value, 1)));
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number(out, static_cast<uint64_t>(text.size()));
  append(out, std::as_bytes(std::span(text)));
}

int64_t padded(int64_t bytes, uint32_t alignment) {
  return round_up(bytes, static_cast<int64_t>(alignment));
}

}  // namespace

GgufWriter::GgufWriter(uint32_t alignment) : alignment_(alignment) {
  if (alignment != kGgufDefaultAlignment) set("general.alignment", alignment);
}

void GgufWriter::set(std::string_view key, std::string_view value) {
  std::vector<std::byte> bytes;
  append_string(bytes, value);
  set_raw(key, GgufValueType::string, bytes);
}

void GgufWriter::set(std::string_view key, const std::vector<std::string>& values) {
  std::vector<std::byte> bytes;
  for (const std::string& value : values) append_string(bytes, value);
  set_array(key, GgufValueType::string, values.size(), bytes);
}

void GgufWriter::set_array(std::string_view key,
                           GgufValueType type,
                           uint64_t count,
                           std::span<const std::byte> items) {
  std::vector<std::byte> bytes;
  append_number(bytes, static_cast<uint32_t>(type));
  append_number(bytes, count);
  append(bytes, items);
  set_raw(key, GgufValueType::array, bytes);
}

void GgufWriter::set_raw(std::string_view key,
                         GgufValueType type,
                         std::span<const std::byte> value) {
  append_string(pairs_, key);
  append_number(pairs_, static_cast<uint32_t>(type));
  append(pairs_, value);
  num_pairs_++;
}

void GgufWriter::add_tensor(std::string_view name,
                            DType dtype,
                            const std::vector<int64_t>& shape,
                            std::span<const std::byte> data) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); i++) rows *= shape[i];
  PG_CHECK(gguf_type_id(dtype) && !shape.empty(), "{} of {}", pagoda::name(dtype), name);
  PG_CHECK(shape.back() % info(dtype).block_elements == 0 &&
               static_cast<int64_t>(data.size()) == rows * bytes_of(dtype, shape.back()),
           "{}: {} bytes for {} rows of {}",
           name,
           data.size(),
           rows,
           shape.back());
  tensors_.push_back({std::string(name), dtype, shape, {}, data});
}

void GgufWriter::add_copy(std::string_view name,
                          DType dtype,
                          const std::vector<int64_t>& shape,
                          std::span<const std::byte> data) {
  add_tensor(name, dtype, shape, data);
  tensors_.back().owned.assign(data.begin(), data.end());
  tensors_.back().data = tensors_.back().owned;
}

std::vector<std::byte> GgufWriter::header() const {
  std::vector<std::byte> out;
  append(out, std::as_bytes(std::span("GGUF", 4)));
  append_number(out, uint32_t{3});
  append_number(out, static_cast<uint64_t>(tensors_.size()));
  append_number(out, num_pairs_);
  append(out, pairs_);
  int64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;)
      append_number(out, static_cast<uint64_t>(tensor.shape[i]));
    append_number(out, *gguf_type_id(tensor.dtype));
    append_number(out, static_cast<uint64_t>(offset));
    offset += padded(static_cast<int64_t>(tensor.data.size()), alignment_);
  }
  out.resize(padded(static_cast<int64_t>(out.size()), alignment_));
  return out;
}

std::vector<std::byte> GgufWriter::bytes() const {
  std::vector<std::byte> out = header();
  for (const Tensor& tensor : tensors_) {
    append(out, tensor.data);
    out.resize(padded(static_cast<int64_t>(out.size()), alignment_));
  }
  return out;
}

void GgufWriter::write(const std::filesystem::path& path) const {
  FileOutput out(path);
  out.write(header());
  const std::vector<std::byte> zeros(alignment_);
  for (const Tensor& tensor : tensors_) {
    out.write(tensor.data);
    const auto size = static_cast<int64_t>(tensor.data.size());
    out.write(std::span(zeros).first(padded(size, alignment_) - size));
  }
  out.commit();
}

}  // namespace pagoda
