#include "formats/huggingface.h"

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "formats/json_limits.h"
#include "formats/model_folder.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

SafetensorsWriter weights(std::string_view name, float value) {
  SafetensorsWriter w;
  w.add_f32(name, {2, 1}, std::vector<float>{value, value + 1});
  return w;
}

constexpr std::string_view kConfig = R"({"hidden_size": 64, "rms_norm_eps": 1e-05, "tie": true,
  "architectures": ["LlamaForCausalLM"], "rope_scaling": {"factor": 8, "short_factor": [1, 2.5]},
  "eos_token_id": [1, 2], "none": null, "mixed": [1, "a"], "nested": [[1]], "big": 18446744073709551615,
  "ones": [1, 1]})";

struct ModelDir : TestFolder {
  ModelDir() { write("config.json", kConfig); }
};

TEST(HuggingFace, config_becomes_dotted_keys) {
  const ModelDir dir;
  weights("w", 1).write(dir.path() / "model.safetensors");
  const auto model = open_checkpoint(dir.path());
  const Metadata& m = model->metadata();
  EXPECT_EQ(model->format(), CheckpointFormat::safetensors);
  EXPECT_EQ(m.integer("config.hidden_size"), 64);
  EXPECT_EQ(m.real("config.rms_norm_eps"), 1e-5);
  EXPECT_TRUE(m.boolean("config.tie"));
  EXPECT_EQ(m.strings("config.architectures")[0], "LlamaForCausalLM");
  EXPECT_EQ(m.real("config.rope_scaling.factor"), 8);
  EXPECT_EQ(m.reals("config.rope_scaling.short_factor")[1], 2.5);
  EXPECT_EQ(m.integers("config.eos_token_id")[1], 2);
  EXPECT_FALSE(m.has("config.none"));
  EXPECT_EQ(m.string("config.mixed"), R"([1,"a"])");
  EXPECT_EQ(m.string("config.nested"), "[[1]]");
  EXPECT_EQ(m.real("config.big"), 0x1p64);
  EXPECT_EQ(m.reals("config.ones")[1], 1);
}

TEST(HuggingFace, a_wrong_type_and_a_missing_key_name_the_key) {
  const ModelDir dir;
  weights("w", 1).write(dir.path() / "model.safetensors");
  const auto model = open_checkpoint(dir.path());
  const Metadata& m = model->metadata();
  EXPECT_EQ(kind_of([&] { m.integer("config.architectures"); }), "model.wrong_type");
  EXPECT_EQ(kind_of([&] { m.integer_or("config.tie", 3); }), "model.wrong_type");
  EXPECT_EQ(m.integer_or("config.absent", 3), 3);
  try {
    m.string("config.absent");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "model.missing_key");
    EXPECT_NE(e.message().find("config.absent"), std::string::npos);
  }
}

TEST(HuggingFace, the_texts_of_the_tokenizer_and_the_template_are_metadata) {
  const ModelDir dir;
  weights("w", 1).write(dir.path() / "model.safetensors");
  dir.write("tokenizer.json", R"({"model": {}})");
  dir.write("generation_config.json", R"({"eos_token_id": 7})");
  dir.write("tokenizer_config.json", R"({"chat_template": "A{{ x }}", "add_bos_token": true})");
  {
    const auto model = open_checkpoint(dir.path());
    EXPECT_EQ(model->metadata().string("tokenizer.json"), R"({"model": {}})");
    EXPECT_EQ(model->metadata().integer("generation_config.eos_token_id"), 7);
    EXPECT_TRUE(model->metadata().boolean("tokenizer_config.add_bos_token"));
    EXPECT_EQ(model->metadata().string("tokenizer.chat_template"), "A{{ x }}");
  }
  dir.write("tokenizer_config.json",
            R"({"chat_template": [{"name": "tool_use", "template": "T"},
                                   {"name": "default", "template": "D"}]})");
  {
    const auto model = open_checkpoint(dir.path());
    EXPECT_EQ(model->metadata().string("tokenizer.chat_template"), "D");
    EXPECT_EQ(model->metadata().string("tokenizer.chat_template.tool_use"), "T");
  }
  dir.write("chat_template.jinja", "J");
  EXPECT_EQ(open_checkpoint(dir.path())->metadata().string("tokenizer.chat_template"), "J");
}

TEST(HuggingFace, shards_are_found_through_the_index) {
  const ModelDir dir;
  weights("a", 1).write(dir.path() / "x-1.safetensors");
  weights("b", 5).write(dir.path() / "x-2.safetensors");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), "model.no_index");
  dir.write("model.safetensors.index.json",
            R"({"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}})");
  const auto model = open_checkpoint(dir.path());
  ASSERT_EQ(model->tensors().size(), 2u);
  EXPECT_EQ(model->tensor("b").view.as<float>()[1], 6);
  EXPECT_GT(model->file_bytes(), 16);
  model->drop_pages(model->tensor("a"), 0, model->tensor("a").view.num_bytes());
  EXPECT_EQ(model->tensor("a").view.as<float>()[0], 1);
}

TEST(HuggingFace, a_link_in_a_snapshot_of_the_cache_leads_to_its_blobs) {
  const TestFolder cache;
  const fs::path model_dir = cache.path() / "models--o--n", snapshot = model_dir / "snapshots/r";
  fs::create_directories(snapshot);
  fs::create_directories(model_dir / "blobs");
  cache.write("models--o--n/blobs/1", kConfig);
  weights("w", 1).write(model_dir / "blobs/2");
  fs::create_symlink("../../blobs/1", snapshot / "config.json");
  fs::create_symlink("../../blobs/2", snapshot / "model.safetensors");
  EXPECT_EQ(open_checkpoint(snapshot)->tensors().size(), 1u);
  cache.write("outside", "{}");
  fs::create_symlink("../../../outside", snapshot / "generation_config.json");
  EXPECT_EQ(kind_of([&] { open_checkpoint(snapshot); }), "st.path_escape");
}

// One bad folder each; a good one beside it opens all the same.
struct BadFolder {
  const char* name;
  const char* kind;
  void (*spoil)(const TestFolder& dir);
};
void write_index(const TestFolder& dir, std::string_view map) {
  dir.write("model.safetensors.index.json", fmt::format(R"({{"weight_map": {}}})", map));
}
const BadFolder kBadFolders[] = {
    {"no_config", "model.no_config", [](auto& d) { fs::remove(d.path() / "config.json"); }},
    {"empty_config", "model.empty", [](auto& d) { d.write("config.json", ""); }},
    {"config_not_json", "model.bad_config", [](auto& d) { d.write("config.json", "{\"a\":"); }},
    {"config_not_an_object", "model.bad_config", [](auto& d) { d.write("config.json", "[1]"); }},
    {"config_bad_utf8",
     "model.bad_config",
     [](auto& d) { d.write("config.json", "{\"a\":\"\xff\"}"); }},
    {"config_too_deep",
     "model.bad_config",
     [](auto& d) {
       d.write("config.json",
               "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}");
     }},
    {"config_two_paths_one_key",
     "model.bad_config",
     [](auto& d) { d.write("config.json", R"({"a.b": 1, "a": {"b": 2}})"); }},
    {"config_is_a_folder",
     "model.not_a_file",
     [](auto& d) {
       fs::remove(d.path() / "config.json");
       fs::create_directory(d.path() / "config.json");
     }},
    {"config_is_a_pipe",
     "model.not_a_file",
     [](auto& d) {
       fs::remove(d.path() / "config.json");
       ASSERT_EQ(mkfifo((d.path() / "config.json").c_str(), 0600), 0);
     }},
    {"config_links_outside",
     "st.path_escape",
     [](auto& d) {
       fs::remove(d.path() / "config.json");
       fs::create_symlink("/etc/passwd", d.path() / "config.json");
     }},
    {"config_links_to_itself",
     "model.unreadable",
     [](auto& d) {
       fs::remove(d.path() / "config.json");
       fs::create_symlink("config.json", d.path() / "config.json");
     }},
    {"no_weights", "model.no_weights", [](auto& d) { fs::remove(d.path() / "model.safetensors"); }},
    {"only_a_pickle",
     "model.pickle_refused",
     [](auto& d) {
       fs::remove(d.path() / "model.safetensors");
       fs::remove(d.path() / "config.json");
       d.write("pytorch_model.bin", "x");
     }},
    {"weights_cut_by_two_bytes",
     "st.incomplete_buffer",
     [](auto& d) {
       const fs::path file = d.path() / "model.safetensors";
       fs::resize_file(file, fs::file_size(file) - 2);
     }},
    {"weights_link_outside",
     "st.path_escape",
     [](auto& d) {
       fs::remove(d.path() / "model.safetensors");
       fs::create_symlink("/proc/self/mem", d.path() / "model.safetensors");
     }},
};

TEST(HuggingFace, every_bad_folder_is_refused_with_its_kind) {
  for (const BadFolder& bad : kBadFolders) {
    const ModelDir dir, good;
    weights("w", 1).write(dir.path() / "model.safetensors");
    weights("w", 1).write(good.path() / "model.safetensors");
    bad.spoil(dir);
    EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), bad.kind) << bad.name;
    EXPECT_EQ(kind_of([&] { open_checkpoint(good.path()); }), "") << bad.name;
  }
}

// ST-03 and what else an index can say; the weights a shard "s.safetensors" with tensor "w".
struct BadIndex {
  const char* weight_map;
  const char* kind;
};
const BadIndex kBadIndexes[] = {
    {R"({"w": "../other/x.safetensors"})", "st.path_escape"},
    {R"({"w": "/etc/x.safetensors"})", "st.path_escape"},
    {R"({"w": "sub/x.safetensors"})", "st.path_escape"},
    {R"({"w": "..\\x.safetensors"})", "st.path_escape"},
    {R"({"w": ".."})", "st.path_escape"},
    {R"({"w": ""})", "st.path_escape"},
    {R"({"w": "s.safetensors\u0000.safetensors"})", "st.path_escape"},
    {R"({"w": "link.safetensors"})", "st.path_escape"},
    {R"({"w": "missing.safetensors"})", "st.missing_shard"},
    {R"({"w": "s.safetensors", "v": "s.safetensors"})", "st.missing_tensor"},
    {R"({"w": "s.safetensors", "v": "same.safetensors"})", "st.duplicate_tensor"},
    {R"({"w": "pytorch_model.bin"})", "model.pickle_refused"},
    {R"({"w": "config.json"})", "st.bad_index"},
    {R"({"w": 1})", "st.bad_index"},
    {R"({"w": "s.safetensors", "w": "s.safetensors"})", "st.bad_index"},
    {R"({})", "st.bad_index"},
    {R"([])", "st.bad_index"},
};

TEST(HuggingFace, every_bad_index_is_refused_with_its_kind) {
  const TestFolder outside;
  weights("w", 1).write(outside.path() / "x.safetensors");
  for (const BadIndex& bad : kBadIndexes) {
    const ModelDir dir;
    weights("w", 1).write(dir.path() / "s.safetensors");
    weights("w", 1).write(dir.path() / "same.safetensors");
    fs::create_symlink(outside.path() / "x.safetensors", dir.path() / "link.safetensors");
    write_index(dir, bad.weight_map);
    EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), bad.kind) << bad.weight_map;
    write_index(dir, R"({"w": "s.safetensors"})");
    EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), "") << bad.weight_map;
  }
}

TEST(HuggingFace, what_a_refused_path_names_is_not_opened) {
  const TestFolder outside;
  weights("w", 1).write(outside.path() / "x.safetensors");
  const std::string relative = "../" + outside.path().filename().string() + "/x.safetensors";
  const int watch = inotify_init1(IN_NONBLOCK);
  ASSERT_GE(inotify_add_watch(watch, (outside.path() / "x.safetensors").c_str(), IN_OPEN), 0);
  const auto was_opened = [&] {
    alignas(inotify_event) char event[256];
    return read(watch, event, sizeof(event)) > 0;
  };
  for (const std::string& file :
       {relative, (outside.path() / "x.safetensors").string(), std::string("link.safetensors")}) {
    const ModelDir dir;
    fs::create_symlink(outside.path() / "x.safetensors", dir.path() / "link.safetensors");
    write_index(dir, fmt::format(R"({{"w": "{}"}})", file));
    EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), "st.path_escape") << file;
    EXPECT_FALSE(was_opened()) << file;
  }
  std::ifstream(outside.path() / "x.safetensors").get();
  EXPECT_TRUE(was_opened());  // the watch works
  close(watch);
}

// CL-01, the function behind it.
TEST(Checkpoint, a_path_that_is_no_model_is_refused_with_its_kind) {
  const TestFolder dir;
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path() / "none.gguf"); }), "model.not_found");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path() / "none"); }), "model.not_found");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path()); }), "model.no_config");
  fs::create_directory(dir.path() / "x.gguf");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path() / "x.gguf"); }), "model.not_a_file");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.write("a.bin", "x")); }), "model.pickle_refused");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.write("a.safetensors", "x")); }), "model.no_config");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.write("empty.gguf", "")); }), "model.empty");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.write("a.txt", "hello")); }), "gguf.bad_magic");
  fs::create_symlink("loop.gguf", dir.path() / "loop.gguf");
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path() / "loop.gguf"); }), "model.unreadable");
  if (geteuid() == 0) return;  // root reads everything
  fs::permissions(dir.write("locked.gguf", "GGUF"), fs::perms::none);
  EXPECT_EQ(kind_of([&] { open_checkpoint(dir.path() / "locked.gguf"); }), "model.unreadable");
}

TEST(JsonLimits, depth_and_nodes_hold_at_their_borders) {
  const auto kind = [](const std::string& text, JsonLimits limits) {
    return kind_of([&] { parse_json(text, "x.y", "text", limits); });
  };
  const auto nested = [](int n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_EQ(kind(nested(64), {}), "");
  EXPECT_EQ(kind(nested(65), {}), "x.y");
  EXPECT_EQ(kind("[1,2,3]", {.max_nodes = 4}), "");
  EXPECT_EQ(kind("[1,2,3]", {.max_nodes = 3}), "x.y");
  EXPECT_EQ(kind(R"({"a":1,"b":{"a":1}})", {.duplicate_keys = DuplicateKeys::refuse}), "");
  EXPECT_EQ(kind(R"({"a":1,"a":1})", {.duplicate_keys = DuplicateKeys::refuse}), "x.y");
  EXPECT_EQ(kind(R"({"a":1,"a":1})", {}), "");
  EXPECT_EQ(kind("[1] x", {}), "x.y");
  EXPECT_EQ(kind("", {}), "x.y");
  EXPECT_EQ(kind(std::string("1\0", 2), {}), "x.y");
  EXPECT_EQ(kind("[1e999]", {}), "x.y");
}

}  // namespace
}  // namespace pagoda
