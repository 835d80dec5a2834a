#include "app/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/error.h"
#include "formats/printable.h"
#include "model/families.h"

namespace pagoda {
namespace {

// Keys in the order in which they are added.
using Json = nlohmann::ordered_json;

struct Totals {
  int64_t elements = 0, bytes = 0;
};

Totals totals_of(const Checkpoint& checkpoint) {
  Totals totals;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    totals.elements += tensor.view.num_elements();
    totals.bytes += tensor.view.num_bytes();
  }
  return totals;
}

std::string_view format_name(const Checkpoint& checkpoint) {
  return checkpoint.format() == CheckpointFormat::gguf ? "gguf" : "safetensors";
}

std::vector<int64_t> shape_of(const ConstTensorView& view) {
  std::vector<int64_t> shape(view.rank());
  for (int i = 0; i < view.rank(); i++) shape[i] = view.dim(i);
  return shape;
}

Json config_json(const Checkpoint& checkpoint) {
  // That this model cannot be run is a result here, not a failure.
  try {
    const ModelConfig config = describe_model(checkpoint).config;
    const auto windowed = std::ranges::count_if(
        config.layers, [](const LayerConfig& layer) { return layer.window > 0; });
    return {{"family", config.family},
            {"name", config.name},
            {"vocab_size", config.vocab_size},
            {"hidden_size", config.hidden_size},
            {"num_layers", config.num_layers},
            {"num_windowed_layers", windowed},
            {"num_heads", config.num_heads},
            {"num_kv_heads", config.num_kv_heads},
            {"head_dim", config.head_dim},
            {"intermediate_size", config.intermediate_size},
            {"max_context", config.max_context},
            {"has_tied_embeddings", config.has_tied_embeddings}};
  } catch (const Error& e) {
    return {{"error", {{"kind", e.kind()}, {"message", e.message()}}}};
  }
}

template <typename T>
constexpr bool kIsArray = requires(const T& v) {
  v.get_allocator();
};

// The first bytes of a text, whole characters only where it is UTF-8.
std::string_view cut(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) end--;
  return text.substr(0, end);
}

Json string_json(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  return {{"bytes", text.size()}, {"first", std::string(cut(text, max_bytes))}};
}

template <typename T>
Json value_json(const T& value, const InspectLimits& limits) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    return string_json(value, limits.max_json_bytes);
  } else if constexpr (kIsArray<T>) {
    Json first = Json::array();
    for (size_t i = 0; i < value.size() && i < limits.max_items; i++)
      first.push_back(value_json<typename T::value_type>(value[i], limits));
    if (value.size() <= limits.max_items) return first;
    return {{"length", value.size()}, {"first", std::move(first)}};
  } else {
    return value;
  }
}

template <typename T>
std::string value_text(const T& value, const InspectLimits& limits) {
  if constexpr (std::is_same_v<T, std::string_view>) {
    std::string shown = fmt::format("\"{}\"", printable(cut(value, limits.max_bytes), -1));
    if (value.size() <= limits.max_bytes) return shown;
    return fmt::format("{}... ({} bytes)", shown, value.size());
  } else if constexpr (kIsArray<T>) {
    std::string out = fmt::format("[{}]", value.size());
    for (size_t i = 0; i < value.size() && i < limits.max_items; i++)
      out += fmt::format(
          "{} {}", i == 0 ? "" : ",", value_text<typename T::value_type>(value[i], limits));
    return value.size() <= limits.max_items ? out : out + ", ...";
  } else {
    return fmt::format("{}", value);
  }
}

void append_config(std::string& out, const Checkpoint& checkpoint) {
  const Json config = config_json(checkpoint);
  if (config.contains("error")) {
    out += fmt::format("\nconfig: not understood: {}\n",
                       config["error"]["message"].get<std::string>());
    return;
  }
  out += "\nconfig\n";
  for (const auto& [key, value] : config.items())
    out += fmt::format("  {:<20} {}\n",
                       key,
                       value.is_string() ? printable(value.get<std::string>()) : value.dump());
}

void append_metadata(std::string& out, const Checkpoint& checkpoint, const InspectLimits& limits) {
  const auto& all = checkpoint.metadata().all();
  size_t width = 0;
  for (const auto& [key, value] : all) width = std::max(width, std::min<size_t>(key.size(), 48));
  out += fmt::format("\nmetadata ({})\n", all.size());
  for (const auto& [key, value] : all)
    out += fmt::format("  {:<{}} {}\n",
                       printable(key),
                       width,
                       std::visit([&](const auto& v) { return value_text(v, limits); }, value));
}

void append_tensors(std::string& out, const Checkpoint& checkpoint) {
  const Totals totals = totals_of(checkpoint);
  size_t width = 0;
  for (const CheckpointTensor& tensor : checkpoint.tensors())
    width = std::max(width, std::min<size_t>(tensor.name.size(), 64));
  out += fmt::format("\ntensors ({}; {} elements, {} bytes)\n",
                     checkpoint.tensors().size(),
                     totals.elements,
                     totals.bytes);
  for (const CheckpointTensor& tensor : checkpoint.tensors())
    out += fmt::format("  {:<{}} {:<5} {:>16} {:>12}\n",
                       printable(tensor.name),
                       width,
                       name(tensor.view.dtype()),
                       fmt::format("{}", fmt::join(shape_of(tensor.view), " x ")),
                       tensor.view.num_bytes());
}

}  // namespace

std::string inspect_text(const Checkpoint& checkpoint, const InspectLimits& limits) {
  std::string out =
      fmt::format("format: {}\nfile bytes: {}\n", format_name(checkpoint), checkpoint.file_bytes());
  append_config(out, checkpoint);
  append_metadata(out, checkpoint, limits);
  append_tensors(out, checkpoint);
  return out;
}

std::string inspect_json(const Checkpoint& checkpoint, const InspectLimits& limits) {
  Json metadata = Json::object(), tensors = Json::array();
  for (const auto& [key, value] : checkpoint.metadata().all())
    metadata[key] = std::visit([&](const auto& v) { return value_json(v, limits); }, value);
  for (const CheckpointTensor& tensor : checkpoint.tensors())
    tensors.push_back({{"name", tensor.name},
                       {"dtype", name(tensor.view.dtype())},
                       {"shape", shape_of(tensor.view)},
                       {"bytes", tensor.view.num_bytes()}});
  const Totals totals = totals_of(checkpoint);
  const Json document = {{"format", format_name(checkpoint)},
                         {"file_bytes", checkpoint.file_bytes()},
                         {"config", config_json(checkpoint)},
                         {"metadata", std::move(metadata)},
                         {"tensors", std::move(tensors)},
                         {"num_tensors", checkpoint.tensors().size()},
                         {"num_elements", totals.elements},
                         {"tensor_bytes", totals.bytes}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pagoda
