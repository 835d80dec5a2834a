#include "app/chat.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr std::string_view kHelp =
    "/system TEXT  set the system message (and begin anew)\n"
    "/reset        forget the conversation\n"
    "/stats        speed and sizes of the last answer\n"
    "/save FILE    write the conversation as JSON\n"
    "/quit         end (or Ctrl-D)\n";

constexpr int32_t kReservedForAnswer = 64;  // tokens that a prompt leaves free at least

}  // namespace

Chat::Chat(Deployment& deployment, ChatOptions options, Write write)
    : deployment_(deployment),
      options_(std::move(options)),
      write_([this, write = std::move(write)](std::string_view text) {
        return is_read_ = is_read_ && write(text);
      }) {}

void Chat::set_system(std::string text) {
  system_ = std::move(text);
  messages_.clear();
}

Chat::Next Chat::take(const std::string& line, const std::atomic<bool>* cancelled) {
  if (line.empty()) return Next::go_on;
  if (line[0] == '/') {
    if (command(line) == Next::quit) return Next::quit;
  } else {
    message(line, cancelled);
  }
  return is_read_ ? Next::go_on : Next::quit;
}

void Chat::message(const std::string& line, const std::atomic<bool>* cancelled) {
  messages_.push_back({"user", line});
  try {
    answer(cancelled);
  } catch (const Error& error) {
    messages_.pop_back();  // the conversation goes on without this turn
    write_(fmt::format("error[{}]: {}\n", error.kind(), error.message()));
  }
}

Chat::Next Chat::command(const std::string& line) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (name == "/quit" || name == "/exit") return Next::quit;
  if (name == "/help") {
    write_(kHelp);
  } else if (name == "/reset") {
    messages_.clear();
    write_("The conversation is forgotten.\n");
  } else if (name == "/system") {
    set_system(rest);
    write_(rest.empty() ? "No system message.\n" : "The system message is set.\n");
  } else if (name == "/stats") {
    write_(
        fmt::format("prompt {} tokens ({} from the cache), answer {}; first token after {:.3f} s, "
                    "then {:.1f} tokens/s\n",
                    last_.prompt_tokens,
                    last_.cached_tokens,
                    last_.token_ids.size(),
                    last_.ttft_s,
                    last_.decode_tokens_per_s));
  } else if (name == "/save") {
    save(rest);
  } else {
    write_(fmt::format("Unknown command {}; /help lists them.\n", name));
  }
  return Next::go_on;
}

void Chat::answer(const std::atomic<bool>* cancelled) {
  GenerateRequest request = options_.request;
  request.prompt = fitting_prompt();
  request.cancelled = cancelled;
  last_ = generate(deployment_, request, write_);
  write_("\n");
  messages_.push_back({"assistant", last_.text});
}

// The prompt of all messages, or of as many of the newest as leave room for an answer.
std::vector<int32_t> Chat::fitting_prompt() {
  const int32_t room = deployment_.plan().max_model_len - kReservedForAnswer;
  int32_t num_dropped = 0;
  while (true) {
    std::vector<ChatMessage> all;
    if (!system_.empty()) all.push_back({"system", system_});
    all.insert(all.end(), messages_.begin(), messages_.end());
    std::vector<int32_t> prompt = chat_prompt(deployment_, all);
    if (int32_t(prompt.size()) <= room || messages_.size() <= 1) {
      if (num_dropped > 0)
        write_(
            fmt::format("[the context of {} tokens is full: the oldest {} turn(s) are forgotten]\n",
                        deployment_.plan().max_model_len,
                        num_dropped));
      return prompt;
    }
    drop_oldest_turn();
    num_dropped++;
  }
}

// A message and what answered it; never the newest message.
void Chat::drop_oldest_turn() {
  messages_.erase(messages_.begin());
  while (messages_.size() > 1 && messages_.front().role != "user")
    messages_.erase(messages_.begin());
}

void Chat::save(const std::string& path) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  if (!system_.empty()) document.push_back({{"role", "system"}, {"content", system_}});
  for (const ChatMessage& message : messages_)
    document.push_back({{"role", message.role}, {"content", message.content}});
  std::ofstream out(path);
  out << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  out.close();
  write_(out ? fmt::format("Saved to {}.\n", path) : fmt::format("Cannot write {}.\n", path));
}

}  // namespace pagoda
