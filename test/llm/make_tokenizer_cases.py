#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes test/llm/tokenizer_cases.json: small tokenizers, texts, and what the libraries make of them; and the seeds of
test/fuzz/tokenizer_fuzz.

    test/llm/make_tokenizer_cases.py    (needs: pip install tokenizers==0.23.* sentencepiece)

Each case is a tokenizer.json (or a sentencepiece model in base64) with questions: a text (or bytes in base64, where
they are not UTF-8), whether special tokens are added and parsed, the ids; and lists of ids with their text.
"""
import base64
import json
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors)

OUT = pathlib.Path(__file__).with_name("tokenizer_cases.json")
TEXTS = [
    "", " ", "  a", "Hello world", " Hello  world! ", "don't can't I'LL 'ſ", "a1b22 333 4444", "naïve café Äpfel",
    "e\u0301a\u0302", "你好 世界", "ひらがなカタカナ", "привет", "🚀 😶‍🌫️ é", "tabs\tand\nlines\r\n\n  x", "</s>hi<s> there",
    "[MASK] a [MASK]b", "<x><xy>", "ＷＩＤＴＨ ﬁne Ⅷ", "\u00a0nbsp\u3000wide", "aaaa bbbb abab", "ab ab  abc",
    "unknown: ₿\u0378", "▁meta▁▁space", "A-B_c...!?", "x" * 120, "<0x41>", "\u1100\u1161\u11a8각", "İI ΣΑΣ",
]
REGEX_TEXTS = TEXTS + ["2²x ¼ a¹b½", "$1+2<3=`^`|~x.", "stST Å ﬅﬆ"]
NOT_UTF8 = [b"a\xffb", b"\xff", b"a \xff b", b"a\xe4\xbdb", b"\xf0\x9f\x9a", b"\xed\xa0\x80a", b"a\xef\xbf\xbd\xff",
            b"ab\xc3"]
LETTERS = [c for c in "abcdefghijklmnopqrstuvwxyzABHIL 0123456789.,!?'-<>/s▁"]


def bpe(pieces, merges, **options):
    vocab = {}
    prefix = len(options.get("continuing_subword_prefix", ""))
    for piece in pieces + [a + b[prefix:] for a, b in merges]:
        vocab.setdefault(piece, len(vocab))
    return models.BPE(vocab, merges, **options)


def byte_level(**options):
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "w"), ("o", "r"), ("Ġw", "or"), ("a", "b"),
              ("ab", "ab"), ("Ġ", "Ġ"), ("3", "3"), ("Ã", "¤"), ("'", "t"), ("Ġa", "b")]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet()) + ["Ġa"]
    return bpe(alphabet, merges, **options)


def characters(**options):
    merges = [("a", "b"), ("ab", "ab"), ("▁", "H"), ("l", "l"), ("▁", "▁"), ("o", "r"), ("1", "b")]
    return bpe(["<unk>"] + LETTERS + [f"<0x{i:02X}>" for i in range(256)], merges, **options)


def unigram(**options):
    vocab = [("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), ("b", -3.5), ("ab", -4.0), ("abab", -7.5), ("▁a", -3.2),
             ("l", -3.1), ("ll", -4.0), ("H", -5.0), ("e", -2.5), ("o", -2.5), ("▁Hello", -6.0), ("3", -4.0),
             ("33", -8.0), ("333", -12.0), ("é", -6.0), ("你", -7.0), ("你好", -9.0)]
    return models.Unigram(vocab, 0, options.get("byte_fallback", False))


def word_piece():
    words = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "##llo", "he", "a", "##b", "ab", "##ab", "x", "##x", "1",
             "##1", "!", ".", "don", "'", "t", "cafe", "你", "好", "i", "##i", "w", "##or", "##ld", "nai", "##ve", "ab",
             "##c"]
    return models.WordPiece({w: i for i, w in enumerate(dict.fromkeys(words))}, unk_token="[UNK]",
                            max_input_chars_per_word=100)


def make(model, normalizer=None, pre_tokenizer=None, decoder=None, post=None, tokens=()):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder:
        tokenizer.decoder = decoder
    for token in tokens:
        if token.special:
            tokenizer.add_special_tokens([token])
        else:
            tokenizer.add_tokens([token])
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def template(tokenizer):
    return processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=[
        ("<s>", tokenizer.token_to_id("<s>")), ("</s>", tokenizer.token_to_id("</s>"))])


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA2 = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                            decoders.Strip(" ", 1, 0)])
ENDS = [AddedToken("<s>", special=True, normalized=False), AddedToken("</s>", special=True, normalized=False)]


def hugging_face():
    plain = AddedToken("<x>", normalized=True)
    longer = AddedToken("<xy>", normalized=False)
    mask = AddedToken("[MASK]", special=True, lstrip=True, rstrip=True, single_word=True, normalized=False)
    pre = pre_tokenizers
    yield "gpt2", make(byte_level(), None, pre.ByteLevel(add_prefix_space=False), decoders.ByteLevel(), None, ENDS)
    yield "gpt2 with prefix", make(byte_level(), None, pre.ByteLevel(add_prefix_space=True), decoders.ByteLevel(),
                                   None, [plain, longer])
    yield "digits", make(byte_level(), None, pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel()]),
                         decoders.ByteLevel())
    yield "llama3", make(byte_level(ignore_merges=True), None, pre.Sequence(
        [pre.Split(Regex(LLAMA3), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]),
        decoders.ByteLevel(), template, ENDS)
    yield "qwen", make(byte_level(), normalizers.NFC(), pre.Sequence(
        [pre.Split(Regex(LLAMA3.replace("{1,3}", "")), "isolated"), pre.ByteLevel(False, use_regex=False)]),
        decoders.ByteLevel(), None, [longer, plain])
    yield "falcon", make(byte_level(), None, pre.Sequence(
        [pre.Punctuation("contiguous"), pre.ByteLevel(False), pre.Digits(False),
         pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), decoders.ByteLevel())
    yield "llama2", make(characters(unk_token="<unk>", byte_fallback=True, fuse_unk=True), normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None, LLAMA2, template, ENDS)
    yield "unknown fused", make(characters(unk_token="<unk>", fuse_unk=True), None, pre.Metaspace("▁", "first"),
                                decoders.Metaspace("▁", "first"), None, [plain, mask])
    yield "unknown dropped", make(characters(), normalizers.Lowercase(), pre.Metaspace("▁", "never", split=False),
                                  decoders.Metaspace("▁", "never"), None, [plain, mask])
    yield "affixes", make(bpe(["<unk>", "a", "b", "##a", "##b", "a</w>", "b</w>", "##b</w>", "##a</w>", "##ab</w>"],
                              [("##a", "##b</w>"), ("a", "##b"), ("ab", "##ab</w>")], unk_token="<unk>",
                              continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                          None, pre.WhitespaceSplit(), decoders.BPEDecoder("</w>"))
    yield "unigram", make(unigram(), normalizers.NFKC(), pre.Metaspace("▁", "always"),
                          decoders.Metaspace("▁", "always"), None, [AddedToken("</s>", special=True)])
    yield "unigram whole", make(unigram(), normalizers.Replace(Regex(r"\s+"), "▁"), None, decoders.Fuse())
    yield "bert", make(word_piece(), normalizers.BertNormalizer(), pre.BertPreTokenizer(),
                       decoders.WordPiece("##", True), lambda t: processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
                       [mask])
    yield "words", make(models.WordLevel({"<unk>": 0, "Hello": 1, "world": 2, "!": 3, "a": 4}, unk_token="<unk>"),
                        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]),
                        pre.Whitespace(), None, lambda t: processors.RobertaProcessing(("</s>", 3), ("<s>", 2)))
    yield "spaces along", make(characters(unk_token="<unk>"), None, pre.WhitespaceSplit(), None, None, [
        AddedToken("\n", lstrip=True, normalized=False), AddedToken("<x>", rstrip=True, normalized=False),
        AddedToken("\t", lstrip=True, rstrip=True, normalized=False), AddedToken(" ", rstrip=True, normalized=False)])
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    for behavior in behaviors:
        yield f"split {behavior}", make(characters(unk_token="<unk>"), normalizers.Nmt(), pre.Sequence(
            [pre.Split(Regex(r"\s+$|\d(?=\d)|(?<=a)b|ll"), behavior, invert=behavior == "removed"),
             pre.UnicodeScripts()]), decoders.Sequence([decoders.Fuse(), decoders.Strip("a", 2, 0)]))
    yield "ctc", make(characters(unk_token="<unk>"), None, pre.Sequence(
        [pre.CharDelimiterSplit("-"), pre.FixedLength(length=3), pre.Punctuation("merged_with_next")]),
        decoders.CTC("a", "▁", True))


def questions(tokenizer):
    for text in TEXTS:
        for special, parse in ((True, True), (False, True), (False, False)):
            tokenizer.encode_special_tokens = not parse
            ids = tokenizer.encode(text, add_special_tokens=special).ids
            yield {"text": text, "add": special, "parse": parse, "ids": ids}


def decodings(tokenizer):
    tokenizer.encode_special_tokens = False
    size = tokenizer.get_vocab_size()
    lists = [tokenizer.encode(text).ids for text in TEXTS[::3]]
    lists += [[(7 * i * i + 3 * k) % size for i in range(k)] for k in (1, 2, 9, 17)]
    for ids in lists:
        for skip in (True, False):
            yield {"ids": ids, "skip": skip, "text": tokenizer.decode(ids, skip_special_tokens=skip)}


PATTERNS = [
    LLAMA3, r"a|ab|abc", r"(?>a|ab)c|.", r"a++b|a", r"a*+", r"x*", r"(?:ab?){2,3}", r"(?:ab){2}?c?", r"a{,2}", r"a{2}+",
    r"^\s*|\s*$", r"^.", r".$", r"\A.|.\z", r"\b\w+\b", r"\Ba", r"(?<=a)b", r"(?<!a)b", r"(?<=ab|l)[a-z]",
    r"(?=(\d{3})+(?!\d))",
    r"(?i:é|σ|k|ss)", r"(?i)[a-c]+", r"(?i:[^a-c])+", r"[a-z&&[^aeiou]]+", r"[^\s&&[^\n]]+", r"[[:alpha:]&&[:upper:]]",
    r"[]a]+", r"[a\-z]+", r"[\w-]+", r"\p{Lu}|\p{^L}", r"\P{L}+?", r"\p{Han}+|\p{Hiragana}", r"[\x61-\x{63}\u4F60]+",
    r"\R", r"\h+", r"(?m:.)+",
    r".+", "(?x: a b # ab\n )", r"(?:a|b)*?b", r"(a*)*b", r"(?:a?)+", r"(?#note)a", r"(?<name>a)b",
    r"\d{1,3}(?=(?:\d{3})*\b)", r"\s+(?!\S)|\s+", r"\p{N}{1,3}",
    r"\w+", r"[\w]+", r"[^\w]+", r"[\W]+", r"[[:word:]]+", r"[[:^word:]]+", r"\p{Word}+", r"[\p{Word}]+", r"\p{Punct}+",
    r"[\p{Punct}]+", r"[[:punct:]]+", r"\p{PosixPunct}+", r"(?i:\p{Lu})+", r"(?i:\p{Ll})+", r"(?i:\P{Lu})+",
    r"(?i:[\p{Lu}])+",
    r"(?i:[^\p{Lu}])+", r"(?i:[a[^b]])+", r"(?i:[A-Z&&[^aeiou]])+", r"(?i:[^\x{FB06}])+",
]


def regexes():
    for pattern in PATTERNS:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        yield {"pattern": pattern, "pieces": [[piece for piece, _ in split.pre_tokenize_str(text)]
                                              for text in REGEX_TEXTS]}


def sentence_pieces():
    corpus = [t.replace("\n", " ").replace("\r", " ") for t in TEXTS[3:] for _ in range(6)]
    kinds = {"unigram": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
             "bpe": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                         remove_extra_whitespaces=False, user_defined_symbols=["<x>", "ab"]),
             "suffix": dict(model_type="bpe", treat_whitespace_as_suffix=True, normalization_rule_name="identity"),
             "char": dict(model_type="char", add_dummy_prefix=False, normalization_rule_name="identity"),
             "rules": dict(model_type="char")}
    for name, options in kinds.items():
        with tempfile.TemporaryDirectory() as folder:
            if name == "rules":  # as nmt_nfkc has it, U+FFFD becomes a space
                pathlib.Path(folder, "rules.tsv").write_text("FFFD\t20\n41\t61\n")
                options["normalization_rule_tsv"] = f"{folder}/rules.tsv"
            sentencepiece.SentencePieceTrainer.train(
                model_prefix=f"{folder}/m", vocab_size=360, hard_vocab_limit=False, minloglevel=2, num_threads=1,
                character_coverage=0.99, sentence_iterator=iter(corpus), **options)
            model = pathlib.Path(folder, "m.model").read_bytes()
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(model)
        proto.trainer_spec.model_prefix = ""  # a temporary name
        proto.normalizer_spec.ClearField("normalization_rule_tsv")  # a temporary name
        if name != "rules":
            proto.normalizer_spec.precompiled_charsmap = b""  # large; compared by tools/fuzz-tokenizers
        model = proto.SerializeToString()
        library = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = [library.encode(t) for t in TEXTS]
        yield {"name": f"sentencepiece {name}", "model": base64.b64encode(model).decode(),
               "encode": [{"text": t, "add": True, "parse": True, "ids": i} for t, i in zip(TEXTS, ids)] +
                         [{"bytes": base64.b64encode(b).decode(), "add": True, "parse": True, "ids": library.encode(b)}
                          for b in NOT_UTF8],
               "decode": [{"ids": i, "skip": True, "text": library.decode(i)} for i in ids]}


EVERYTHING = {  # a seed with as many components as one file can hold
    "version": "1.0",
    "added_tokens": [dict(id=7, content="<s>", single_word=True, lstrip=True, rstrip=True, normalized=True,
                          special=True)],
    "normalizer": dict(type="Sequence", normalizers=[
        dict(type="NFKC"), dict(type="Lowercase"),
        dict(type="Replace", pattern={"Regex": "(?i:ab|c)+?(?=x)|[a-c&&[^b]]{1,3}"}, content="z"),
        dict(type="Strip", strip_left=True, strip_right=False), dict(type="Prepend", prepend="_")]),
    "pre_tokenizer": dict(type="Sequence", pretokenizers=[
        dict(type="Split", pattern={"Regex": r"'s|\p{L}++|\s+(?!\S)|(?<=a)\d"}, behavior="MergedWithNext",
             invert=False),
        dict(type="Metaspace", replacement="_", prepend_scheme="first"), dict(type="Digits", individual_digits=True),
        dict(type="UnicodeScripts"), dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True)]),
    "post_processor": dict(type="TemplateProcessing", pair=[], special_tokens={"<s>": dict(id="<s>", ids=[7],
        tokens=["<s>"])},
                           single=[{"SpecialToken": dict(id="<s>", type_id=0)}, {"Sequence": dict(id="A", type_id=0)}]),
    "decoder": dict(type="Sequence", decoders=[dict(type="ByteFallback"), dict(type="Fuse"),
                                               dict(type="Strip", content=" ", start=1, stop=2)]),
    "model": dict(type="BPE", unk_token="u", fuse_unk=True, byte_fallback=True, merges=[["a", "b"]],
                  vocab={"a": 0, "b": 1, "ab": 2, "u": 3, "<0x41>": 4}),
}


def write_seeds(cases):
    """Small files for test/fuzz/tokenizer_fuzz."""
    folder = OUT.parent.parent / "fuzz/corpus/tokenizer_fuzz"
    (folder / "everything.json").write_text(json.dumps(EVERYTHING, separators=(",", ":")))
    for case in cases:
        name = case["name"].replace(" ", "_")
        if name in ("bert", "words", "unigram", "affixes", "unigram_whole"):
            (folder / f"{name}.json").write_text(json.dumps(case["json"], separators=(",", ":")))
        if name == "sentencepiece_char":
            (folder / f"{name}.model").write_bytes(base64.b64decode(case["model"]))


def main():
    cases = []
    for name, tokenizer in hugging_face():
        tokenizer = Tokenizer.from_str(tokenizer.to_str())
        cases.append({"name": name, "json": json.loads(tokenizer.to_str()), "encode": list(questions(tokenizer)),
                      "decode": list(decodings(tokenizer))})
    cases += sentence_pieces()
    write_seeds(cases)
    cases.append({"name": "regular expressions", "texts": REGEX_TEXTS, "regexes": list(regexes())})
    lines = [json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in cases]
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(OUT, OUT.stat().st_size, "bytes,", len(cases), "tokenizers")


if __name__ == "__main__":
    main()
