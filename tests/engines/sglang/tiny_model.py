"""Makes a two-layer Llama with random weights and a byte-level tokenizer: ``python tiny_model.py FOLDER``.

The weights are drawn wide, so that attention matters and a damaged page changes the output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def make(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: number for number, symbol in enumerate(["<s>", "</s>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)

    torch.manual_seed(7)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        tie_word_embeddings=False,
        dtype="bfloat16",
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                wide = 3.0 if name.endswith(("q_proj.weight", "k_proj.weight")) else 1.2
                weight.normal_(0.0, wide / weight.shape[1] ** 0.5)
    model.save_pretrained(folder)
    (folder / "made.json").write_text(json.dumps({"seed": 7}))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
