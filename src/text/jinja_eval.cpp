// The statements of Evaluator.
#include "text/jinja_eval.h"

#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {

void Scope::set(std::string_view name, const Value& value) {
  for (auto& [existing, old] : variables) {
    if (existing == name) {
      old = value;
      return;
    }
  }
  variables.emplace_back(name, value);
}

const Value* Scope::find(std::string_view name) const {
  for (const auto& [existing, value] : variables) {
    if (existing == name) return &value;
  }
  return nullptr;
}

// A scope of its own for as long as it lives.
class Evaluator::InScope {
 public:
  InScope(Evaluator& evaluator, Scope* parent)
      : evaluator_(evaluator), back_to_(evaluator.scope_), scope_(evaluator.enter(parent)) {
    evaluator.scope_ = scope_;
  }
  ~InScope() { evaluator_.leave(scope_, back_to_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Evaluator& evaluator_;
  Scope* back_to_;
  Scope* scope_;
};

Evaluator::Evaluator(Runtime& rt, const Scope& globals) : rt_(rt), globals_(globals) {}

Scope* Evaluator::enter(Scope* parent) {
  Scope* scope;
  if (free_scopes_.empty()) {
    rt_.charge(sizeof(Scope) + 4 * sizeof(std::pair<std::string_view, Value>));
    scope = &scopes_.emplace_back();
  } else {
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Evaluator::leave(Scope* scope, Scope* back_to) {
  scope_ = back_to;
  if (scope->captured) return;
  scope->variables.clear();
  free_scopes_.push_back(scope);
}

Str Evaluator::render(const Body& body) {
  Builder out(rt_);
  out_ = &out;
  const InScope top(*this, nullptr);
  execute(body);
  out_ = nullptr;
  return out.text();
}

Evaluator::Flow Evaluator::execute(const Body& body) {
  const Depth depth(rt_);
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute(const Stmt& stmt) {
  rt_.step();
  rt_.set_line(stmt.line);
  switch (stmt.kind) {
    case StmtKind::text:
      out_->append(stmt.text);
      break;
    case StmtKind::print:
      print(out_, rt_, eval(*stmt.expr));
      break;
    case StmtKind::if_:
      return execute_if(stmt);
    case StmtKind::for_:
      return execute_for(stmt);
    case StmtKind::set:
      assign(*stmt.target, eval(*stmt.expr));
      break;
    case StmtKind::set_block:
      execute_set_block(stmt);
      break;
    case StmtKind::macro:
      scope_->set(stmt.name, make_macro(stmt));
      break;
    case StmtKind::call_block:
      execute_call_block(stmt);
      break;
    case StmtKind::filter_block: {
      const Value text = capture(stmt.body);
      print(out_, rt_, apply_steps(text, stmt.expr->steps, stmt.expr->steps.size()));
      break;
    }
    case StmtKind::scope: {
      const InScope inner(*this, scope_);
      return execute(stmt.body);
    }
    case StmtKind::with:
      return execute_with(stmt);
    case StmtKind::break_:
      return Flow::break_loop;
    case StmtKind::continue_:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Evaluator::Flow Evaluator::execute_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (truth(eval(*branch.condition))) return execute(branch.body);
  }
  return execute(stmt.otherwise);
}

// The items that the loop goes through, those that its condition refuses left out. A copy: the
// body may append to the list.
List* Evaluator::loop_items(const Stmt& stmt) {
  const Value sequence = eval(*stmt.expr);
  List* kept = rt_.list();
  for (const Value& item : items_of(rt_, sequence).items) {
    if (stmt.condition != nullptr) {
      const InScope inner(*this, scope_);
      assign(*stmt.target, item);
      if (!truth(eval(*stmt.condition))) continue;
    }
    rt_.push(kept, item);
  }
  return kept;
}

Evaluator::Flow Evaluator::execute_for(const Stmt& stmt) {
  Loop* loop = rt_.loop();
  loop->items = loop_items(stmt);
  if (loop->items->items.empty()) {
    const InScope inner(*this, scope_);
    return execute(stmt.otherwise);
  }
  Flow flow = Flow::next;
  for (size_t i = 0; i < loop->items->items.size() && flow != Flow::break_loop; ++i) {
    loop->index0 = static_cast<int64_t>(i);
    const InScope inner(*this, scope_);
    scope_->set("loop", Value(loop));
    assign(*stmt.target, loop->items->items[i]);
    flow = execute(stmt.body);
  }
  return Flow::next;
}

void Evaluator::execute_set_block(const Stmt& stmt) {
  Value value = capture(stmt.body);
  if (stmt.expr != nullptr) value = apply_steps(value, stmt.expr->steps, stmt.expr->steps.size());
  assign(*stmt.target, value);
}

Evaluator::Flow Evaluator::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const ExprPtr& expr : stmt.defaults) values.push_back(eval(*expr));
  const InScope inner(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) scope_->set(stmt.params[i], values[i]);
  return execute(stmt.body);
}

Value Evaluator::capture(const Body& body) {
  Builder text(rt_);
  Builder* const outer = std::exchange(out_, &text);
  {
    const InScope inner(*this, scope_);
    execute(body);
  }
  out_ = outer;
  return text.finish();
}

Value Evaluator::make_macro(const Stmt& stmt) {
  Callable* macro = rt_.callable(stmt.name, nullptr);
  macro->macro = &stmt;
  macro->scope = scope_;
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent) {
    scope->captured = true;
  }
  return Value(macro);
}

void Evaluator::execute_call_block(const Stmt& stmt) {
  const auto& steps = stmt.expr->steps;
  const Value callee = apply_steps(eval(*stmt.expr->args[0]), steps, steps.size() - 1);
  Args args = arguments(*steps.back());
  args.named.emplace_back("caller", make_macro(stmt));
  print(out_, rt_, call(callee, args));
}

Value Evaluator::call_macro(const Callable& macro, const Args& args) {
  const Depth depth(rt_);
  Builder text(rt_);
  Builder* const outer = std::exchange(out_, &text);
  {
    const InScope inner(*this, macro.scope);
    bind_parameters(*macro.macro, args);
    execute(macro.macro->body);
  }
  out_ = outer;
  return text.finish();
}

// Positional, then named, then default; what is over goes into varargs and kwargs.
void Evaluator::bind_parameters(const Stmt& macro, const Args& args) {
  const auto& params = macro.params;
  std::vector<const Value*> given(params.size(), nullptr);
  List* varargs = rt_.list();
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < params.size()) {
      given[i] = &args.positional[i];
    } else {
      rt_.push(varargs, args.positional[i]);
    }
  }
  Dict* kwargs = rt_.dict();
  for (const auto& [name, value] : args.named) {
    size_t i = 0;
    while (i < params.size() && params[i] != name) ++i;
    if (i < params.size()) {
      if (given[i] != nullptr) rt_.fail("{} got its argument '{}' twice", macro.name, name);
      given[i] = &value;
    } else if (name == "caller") {
      scope_->set("caller", value);
    } else {
      rt_.put(kwargs, rt_.str(name), value);
    }
  }
  scope_->set("varargs", Value(varargs, Type::tuple));
  scope_->set("kwargs", Value(kwargs));
  const size_t first_default = params.size() - macro.defaults.size();
  for (size_t i = 0; i < params.size(); ++i) {
    Value value;
    if (given[i] != nullptr) {
      value = *given[i];
    } else if (i >= first_default) {
      value = eval(*macro.defaults[i - first_default]);
    } else {
      value = rt_.undefined(fmt::format("parameter '{}' was not provided", params[i]));
    }
    scope_->set(params[i], value);
  }
}

void Evaluator::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::name) return scope_->set(target.name, value);
  if (target.kind == ExprKind::attribute) {
    const Value object = eval(*target.args[0]);
    if (!object.is(Type::name_space)) {
      rt_.fail("only a namespace's attributes can be set, not those of {}", type_name(object));
    }
    return rt_.put(&object.as_dict(), rt_.str(target.name), value);
  }
  const List& items = items_of(rt_, value);
  if (items.items.size() != target.args.size()) {
    rt_.fail("{} names for {} values", target.args.size(), items.items.size());
  }
  for (size_t i = 0; i < target.args.size(); ++i) assign(*target.args[i], items.items[i]);
}

}  // namespace pagoda::jinja
