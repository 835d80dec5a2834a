#include "backend/cpu/row_kernels.h"

#include <math.h>

#include "backend/cpu/vec.h"

namespace pagoda::cpu::PAGODA_ISA {

// Zhang & Sennrich 2019, eq. 4; Ba et al. 2016, eq. 3.
static void norm(const NormRow& row) {
  const float* x = row.x;
  const int64_t n = row.n;
  Vec mean = splat(0);
  if (row.subtract_mean)
    mean = splat(float(sum_row(n, [=](int64_t i, int64_t count) { return load(x + i, count); }) /
                       double(n)));
  const double squares = sum_row(n, [=](int64_t i, int64_t count) {
    const Vec centred = load(x + i, count) - mean;
    // Past the end of the row stands 0 - mean.
    if (count == kLanes) return centred * centred;
    alignas(64) float lanes[kLanes] = {};
    store_part(lanes, centred * centred, count);
    return load(lanes);
  });
  const Vec scale = splat(float(1 / sqrt(squares / double(n) + double(row.epsilon))));
  for_row(n, [=](int64_t i, int64_t count) {
    Vec y = (load(x + i, count) - mean) * scale;
    if (row.weight) y = y * load(row.weight + i, count);
    if (row.bias) y = y + load(row.bias + i, count);
    if (row.add_to_out) y = y + load(row.out + i, count);
    store(row.out + i, y, count);
  });
}

static void add(float* x, const float* y, int64_t n) {
  for_row(n, [=](int64_t i, int64_t count) {
    store(x + i, load(x + i, count) + load(y + i, count), count);
  });
}

static void scale(float* x, float factor, int64_t n) {
  const Vec by = splat(factor);
  for_row(n, [=](int64_t i, int64_t count) { store(x + i, load(x + i, count) * by, count); });
}

static inline Vec silu(Vec x) {
  return x / (splat(1) + exp(splat(0) - x));
}

// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)), u = √(2/π) (x + 0.044715 x³).
static inline Vec gelu_tanh(Vec x) {
  const Vec cubic = fma(x * x * x, splat(0.044715f), x);
  return x / (splat(1) + exp(cubic * splat(-1.5957691216057308f)));
}

// 0.5 x erfc(-x / √2), erfc by the rational Chebyshev fit of Numerical Recipes (erfcc), relative
// error below 1.2e-7 of erfc(|z|).
static inline Vec gelu_erf(Vec x) {
  const Vec z = absolute(x) * splat(0.70710678118654752f);
  const Vec t = splat(1) / fma(z, splat(0.5f), splat(1));
  Vec p = splat(0.17087277f);
  p = fma(p, t, splat(-0.82215223f));
  p = fma(p, t, splat(1.48851587f));
  p = fma(p, t, splat(-1.13520398f));
  p = fma(p, t, splat(0.27886807f));
  p = fma(p, t, splat(-0.18628806f));
  p = fma(p, t, splat(0.09678418f));
  p = fma(p, t, splat(0.37409196f));
  p = fma(p, t, splat(1.00002368f));
  p = fma(p, t, splat(-1.26551223f));
  const Vec tail = t * exp(fnma(z, z, p));  // erfc(z)
  const Vec erfc = select_less(x, splat(0), tail, splat(2) - tail);
  return splat(0.5f) * x * erfc;
}

static inline Vec relu(Vec x) {
  return max(x, splat(0));
}

template <typename Function>
static inline void activate(
    Function function, const float* x, const float* gate, float* out, int64_t n) {
  for_row(n, [=](int64_t i, int64_t count) {
    Vec y = function(load(x + i, count));
    if (gate) y = y * load(gate + i, count);
    store(out + i, y, count);
  });
}

static void activation(int function, const float* x, const float* gate, float* out, int64_t n) {
  switch (function) {
    case 0:
      return activate(silu, x, gate, out, n);
    case 1:
      return activate(gelu_tanh, x, gate, out, n);
    case 2:
      return activate(gelu_erf, x, gate, out, n);
    default:
      return activate(relu, x, gate, out, n);
  }
}

void fill(RowKernels& kernels) {
  kernels = {.norm = norm, .add = add, .activation = activation, .scale = scale};
}

}  // namespace pagoda::cpu::PAGODA_ISA
