#include "engine/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"

namespace pagoda {
namespace {

const RequestLimits kLimits = {.vocabulary = 100,
                               .max_model_len = 64,
                               .max_num_seqs = 8,
                               .max_logprobs = 20,
                               .max_num_batched_tokens = 32,
                               .kv = {.block_size = 16, .num_blocks = 3, .block_bytes = 5 << 20},
                               .max_kv_tokens = 48};

Request good() {
  Request request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 4;
  return request;
}

std::string kind_after(const std::function<void(Request&)>& change) {
  Request request = good();
  change(request);
  try {
    validate(request, kLimits);
  } catch (const Error& error) {
    return error.kind();
  }
  return "";
}

TEST(Validate, takes_a_good_request_and_says_its_tokens) {
  EXPECT_EQ(validate(good(), kLimits), 4);
}

TEST(Validate, without_max_tokens_gives_what_context_and_blocks_leave) {
  Request request = good();
  request.max_tokens = 0;
  EXPECT_EQ(validate(request, kLimits), 48 + 1 - 3);
  RequestLimits roomy = kLimits;
  roomy.max_kv_tokens = 1000;
  EXPECT_EQ(validate(request, roomy), 64 - 3);
}

TEST(Validate, refuses_what_the_context_cannot_hold) {
  EXPECT_EQ(kind_after([](Request& r) { r.prompt.assign(64, 1); }),
            "request.context_length_exceeded");
  EXPECT_EQ(kind_after([](Request& r) { r.max_tokens = 62; }), "request.context_length_exceeded");
}

TEST(Validate, refuses_what_the_blocks_can_never_hold_with_numbers_and_a_setting) {
  Request request = good();
  request.max_tokens = 47;
  try {
    validate(request, kLimits);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), "kv.capacity_exceeded");
    for (const char* part :
         {"4 KV blocks for 49 tokens", "there are 3, for 48", "--kv-cache-memory-bytes to 20MiB"})
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
  request.max_tokens = 46;
  EXPECT_EQ(validate(request, kLimits), 46);
}

TEST(Validate, names_what_is_bad) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(kind_after([](Request& r) { r.prompt.clear(); }), "request.bad_prompt");
  EXPECT_EQ(kind_after([](Request& r) { r.prompt[1] = 100; }), "request.bad_token");
  EXPECT_EQ(kind_after([](Request& r) { r.prompt[1] = -1; }), "request.bad_token");
  EXPECT_EQ(kind_after([](Request& r) { r.stop_ids = {100}; }), "request.bad_token");
  EXPECT_EQ(kind_after([](Request& r) { r.max_tokens = -1; }), "request.bad_max_tokens");
  EXPECT_EQ(kind_after([](Request& r) { r.n = 0; }), "request.bad_n");
  EXPECT_EQ(kind_after([](Request& r) { r.n = 9; }), "request.bad_n");
  EXPECT_EQ(kind_after([](Request& r) { r.stop.assign(17, "x"); }), "request.bad_stop");
  EXPECT_EQ(kind_after([](Request& r) { r.stop = {""}; }), "request.bad_stop");
  EXPECT_EQ(kind_after([](Request& r) { r.sampling.temperature = kNan; }), "request.bad_sampling");
  EXPECT_EQ(kind_after([](Request& r) { r.sampling.num_logprobs = 21; }), "request.bad_sampling");
}

TEST(Validate, an_absurd_max_tokens_does_not_overflow) {
  EXPECT_EQ(kind_after([](Request& r) { r.max_tokens = std::numeric_limits<int32_t>::max(); }),
            "request.context_length_exceeded");
}

}  // namespace
}  // namespace pagoda
