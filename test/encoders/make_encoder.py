#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the tiny BERT of the embedder's tests, and what transformers says with it.

    test/encoders/make_encoder.py

Needs tools/requirements.txt. The weights are random with a fixed seed; the vocabulary is a few words and all letters.
"""
import importlib.util
import json
import pathlib
import string
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOOLS = HERE.parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

MOST = 24  # tokens of a text, as sentence_bert_config.json says
TEXTS = [
    "the comet", "The comet is far.", "a", "ice, dust & light", "two comets came from a cloud of ice and dust",
    "zebra", "Ein Komet? Ümlaut!", "the comet is far from the cloud; " * 4, "x y z", "", "light " * 22, "light " * 21,
]  # fmt: skip
WORDS = ["the", "comet", "is", "far", "ice", "dust", "and", "light", "two", "from", "cloud", "of", "came", "##s"]


def make_tokenizer():
    letters = list(string.ascii_lowercase + string.digits + ".,;:!?&-'")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *("##" + letter for letter in letters)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    )
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def answers(model, tokenizer):
    """Of each text alone: nothing is padded."""
    tokenizer.enable_truncation(MOST)
    rows = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            states = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        numbers = {"mean": states.mean(0), "cls": states[0]}
        rows.append({"text": text, "ids": ids, **{key: [round(x, 6) for x in value.tolist()]
                                                  for key, value in numbers.items()}})
    tokenizer.no_truncation()
    return rows


def main():
    specification = importlib.util.spec_from_file_location("export_encoder", TOOLS / "export-encoder.py")
    export_encoder = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(export_encoder)
    tokenizer = make_tokenizer()
    torch.manual_seed(11)
    model = transformers.BertModel(
        transformers.BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2,
                                num_attention_heads=4, intermediate_size=48, max_position_embeddings=32,
                                initializer_range=0.4),
        add_pooling_layer=False,
    ).eval()  # fmt: skip
    target = HERE / "tiny_bert"
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        # As that of all-MiniLM-L6-v2, the file asks for another length than the model, and for padding.
        tokenizer.enable_truncation(12)
        tokenizer.enable_padding(length=12)
        tokenizer.save(str(pathlib.Path(folder) / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        (pathlib.Path(folder) / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": MOST}) + "\n")
        (pathlib.Path(folder) / "1_Pooling").mkdir()
        pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
        (pathlib.Path(folder) / "1_Pooling" / "config.json").write_text(json.dumps(pooling) + "\n")
        export_encoder.export(folder, target)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in answers(model, tokenizer))
    (target / "answers.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
