// Evaluates a parsed template: statements write to the output, expressions give values.
//
// Scopes chain as in jinja2: each iteration of a for loop, each macro call and each block set has
// its own; if has none. A macro sees the scope where it was defined, as it is when it is called.
// One Evaluator renders once.
#pragma once

#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_ast.h"
#include "text/jinja_functions.h"
#include "text/jinja_runtime.h"

namespace pagoda::jinja {

struct Scope {
  Scope* parent = nullptr;
  bool captured = false;  // by a macro: not to be reused
  std::vector<std::pair<std::string_view, Value>> variables;

  void set(std::string_view name, const Value& value);
  const Value* find(std::string_view name) const;
};

class Evaluator {
 public:
  // `globals` holds what the template was given; both outlive the Evaluator.
  Evaluator(Runtime& rt, const Scope& globals);
  Str render(const Body& body);

 private:
  enum class Flow { next, break_loop, continue_loop };

  // Expressions.
  Value eval(const Expr& expr);
  Value eval_name(const Expr& expr);
  Value eval_container(const Expr& expr);
  Value eval_arithmetic(const Expr& expr);
  Value eval_concat(const Expr& expr);
  Value eval_compare(const Expr& expr);
  Value eval_logical(const Expr& expr);
  Value eval_postfix(const Expr& expr);
  Value apply_steps(Value value, const std::vector<ExprPtr>& steps, size_t end);
  Value apply_step(const Value& value, const Expr& step);
  Args arguments(const Expr& call);
  Value call(const Value& callee, const Args& args);
  Value call_macro(const Callable& macro, const Args& args);
  void bind_parameters(const Stmt& macro, const Args& args);

  // Statements.
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_if(const Stmt& stmt);
  Flow execute_for(const Stmt& stmt);
  List* loop_items(const Stmt& stmt);
  void execute_set_block(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  Value make_macro(const Stmt& stmt);
  void assign(const Expr& target, const Value& value);
  // What the body prints, with a scope of its own.
  Value capture(const Body& body);

  Scope* enter(Scope* parent);
  void leave(Scope* scope, Scope* back_to);
  class InScope;

  Runtime& rt_;
  const Scope& globals_;
  Scope* scope_ = nullptr;
  Builder* out_ = nullptr;
  std::deque<Scope> scopes_;
  std::vector<Scope*> free_scopes_;
};

}  // namespace pagoda::jinja
