// conformance_check: every operation of the CUDA backend on this machine's GPU, held against the
// float64 reference by backend/conformance: fresh inputs in every run (PAGODA_SEED repeats them),
// poisoned outputs, and equal bits in other chunks of rows. Prints one line a family and exits 1 if
// anything is off. An operation without a kernel is counted apart, and is wrong unless it is listed
// here.
//   conformance_check [f16] [PREFIX]: activations in f16; only the cases that begin so
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "backend/conformance/conformance.h"
#include "backend/cuda/cuda_backend.h"

namespace pagoda::cuda {
namespace {

using conformance::Case;

// Cases that may end in "cuda.unsupported": prompt rows over a 16-bit cache of the other type than
// the activations.
bool may_be_missing(const std::string& name, DType activations) {
  return name.starts_with(activations == DType::bf16 ? "attention_f16" : "attention_bf16");
}

struct Family {
  int held = 0, wrong = 0, not_there = 0;
};

std::string family_of(const std::string& name) {
  for (const std::string_view kind : {"attention", "rope_store_kv", "copy_and_zero_blocks"})
    if (name.starts_with(kind)) return name.substr(0, name.find('_', kind.size() + 1));
  for (const std::string_view kind : {"rope_angles", "gather_rows", "process_logits"})
    if (name.starts_with(kind)) return std::string(kind);
  return name.substr(0, name.find('_'));
}

uint64_t seed_of_run() {
  const char* given = std::getenv("PAGODA_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  fmt::print("conformance_check: PAGODA_SEED={}\n", seed);
  return seed;
}

void run_case(conformance::Session& session,
              const Case& a_case,
              DType activations,
              Family& family) {
  try {
    const auto failures = session.run(a_case);
    for (const std::string& failure : failures) fmt::print("WRONG {}: {}\n", a_case.name, failure);
    (failures.empty() ? family.held : family.wrong)++;
  } catch (const Error& e) {
    const bool excused = e.kind() == "cuda.unsupported" && may_be_missing(a_case.name, activations);
    if (!excused) fmt::print("WRONG {}: {}\n", a_case.name, e.message());
    (excused ? family.not_there : family.wrong)++;
  }
}

int run(DType activations, std::string_view prefix) {
  conformance::Session session(
      {.make = [=](int) { return make_cuda_backend({.activations = activations}); },
       .thread_counts = {1}},
      seed_of_run());
  fmt::print(
      "{}, activations in {}\n", session.on(conformance::Side::device).name(), name(activations));
  std::map<std::string, Family> families;
  for (const Case& a_case : conformance::all_cases(
           {KvDType::bf16, KvDType::f16, KvDType::fp8, KvDType::int8, KvDType::int4}))
    if (a_case.name.starts_with(prefix))
      run_case(session, a_case, activations, families[family_of(a_case.name)]);
  Family all;
  for (const auto& [what, f] : families) {
    fmt::print("{:<28} {:>4} held, {} wrong, {} not there\n", what, f.held, f.wrong, f.not_there);
    all.held += f.held, all.wrong += f.wrong, all.not_there += f.not_there;
  }
  fmt::print("conformance_check: {} cases held, {} wrong, {} not there\n",
             all.held,
             all.wrong,
             all.not_there);
  if (families.empty()) fmt::print("conformance_check: no case begins with {}\n", prefix);
  return all.wrong > 0 || families.empty();
}

}  // namespace
}  // namespace pagoda::cuda

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (pagoda::cuda::num_devices() == 0) {
    fmt::print("conformance_check: no GPU here, skipped\n");
    return 77;
  }
  int at = 1;
  auto activations = pagoda::DType::bf16;
  if (at < argc && std::string_view(argv[at]) == "f16") activations = pagoda::DType::f16, at++;
  try {
    return pagoda::cuda::run(activations, at < argc ? argv[at] : "");
  } catch (const pagoda::Error& e) {
    fmt::print("conformance_check: {}\n", e.message());
    return 1;
  }
}
