#include "formats/huggingface.h"

#include "base/error.h"
namespace pagoda {
std::unique_ptr<Checkpoint> open_huggingface(const std::filesystem::path& folder) {
  throw Error("model.unsupported", "{}: folders are not read yet", folder.string());
}
}  // namespace pagoda
