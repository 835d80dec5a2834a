// Conformance: every operation × dtype × shape of a Backend, held against the float64 reference.
//
// A Target says how to make the backend under test. all_cases() are the rows of the matrix; a
// backend's own test runs each of them in a Session and expects no failures:
//   Session session(target, seed);  session.run(a_case) -> {"norm: row 3 relative 0.1 > 5e-7", …}
// Inputs are fresh for every seed, outputs are poisoned before each call, and each operation is run
// again in other chunks of rows and with other numbers of threads, where it must give the same
// bits.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/conformance/tolerance.h"

namespace pagoda::conformance {

struct Target {
  std::function<std::unique_ptr<Backend>(int num_threads)> make;
  std::vector<int> thread_counts = {1, 2, 3};
};

enum class Side : uint8_t { reference, device };

// The same numbers on both sides; f32 on the reference; f32 or the backend's activation dtype on
// the device.
class Array {
 public:
  TensorView on(Side side) const;
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  const std::vector<float>& initial() const { return initial_; }

 private:
  friend class Session;
  std::vector<float> initial_;  // what it holds before an operation; NaN: output only
  int64_t rows_ = 0, cols_ = 0;
  DType device_dtype_ = DType::f32;
  Buffer reference_, device_;
};

// The same integers in the memory of both sides.
class IntArray {
 public:
  std::span<const int32_t> on(Side side) const;
  const std::vector<int32_t>& host() const { return host_; }

 private:
  friend class Session;
  std::vector<int32_t> host_;
  Buffer reference_, device_;
};

struct WeightPair {
  Weight reference, device;
  double rms = 0;  // root mean square of its elements
  const Weight& on(Side side) const { return side == Side::reference ? reference : device; }
};

// What an operation writes; `expected_rms` [rows] as tolerance.h says, empty: none.
struct Output {
  Output(Array* array, std::vector<double> expected_rms = {})  // NOLINT: meant to be implicit
      : array(array), expected_rms(std::move(expected_rms)) {}
  Array* array;
  std::vector<double> expected_rms;
};

// An operation over `rows` rows, callable for any run of them.
struct Operation {
  std::string_view what;
  int64_t rows = 0;
  std::function<void(Backend&, Side, int64_t begin, int64_t end)> call;
  std::vector<Output> outputs;  // each with `rows` rows
  Tolerance tolerance;
};

class Session;
struct Case {
  std::string name;
  std::function<void(Session&)> run;
};
std::vector<Case> all_cases(const std::vector<KvDType>& kv_dtypes);

class Session {
 public:
  Session(const Target& target, uint64_t seed);
  // The failures of one case: none is a pass.
  std::vector<std::string> run(const Case& a_case);

  // For cases.
  Backend& on(Side side) { return side == Side::reference ? *reference_ : *devices_[0]; }
  // The backend under test with each number of threads.
  const std::vector<std::unique_ptr<Backend>>& devices() const { return devices_; }
  std::mt19937_64& random() { return random_; }
  float uniform(float low, float high);
  int64_t integer(int64_t low, int64_t high);  // both included
  std::vector<float> normal_values(int64_t count, float deviation = 1.f);
  std::vector<int32_t> shuffled(int32_t count);  // 0 … count - 1

  enum class Precision : uint8_t { activation, f32 };
  Array array(int64_t rows, int64_t cols, std::vector<float> values, Precision precision);
  Array activations(int64_t rows, int64_t cols, float deviation = 1.f);
  Array vector(int64_t cols, float mean, float deviation);  // [cols] f32, as weights of norms
  Array output(int64_t rows, int64_t cols, Precision precision = Precision::activation);
  IntArray ints(std::vector<int32_t> values);
  // A random matrix of `dtype`: every bit of its quants and scales is random, its size about 1.
  WeightPair weight(DType dtype, int64_t rows, int64_t cols);

  // Both sides, then the device again in chunks and with other numbers of threads.
  void check(const Operation& operation);
  void compare(std::string_view what,
               std::span<const float> out,
               std::span<const float> expected,
               const Tolerance& tolerance,
               double expected_rms = 0);
  void fail(std::string message);

 private:
  std::vector<float> values_on_device(const Array& array);
  void restore(const Array& array, Side side);
  void check_equal_bits(const Operation& operation,
                        const std::vector<std::vector<float>>& whole,
                        Backend& backend,
                        const std::vector<int64_t>& chunk_ends,
                        int num_threads);

  Target target_;
  uint64_t seed_;
  std::unique_ptr<Backend> reference_;
  std::vector<std::unique_ptr<Backend>> devices_;
  std::mt19937_64 random_;
  std::vector<std::string> failures_;
};

// The rows of the matrix, by file.
void add_row_cases(std::vector<Case>& cases);
void add_linear_cases(std::vector<Case>& cases);
void add_kv_cases(std::vector<Case>& cases, const std::vector<KvDType>& kv_dtypes);
void add_attention_cases(std::vector<Case>& cases, const std::vector<KvDType>& kv_dtypes);
void add_sample_cases(std::vector<Case>& cases);

}  // namespace pagoda::conformance
