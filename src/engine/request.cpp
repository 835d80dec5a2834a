#include "engine/request.h"

#include <iterator>
#include <utility>

namespace pagoda {

std::string_view name(FinishReason reason) {
  constexpr std::string_view kNames[] = {"", "stop", "length", "cancelled", "error"};
  return kNames[static_cast<int>(reason)];
}

void RequestOutput::append(RequestOutput&& next) {
  token_ids.insert(token_ids.end(), next.token_ids.begin(), next.token_ids.end());
  logprobs.insert(logprobs.end(),
                  std::make_move_iterator(next.logprobs.begin()),
                  std::make_move_iterator(next.logprobs.end()));
  text += next.text;
  next.token_ids = std::move(token_ids);
  next.logprobs = std::move(logprobs);
  next.text = std::move(text);
  *this = std::move(next);
}

}  // namespace pagoda
