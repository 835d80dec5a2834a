#include "backend/conformance/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backend/reference.h"
#include "base/half.h"

namespace pagoda::conformance {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr WorkspaceShape kLargest = {.max_tokens = 192,
                                     .max_seqs = 16,
                                     .max_logit_rows = 64,
                                     .max_context = 2048,
                                     .max_cols = 2048,
                                     .max_rows = 2048,
                                     .num_heads = 32,
                                     .kv_heads = 16,
                                     .head_dim = 256,
                                     .vocabulary = 5003,
                                     .kv_dtype = KvDType::int8};

uint16_t to_half(DType dtype, float value) {
  return dtype == DType::bf16 ? f32_to_bf16(value) : f32_to_f16(value);
}
float from_half(DType dtype, uint16_t bits) {
  return dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

std::vector<std::unique_ptr<Backend>> make_devices(const Target& target) {
  std::vector<std::unique_ptr<Backend>> devices;
  for (const int threads : target.thread_counts) {
    devices.push_back(target.make(threads));
    devices.back()->reserve_workspace(kLargest);
  }
  return devices;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

}  // namespace

TensorView Array::on(Side side) const {
  if (side == Side::reference) return {reference_.data(), DType::f32, {rows_, cols_}};
  return {device_.data(), device_dtype_, {rows_, cols_}};
}

std::span<const int32_t> IntArray::on(Side side) const {
  const Buffer& buffer = side == Side::reference ? reference_ : device_;
  return {buffer.as<const int32_t>(), host_.size()};
}

std::vector<Case> all_cases(const std::vector<KvDType>& kv_dtypes) {
  std::vector<Case> cases;
  add_row_cases(cases);
  add_linear_cases(cases);
  add_kv_cases(cases, kv_dtypes);
  add_attention_cases(cases, kv_dtypes);
  add_sample_cases(cases);
  return cases;
}

Session::Session(const Target& target, uint64_t seed)
    : target_(target),
      seed_(seed),
      reference_(make_reference_backend()),
      devices_(make_devices(target)) {}

std::vector<std::string> Session::run(const Case& a_case) {
  random_.seed(seed_ ^ std::hash<std::string>{}(a_case.name));
  failures_.clear();
  a_case.run(*this);
  return failures_;
}

void Session::fail(std::string message) {
  if (failures_.size() < 5) failures_.push_back(std::move(message));
}

float Session::uniform(float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random_);
}

int64_t Session::integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_);
}

std::vector<float> Session::normal_values(int64_t count, float deviation) {
  std::normal_distribution<float> normal(0.f, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random_);
  return values;
}

std::vector<int32_t> Session::shuffled(int32_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 0);
  std::shuffle(values.begin(), values.end(), random_);
  return values;
}

Array Session::array(int64_t rows, int64_t cols, std::vector<float> values, Precision precision) {
  PG_CHECK(int64_t(values.size()) == rows * cols, "{} values", values.size());
  Array array;
  array.rows_ = rows;
  array.cols_ = cols;
  array.device_dtype_ =
      precision == Precision::f32 ? DType::f32 : on(Side::device).activation_dtype();
  const DType dtype = array.device_dtype_;
  if (dtype != DType::f32)
    for (float& value : values) value = from_half(dtype, to_half(dtype, value));
  array.initial_ = std::move(values);
  for (const Side side : {Side::reference, Side::device}) {
    Buffer& buffer = side == Side::reference ? array.reference_ : array.device_;
    buffer =
        on(side).allocator().allocate(rows * cols * int64_t{sizeof(float)}, MemoryTag::workspace);
    restore(array, side);
  }
  return array;
}

Array Session::activations(int64_t rows, int64_t cols, float deviation) {
  return array(rows, cols, normal_values(rows * cols, deviation), Precision::activation);
}

Array Session::vector(int64_t cols, float mean, float deviation) {
  std::vector<float> values = normal_values(cols, deviation);
  for (float& value : values) value += mean;
  return array(1, cols, std::move(values), Precision::f32);
}

Array Session::output(int64_t rows, int64_t cols, Precision precision) {
  return array(rows, cols, std::vector<float>(rows * cols, kPoison), precision);
}

IntArray Session::ints(std::vector<int32_t> values) {
  IntArray array;
  array.host_ = std::move(values);
  const int64_t bytes = int64_t(array.host_.size() * sizeof(int32_t));
  for (const Side side : {Side::reference, Side::device}) {
    Buffer& buffer = side == Side::reference ? array.reference_ : array.device_;
    buffer = on(side).allocator().allocate(bytes, MemoryTag::workspace);
    on(side).copy_to_device(
        buffer.data(), reinterpret_cast<const std::byte*>(array.host_.data()), bytes);
  }
  return array;
}

void Session::restore(const Array& array, Side side) {
  const TensorView view = array.on(side);
  const auto copy = [&](const void* host) {
    on(side).copy_to_device(view.data(), static_cast<const std::byte*>(host), view.num_bytes());
  };
  if (view.dtype() == DType::f32) return copy(array.initial_.data());
  std::vector<uint16_t> halves(array.initial_.size());
  std::transform(array.initial_.begin(), array.initial_.end(), halves.begin(), [&](float value) {
    return to_half(view.dtype(), value);
  });
  copy(halves.data());
}

std::vector<float> Session::values_on_device(const Array& array) {
  const TensorView view = array.on(Side::device);
  std::vector<float> values(array.rows_ * array.cols_);
  if (view.dtype() == DType::f32) {
    on(Side::device)
        .copy_to_host(reinterpret_cast<std::byte*>(values.data()), view.data(), view.num_bytes());
    return values;
  }
  std::vector<uint16_t> halves(values.size());
  on(Side::device)
      .copy_to_host(reinterpret_cast<std::byte*>(halves.data()), view.data(), view.num_bytes());
  std::transform(halves.begin(), halves.end(), values.begin(), [&](uint16_t bits) {
    return from_half(view.dtype(), bits);
  });
  return values;
}

void Session::check(const Operation& operation) {
  for (const Output& output : operation.outputs)
    for (const Side side : {Side::reference, Side::device}) restore(*output.array, side);
  operation.call(*reference_, Side::reference, 0, operation.rows);
  operation.call(*devices_[0], Side::device, 0, operation.rows);
  devices_[0]->synchronize();

  std::vector<std::vector<float>> whole;
  for (const Output& wanted : operation.outputs) {
    const Array* output = wanted.array;
    whole.push_back(values_on_device(*output));
    Tolerance tolerance = operation.tolerance;
    tolerance.numbers = output->on(Side::device).dtype();
    const float* expected = output->on(Side::reference).as<float>();
    for (int64_t r = 0; r < output->rows(); r++)
      compare(fmt::format("{} [{} rows], row {}", operation.what, operation.rows, r),
              {whole.back().data() + r * output->cols(), size_t(output->cols())},
              {expected + r * output->cols(), size_t(output->cols())},
              tolerance,
              wanted.expected_rms.empty() ? 0 : wanted.expected_rms[r]);
  }

  std::vector<int64_t> one_by_one, chunks;
  for (int64_t end = 1; end <= operation.rows; end++) one_by_one.push_back(end);
  constexpr int64_t kChunks[] = {1, 2, 3, 6, 7, 8, 13, 64};
  for (int64_t end = 0; end < operation.rows;) {
    end = std::min(operation.rows, end + kChunks[integer(0, 7)]);
    chunks.push_back(end);
  }
  for (size_t i = 0; i < devices_.size(); i++) {
    const int threads = target_.thread_counts[i];
    if (i != 0) check_equal_bits(operation, whole, *devices_[i], {operation.rows}, threads);
    if (i == 0) check_equal_bits(operation, whole, *devices_[i], one_by_one, threads);
    if (i != 0 || devices_.size() == 1)
      check_equal_bits(operation, whole, *devices_[i], chunks, threads);
  }
}

void Session::check_equal_bits(const Operation& operation,
                               const std::vector<std::vector<float>>& whole,
                               Backend& backend,
                               const std::vector<int64_t>& chunk_ends,
                               int num_threads) {
  for (const Output& output : operation.outputs) restore(*output.array, Side::device);
  int64_t begin = 0;
  for (const int64_t end : chunk_ends) {
    operation.call(backend, Side::device, begin, end);
    begin = end;
  }
  backend.synchronize();
  for (size_t o = 0; o < operation.outputs.size(); o++) {
    const std::vector<float> values = values_on_device(*operation.outputs[o].array);
    const int64_t cols = operation.outputs[o].array->cols();
    for (size_t i = 0; i < values.size(); i++)
      if (!same_bits(values[i], whole[o][i]))
        return fail(
            fmt::format("{}: row {} column {} is {:.9g} alone, {:.9g} in {} calls with {} "
                        "threads: not equal",
                        operation.what,
                        i / cols,
                        i % cols,
                        whole[o][i],
                        values[i],
                        chunk_ends.size(),
                        num_threads));
  }
}

void Session::compare(std::string_view what,
                      std::span<const float> out,
                      std::span<const float> expected,
                      const Tolerance& tolerance,
                      double expected_rms) {
  double error = 0, size = 0, largest = 0;
  for (size_t i = 0; i < out.size(); i++) {
    const float value = within_range(tolerance.numbers, out[i]),
                wanted = within_range(tolerance.numbers, expected[i]);
    if (!std::isfinite(value) || !std::isfinite(wanted)) {
      if (value != wanted && !(std::isnan(value) && std::isnan(wanted)))
        return fail(fmt::format("{}, column {}: {}, reference {}", what, i, value, wanted));
      continue;
    }
    const double difference = double(value) - double(wanted);
    error += difference * difference;
    size += double(wanted) * double(wanted);
    largest =
        std::max(largest, std::abs(difference) - half_step(tolerance.numbers, double(wanted)));
  }
  const double rms = std::max(std::sqrt(size / double(out.size())), expected_rms);
  const double norm = rms * std::sqrt(double(out.size()));
  const double tiny = 1e-37;  // products of what is that small may vanish
  const double most =
      tolerance.relative * norm + half_step(tolerance.numbers, rms) * std::sqrt(double(out.size()));
  if (std::sqrt(error) > most + tiny)
    fail(fmt::format(
        "{}: relative error {:.3g} > {:.3g}", what, std::sqrt(error) / norm, most / norm));
  if (largest > tolerance.largest * rms + tiny)
    fail(fmt::format("{}: largest error {:.3g} > {}", what, largest / rms, tolerance.largest));
}

}  // namespace pagoda::conformance
