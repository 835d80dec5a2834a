// The parts of ExpressionParser with brackets in them: literals of containers, subscripts, calls,
// filters, tests, and the lists of names that statements want.
#include <utility>

#include "text/jinja_expression_parser.h"

namespace pagoda::jinja {

ExprPtr ExpressionParser::parenthesised() {
  const Level level(*this);
  expect_op("(");
  if (at_op(")")) {
    ExprPtr empty = make(ExprKind::tuple);
    ++pos_;
    return empty;
  }
  ExprPtr node = expression_or_tuple();
  expect_op(")");
  return node;
}

ExprPtr ExpressionParser::list_literal() {
  ExprPtr node = make(ExprKind::list);
  expect_op("[");
  while (!at_op("]")) {
    node->args.push_back(expression());
    if (!skip_op(",")) break;
  }
  expect_op("]");
  return node;
}

ExprPtr ExpressionParser::dict_literal() {
  ExprPtr node = make(ExprKind::dict);
  expect_op("{");
  while (!at_op("}")) {
    node->args.push_back(expression());
    expect_op(":");
    node->args.push_back(expression());
    if (!skip_op(",")) break;
  }
  expect_op("}");
  return node;
}

bool ExpressionParser::at_end_of_tuple() const {
  const TokenKind kind = peek().kind;
  return kind == TokenKind::print_end || kind == TokenKind::block_end || at_op(")") || at_op("=") ||
         at_name("in") || at_name("if") || at_name("recursive");
}

ExprPtr ExpressionParser::expression_or_tuple(bool with_conditional) {
  ExprPtr first = expression(with_conditional);
  if (!at_op(",")) return first;
  ExprPtr node = make(ExprKind::tuple);
  node->args.push_back(std::move(first));
  while (skip_op(",")) {
    if (at_end_of_tuple()) break;
    node->args.push_back(expression(with_conditional));
  }
  return node;
}

ExprPtr ExpressionParser::assignment_target(bool allow_attribute) {
  const Level level(*this);
  const auto one = [&]() -> ExprPtr {
    if (skip_op("(")) {
      ExprPtr inner = assignment_target(false);
      expect_op(")");
      return inner;
    }
    ExprPtr node = make(ExprKind::name);
    node->name = identifier();
    if (allow_attribute && skip_op(".")) {
      ExprPtr attribute = make(ExprKind::attribute);
      attribute->name = identifier();
      attribute->args.push_back(std::move(node));
      return attribute;
    }
    return node;
  };
  ExprPtr first = one();
  if (!at_op(",")) return first;
  ExprPtr node = make(ExprKind::tuple);
  node->args.push_back(std::move(first));
  while (skip_op(",")) {
    if (at_end_of_tuple()) break;
    node->args.push_back(one());
  }
  return node;
}

void ExpressionParser::parameters(std::vector<std::string>* names, std::vector<ExprPtr>* defaults) {
  expect_op("(");
  while (!at_op(")")) {
    names->push_back(identifier());
    if (skip_op("=")) {
      defaults->push_back(expression());
    } else if (!defaults->empty()) {
      fail("a default value, as for the parameter before");
    }
    if (!skip_op(",")) break;
  }
  expect_op(")");
}

void ExpressionParser::postfix(Expr* node, bool with_filters) {
  while (true) {
    if (at_op(".")) {
      ++pos_;
      if (peek().kind == TokenKind::integer) {
        ExprPtr step = make(ExprKind::item);
        step->args.push_back(number());
        node->steps.push_back(std::move(step));
        continue;
      }
      ExprPtr step = make(ExprKind::attribute);
      step->name = identifier();
      node->steps.push_back(std::move(step));
    } else if (at_op("[")) {
      node->steps.push_back(subscript());
    } else if (at_op("(")) {
      ExprPtr step = make(ExprKind::call);
      call_arguments(step.get());
      node->steps.push_back(std::move(step));
    } else if (with_filters && at_op("|")) {
      node->steps.push_back(filter());
    } else if (with_filters && at_name("is")) {
      node->steps.push_back(test());
    } else {
      return;
    }
  }
}

ExprPtr ExpressionParser::subscript() {
  const Level level(*this);
  ExprPtr node = make(ExprKind::item);
  expect_op("[");
  ExprPtr start = at_op(":") ? nullptr : expression_or_tuple();
  if (!at_op(":")) {
    node->args.push_back(std::move(start));
    expect_op("]");
    return node;
  }
  node->kind = ExprKind::slice;
  node->args.push_back(std::move(start));
  for (int part = 1; part < 3; ++part) {
    const bool given = skip_op(":") && !at_op(":") && !at_op("]");
    node->args.push_back(given ? expression() : nullptr);
  }
  expect_op("]");
  return node;
}

ExprPtr ExpressionParser::filter() {
  expect_op("|");
  ExprPtr node = make(ExprKind::filter);
  node->name = identifier();
  while (skip_op(".")) node->name.append(".").append(identifier());
  if (at_op("(")) call_arguments(node.get());
  return node;
}

ExprPtr ExpressionParser::filter_chain() {
  ExprPtr node = make(ExprKind::postfix);
  ExprPtr first = make(ExprKind::filter);
  first->name = identifier();
  if (at_op("(")) call_arguments(first.get());
  node->steps.push_back(std::move(first));
  while (at_op("|")) node->steps.push_back(filter());
  return node;
}

ExprPtr ExpressionParser::test() {
  expect_name("is");
  ExprPtr node = make(ExprKind::test);
  node->negated = skip_name("not");
  node->name = identifier();
  const TokenKind kind = peek().kind;
  if (at_op("(")) {
    call_arguments(node.get());
  } else if (kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
             at_op("[") || at_op("{") ||
             (kind == TokenKind::name && !at_name("else") && !at_name("or") && !at_name("and") &&
              !at_name("is") && !at_name("if") && !at_name("in") && !at_name("not"))) {
    const Level level(*this);
    ExprPtr argument = primary();
    ExprPtr outer = make(ExprKind::postfix);
    postfix(outer.get(), false);
    if (!outer->steps.empty()) {
      outer->args.push_back(std::move(argument));
      argument = std::move(outer);
    }
    node->args.push_back(std::move(argument));
  }
  return node;
}

void ExpressionParser::call_arguments(Expr* node) {
  const Level level(*this);
  expect_op("(");
  while (!at_op(")")) {
    if (peek().kind == TokenKind::name && tokens_[pos_ + 1].kind == TokenKind::op &&
        tokens_[pos_ + 1].text == "=") {
      node->keywords.push_back(identifier());
      ++pos_;
    } else if (!node->keywords.empty()) {
      fail("a named argument, as the one before");
    }
    node->args.push_back(expression());
    if (!skip_op(",")) break;
  }
  expect_op(")");
}

}  // namespace pagoda::jinja
