#include "engine/output_stream.h"

#include <algorithm>
#include <utility>

namespace pagoda {

void OutputStream::push(RequestOutput output) {
  {
    std::lock_guard lock(mutex_);
    is_finished_ = output.request_finished;
    const auto earlier = std::ranges::find(unread_, output.choice, &RequestOutput::choice);
    if (earlier != unread_.end()) {
      earlier->append(std::move(output));
      std::rotate(earlier, earlier + 1, unread_.end());  // the end of the request stays last
    } else {
      unread_.push_back(std::move(output));
    }
  }
  ready_.notify_one();
}

std::optional<RequestOutput> OutputStream::next() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [&] { return is_finished_ || !unread_.empty(); });
  return take();
}

std::optional<RequestOutput> OutputStream::try_next() {
  std::lock_guard lock(mutex_);
  return take();
}

bool OutputStream::is_finished() const {
  std::lock_guard lock(mutex_);
  return is_finished_;
}

std::optional<RequestOutput> OutputStream::take() {
  if (unread_.empty()) return std::nullopt;
  std::optional<RequestOutput> output(std::move(unread_.front()));
  unread_.erase(unread_.begin());
  return output;
}

}  // namespace pagoda
