#include "kv/layout.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {

namespace {

constexpr int32_t kMaxGroups = 8;  // beyond, padding is cheaper than more block tables

struct SpecCount {
  KvLayerSpec spec;
  int32_t num_layers = 0;
};

KvLayerSpec without_group(KvLayerSpec spec) {
  spec.group = 0;
  return spec;
}

std::vector<SpecCount> count_specs(std::span<const KvLayerSpec> layers) {
  std::vector<SpecCount> counts;
  for (const KvLayerSpec& layer : layers) {
    const auto place = std::ranges::find(counts, without_group(layer), &SpecCount::spec);
    if (place == counts.end())
      counts.push_back({without_group(layer), 1});
    else
      place->num_layers++;
  }
  return counts;
}

// The size that pads the fewest layers that see everything, then the fewest others, then gives the
// fewest groups; never more than kMaxGroups groups if there is a choice.
int32_t choose_layers_per_group(std::span<const SpecCount> counts) {
  int32_t most = 0;
  for (const SpecCount& count : counts) most = std::max(most, count.num_layers);
  using Cost = std::tuple<bool, int64_t, int64_t, int64_t>;
  Cost best = {true, std::numeric_limits<int64_t>::max(), 0, 0};
  int32_t best_size = most;
  for (int32_t size = most; size >= 1; size--) {
    int64_t groups = 0, full_padding = 0, window_padding = 0;
    for (const SpecCount& count : counts) {
      const int64_t n = ceil_div(count.num_layers, size);
      groups += n;
      (count.spec.window == 0 ? full_padding : window_padding) += n * size - count.num_layers;
    }
    const bool is_over = groups > std::max<int64_t>(kMaxGroups, std::ssize(counts));
    const Cost cost = {is_over, full_padding, window_padding, groups};
    if (cost >= best) continue;
    best = cost;
    best_size = size;
  }
  return best_size;
}

void check_spec(const KvLayerSpec& spec) {
  if (spec.kv_heads < 1 || spec.k_dim < 8 || spec.v_dim < 8 || spec.k_dim % 8 != 0 ||
      spec.v_dim % 8 != 0 || spec.window < 0)
    throw Error(
        "kv.unsupported_layout",
        "{} KV heads of {} and {} dims with window {}: expected at least one head, dims that "
        "are multiples of 8, and a window of 0 or more",
        spec.kv_heads,
        spec.k_dim,
        spec.v_dim,
        spec.window);
}

}  // namespace

KvFormat KvLayout::format(int32_t group) const {
  const KvLayerSpec& spec = groups[group].spec;
  return {.dtype = dtype, .block_size = block_size, .k_dim = spec.k_dim, .v_dim = spec.v_dim};
}

int64_t KvLayout::layer_block_bytes() const {
  return groups[0].spec.kv_heads * format(0).head_bytes();
}

int32_t KvLayout::num_padding_layers() const {
  int32_t padding = 0;
  for (const KvGroup& group : groups) padding += layers_per_group - group.num_layers;
  return padding;
}

int64_t KvLayout::bytes_per_token() const {
  return std::ssize(layers) * layer_block_bytes() / block_size;
}

int64_t KvLayout::blocks_of_sequence(int32_t group, int64_t tokens, int64_t chunk) const {
  return kv_blocks_of_sequence(groups[group].spec.window, block_size, tokens, chunk);
}

int64_t KvLayout::blocks_of_sequence(int64_t tokens, int64_t chunk) const {
  int64_t blocks = 0;
  for (int32_t group = 0; group < std::ssize(groups); group++)
    blocks += blocks_of_sequence(group, tokens, chunk);
  return blocks;
}

int64_t KvLayout::tokens_within(int64_t num_blocks, int64_t chunk, int64_t most) const {
  return kv_tokens_within(
      [&](int64_t tokens) { return blocks_of_sequence(tokens, chunk); }, num_blocks, most);
}

int64_t kv_blocks_of_sequence(int32_t window, int32_t block_size, int64_t tokens, int64_t chunk) {
  const int64_t all = ceil_div(tokens, block_size);
  if (window == 0) return all;
  return std::min(all, ceil_div(window - 1 + chunk, block_size) + 1);
}

KvLayout make_kv_layout(std::span<const KvLayerSpec> layers, KvDType dtype, int32_t block_size) {
  if (layers.empty()) throw Error("kv.unsupported_layout", "a model without attention layers");
  KvLayout layout;
  layout.dtype = dtype;
  layout.block_size = block_size == 0 ? default_block_size(dtype) : block_size;
  if (layout.block_size < 16 || layout.block_size % 16 != 0)
    throw Error("kv.bad_block_size",
                "block size {}: expected a multiple of 16; {} KV has {} by default",
                block_size,
                name(dtype),
                default_block_size(dtype));
  for (const KvLayerSpec& layer : layers) check_spec(layer);

  const std::vector<SpecCount> counts = count_specs(layers);
  layout.layers_per_group = choose_layers_per_group(counts);
  std::vector<int32_t> last_group(counts.size(), -1);  // of each spec, while it has room
  for (const KvLayerSpec& layer : layers) {
    const auto which = std::ranges::find(counts, without_group(layer), &SpecCount::spec);
    int32_t& group = last_group[which - counts.begin()];
    if (group == -1 || layout.groups[group].num_layers == layout.layers_per_group) {
      group = static_cast<int32_t>(layout.groups.size());
      layout.groups.push_back({without_group(layer), 0});
      layout.groups.back().spec.group = group;
    }
    layout.layers.push_back({group, layout.groups[group].num_layers++});
    layout.group_of_layer.push_back(group);
  }
  for (int32_t group = 0; group < std::ssize(layout.groups); group++) {
    const int64_t bytes = layout.groups[group].spec.kv_heads * layout.format(group).head_bytes();
    if (bytes != layout.layer_block_bytes())
      throw Error(
          "kv.unsupported_layout",
          "layers whose KV blocks take {} and {} bytes: expected one size, as they share one "
          "pool",
          layout.layer_block_bytes(),
          bytes);
  }
  return layout;
}

int64_t kv_blocks_within(const KvLayout& layout, int64_t bytes) {
  return bytes / layout.block_bytes();
}

int64_t kv_bytes(const KvLayout& layout, int64_t num_blocks) {
  return (Checked(num_blocks) * layout.block_bytes()).value("kv.size_overflow", "KV cache");
}

}  // namespace pagoda
