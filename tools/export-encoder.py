#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Exports a BERT-like encoder of Hugging Face for `oort embed`: the graph, its tokenizer and how it pools.

    pip install -r tools/requirements.txt
    tools/export-encoder.py FOLDER OUT

FOLDER is what transformers or sentence-transformers saved. OUT gets model.pnnx.param and .bin, for any number of texts
of any length, with the hidden states as output; tokenizer.json; and 1_Pooling/config.json, which says how hidden states
become one vector: the mean, where FOLDER says nothing else. sentence_bert_config.json, where FOLDER has it, says how
many tokens a text may have.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys

os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import networks  # noqa: E402
import pnnx_case  # noqa: E402
import torch  # noqa: E402

KEPT = ["tokenizer.json", "tokenizer_config.json", "1_Pooling/config.json", "sentence_bert_config.json"]


class HiddenStates(torch.nn.Module):
    """Token ids and their mask (1 for tokens, 0 for padding) to the last hidden states."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids, mask):
        # The encoder would make this from `mask` by indexing with tensors that pnnx loses.
        hidden = (1 - mask.to(torch.float32)).unsqueeze(1).unsqueeze(1) * torch.finfo(torch.float32).min
        return self.encoder(input_ids=ids, attention_mask=hidden).last_hidden_state


def export(source, target):
    import transformers

    encoder = transformers.AutoModel.from_pretrained(source, attn_implementation="eager", dtype=torch.float32).eval()
    # Older versions of transformers ask for a mask of two axes and extend it themselves: ours is extended already.
    encoder.get_extended_attention_mask = lambda mask, *_, **__: mask
    first, second = (
        [networks.words(encoder.config.vocab_size, len(n), max(n), seed=seed), networks.lengths_mask(n)]
        for seed, n in enumerate(([7, 12, 4], [19, 3, 11, 16, 8]))
    )
    pnnx_case.convert(HiddenStates(encoder).eval(), first, target, second=second)
    for name in KEPT:
        if (pathlib.Path(source) / name).exists():
            (pathlib.Path(target) / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(pathlib.Path(source) / name, pathlib.Path(target) / name)
    pooling = pathlib.Path(target) / "1_Pooling" / "config.json"
    if not pooling.exists():
        pooling.parent.mkdir(exist_ok=True)
        pooling.write_text(json.dumps({"pooling_mode_mean_tokens": True}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("source", metavar="FOLDER", help="what transformers or sentence-transformers saved")
    parser.add_argument("target", metavar="OUT", help="where the exported encoder goes")
    arguments = parser.parse_args()
    if not (pathlib.Path(arguments.source) / "tokenizer.json").exists():
        sys.exit(f"{arguments.source} has no tokenizer.json")
    export(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
