#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tiny encoders and rerankers as folders of Hugging Face, and what transformers says with them.

    test/encoders/make_text_encoders.py [NAME…]

Needs test/requirements.txt. The weights are random with a fixed seed; see make_encoder.py for the vocabulary. Of
encoders answers.json has the mean of the hidden states and those of the first token, of rerankers what the head says
of pairs; each text and pair alone, and the script makes sure that padding changes nothing.
"""
import json
import math
import pathlib
import shutil
import sys

import make_encoder
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MOST = 40  # tokens of a text, and of a pair, as tokenizer_config.json says
QUERIES = ["how far is the comet", "ice", "two comets came from a cloud of ice and dust and light and far more of it"]
DOCUMENTS = [
    "the comet is far", "zebra", "ice and dust from two clouds", "light " * 30, "a comet is ice, dust & light: " * 3,
    "",
]  # fmt: skip
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "initializer_range": 0.4,
}  # fmt: skip
MODERN = {
    **SIZES, "num_hidden_layers": 4, "max_position_embeddings": 64, "local_attention": 8,
    "global_attn_every_n_layers": 3,
}  # fmt: skip


def tokenizer_of(kind):
    """BERT's frame of a text, RoBERTa's, or ModernBERT's, which has one type of tokens alone."""
    tokenizer = make_encoder.make_tokenizer()
    first, last = "[CLS]", "[SEP]"
    if kind == "roberta":
        file = json.loads(tokenizer.to_str())
        names = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>", "[MASK]": "<mask>"}
        ids = {name: place for place, name in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])}
        vocabulary = file["model"]["vocab"]
        file["model"]["vocab"] = {**ids, **{piece: id for piece, id in vocabulary.items() if piece not in names}}
        file["model"]["unk_token"] = "<unk>"
        for token in file["added_tokens"]:
            token["content"] = names[token["content"]]
            token["id"] = ids[token["content"]]
        file["post_processor"] = None
        tokenizer = make_encoder.tokenizers.Tokenizer.from_str(json.dumps(file))
        first, last = "<s>", "</s>"
    between = f"{last} {last}" if kind == "roberta" else last
    second = 1 if kind == "bert" else 0
    tokenizer.post_processor = make_encoder.tokenizers.processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {between} $B:{second} {last}:{second}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (first, last)],
    )  # fmt: skip
    return tokenizer


def encoder(cls, config, kind):
    return {"make": lambda size: cls(config(vocab_size=size)), "kind": kind}


def configs():
    t = transformers
    bert = lambda **more: t.BertConfig(**SIZES, max_position_embeddings=48, **more)  # noqa: E731
    mpnet = lambda **more: t.MPNetConfig(  # noqa: E731
        **SIZES, max_position_embeddings=50, **more)  # fmt: skip
    roberta = lambda **more: t.XLMRobertaConfig(  # noqa: E731
        **SIZES, max_position_embeddings=50, type_vocab_size=1, pad_token_id=1, **more)  # fmt: skip
    distil = lambda **more: t.DistilBertConfig(  # noqa: E731
        dim=32, n_layers=2, n_heads=4, hidden_dim=48, initializer_range=0.4, max_position_embeddings=48,
        **more)  # fmt: skip
    tokens = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    modern = lambda **more: t.ModernBertConfig(**MODERN, **tokens, **more)  # noqa: E731
    one = lambda config: lambda **more: config(num_labels=1, **more)  # noqa: E731
    raw = lambda config: lambda **more: config(  # noqa: E731
        num_labels=1, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}, **more)  # fmt: skip
    mean = lambda config: lambda **more: config(num_labels=1, classifier_pooling="mean", **more)  # noqa: E731
    return {
        "bert": encoder(t.BertModel, bert, "bert"),
        "mpnet": encoder(t.MPNetModel, mpnet, "roberta"),
        "xlm_roberta": encoder(t.XLMRobertaModel, roberta, "roberta"),
        "distilbert": encoder(t.DistilBertModel, distil, "modern"),
        "modernbert": encoder(t.ModernBertModel, modern, "modern"),
        # As people have it: the body of a model for something else.
        "modernbert_masked": encoder(t.ModernBertForMaskedLM, modern, "modern"),
        "bert_reranker": encoder(t.BertForSequenceClassification, raw(bert), "bert"),
        "xlm_roberta_reranker": encoder(t.XLMRobertaForSequenceClassification, one(roberta), "roberta"),
        "modernbert_reranker": encoder(t.ModernBertForSequenceClassification, one(modern), "modern"),
        "modernbert_mean_reranker": encoder(t.ModernBertForSequenceClassification, mean(modern), "modern"),
    }


def rounded(values):
    return [round(x, 6) for x in values.tolist()]


def run(model, batch):
    with torch.no_grad():
        return model(**batch)


def text_answers(model, fast):
    body = getattr(model, model.base_model_prefix, model)
    rows, states = [], []
    texts = [text for text in make_encoder.TEXTS if text]
    for text in texts:
        ids = fast(text, truncation=True, max_length=MOST, return_tensors="pt", return_token_type_ids=False)
        states.append(run(body, ids).last_hidden_state[0])
        rows.append({
            "text": text, "ids": ids["input_ids"][0].tolist(), "mean": rounded(states[-1].mean(0)),
            "cls": rounded(states[-1][0]),
        })  # fmt: skip
    batch = fast(texts, truncation=True, max_length=MOST, padding=True, return_tensors="pt",
                 return_token_type_ids=False)  # fmt: skip
    for padded, alone in zip(run(body, batch).last_hidden_state, states, strict=True):
        assert torch.allclose(padded[: len(alone)], alone, atol=1e-4), (padded[: len(alone)] - alone).abs().max()
    return rows


def pair_answers(model, fast, kind):
    rows, logits = [], []
    types = kind == "bert"
    pairs = [(query, document) for query in QUERIES for document in DOCUMENTS]
    for query, document in pairs:
        # A list of one: a text that is empty would count as none otherwise.
        ids = fast([query], [document], truncation="longest_first", max_length=MOST, return_tensors="pt",
                   return_token_type_ids=types)  # fmt: skip
        logits.append(run(model, ids).logits[0, 0].item())
        shape = ids["input_ids"].shape
        rows.append({
            "query": query, "document": document, "ids": ids["input_ids"][0].tolist(),
            "types": ids.get("token_type_ids", torch.zeros(shape, dtype=torch.int64))[0].tolist(),
            "logit": round(logits[-1], 6), "score": round(1 / (1 + math.exp(-logits[-1])), 6),
        })  # fmt: skip
    batch = fast(*map(list, zip(*pairs, strict=True)), truncation="longest_first", max_length=MOST, padding=True,
                 return_tensors="pt", return_token_type_ids=types)  # fmt: skip
    assert torch.allclose(run(model, batch).logits[:, 0], torch.tensor(logits), atol=1e-4)
    return rows


def save(name, case):
    target = HERE / name
    shutil.rmtree(target, ignore_errors=True)
    tokenizer = tokenizer_of(case["kind"])
    torch.manual_seed(17)
    model = case["make"](tokenizer.get_vocab_size()).eval()
    # Norms and biases that start as nothing would hide that they are left out.
    for key, parameter in model.named_parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=1.0 if "orm" in key and "weight" in key else 0.0, std=0.2)
        elif "relative" in key or "classifier" in key or "head." in key:
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(target)
    (target / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(target / "tokenizer.json"), pretty=False)
    (target / "tokenizer_config.json").write_text(json.dumps({"model_max_length": MOST}) + "\n")
    pad = "<pad>" if case["kind"] == "roberta" else "[PAD]"
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=pad)
    if name.endswith("reranker"):
        rows = pair_answers(model, fast, case["kind"])
    else:
        rows = text_answers(model, fast)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (target / "answers.json").write_text(f"[\n{lines}\n]\n")


def main():
    known = configs()
    for name in sys.argv[1:] or known:
        save(name, known[name])


if __name__ == "__main__":
    main()
