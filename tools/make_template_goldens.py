#!/usr/bin/env python3
"""Makes tests/golden/templates.json: what Python's jinja2 renders, for our interpreter to equal.

The reference is jinja2's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop
controls, transformers' tojson, raise_exception, strftime_now (at a fixed time) and the generation
tag: what Hugging Face's apply_chat_template uses. Inputs lie beside this script:
  template_cases/*.jinja   templates in the shapes that public models use (written for this project)
  template_cases/conversations.json, expressions.txt (one template a line, \\n for newlines)

Each golden is {name, template, messages | null, tools, kwargs, add_generation_prompt, text} or has
`error` ("syntax", "runtime", "raised") in place of `text`. Needs jinja2 3.1.

  python3 tools/make_template_goldens.py [--models FOLDER]   # adds the templates of the GGUF files
"""
import argparse
import datetime
import json
import pathlib

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "template_cases"
OUT = HERE.parent / "tests" / "golden" / "templates.json"
NOW = datetime.datetime(2026, 7, 4, 12, 30, 5)
BOS, EOS = "<s>", "</s>"


class Generation(Extension):
    """The body of {% generation %} passes through; its variables stay inside, as transformers has it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _pass(self, context, caller):
        return caller()


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


ENV = environment()


def golden(name, template, messages=None, tools=None, kwargs=None, add_generation_prompt=True):
    case = {"name": name, "template": template, "messages": messages, "tools": tools,
            "kwargs": kwargs or {}, "add_generation_prompt": add_generation_prompt}
    try:
        compiled = ENV.from_string(template)
    except jinja2.TemplateAssertionError:  # an unknown filter or test: we say so when it is reached
        return {**case, "error": "runtime"}
    except (jinja2.TemplateSyntaxError, SyntaxError):
        return {**case, "error": "syntax"}
    try:
        case["text"] = compiled.render(
            messages=prepared(messages or []), tools=tools, documents=None,
            add_generation_prompt=add_generation_prompt, bos_token=BOS, eos_token=EOS,
            **(kwargs or {}))
    except Raised as error:
        case.update(error="raised", message=str(error))
    except Exception:
        case["error"] = "runtime"
    return case


def prepared(messages):
    """Arguments of tool calls as mappings, as every server does before it renders."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        for call in message.get("tool_calls") or []:
            arguments = call.get("function", {}).get("arguments")
            if isinstance(arguments, str):
                call["function"]["arguments"] = json.loads(arguments or "{}")
    return messages


def model_templates(folder):
    from gguf import GGUFReader
    for path in sorted(pathlib.Path(folder).glob("*.gguf")):
        field = GGUFReader(str(path)).fields.get("tokenizer.chat_template")
        if field is not None:
            (CASES / f"model-{path.stem}.jinja").write_bytes(bytes(field.parts[field.data[0]]))


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--models", help="folder of GGUF files whose templates are taken over first")
    models = options.parse_args().models
    if models:
        model_templates(models)
    goldens = []
    conversations = json.loads((CASES / "conversations.json").read_text())
    for path in sorted(CASES.glob("*.jinja")):
        template = path.read_bytes().decode()
        for conversation in conversations:
            goldens.append(golden(f"{path.stem}/{conversation['name']}", template,
                                  conversation["messages"], conversation.get("tools"),
                                  conversation.get("kwargs"), conversation.get("add_generation_prompt", True)))
    context = json.loads((CASES / "context.json").read_text())
    for number, line in enumerate((CASES / "expressions.txt").read_text().split("\n"), 1):
        if line and not line.startswith("## "):
            goldens.append(golden(f"expression/{number}", line.replace("\\N", "\n"), kwargs=context))
    shared = {}
    for case in goldens:  # each template, conversation and tool list once
        for key in ("template", "messages", "tools", "kwargs"):
            text = json.dumps(case[key], ensure_ascii=False)
            case[key] = shared.setdefault(key, {}).setdefault(text, len(shared[key]) if key in shared else 0)
    tables = {key: [json.loads(text) for text in table] for key, table in shared.items()}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in goldens)
    OUT.write_text('{"now": "%s", "bos_token": "%s", "eos_token": "%s",\n"shared": %s,\n"goldens": [\n%s\n]}\n' % (
        NOW.isoformat(), BOS, EOS, json.dumps(tables, ensure_ascii=False), lines))
    errors = sum("error" in case for case in goldens)
    print(f"{len(goldens)} goldens, {errors} of them errors, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
