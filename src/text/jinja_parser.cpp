#include "text/jinja_parser.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "base/error.h"
#include "text/jinja_expression_parser.h"

namespace pagoda::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class StatementParser {
 public:
  StatementParser(std::string_view source, int max_depth) : in_(tokenize(source), max_depth) {}

  Body run() {
    Body body = statements({});
    if (in_.peek().kind != TokenKind::end) in_.fail("text or the start of a tag");
    return body;
  }

 private:
  // Statements up to one of the words in `ends`, which becomes the next token; with no ends, up to
  // the end of the template.
  Body statements(std::initializer_list<std::string_view> ends) {
    const ExpressionParser::Level level(in_);
    Body body;
    while (true) {
      const Token& token = in_.peek();
      if (token.kind == TokenKind::text) {
        auto text = std::make_unique<Stmt>(StmtKind::text, token.line);
        text->text.append(token.text, TextOrigin::markup);
        body.push_back(std::move(text));
        in_.next();
      } else if (token.kind == TokenKind::print_begin) {
        in_.next();
        auto print = std::make_unique<Stmt>(StmtKind::print, token.line);
        print->expr = in_.expression_or_tuple();
        in_.expect(TokenKind::print_end, "'}}'");
        body.push_back(std::move(print));
      } else if (token.kind == TokenKind::block_begin) {
        in_.next();
        for (const std::string_view end : ends) {
          if (in_.at_name(end)) return body;
        }
        body.push_back(statement());
        in_.expect(TokenKind::block_end, "'%}'");
      } else {
        if (ends.size() > 0) in_.fail(fmt::format("{{% {} %}}", *(ends.end() - 1)));
        return body;
      }
    }
  }

  // The body of a block statement, "%}" before it and the end word behind it.
  Body block(std::string_view end) {
    in_.expect(TokenKind::block_end, "'%}'");
    Body body = statements({end});
    in_.expect_name(end);
    return body;
  }

  StmtPtr make(StmtKind kind) const { return std::make_unique<Stmt>(kind, in_.peek().line); }

  StmtPtr statement() {
    if (in_.at_name("if")) return if_statement();
    if (in_.at_name("for")) return for_statement();
    if (in_.at_name("set")) return set_statement();
    if (in_.at_name("macro")) return macro_statement();
    if (in_.at_name("call")) return call_statement();
    if (in_.at_name("with")) return with_statement();
    if (in_.at_name("filter")) {
      StmtPtr node = make(StmtKind::filter_block);
      in_.next();
      node->expr = in_.filter_chain();
      node->body = block("endfilter");
      return node;
    }
    if (in_.at_name("generation")) {
      StmtPtr node = make(StmtKind::scope);
      in_.next();
      node->body = outside_loops([&] { return block("endgeneration"); });
      return node;
    }
    if (in_.at_name("break") || in_.at_name("continue")) {
      if (loops_ == 0) in_.fail("a loop around this word");
      StmtPtr node = make(in_.at_name("break") ? StmtKind::break_ : StmtKind::continue_);
      in_.next();
      return node;
    }
    in_.fail("a statement that chat templates use (if, for, set, macro...)");
  }

  StmtPtr if_statement() {
    StmtPtr node = make(StmtKind::if_);
    in_.next();
    while (true) {
      Branch branch;
      branch.condition = in_.expression_or_tuple(false);
      in_.expect(TokenKind::block_end, "'%}'");
      branch.body = statements({"elif", "else", "endif"});
      node->branches.push_back(std::move(branch));
      if (!in_.skip_name("elif")) break;
    }
    if (in_.skip_name("else")) {
      node->otherwise = block("endif");
    } else {
      in_.expect_name("endif");
    }
    return node;
  }

  StmtPtr for_statement() {
    StmtPtr node = make(StmtKind::for_);
    in_.next();
    node->target = in_.assignment_target(false);
    in_.expect_name("in");
    node->expr = in_.expression_or_tuple(false);
    if (in_.skip_name("if")) node->condition = in_.expression();
    if (in_.at_name("recursive")) in_.fail("a loop that is not recursive (not supported)");
    in_.expect(TokenKind::block_end, "'%}'");
    ++loops_;
    node->body = statements({"else", "endfor"});
    --loops_;
    if (in_.skip_name("else")) {
      node->otherwise = block("endfor");
    } else {
      in_.expect_name("endfor");
    }
    return node;
  }

  StmtPtr set_statement() {
    StmtPtr node = make(StmtKind::set);
    in_.next();
    node->target = in_.assignment_target(true);
    if (in_.skip_op("=")) {
      node->expr = in_.expression_or_tuple();
      return node;
    }
    node->kind = StmtKind::set_block;
    if (in_.skip_op("|")) node->expr = in_.filter_chain();
    node->body = block("endset");
    return node;
  }

  StmtPtr macro_statement() {
    StmtPtr node = make(StmtKind::macro);
    in_.next();
    node->name = in_.identifier();
    in_.parameters(&node->params, &node->defaults);
    node->body = outside_loops([&] { return block("endmacro"); });
    if (in_.peek().kind == TokenKind::name) in_.next();  // endmacro may repeat the name
    return node;
  }

  StmtPtr call_statement() {
    StmtPtr node = make(StmtKind::call_block);
    in_.next();
    if (in_.at_op("(")) in_.parameters(&node->params, &node->defaults);
    node->name = "caller";
    node->expr = in_.expression();
    if (node->expr->kind != ExprKind::postfix || node->expr->steps.back()->kind != ExprKind::call) {
      in_.fail("a call of a macro in {% call %}");
    }
    node->body = outside_loops([&] { return block("endcall"); });
    return node;
  }

  StmtPtr with_statement() {
    StmtPtr node = make(StmtKind::with);
    in_.next();
    while (in_.peek().kind != TokenKind::block_end) {
      node->params.push_back(in_.identifier());
      in_.expect_op("=");
      node->defaults.push_back(in_.expression());
      if (!in_.skip_op(",")) break;
    }
    node->body = block("endwith");
    return node;
  }

  // A macro inside a loop cannot break out of it.
  template <typename F>
  Body outside_loops(F parse_body) {
    const int loops = std::exchange(loops_, 0);
    Body body = parse_body();
    loops_ = loops;
    return body;
  }

  ExpressionParser in_;
  int loops_ = 0;  // around the current statement
};

}  // namespace

Body parse(std::string_view source, int max_depth) {
  return StatementParser(source, max_depth).run();
}

}  // namespace pagoda::jinja
