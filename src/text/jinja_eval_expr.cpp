// The expressions of Evaluator.
#include "text/jinja_eval.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {

Value Evaluator::eval(const Expr& expr) {
  const Depth depth(rt_);
  rt_.step();
  rt_.set_line(expr.line);
  switch (expr.kind) {
    case ExprKind::literal:
      return expr.value;
    case ExprKind::name:
      return eval_name(expr);
    case ExprKind::list:
    case ExprKind::tuple:
    case ExprKind::dict:
      return eval_container(expr);
    case ExprKind::arithmetic:
      return eval_arithmetic(expr);
    case ExprKind::concat:
      return eval_concat(expr);
    case ExprKind::compare:
      return eval_compare(expr);
    case ExprKind::logical_and:
    case ExprKind::logical_or:
      return eval_logical(expr);
    case ExprKind::logical_not:
      return Value::boolean(!truth(eval(*expr.args[0])));
    case ExprKind::negative:
      return negate(rt_, eval(*expr.args[0]));
    case ExprKind::positive:
      return arithmetic(rt_, Op::add, Value::integer(0), eval(*expr.args[0]));
    case ExprKind::conditional:
      if (truth(eval(*expr.args[0]))) return eval(*expr.args[1]);
      return expr.args[2] == nullptr ? rt_.undefined("the condition was false and there is no else")
                                     : eval(*expr.args[2]);
    case ExprKind::postfix:
      return eval_postfix(expr);
    default:
      rt_.fail("this expression cannot stand here");
  }
}

Value Evaluator::eval_name(const Expr& expr) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    rt_.step();
    if (const Value* value = scope->find(expr.name)) return *value;
  }
  if (const Value* value = globals_.find(expr.name)) return *value;
  if (const Function function = find_global(expr.name)) {
    return Value(rt_.callable(expr.name, function));
  }
  return rt_.undefined(fmt::format("'{}' is undefined", expr.name));
}

Value Evaluator::eval_container(const Expr& expr) {
  if (expr.kind == ExprKind::dict) {
    Dict* dict = rt_.dict();
    for (size_t i = 0; i < expr.args.size(); i += 2) {
      const Value key = eval(*expr.args[i]);
      rt_.put(dict, key, eval(*expr.args[i + 1]));
    }
    return Value(dict);
  }
  List* list = rt_.list();
  for (const ExprPtr& arg : expr.args) rt_.push(list, eval(*arg));
  return Value(list, expr.kind == ExprKind::list ? Type::list : Type::tuple);
}

// A run of string additions is built in one buffer: 'a' + b + 'c' copies each piece once.
Value Evaluator::eval_arithmetic(const Expr& expr) {
  Value left = eval(*expr.args[0]);
  for (size_t i = 0; i < expr.ops.size();) {
    if (expr.ops[i] != Op::add || !left.is_string()) {
      left = arithmetic(rt_, expr.ops[i], left, eval(*expr.args[i + 1]));
      ++i;
      continue;
    }
    Builder text(rt_);
    text.append(left.as_str());
    for (; i < expr.ops.size() && expr.ops[i] == Op::add; ++i) {
      const Value right = eval(*expr.args[i + 1]);
      if (!right.is_string()) return arithmetic(rt_, Op::add, left, right);
      text.append(right.as_str());
    }
    left = text.finish();
  }
  return left;
}

Value Evaluator::eval_concat(const Expr& expr) {
  Builder text(rt_);
  for (const ExprPtr& arg : expr.args) print(&text, rt_, eval(*arg));
  return text.finish();
}

Value Evaluator::eval_compare(const Expr& expr) {
  Value left = eval(*expr.args[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = eval(*expr.args[i + 1]);
    if (!compare(rt_, expr.ops[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

// As in Python, the value of `and` and `or` is that of the operand that decided.
Value Evaluator::eval_logical(const Expr& expr) {
  const bool stop_at = expr.kind == ExprKind::logical_or;
  Value value;
  for (const ExprPtr& arg : expr.args) {
    value = eval(*arg);
    if (truth(value) == stop_at) break;
  }
  return value;
}

Value Evaluator::eval_postfix(const Expr& expr) {
  return apply_steps(eval(*expr.args[0]), expr.steps, expr.steps.size());
}

Value Evaluator::apply_steps(Value value, const std::vector<ExprPtr>& steps, size_t end) {
  for (size_t i = 0; i < end; ++i) {
    rt_.step();
    rt_.set_line(steps[i]->line);
    value = apply_step(value, *steps[i]);
  }
  return value;
}

Value Evaluator::apply_step(const Value& value, const Expr& step) {
  switch (step.kind) {
    case ExprKind::attribute:
      return get_attribute(rt_, value, step.name);
    case ExprKind::item:
      return get_item(rt_, value, eval(*step.args[0]));
    case ExprKind::slice: {
      const auto part = [&](size_t i) {
        return step.args[i] == nullptr ? Value::none() : eval(*step.args[i]);
      };
      const SliceBounds bounds = {part(0), part(1), part(2)};
      return get_slice(rt_, value, bounds);
    }
    case ExprKind::call:
      return call(value, arguments(step));
    case ExprKind::filter: {
      const Function filter = find_filter(step.name);
      if (filter == nullptr) rt_.fail("there is no filter '{}'", step.name);
      return filter(rt_, value, arguments(step));
    }
    default: {
      const Test test = find_test(step.name);
      if (test == nullptr) rt_.fail("there is no test '{}'", step.name);
      return Value::boolean(test(rt_, value, arguments(step)) != step.negated);
    }
  }
}

Args Evaluator::arguments(const Expr& call) {
  Args args;
  const size_t num_positional = call.args.size() - call.keywords.size();
  for (size_t i = 0; i < num_positional; ++i) args.positional.push_back(eval(*call.args[i]));
  for (size_t i = 0; i < call.keywords.size(); ++i) {
    args.named.emplace_back(call.keywords[i], eval(*call.args[num_positional + i]));
  }
  return args;
}

Value Evaluator::call(const Value& callee, const Args& args) {
  if (callee.is_undefined()) fail_undefined(rt_, callee);
  if (!callee.is(Type::callable)) rt_.fail("{} cannot be called", type_name(callee));
  const Callable& function = callee.as_callable();
  if (function.macro != nullptr) return call_macro(function, args);
  return function.function(rt_, function.self, args);
}

}  // namespace pagoda::jinja
