// Chat: a conversation with history over one deployment. Lines that begin with "/" are commands.
// When the context is full, the oldest turns are dropped, and it is said. Earlier turns are found
// again in the prefix cache, so a turn costs its own tokens.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "app/generate.h"
#include "app/prompt.h"

namespace pagoda {

struct ChatOptions {
  GenerateRequest request;  // all but the prompt
};

class Chat {
 public:
  enum class Next : uint8_t { go_on, quit };
  using Write = std::function<bool(std::string_view)>;  // false: nobody reads any more

  Chat(Deployment& deployment, ChatOptions options, Write write);

  void set_system(std::string text);
  // One line of the person's: a message, which is answered until `cancelled` is set, or a command.
  // To quit is what the person asks, or what is left when nobody reads any more.
  Next take(const std::string& line, const std::atomic<bool>* cancelled);
  const std::vector<ChatMessage>& messages() const { return messages_; }

 private:
  Next command(const std::string& line);
  void message(const std::string& line, const std::atomic<bool>* cancelled);
  void answer(const std::atomic<bool>* cancelled);
  std::vector<int32_t> fitting_prompt();
  void drop_oldest_turn();
  void save(const std::string& path);

  Deployment& deployment_;
  ChatOptions options_;
  bool is_read_ = true;
  Write write_;
  std::string system_;
  std::vector<ChatMessage> messages_;  // without the system message
  GenerateResult last_;
};

}  // namespace pagoda
