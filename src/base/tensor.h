// TensorView: a typed, shaped look at bytes that somebody else owns; ConstTensorView: the same,
// read-only.
//
// Up to 4 dimensions, outermost first, row-major: shape {rows, cols} is `rows` rows of `cols`
// elements. Elements of a row are contiguous; `row_bytes` is the distance between consecutive rows
// of the last-but-one dimension (larger than the row where the view is a slice of columns, such as
// Q in [T, Q | K | V]); outer dimensions are dense over rows. Does no arithmetic.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"

namespace pagoda {

template <typename Byte>
class BasicTensorView {
 public:
  BasicTensorView() = default;
  BasicTensorView(Byte* data, DType dtype, std::initializer_list<int64_t> shape)
      : data_(data), dtype_(dtype), rank_(static_cast<int>(shape.size())) {
    PG_CHECK(rank_ >= 1 && rank_ <= 4, "rank {}", rank_);
    int i = 0;
    for (int64_t n : shape) shape_[i++] = n;
    row_bytes_ = bytes_of(dtype, cols());
  }
  // A mutable view reads as a const one.
  template <typename Other>
  requires(std::is_const_v<Byte>&& std::is_same_v<Other, std::remove_const_t<Byte>>)
      BasicTensorView(const BasicTensorView<Other>& v)  // NOLINT: meant to be implicit
      : data_(v.data()), dtype_(v.dtype()), rank_(v.rank()), row_bytes_(v.row_bytes()) {
    for (int i = 0; i < rank_; i++) shape_[i] = v.dim(i);
  }

  Byte* data() const { return data_; }
  template <typename T>
  auto* as() const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(data_);
  }
  template <typename T>
  auto* row(int64_t r) const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(data_ + r * row_bytes_);
  }
  bool empty() const { return data_ == nullptr; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t dim(int i) const { return shape_[i]; }
  int64_t cols() const { return shape_[rank_ - 1]; }
  // Product of all dimensions but the last.
  int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < rank_; i++) n *= shape_[i];
    return n;
  }
  int64_t num_elements() const { return rows() * cols(); }
  int64_t row_bytes() const { return row_bytes_; }
  bool contiguous() const { return row_bytes_ == bytes_of(dtype_, cols()); }
  // Bytes of a contiguous view.
  int64_t num_bytes() const { return rows() * bytes_of(dtype_, cols()); }

  // Rows [begin, begin + count) as a rank-2 view.
  BasicTensorView slice_rows(int64_t begin, int64_t count) const {
    PG_CHECK(
        begin >= 0 && count >= 0 && begin + count <= rows(), "{}+{} of {}", begin, count, rows());
    BasicTensorView v(data_ + begin * row_bytes_, dtype_, {count, cols()});
    v.row_bytes_ = row_bytes_;
    return v;
  }
  // Columns [begin, begin + count) of every row as a rank-2 view (plain types).
  BasicTensorView slice_cols(int64_t begin, int64_t count) const {
    PG_CHECK(!is_quantised(dtype_) && begin >= 0 && begin + count <= cols(), "{}+{}", begin, count);
    BasicTensorView v(data_ + bytes_of(dtype_, begin), dtype_, {rows(), count});
    v.row_bytes_ = row_bytes_;
    return v;
  }

 private:
  Byte* data_ = nullptr;
  DType dtype_ = DType::f32;
  int rank_ = 0;
  std::array<int64_t, 4> shape_{};
  int64_t row_bytes_ = 0;
};

using TensorView = BasicTensorView<std::byte>;
using ConstTensorView = BasicTensorView<const std::byte>;

}  // namespace pagoda
