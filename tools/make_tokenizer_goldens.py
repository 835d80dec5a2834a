#!/usr/bin/env python3
"""Makes tests/golden/tokenizer_{smollm2,gemma3}.json: strings and the ids that Hugging Face `tokenizers` gives them.

The reference tokenizers are built from the vocabularies in the GGUF files, as the models' own tokenizer.json
files are built: SmolLM2 as byte-level BPE behind Digits(individual_digits) and ByteLevel; Gemma 3 as BPE with
byte fallback, its merges derived from the scores as in transformers' convert_slow_tokenizer.generate_merges.

    pip install tokenizers gguf
    tools/make_tokenizer_goldens.py [--models DIR]            writes both golden files
    tools/make_tokenizer_goldens.py --ids-of FILE --model M    prints the ids of a file's text as JSON

Each case is {"text", "ids", "markup_ids"}: ids with no control token recognised (plain text), and, where they
differ, with control tokens recognised (a template's markup).
"""
import argparse
import json
import os
import pathlib
import sys

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
MODELS = {"smollm2": "smollm2-135m.gguf", "gemma3": "gemma-3-270m.gguf"}


def read_field(reader, name):
    return reader.fields["tokenizer.ggml." + name].contents()


def byte_level_reference(reader, with_control):
    tokens, kinds = read_field(reader, "tokens"), read_field(reader, "token_type")
    merges = [tuple(m.split(" ", 1)) for m in read_field(reader, "merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    if with_control:
        tokenizer.add_special_tokens(
            [AddedToken(t, normalized=False, special=True) for t, k in zip(tokens, kinds) if k == CONTROL])
    return tokenizer


def generate_merges(vocabulary, scores, left_out):
    merges = []
    for piece, score in scores.items():
        if piece in left_out:
            continue
        local = []
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary and left not in left_out and right not in left_out:
                local.append((left, right, score))
        merges.extend(sorted(local, key=lambda m: (vocabulary[m[0]], vocabulary[m[1]])))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [(left, right) for left, right, _ in merges]


def sentencepiece_reference(reader, with_control):
    tokens, kinds = read_field(reader, "tokens"), read_field(reader, "token_type")
    scores = read_field(reader, "scores")
    # The converter to GGUF wrote the markers of user-defined runs of spaces as spaces.
    tokens = [t.replace(" ", "\u2581") if k == USER_DEFINED else t for t, k in zip(tokens, kinds)]
    vocabulary = {t: i for i, t in enumerate(tokens)}
    left_out = {t for t, k in zip(tokens, kinds) if k in (CONTROL, UNKNOWN, BYTE)}
    merges = generate_merges(vocabulary, dict(zip(tokens, scores)), left_out)
    unknown = tokens[read_field(reader, "unknown_token_id")]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    # A run of spaces is found as SentencePiece finds it: longest first, before anything merges.
    added = [AddedToken(t.replace("\u2581", " "), normalized=False, special=False)
             for t, k in zip(tokens, kinds) if k == USER_DEFINED and "\u2581" not in t]
    tokenizer.add_tokens(added)
    spaces = [AddedToken(t, normalized=True, special=False)
              for t, k in zip(tokens, kinds) if k == USER_DEFINED and "\u2581" in t]
    tokenizer.add_tokens(spaces)
    if with_control:
        tokenizer.add_special_tokens(
            [AddedToken(t, normalized=False, special=True) for t, k in zip(tokens, kinds) if k == CONTROL])
    return tokenizer


def build_reference(path, with_control):
    reader = GGUFReader(path)
    byte_level = read_field(reader, "model") == "gpt2"
    return (byte_level_reference if byte_level else sentencepiece_reference)(reader, with_control)


WORDS = ["", "a", " a", "  a", "\na", "a\u0000b", " ", "\t", "\n", "\r\n", "Hello", "Hello world", " Hello world",
         "Hello, y'all! How are you?", "I'm, you're, he's, we'll, they've, I'd, don't", "I'M YOU'RE HE'S WE'LL",
         "it\u2019s \u201cquoted\u201d \u2014 and \u2026", "ALLCAPS lowercase CamelCase snake_case kebab-case",
         "antidisestablishmentarianism", "supercalifragilisticexpialidocious floccinaucinihilipilification"]
NUMBERS = ["0", "7", "42", "123", "1234", "3.14159", "1,000,000", "2024-11-30T10:20:30Z", " 1 2  3   4", "a1b2c3",
           "1st 2nd 3rd", "0x1F 0b1010 1e-9", "+1 (555) 010-9999", "\u0661\u0662\u0663", "\u0967\u0968\u0969",
           "\u2160\u2161\u2162", "x\u00b2 + y\u00b3 = \u00bd", "\uff11\uff12\uff13", "v1.2.3-rc4", "12:34:56.789"]
CODE = ["def f(x):\n    return x ** 2\n", "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}",
        "if x == None:\n\n        pass", "#include <vector>\nint main() { return 0; }", "<div class=\"a\"><b>bold</b></div>",
        "{\"key\": [1, 2.5, null, true], \"s\": \"\\u00e9\\n\"}", "SELECT * FROM t WHERE a >= 10 AND b <> 'x';",
        "https://example.com/path?q=1&r=%20#frag", "user@example.org", "C:\\Users\\name\\file.txt", "$HOME/.config/x",
        "a && b || !c ? d : e", "x->y::z<T&&>()", "/* comment */ // line", "\\frac{a}{b} \\leq \\sum_{i=0}^{n}",
        "git commit -m 'fix: it\\'s broken'", "!!!???...;;;:::", "=======", "-------->", "<<<<<<< HEAD",
        "```python\nprint('hi')\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "# Title\n\n* item\n  * nested\n\n1. one"]
SCRIPTS = ["caf\u00e9 na\u00efve co\u00f6perate", "cafe\u0301 nai\u0308ve", "Stra\u00dfe \u00c4\u00d6\u00dc",
           "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
           "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u4e2d\u6587\u548cEnglish\u6df7\u5408123", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c",
           "\u30ab\u30bf\u30ab\u30ca \uff76\uff80\uff76\uff85", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
           "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
           "Ti\u1ebfng Vi\u1ec7t c\u00f3 d\u1ea5u", "\u1781\u17d2\u1798\u17c2\u179a", "\u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8", "\u0540\u0561\u0575\u0565\u0580\u0565\u0576",
           "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd", "\u12a0\u121b\u122d\u129b", "\u13e3\u13b3\u13a9", "\U00010348\U00010330\U00010334", "\U00020000\U0002A6D6", "z\u0351\u036b\u0343a\u0321l\u0488g\u0322o"]
EMOJI = ["\U0001F600", "\U0001F600\U0001F601 \U0001F602", "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\U0001F44D\U0001F3FD",
         "\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7", "\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001F3F4\u200D\u2620\ufe0f", "a\u200Db\u200Cc", "\ufeffBOM", "\U0001FAE8\U0001FADF",
         "\u2192\u21d2\u2200\u2203\u2205\u2208", "\u20ac\u00a3\u00a5\u20bf \u00a9\u00ae\u2122", "\u2581", "\u2581\u2581a", " \u2581x", "\ufffd", "\ue000\uf8ff", "\u2028\u2029\u0085x", "\u00a0a\u00a0\u00a0b\u3000c"]
RUNS = [c * n for c in "a \n9!-=" for n in (2, 3, 5, 8, 13, 33, 70)] + ["\u4f60" * 40, "\U0001F600" * 20, "ab" * 40, "\t" * 9,
        " \n" * 6, "\n " * 6, "\r\n" * 5, "a  b   c    d     e", "x \t y\t\tz", "   \n\n   x", "trailing   ", "\n\n\n", " \n\n\t x",
        "aa aaa aaaa aaaaa", "<" * 20, "haha" * 12, "\u0301" * 6, "\u0000" * 3, "\u0001\u0004\u001f\u007f", "1" * 20 + "a" * 20 + " " * 20]
CONTROL_TEXT = ["<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|endoftext|>b", "<end_of_turn>", "<start_of_turn>model\n",
                "<bos>", "<eos> <pad><unk>", "x <unused12> y", "<|im_end", "<|im_end|>|>", "<<|im_end|>>", "<0x41>", "<0x0A> byte",
                "<s>[INST] hi [/INST]</s>", "<table><tr><td>1</td></tr></table>", "<h1>T</h1>\n<code>x</code>", "<start_of_image>",
                "[multimodal]", "<repo_name>a<file_sep>b", "<unused0><unused1>", " <|im_start|> ", "<start_of_turn>user\n\u4f60\u597d<end_of_turn>\n"]


def mixed_cases():
    """Pairs of neighbours that meet in ways a list of single strings does not."""
    joints = ["a", "Z", "7", "12", " ", "  ", "\n", "\t", "'s", "'", "!", "_", "\u00e9", "\u0301", "\u4f60", "\U0001F600", "\u00a0", "<b>", ".", "\r"]
    return [a + b + c for i, a in enumerate(joints) for j, b in enumerate(joints) if (c := joints[(i * 7 + j * 3) % len(joints)]) and (i + j) % 2 == 0]


def make_cases(path):
    plain, markup = build_reference(path, False), build_reference(path, True)
    texts = list(dict.fromkeys(WORDS + NUMBERS + CODE + SCRIPTS + EMOJI + RUNS + CONTROL_TEXT + mixed_cases()))
    cases = []
    for text in texts:
        ids, markup_ids = plain.encode(text).ids, markup.encode(text).ids
        cases.append({"text": text, "ids": ids} | ({"markup_ids": markup_ids} if markup_ids != ids else {}))
    return cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default_models = os.environ.get("PAGODA_MODELS", pathlib.Path.home() / ".cache/pagoda/models")
    parser.add_argument("--models", type=pathlib.Path, default=default_models)
    parser.add_argument("--model", choices=MODELS, default="smollm2")
    parser.add_argument("--ids-of", type=pathlib.Path)
    arguments = parser.parse_args()
    models_dir = pathlib.Path(arguments.models)
    if arguments.ids_of:
        text = arguments.ids_of.read_bytes().decode("utf-8")
        json.dump(build_reference(models_dir / MODELS[arguments.model], False).encode(text).ids, sys.stdout)
        return
    golden = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    for name, file in MODELS.items():
        cases = make_cases(models_dir / file)
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        (golden / f"tokenizer_{name}.json").write_text(f'{{"model":"{file}","cases":[\n{lines}\n]}}\n')
        print(f"{name}: {len(cases)} cases")


if __name__ == "__main__":
    main()
