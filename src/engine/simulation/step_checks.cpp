#include "engine/simulation/step_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/checked.h"

namespace pagoda::simulation {

namespace {

int32_t table_entry(const StepInput& input, size_t group, int32_t b, int32_t place) {
  return input.groups[group].block_table[int64_t{b} * input.max_blocks + place];
}

std::set<int32_t> blocks_of(const StepInput& input) {
  std::set<int32_t> blocks;
  for (size_t group = 0; group < input.groups.size(); group++)
    for (int32_t b = 0; b < input.num_seqs; b++)
      for (int32_t place = 0; place < input.max_blocks; place++)
        blocks.insert(table_entry(input, group, b, place));
  blocks.erase(-1);
  return blocks;
}

}  // namespace

void StepChecks::fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

std::optional<int32_t> StepChecks::first_position(RequestId id) const {
  const auto place = first_positions_.find(id);
  return place == first_positions_.end() ? std::nullopt : std::optional(place->second);
}

RequestId StepChecks::request_of(const StepInput& input, int32_t seq) const {
  return requests_.at(&input)[seq];
}

void StepChecks::check(const StepInput& input) {
  const StepLimits& limits = engine_.step_limits();
  if (input.num_tokens < 1 || input.num_tokens > limits.max_tokens ||
      input.num_seqs > limits.max_seqs || input.num_rows > limits.max_seqs)
    fail(fmt::format("{} tokens of {} sequences", input.num_tokens, input.num_seqs));
  if (input.cu_q_lens[0] != 0 || input.cu_q_lens[input.num_seqs] != input.num_tokens)
    fail("rows that belong to no sequence");
  requests_[&input].assign(input.num_seqs, 0);
  for (int32_t b = 0; b < input.num_seqs; b++) check_row(input, b);
  check_blocks(input);
  check_first_of_order();
  for (int32_t row = 1; row < input.num_rows; row++)
    num_forked_steps += input.logit_rows[row] == input.logit_rows[row - 1];
  num_copies += std::ssize(input.copies);
  num_late_steps += input.has_late_tokens();
}

// The last block of a row is written, so one sequence alone has it.
const Sequence* StepChecks::owner_of_row(const StepInput& input, int32_t b) const {
  const int32_t size = engine_.kv().block_size();
  const int32_t block = table_entry(input, 0, b, (input.kv_lens[b] - 1) / size);
  const Sequence* owner = nullptr;
  for (const Sequence* sequence : engine_.scheduler().running()) {
    const std::vector<int32_t>& table = sequence->kv.tables[0];
    if (table.empty() || table.back() != block) continue;
    if (owner != nullptr) return nullptr;
    owner = sequence;
  }
  return owner;
}

void StepChecks::check_row(const StepInput& input, int32_t b) {
  const int32_t begin = input.cu_q_lens[b], end = input.cu_q_lens[b + 1];
  if (end <= begin) return fail("a sequence without tokens");
  const Sequence* owner = owner_of_row(input, b);
  if (owner == nullptr) return fail("a row whose block has no owner, or several");
  const int32_t first = input.positions[begin];
  if (input.kv_lens[b] != first + end - begin || owner->num_computed != input.kv_lens[b])
    fail(fmt::format("{} keys after {} tokens at {}", input.kv_lens[b], end - begin, first));
  requests_[&input][b] = owner->request->request.id;
  first_positions_.try_emplace(owner->request->request.id, first);
  const int64_t last_of_prompt = std::ssize(owner->request->request.prompt) - 1;
  for (int32_t t = begin; t < end; t++) {
    const int32_t position = input.positions[t];
    if (position != first + t - begin) fail("positions that do not follow");
    if ((t >= end - input.sampling_rows[b]) != (position >= last_of_prompt))
      fail(fmt::format("the row at {} is of the other kind", position));
    const bool is_known = position < std::ssize(owner->tokens);
    if (is_known != (input.token_source[t] < 0) ||
        (is_known && owner->tokens[position] != input.token_ids[t]))
      fail(fmt::format("the token at {} is another one", position));
  }
  for (int32_t node = owner->kv.node; node >= 0; node = engine_.kv().index().parent(node))
    if (engine_.kv().index().parent(node) == PrefixIndex::kRoot &&
        engine_.kv().index().salt(node) != owner->request->request.cache_salt)
      fail("a prefix of another salt");
  for (int32_t group = 0; group < engine_.kv().num_groups(); group++) {
    const std::vector<int32_t>& table = owner->kv.tables[group];
    const int64_t held = std::ssize(table) - std::ranges::count(table, -1);
    const int64_t most = kv_blocks_of_sequence(engine_.kv().options().windows[group],
                                               engine_.kv().block_size(),
                                               input.kv_lens[b],
                                               engine_.options().max_num_batched_tokens);
    if (held > most) fail(fmt::format("group {} holds {} blocks of {}", group, held, most));
  }
}

void StepChecks::check_blocks(const StepInput& input) {
  const BlockPool& pool = engine_.kv().pool();
  const int32_t size = engine_.kv().block_size();
  std::map<int32_t, int32_t> owners;
  for (const Sequence* sequence : engine_.scheduler().running())
    for (const std::vector<int32_t>& table : sequence->kv.tables)
      for (const int32_t block : table) owners[block]++;
  for (const StepGroup& group : input.groups)
    for (int32_t t = 0; t < input.num_tokens; t++) {
      const int32_t block = group.slot_mapping[t] / size;
      if (pool.is_cached(block)) fail(fmt::format("block {} is indexed and written", block));
      if (owners[block] != 1) fail(fmt::format("block {} of {} is written", block, owners[block]));
    }
  for (const StepInput* earlier : executor_.out()) {
    const std::set<int32_t> used = blocks_of(*earlier);
    for (const int32_t block : input.zero_blocks)
      if (used.contains(block))
        fail(fmt::format("block {} is taken from a step that is out", block));
  }
  for (const BlockCopy& copy : input.copies) {
    if (pool.references(copy.from) == 0 || std::ranges::count(input.zero_blocks, copy.from) > 0)
      fail(fmt::format("block {} is to be copied, but is gone", copy.from));
    if (std::ranges::count(input.zero_blocks, copy.to) != 1)
      fail(fmt::format("block {} is copied to, but not taken", copy.to));
  }
}

void StepChecks::check_first_of_order() {
  if (first_in_order.first == 0) return;
  for (const Sequence* sequence : engine_.scheduler().waiting())
    if (std::pair(sequence->request->request.id, sequence->choice) == first_in_order)
      fail("the first of the order was preempted");
}

void StepChecks::check_still_there(const StepInput& input) {
  for (const int32_t block : blocks_of(input))
    if (engine_.kv().pool().references(block) == 0)
      fail(fmt::format("block {} is free while a step that uses it is out", block));
}

}  // namespace pagoda::simulation
