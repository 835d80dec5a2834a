// The syntax tree of a template. Chains (a + b - c, a and b and c, x.y[0]|f is g) are flat: one
// node with many children, so that the depth of the tree is bounded by the parser's depth counter
// and evaluating or freeing a tree recurses no deeper.
//
// Owned by the Template; literals' strings live in their node. The evaluator never changes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja_value.h"

namespace pagoda::jinja {

enum class ExprKind {
  literal,      // value
  name,         // name
  list,         // args
  tuple,        // args
  dict,         // args: key, value, key, value...
  arithmetic,   // args with ops between them, left to right
  concat,       // args
  compare,      // args with ops between them, each pair must hold
  logical_and,  // args
  logical_or,   // args
  logical_not,  // args[0]
  negative,     // args[0]
  positive,     // args[0]
  conditional,  // args: condition, then, otherwise (may be null)
  postfix,      // args[0], then steps applied to it in turn
  attribute,    // step: name
  item,         // step: args[0]
  slice,        // step: args: start, stop, step (each may be null)
  call,         // step: args, the last keywords.size() of them named
  filter,       // step: name, args as in call; without a subject in {% filter %}
  test,         // step: name, args as in call, negated
};

enum class Op { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  Expr(ExprKind kind, int line) : kind(kind), line(line) {}

  ExprKind kind;
  int line;
  std::string name;
  Str text;     // the string of a string literal
  Value value;  // literal
  std::vector<ExprPtr> args;
  std::vector<ExprPtr> steps;
  std::vector<std::string> keywords;
  std::vector<Op> ops;
  bool negated = false;
};

enum class StmtKind {
  text,          // text
  print,         // expr
  if_,           // branches, otherwise
  for_,          // target, expr, condition (may be null), body, otherwise
  set,           // target = expr
  set_block,     // target = body, through the filter in expr (may be null)
  macro,         // name, params, defaults of the last params, body
  call_block,    // expr is a call; params, defaults, body make the caller
  filter_block,  // expr is filters without a subject; body
  scope,         // body, with its own variables (generation)
  with,          // params = defaults (all of them), body
  break_,
  continue_,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Stmt {
  Stmt(StmtKind kind, int line) : kind(kind), line(line) {}

  StmtKind kind;
  int line;
  std::string name;
  Str text;
  ExprPtr target;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
  std::vector<std::string> params;
  std::vector<ExprPtr> defaults;
};

}  // namespace pagoda::jinja
