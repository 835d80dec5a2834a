// OutputStream: a request's outputs on their way from the engine's thread to a reader's.
//
// It never makes the engine wait and never grows with a slow reader: what a choice has not been
// read of is one output, to which the next is joined. One writer, one reader.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/request.h"

namespace pagoda {

class OutputStream {
 public:
  void push(RequestOutput output);
  // Waits for an output; nullopt after the one with request_finished, which is the last.
  std::optional<RequestOutput> next();
  // nullopt also when there is none yet.
  std::optional<RequestOutput> try_next();
  bool is_finished() const;  // nothing more will be pushed

 private:
  std::optional<RequestOutput> take();

  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<RequestOutput> unread_;  // at most one of each choice, the newest last
  bool is_finished_ = false;
};

}  // namespace pagoda
