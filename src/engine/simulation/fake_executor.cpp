#include "engine/simulation/fake_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "engine/simulation/oracle.h"

namespace pagoda::simulation {

FakeExecutor::FakeExecutor(const FakeKv& kv, RunAt run_at) : kv_(kv), run_at_(run_at) {
  records_.assign(kv.windows.size(),
                  std::vector<Record>(static_cast<size_t>(kv.num_blocks) * kv.block_size));
}

void FakeExecutor::fail(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

Ticket FakeExecutor::submit(const StepInput& input) {
  if (on_submit) on_submit(input);
  const bool fails_now = std::exchange(fails_at_submit, false);
  Step step = {.ticket = next_ticket_++,
               .input = &input,
               .fails = std::exchange(fails_at_wait, false),
               .poison_row = std::exchange(poison_row, -1),
               .tokens = {},
               .seen_poisons = {}};
  if (fails_now) {
    for (Step& earlier : steps_) run(earlier);
    last_tokens_.clear();
    note_failure(input);
    throw Error("fake.submit_failed", "injected");
  }
  steps_.push_back(std::move(step));
  out_.push_back(&input);
  if (run_at_ == RunAt::submit) run(steps_.back());
  return steps_.back().ticket;
}

void FakeExecutor::wait(Ticket ticket, StepResult& result) {
  PG_CHECK(!steps_.empty() && steps_.front().ticket == ticket, "step {}", ticket);
  run(steps_.front());
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  out_.erase(out_.begin());
  seen_poisons_ = step.seen_poisons;
  if (step.fails) throw Error("fake.wait_failed", "injected");
  result.num_rows = step.input->num_rows;
  for (int32_t row = 0; row < result.num_rows; row++) {
    result.tokens[row] = step.tokens[row];
    TokenValue* top = result.top_logprobs.data() + int64_t{row} * result.max_logprobs;
    const int32_t num_top = std::max(0, step.input->sample_rows[row].num_logprobs);
    for (int32_t i = 0; i < result.max_logprobs; i++)
      top[i] = i < num_top ? TokenValue{i, -float(i)} : TokenValue{-1, 0.f};
  }
}

void FakeExecutor::run(Step& step) {
  if (std::exchange(step.has_run, true)) return;
  const StepInput& input = *step.input;
  if (step.fails) {
    note_failure(input);
  } else {
    prepare_blocks(input);
    for (int32_t seq = 0; seq < input.num_seqs; seq++) {
      if (builds_on_failure(input, seq)) continue;
      for (int32_t t = input.cu_q_lens[seq]; t < input.cu_q_lens[seq + 1]; t++) {
        const int32_t source = input.token_source[t];
        int32_t token = input.token_ids[t];
        if (source >= 0)
          token = source < std::ssize(last_tokens_) ? std::max(0, last_tokens_[source].token) : 0;
        write_row(step, seq, t, token);
        log_ = mix(mix(log_, token), input.positions[t]);
      }
    }
    for (int32_t row = 0; row < input.num_rows; row++) {
      step.tokens.push_back(sample_row(step, row));
      log_ = mix(log_, step.tokens.back().token);
    }
  }
  last_tokens_ = step.tokens;
}

void FakeExecutor::note_failure(const StepInput& input) {
  for (const StepGroup& group : input.groups)
    for (int32_t t = 0; t < input.num_tokens; t++)
      undefined_blocks_.insert(group.slot_mapping[t] / kv_.block_size);
  for (const BlockCopy& copy : input.copies) undefined_blocks_.insert(copy.to);
}

bool FakeExecutor::builds_on_failure(const StepInput& input, int32_t seq) const {
  for (const StepGroup& group : input.groups)
    for (int32_t place = 0; place < input.max_blocks; place++)
      if (undefined_blocks_.contains(group.block_table[int64_t{seq} * input.max_blocks + place]))
        return true;
  return false;
}

void FakeExecutor::prepare_blocks(const StepInput& input) {
  const auto at = [&](std::vector<Record>& group, int32_t block) {
    return group.begin() + int64_t{block} * kv_.block_size;
  };
  for (const int32_t block : input.zero_blocks) undefined_blocks_.erase(block);
  for (std::vector<Record>& group : records_) {
    for (const int32_t block : input.zero_blocks)
      std::fill_n(at(group, block), kv_.block_size, Record{});
    for (const BlockCopy& copy : input.copies)
      std::copy_n(at(group, copy.from), kv_.block_size, at(group, copy.to));
  }
  log_ = mix(log_, mix(input.zero_blocks.size(), input.copies.size()));
}

FakeExecutor::Record& FakeExecutor::record_at(const StepInput& input,
                                              int32_t group,
                                              int32_t seq,
                                              int32_t position) {
  const int32_t block =
      input.groups[group].block_table[int64_t{seq} * input.max_blocks + position / kv_.block_size];
  if (block < 0 || block >= kv_.num_blocks) {
    fail(fmt::format("group {}: position {} is read from block {}", group, position, block));
    return records_[0][0];
  }
  return records_[group][int64_t{block} * kv_.block_size + position % kv_.block_size];
}

void FakeExecutor::write_row(Step& step, int32_t seq, int32_t t, int32_t token) {
  const StepInput& input = *step.input;
  const int32_t position = input.positions[t];
  for (int32_t group = 0; group < std::ssize(records_); group++) {
    Record previous;
    if (position > 0) {
      previous = record_at(input, group, seq, position - 1);
      if (previous.position != position - 1)
        fail(fmt::format("group {}: slot of {} holds {}", group, position - 1, previous.position));
    }
    const int32_t slot = input.groups[group].slot_mapping[t];
    Record& record = record_at(input, group, seq, position);
    if (&record != &records_[group][slot])
      fail(fmt::format("slot {} of position {} is not where the table leads", slot, position));
    for (int32_t i = slot % kv_.block_size; i < kv_.block_size; i++)
      if (records_[group][slot - slot % kv_.block_size + i].hash != 0)
        fail(fmt::format("block {} was written at or after slot {}", slot / kv_.block_size, i));
    record = {.hash = record_of(previous.hash, token, group),
              .position = position,
              .poison = previous.poison};
    if (step.poison_row == t && group == 0) record.poison = next_poison_++;
  }
}

SampledToken FakeExecutor::sample_row(Step& step, int32_t row) {
  const StepInput& input = *step.input;
  const int32_t t = input.logit_rows[row];
  const int32_t seq = static_cast<int32_t>(
      std::upper_bound(input.cu_q_lens.begin(), input.cu_q_lens.begin() + input.num_seqs + 1, t) -
      input.cu_q_lens.begin() - 1);
  if (builds_on_failure(input, seq)) return {.token = 0};
  const int32_t length = input.kv_lens[seq];
  if (length != input.positions[t] + 1)
    fail(fmt::format("{} keys for position {}", length, input.positions[t]));
  uint64_t attention = 0;
  int32_t poison = 0;
  for (int32_t group = 0; group < std::ssize(records_); group++) {
    const int32_t window = kv_.windows[group];
    for (int32_t i = window == 0 ? 0 : std::max(0, length - window); i < length; i++) {
      const Record& record = record_at(input, group, seq, i);
      if (record.position != i)
        fail(fmt::format("group {}: slot of {} holds {}", group, i, record.position));
      attention = attend(attention, record.hash, i);
      poison = std::max(poison, record.poison);
    }
  }
  if (poison != 0) {
    step.seen_poisons.push_back({&input, seq, poison});
    return {.token = -1, .has_nan = true};
  }
  return sampled(attention, input.sample_rows[row]);
}

bool FakeExecutor::has_poison(int32_t block, const std::vector<int32_t>& poisons) const {
  for (const std::vector<Record>& group : records_)
    for (int32_t i = 0; i < kv_.block_size; i++) {
      const int32_t poison = group[int64_t{block} * kv_.block_size + i].poison;
      if (poison != 0 && std::ranges::count(poisons, poison) > 0) return true;
    }
  return false;
}

}  // namespace pagoda::simulation
