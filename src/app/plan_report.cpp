#include "app/plan_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pagoda {
namespace {

using Json = nlohmann::ordered_json;

std::string heads_of(const ModelConfig& c) {
  const int32_t group = c.num_heads / c.num_kv_heads;
  const char* kind = group == 1 ? "MHA" : c.num_kv_heads == 1 ? "MQA" : "GQA";
  return fmt::format(
      "{} query and {} KV heads ({}), head size {}", c.num_heads, c.num_kv_heads, kind, c.head_dim);
}

Json json_of(const MemoryPlan& plan) {
  const KvLayout& kv = plan.kv_layout;
  Json groups = Json::array();
  for (size_t i = 0; i < kv.groups.size(); i++) {
    const KvGroup& group = kv.groups[i];
    groups.push_back(
        {{"layers", group.num_layers},
         {"kv_heads", group.spec.kv_heads},
         {"head_dim", group.spec.k_dim},
         {"window", group.spec.window},
         {"blocks_per_sequence",
          kv.blocks_of_sequence(int32_t(i), plan.max_model_len, plan.limits.max_tokens)}});
  }
  return {{"max_model_len", plan.max_model_len},
          {"max_num_seqs", plan.max_num_seqs},
          {"max_num_batched_tokens", plan.limits.max_tokens},
          {"weights_bytes", plan.of(MemoryTag::weights)},
          {"kv",
           {{"dtype", name(kv.dtype)},
            {"block_size", kv.block_size},
            {"bytes_per_token", kv.bytes_per_token()},
            {"block_bytes", kv.block_bytes()},
            {"num_blocks", plan.num_blocks},
            {"padding_layers", kv.num_padding_layers()},
            {"total_bytes", plan.of(MemoryTag::kv)},
            {"per_group", groups}}},
          {"workspace_bytes", plan.of(MemoryTag::workspace)},
          {"logits_bytes", plan.of(MemoryTag::logits)},
          {"vocabulary_bytes", plan.of(MemoryTag::vocabulary)},
          {"total_bytes", plan.total()},
          {"max_context", plan.max_context},
          {"max_sequences_at_context", plan.max_sequences_at_context()},
          {"machine",
           {{"available_bytes", plan.machine_bytes},
            {"max_sequences", plan.sequences_within(plan.machine_bytes)}}}};
}

std::string line(const char* what, int64_t bytes, const std::string& note) {
  return fmt::format("  {:<12} {:>16} B  {:>12}  {}\n", what, bytes, human_bytes(bytes), note);
}

}  // namespace

std::string human_bytes(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* unit = "KiB";
  double value = double(bytes) / 1024;
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.6g} {}", value, unit);
}

std::string plan_text(const ModelConfig& config, const MemoryPlan& plan) {
  const KvLayout& kv = plan.kv_layout;
  std::string text =
      fmt::format("{}: {} layers, {}\n{} sequence(s) of {} tokens, steps of up to {} tokens\n",
                  config.name,
                  config.num_layers,
                  heads_of(config),
                  plan.max_num_seqs,
                  plan.max_model_len,
                  plan.limits.max_tokens);
  text += line("weights", plan.of(MemoryTag::weights), "as packed");
  text += line("KV cache",
               plan.of(MemoryTag::kv),
               fmt::format("{}: {} blocks of {} tokens, {} B a block, {} B a token",
                           name(kv.dtype),
                           plan.num_blocks,
                           kv.block_size,
                           kv.block_bytes(),
                           kv.bytes_per_token()));
  for (size_t i = 0; i < kv.groups.size() && kv.groups.size() > 1; i++) {
    const KvGroup& group = kv.groups[i];
    text += fmt::format(
        "    group {}: {} layers, {}, {} blocks a sequence\n",
        i,
        group.num_layers,
        group.spec.window == 0 ? "see all keys" : fmt::format("window {}", group.spec.window),
        kv.blocks_of_sequence(int32_t(i), plan.max_model_len, plan.limits.max_tokens));
  }
  if (kv.num_padding_layers() > 0)
    text += fmt::format("    {} layer slots of the blocks are padding\n", kv.num_padding_layers());
  text += line("workspace", plan.of(MemoryTag::workspace), "activations and scratch");
  text += line("logits", plan.of(MemoryTag::logits), "");
  text += line("vocabulary", plan.of(MemoryTag::vocabulary), "");
  text += line("total", plan.total(), "");
  text += fmt::format("This KV memory holds one sequence of up to {} tokens, or {} of {} tokens.\n",
                      plan.max_context,
                      plan.max_sequences_at_context(),
                      plan.max_model_len);
  const int64_t available = plan.machine_bytes;
  text += fmt::format("This machine has {} free: {} sequence(s) of {} tokens would fit.\n",
                      human_bytes(available),
                      plan.sequences_within(available),
                      plan.max_model_len);
  return text;
}

std::string plan_json(const ModelConfig& config, const MemoryPlan& plan) {
  Json document = {{"model", config.name}};
  document.update(json_of(plan));
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string plan_table_text(const ModelConfig& config, const std::vector<MemoryPlan>& plans) {
  const MemoryPlan& first = plans.at(0);
  std::string text = fmt::format("{}: {} layers, {}; {} sequence(s) of {} tokens\n",
                                 config.name,
                                 config.num_layers,
                                 heads_of(config),
                                 first.max_num_seqs,
                                 first.max_model_len);
  text += fmt::format("  {:<8} {:>14} {:>18} {:>14} {:>10}\n",
                      "KV dtype",
                      "bytes a token",
                      "KV bytes",
                      "KV",
                      "MHA would");
  for (const MemoryPlan& plan : plans) {
    const int64_t kv = plan.of(MemoryTag::kv);
    text += fmt::format("  {:<8} {:>14} {:>18} {:>14} {:>14}\n",
                        name(plan.kv_layout.dtype),
                        plan.kv_layout.bytes_per_token(),
                        kv,
                        human_bytes(kv),
                        human_bytes(kv * config.num_heads / config.num_kv_heads));
  }
  return text;
}

std::string plan_table_json(const ModelConfig& config, const std::vector<MemoryPlan>& plans) {
  Json rows = Json::array();
  for (const MemoryPlan& plan : plans) rows.push_back(json_of(plan));
  const Json document = {{"model", config.name}, {"table", rows}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pagoda
