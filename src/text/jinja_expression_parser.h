// ExpressionParser: the expressions of jinja2's grammar, from the token stream that it owns. The
// statement parser builds on it.
//
// Precedence, loosest first: a if b else c; or; and; not; comparisons, in; + -; ~; * / // %; **;
// unary + -; postfix (.x [x] (x) |f is t).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_lexer.h"

namespace pagoda::jinja {

class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, int max_depth)
      : tokens_(std::move(tokens)), max_depth_(max_depth) {}

  ExprPtr expression(bool with_conditional = true);
  // One expression, or a tuple where commas follow.
  ExprPtr expression_or_tuple(bool with_conditional = true);
  // What can be assigned to: a name, a.b, or a tuple of names.
  ExprPtr assignment_target(bool allow_attribute);
  // (a, b=1) of a macro or a call block; the parentheses included.
  void parameters(std::vector<std::string>* names, std::vector<ExprPtr>* defaults);
  // name(args)|name..., as steps of a postfix node without a base.
  ExprPtr filter_chain();

  const Token& peek() const { return tokens_[pos_]; }
  const Token& next();
  bool at_op(std::string_view op) const;
  bool at_name(std::string_view name) const;
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenKind kind, std::string_view what);
  std::string identifier();
  [[noreturn]] void fail(std::string_view what) const;

  // One level of nesting, for as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  ExprPtr make(ExprKind kind) const { return std::make_unique<Expr>(kind, peek().line); }
  ExprPtr logical_or();
  ExprPtr logical_and();
  ExprPtr logical_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filters = true);
  ExprPtr primary();
  ExprPtr constant_or_name();
  ExprPtr string_literal();
  ExprPtr number();
  ExprPtr parenthesised();
  ExprPtr list_literal();
  ExprPtr dict_literal();
  void postfix(Expr* node, bool with_filters);
  ExprPtr subscript();
  ExprPtr filter();
  ExprPtr test();
  void call_arguments(Expr* node);
  bool at_end_of_tuple() const;

  const std::vector<Token> tokens_;
  const int max_depth_;
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace pagoda::jinja
