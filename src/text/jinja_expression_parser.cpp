#include "text/jinja_expression_parser.h"

#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"

namespace pagoda::jinja {

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > parser_.max_depth_) {
    --parser_.depth_;
    throw Error("template.limit",
                "line {}: the template nests more than {} levels deep",
                parser_.peek().line,
                parser_.max_depth_);
  }
}

void ExpressionParser::fail(std::string_view what) const {
  const Token& token = peek();
  std::string found;
  switch (token.kind) {
    case TokenKind::end:
      found = "the end of the template";
      break;
    case TokenKind::print_end:
    case TokenKind::block_end:
      found = "the end of the tag";
      break;
    case TokenKind::string:
      found = "a string";
      break;
    default:
      found = fmt::format("'{}'", token.text);
  }
  throw Error("template.syntax", "line {}: expected {}, found {}", token.line, what, found);
}

const Token& ExpressionParser::next() {
  const Token& token = tokens_[pos_];
  if (token.kind != TokenKind::end) ++pos_;
  return token;
}

bool ExpressionParser::at_op(std::string_view op) const {
  return peek().kind == TokenKind::op && peek().text == op;
}

bool ExpressionParser::at_name(std::string_view name) const {
  return peek().kind == TokenKind::name && peek().text == name;
}

bool ExpressionParser::skip_op(std::string_view op) {
  if (!at_op(op)) return false;
  ++pos_;
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!at_name(name)) return false;
  ++pos_;
  return true;
}

void ExpressionParser::expect_op(std::string_view op) {
  if (!skip_op(op)) fail(fmt::format("'{}'", op));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(fmt::format("'{}'", name));
}

void ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (peek().kind != kind) fail(what);
  ++pos_;
}

std::string ExpressionParser::identifier() {
  if (peek().kind != TokenKind::name) fail("a name");
  return next().text;
}

ExprPtr ExpressionParser::expression(bool with_conditional) {
  const Level level(*this);
  ExprPtr node = logical_or();
  if (with_conditional && at_name("if")) {
    ExprPtr conditional = make(ExprKind::conditional);
    ++pos_;
    conditional->args.push_back(logical_or());
    conditional->args.push_back(std::move(node));
    conditional->args.push_back(skip_name("else") ? expression() : nullptr);
    node = std::move(conditional);
  }
  return node;
}

ExprPtr ExpressionParser::logical_or() {
  ExprPtr left = logical_and();
  if (!at_name("or")) return left;
  ExprPtr node = make(ExprKind::logical_or);
  node->args.push_back(std::move(left));
  while (skip_name("or")) node->args.push_back(logical_and());
  return node;
}

ExprPtr ExpressionParser::logical_and() {
  ExprPtr left = logical_not();
  if (!at_name("and")) return left;
  ExprPtr node = make(ExprKind::logical_and);
  node->args.push_back(std::move(left));
  while (skip_name("and")) node->args.push_back(logical_not());
  return node;
}

ExprPtr ExpressionParser::logical_not() {
  if (!at_name("not")) return compare();
  const Level level(*this);
  ExprPtr node = make(ExprKind::logical_not);
  ++pos_;
  node->args.push_back(logical_not());
  return node;
}

ExprPtr ExpressionParser::compare() {
  static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {{{"==", Op::eq},
                                                                           {"!=", Op::ne},
                                                                           {"<", Op::lt},
                                                                           {"<=", Op::le},
                                                                           {">", Op::gt},
                                                                           {">=", Op::ge}}};
  ExprPtr left = sum();
  ExprPtr node;
  while (true) {
    bool found = false;
    Op op = Op::eq;
    for (const auto& [text, candidate] : kOps) {
      if (!at_op(text)) continue;
      op = candidate;
      found = true;
    }
    if (found) {
      ++pos_;
    } else if (skip_name("in")) {
      op = Op::in;
    } else if (at_name("not") && tokens_[pos_ + 1].kind == TokenKind::name &&
               tokens_[pos_ + 1].text == "in") {
      pos_ += 2;
      op = Op::not_in;
    } else {
      break;
    }
    if (node == nullptr) {
      node = make(ExprKind::compare);
      node->args.push_back(std::move(left));
    }
    node->ops.push_back(op);
    node->args.push_back(sum());
  }
  return node == nullptr ? std::move(left) : std::move(node);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  if (!at_op("+") && !at_op("-")) return left;
  ExprPtr node = make(ExprKind::arithmetic);
  node->args.push_back(std::move(left));
  while (at_op("+") || at_op("-")) {
    node->ops.push_back(at_op("+") ? Op::add : Op::sub);
    ++pos_;
    node->args.push_back(concat());
  }
  return node;
}

ExprPtr ExpressionParser::concat() {
  ExprPtr left = product();
  if (!at_op("~")) return left;
  ExprPtr node = make(ExprKind::concat);
  node->args.push_back(std::move(left));
  while (skip_op("~")) node->args.push_back(product());
  return node;
}

ExprPtr ExpressionParser::product() {
  const auto op = [this] {
    return at_op("*")    ? Op::mul
           : at_op("/")  ? Op::div
           : at_op("//") ? Op::floor_div
           : at_op("%")  ? Op::mod
                         : Op::eq;
  };
  ExprPtr left = power();
  if (op() == Op::eq) return left;
  ExprPtr node = make(ExprKind::arithmetic);
  node->args.push_back(std::move(left));
  while (op() != Op::eq) {
    node->ops.push_back(op());
    ++pos_;
    node->args.push_back(power());
  }
  return node;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  if (!at_op("**")) return left;
  ExprPtr node = make(ExprKind::arithmetic);
  node->args.push_back(std::move(left));
  while (skip_op("**")) {
    node->ops.push_back(Op::pow);
    node->args.push_back(unary());
  }
  return node;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  ExprPtr node;
  if (at_op("-") || at_op("+")) {
    const Level level(*this);
    node = make(at_op("-") ? ExprKind::negative : ExprKind::positive);
    ++pos_;
    node->args.push_back(unary(false));
  } else {
    node = primary();
  }
  ExprPtr outer = make(ExprKind::postfix);
  postfix(outer.get(), with_filters);
  if (outer->steps.empty()) return node;
  outer->args.push_back(std::move(node));
  return outer;
}

ExprPtr ExpressionParser::primary() {
  switch (peek().kind) {
    case TokenKind::name:
      return constant_or_name();
    case TokenKind::string:
      return string_literal();
    case TokenKind::integer:
    case TokenKind::real:
      return number();
    default:
      if (at_op("(")) return parenthesised();
      if (at_op("[")) return list_literal();
      if (at_op("{")) return dict_literal();
      fail("an expression");
  }
}

ExprPtr ExpressionParser::constant_or_name() {
  ExprPtr node = make(ExprKind::literal);
  const std::string name = next().text;
  if (name == "true" || name == "True") {
    node->value = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    node->value = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    node->value = Value::none();
  } else {
    node->kind = ExprKind::name;
    node->name = name;
  }
  return node;
}

ExprPtr ExpressionParser::string_literal() {
  ExprPtr node = make(ExprKind::literal);
  while (peek().kind == TokenKind::string) node->text.append(next().text, TextOrigin::markup);
  node->value = Value(&node->text);
  return node;
}

ExprPtr ExpressionParser::number() {
  ExprPtr node = make(ExprKind::literal);
  const Token token = peek();
  std::string_view text = token.text;
  if (token.kind == TokenKind::real) {
    double value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    node->value = Value::real(value);
  } else {
    int base = 10;
    std::string digits;
    if (text.size() > 2 && text[0] == '0' && (text[1] | 0x20) >= 'b') {
      base = (text[1] | 0x20) == 'x' ? 16 : (text[1] | 0x20) == 'o' ? 8 : 2;
      text.remove_prefix(2);
    }
    for (const char c : text) {
      if (c != '_') digits += c;
    }
    int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, value, base);
    if (result.ec != std::errc() || result.ptr != end) fail("an integer that fits in 64 bits");
    node->value = Value::integer(value);
  }
  ++pos_;
  return node;
}

}  // namespace pagoda::jinja
