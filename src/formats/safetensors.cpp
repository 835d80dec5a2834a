#include "formats/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "formats/mapped_checkpoint.h"
#include "formats/printable.h"
#include "formats/safetensors_header.h"

namespace pagoda {
namespace {

struct NamedType {
  std::string_view name;
  DType dtype;
};
constexpr NamedType kTypes[] = {{"F32", DType::f32},
                                {"F16", DType::f16},
                                {"BF16", DType::bf16},
                                {"F64", DType::f64},
                                {"I8", DType::i8},
                                {"U8", DType::u8},
                                {"BOOL", DType::u8},
                                {"I16", DType::i16},
                                {"I32", DType::i32},
                                {"I64", DType::i64}};

[[noreturn]] void refuse(std::string_view kind,
                         std::string_view path,
                         const SafetensorsEntry& tensor,
                         const std::string& why) {
  throw Error(std::string(kind), "{}: tensor {}: {}", path, printable(tensor.name), why);
}

DType dtype_of(const SafetensorsEntry& tensor, std::string_view path) {
  std::string known;
  for (const NamedType& type : kTypes) {
    if (type.name == tensor.dtype) return type.dtype;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
  }
  refuse("st.bad_dtype",
         path,
         tensor,
         fmt::format("expected one of the types {}; found {}", known, printable(tensor.dtype)));
}

// The header's text, once its length is known to be true.
std::string_view header_of(std::span<const std::byte> bytes, std::string_view path) {
  uint64_t length = 0;
  if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  if (bytes.size() < sizeof(length) || length == 0 || length > kMaxSafetensorsHeader ||
      length > bytes.size() - sizeof(length))
    throw Error("st.header_length",
                "{}: expected a header length from 1 to {} that fits in the file of {} bytes, "
                "found {}",
                path,
                kMaxSafetensorsHeader,
                bytes.size(),
                length);
  return {reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length};
}

// Its size by type and shape; equal to the size by offsets.
int64_t num_bytes(const SafetensorsEntry& tensor, DType dtype, std::string_view path) {
  Checked size = info(dtype).block_bytes;
  for (uint64_t n : tensor.shape) {
    if (n == 0)
      refuse("st.bad_shape",
             path,
             tensor,
             fmt::format("expected every dimension to be 1 or more, found [{}]",
                         fmt::join(tensor.shape, ", ")));
    size = size * n;
  }
  if (!size.valid())
    refuse("st.overflow",
           path,
           tensor,
           fmt::format("expected a size below 2^63 bytes, found shape [{}] of {}",
                       fmt::join(tensor.shape, ", "),
                       tensor.dtype));
  const int64_t bytes = *size.get();
  if (tensor.begin > tensor.end || tensor.end > static_cast<uint64_t>(INT64_MAX) ||
      static_cast<int64_t>(tensor.end - tensor.begin) != bytes)
    refuse("st.bad_offsets",
           path,
           tensor,
           fmt::format("expected data_offsets {} bytes apart (shape [{}] of {}), found [{}, {}]",
                       bytes,
                       fmt::join(tensor.shape, ", "),
                       tensor.dtype,
                       tensor.begin,
                       tensor.end));
  return bytes;
}

}  // namespace

std::vector<CheckpointTensor> parse_safetensors(std::span<const std::byte> bytes,
                                                std::string_view path) {
  const std::string_view header = header_of(bytes, path);
  std::vector<SafetensorsEntry> entries = parse_safetensors_header(header, path);
  const std::span<const std::byte> data = bytes.subspan(sizeof(uint64_t) + header.size());
  for (const SafetensorsEntry& tensor : entries) num_bytes(tensor, dtype_of(tensor, path), path);
  std::ranges::stable_sort(entries, {}, &SafetensorsEntry::begin);
  std::vector<CheckpointTensor> out;
  uint64_t end = 0;
  for (const SafetensorsEntry& tensor : entries) {
    if (tensor.begin != end)
      refuse("st.bad_offsets",
             path,
             tensor,
             fmt::format("expected it to begin where the one before ends, at {}, found {}",
                         end,
                         tensor.begin));
    end = tensor.end;
  }
  if (end != data.size())
    throw Error("st.incomplete_buffer",
                "{}: expected {} bytes of tensors after the header, found {}",
                path,
                end,
                data.size());
  for (const SafetensorsEntry& tensor : entries) {
    const size_t rank = tensor.shape.size();
    std::array<int64_t, 4> shape{1};
    std::ranges::copy(tensor.shape, shape.begin());
    out.push_back({tensor.name,
                   make_view(data.data() + tensor.begin,
                             dtype_of(tensor, path),
                             std::span(shape).first(rank == 0 ? 1 : rank))});
  }
  sort_by_name(out, "st.duplicate_tensor", path);
  return out;
}

}  // namespace pagoda
