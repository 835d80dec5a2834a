// A model folder with any bytes for its index opens or is refused, and opens no path outside
// itself: every open() of the library goes through __wrap_open below, which looks at the real path.
// The folder has two shards, a link that leads out and a subfolder.
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <filesystem>
#include <fstream>

#include "formats/huggingface.h"
#include "formats/model_folder.h"
#include "formats/safetensors_writer.h"
#include "formats/test_folder.h"
#include "fuzz.h"

using namespace pagoda;
namespace fs = std::filesystem;

namespace {

bool watching = false;

SafetensorsWriter weights(std::string_view name) {
  SafetensorsWriter w;
  w.add_f32(name, {1}, std::vector<float>{1});
  return w;
}

struct World : TestFolder {
  fs::path model = path() / "model";
  World() {
    fs::create_directories(model / "sub");
    weights("a").write(model / "a.safetensors");
    weights("b").write(model / "b.safetensors");
    weights("a").write(model / "sub" / "a.safetensors");
    weights("a").write(path() / "outside.safetensors");
    fs::create_symlink("../outside.safetensors", model / "link.safetensors");
    fs::create_symlink("a.safetensors", model / "inside.safetensors");
    write("model/config.json", "{}");
  }
};

const World& world() {
  static const World world;
  return world;
}

}  // namespace

extern "C" int __real_open(const char* path, int flags, ...);
extern "C" int __wrap_open(const char* path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(args, int) : 0;
  va_end(args);
  if (watching) {
    const fs::path parent = fs::canonical(path).parent_path();
    FUZZ_CHECK(parent == world().model);
  }
  return __real_open(path, flags, mode);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  world().write("model/model.safetensors.index.json", text);
  watching = true;
  try {
    const auto model = open_checkpoint(world().model);
    for (const auto& [tensor, file] : parse_safetensors_index(text, "index")) {
      FUZZ_CHECK(is_plain_name(file) && file.ends_with(".safetensors"));
      FUZZ_CHECK(model->find(tensor) != nullptr);
    }
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind().starts_with("st.") || e.kind().starts_with("model."));
  }
  watching = false;
  return 0;
}
