#include "formats/gguf.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "formats/gguf_cursor.h"
#include "formats/gguf_metadata.h"
#include "formats/gguf_types.h"
#include "formats/mapped_checkpoint.h"

namespace pagoda {
namespace {

constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;                         // name, rank, one dimension, type, offset
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;  // key, type, value
constexpr uint64_t kMaxTensors = 1 << 20;
constexpr uint64_t kMaxPairs = 1 << 16;

// A tensor's description as it stands in the file, checked by itself.
struct Description {
  std::string_view name;
  DType dtype;
  std::vector<int64_t> shape;  // outermost first
  int64_t num_bytes;
  uint64_t offset;  // from the start of the data section
};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, std::string_view path)
      : bytes_(bytes), path_(path), cursor_(bytes, path) {}

  GgufFile parse() {
    parse_header();
    auto [metadata, alignment] = parse_gguf_metadata(cursor_, num_pairs_);
    file_.metadata = std::move(metadata);
    descriptions_.reserve(num_tensors_);
    for (uint64_t i = 0; i < num_tensors_; i++) descriptions_.push_back(parse_description(i));
    check_names();
    file_.alignment = check_alignment(alignment);
    check_total_size();
    place_tensors();
    return std::move(file_);
  }

 private:
  void parse_header() {
    cursor_.enter("header", "");
    const auto* magic = reinterpret_cast<const char*>(cursor_.take_bytes(4));
    if (std::string_view(magic, 4) != "GGUF")
      throw Error("gguf.bad_magic",
                  "{}: expected a file that starts with GGUF, found {}",
                  path_,
                  printable({magic, 4}));
    file_.version = cursor_.take<uint32_t>();
    if (file_.version != 2 && file_.version != 3)
      throw Error(
          "gguf.unsupported_version",
          "{}: expected GGUF version 2 or 3, found {}{}",
          path_,
          file_.version,
          (file_.version & 0xffff) == 0 && file_.version != 0 ? " (a big-endian file?)" : "");
    num_tensors_ = cursor_.take<uint64_t>();
    num_pairs_ = cursor_.take<uint64_t>();
    check_count("tensors", num_tensors_, kMinTensorBytes, kMaxTensors);
    check_count("metadata pairs", num_pairs_, kMinPairBytes, kMaxPairs);
  }

  void check_count(std::string_view what, uint64_t count, uint64_t item_bytes, uint64_t limit) {
    if (count <= cursor_.remaining() / item_bytes && count <= limit) return;
    throw Error("gguf.count_too_large",
                "{}: number of {}: expected at most {} (in the {} bytes that remain; the limit is "
                "{}), found {}",
                path_,
                what,
                cursor_.remaining() / item_bytes,
                cursor_.remaining(),
                limit,
                count);
  }

  [[noreturn]] void refuse(std::string_view kind, std::string_view name, const std::string& why) {
    throw Error(std::string(kind), "{}: tensor {}: {}", path_, printable(name), why);
  }

  Description parse_description(uint64_t index) {
    Description tensor;
    const std::string number = fmt::format("{}", index);
    cursor_.enter("tensor number", number);
    tensor.name = cursor_.take_string();
    if (tensor.name.empty() || tensor.name.size() > kGgufMaxNameBytes)
      throw Error("gguf.bad_name",
                  "{}: tensor number {}: expected a name of 1 to {} bytes, found {} bytes",
                  path_,
                  index,
                  kGgufMaxNameBytes,
                  tensor.name.size());
    cursor_.enter("tensor", tensor.name);
    const auto rank = cursor_.take<uint32_t>();
    if (rank < 1 || rank > 4)
      refuse(
          "gguf.bad_shape", tensor.name, fmt::format("expected 1 to 4 dimensions, found {}", rank));
    std::vector<uint64_t> dims(rank);
    for (uint64_t& n : dims) n = cursor_.take<uint64_t>();
    const auto type_id = cursor_.take<uint32_t>();
    tensor.offset = cursor_.take<uint64_t>();
    tensor.dtype = dtype_of(tensor.name, type_id);
    set_shape(tensor, dims);
    return tensor;
  }

  DType dtype_of(std::string_view name, uint32_t id) {
    const GgufTensorType* type = gguf_tensor_type(id);
    if (type == nullptr || !type->dtype) {
      std::string known;
      for (const GgufTensorType& t : kGgufTensorTypes)
        if (t.dtype) known += fmt::format("{}{}", known.empty() ? "" : ", ", t.name);
      refuse("gguf.unsupported_type",
             name,
             fmt::format("expected one of the types {}; found type id {} ({})",
                         known,
                         id,
                         type == nullptr ? "unknown" : type->name));
    }
    return *type->dtype;
  }

  // `dims`: innermost first.
  void set_shape(Description& tensor, std::span<const uint64_t> dims) {
    for (uint64_t n : dims)
      if (n < 1 || n > static_cast<uint64_t>(INT64_MAX))
        refuse("gguf.bad_shape",
               tensor.name,
               fmt::format("expected every dimension to be 1 or more, found {}",
                           fmt::join(dims, " x ")));
    const DTypeInfo& type = info(tensor.dtype);
    if (dims[0] % type.block_elements != 0)
      refuse("gguf.bad_shape",
             tensor.name,
             fmt::format("expected rows that are a multiple of {}'s block of {}, found {}",
                         type.name,
                         type.block_elements,
                         dims[0]));
    Checked size = Checked(dims[0] / type.block_elements) * type.block_bytes;
    Checked num_elements = dims[0];
    for (uint64_t n : dims.subspan(1)) {
      size = size * n;
      num_elements = num_elements * n;
    }
    const std::string what = fmt::format("{}: tensor {}: {} of {}",
                                         path_,
                                         printable(tensor.name),
                                         type.name,
                                         fmt::join(dims, " x "));
    num_elements.value("gguf.size_overflow", what);
    tensor.num_bytes = size.value("gguf.size_overflow", what);
    tensor.shape.assign(dims.rbegin(), dims.rend());
  }

  void check_names() {
    std::vector<std::string_view> names;
    for (const Description& tensor : descriptions_) names.push_back(tensor.name);
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end())
      refuse("gguf.duplicate_tensor", *twice, "expected one tensor of this name, found two");
  }

  int64_t check_alignment(const GgufAlignment& found) {
    if (!found.present) return kGgufDefaultAlignment;
    if (!found.is_u32 || !std::has_single_bit(found.value) ||
        found.value < static_cast<uint64_t>(kGgufMinAlignment) ||
        found.value > static_cast<uint64_t>(kGgufMaxAlignment))
      throw Error("gguf.bad_alignment",
                  "{}: metadata general.alignment: expected a uint32 power of two from {} to {}, "
                  "found {}{}",
                  path_,
                  kGgufMinAlignment,
                  kGgufMaxAlignment,
                  found.value,
                  found.is_u32 ? "" : " of another type");
    return static_cast<int64_t>(found.value);
  }

  // Every tensor with its padding after the one before, as a writer lays them out.
  void check_total_size() {
    Checked total = Checked(cursor_.position()).align_up(file_.alignment);
    for (const Description& tensor : descriptions_) {
      total = (total + tensor.num_bytes).align_up(file_.alignment);
      total.value(
          "gguf.size_overflow",
          fmt::format(
              "{}: tensor {}: the sum of the sizes up to it", path_, printable(tensor.name)));
    }
  }

  void place_tensors() {
    const Checked data_begin = Checked(cursor_.position()).align_up(file_.alignment);
    file_.data_begin = data_begin.value("gguf.size_overflow", path_);
    for (const Description& tensor : descriptions_) {
      if (tensor.offset % file_.alignment != 0)
        refuse("gguf.bad_offset",
               tensor.name,
               fmt::format("expected an offset that is a multiple of the alignment {}, found {}",
                           file_.alignment,
                           tensor.offset));
      const Checked end = data_begin + Checked(tensor.offset) + tensor.num_bytes;
      if (!end.valid())
        refuse("gguf.bad_offset",
               tensor.name,
               fmt::format("expected an offset inside the file, found {}", tensor.offset));
      if (*end.get() > static_cast<int64_t>(bytes_.size()))
        refuse("gguf.truncated",
               tensor.name,
               fmt::format("expected data up to byte {}, found a file of {} bytes",
                           *end.get(),
                           bytes_.size()));
      const std::byte* data = bytes_.data() + file_.data_begin + tensor.offset;
      file_.tensors.push_back(
          {std::string(tensor.name), make_view(data, tensor.dtype, tensor.shape)});
    }
    check_overlap();
  }

  // Tensors that share bytes would make a small file cost any amount of memory.
  void check_overlap() {
    std::vector<uint32_t> order(descriptions_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](uint32_t i) { return descriptions_[i].offset; });
    for (size_t i = 1; i < order.size(); i++) {
      const Description& before = descriptions_[order[i - 1]];
      const Description& tensor = descriptions_[order[i]];
      if (before.offset + before.num_bytes > tensor.offset)
        refuse("gguf.bad_offset",
               tensor.name,
               fmt::format("expected bytes of its own, found offset {} inside tensor {}",
                           tensor.offset,
                           printable(before.name)));
    }
  }

  std::span<const std::byte> bytes_;
  std::string_view path_;
  GgufCursor cursor_;
  GgufFile file_{};
  uint64_t num_tensors_ = 0, num_pairs_ = 0;
  std::vector<Description> descriptions_;
};

}  // namespace

GgufFile parse_gguf(std::span<const std::byte> bytes, std::string_view path) {
  return Parser(bytes, path).parse();
}

}  // namespace pagoda
