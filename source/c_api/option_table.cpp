// SPDX-License-Identifier: MIT
#include "c_api/options.h"

namespace oort::c_api {
namespace {

using enum OptionKind;

// What is added here needs a line in docs/c-api.md; a test compares.
constexpr OptionSpec kTable[] = {
    // Networks and language models.
    {"device", kDevice, "where the model runs: cpu, cuda or cuda:N"},
    {"isa", kText, "instruction set of the kernels: neon, avx2, avx512 or scalar"},
    {"threads", kInteger, "threads of a session or an engine; 0: all that the process may use"},
    {"memory_limit", kInteger,
     "bytes that activations of a run, or an engine's model and cache, may take; 0: no limit"},
    // oort_network_load and oort_session_new.
    {"precision", kChoice, "what networks multiply", 0, "f32|bf16|f16|tf32"},
    {"conv_algorithm", kText, "algorithm of the convolutions that it accepts"},
    {"verify_checksums", kFlag, "compare weights with their checksums"},
    {"check_traced_shapes", kFlag, "refuse a network whose shapes contradict themselves"},
    {"without_pass", kTexts, "leave out this pass over the graph, or all"},
    {"record_graphs", kFlag, "replay what a run does on a GPU as one graph"},
    // oort_model_load.
    {"exact", kFlag, "keep activations in f32 throughout"},
    {"weights", kChoice, "what weights become while they are loaded", 0, "int8|int4|bf16|f16|f32"},
    {"group", kInteger, "weights of int8 and int4 that share a scale", 1},
    {"activations", kChoice, "of what products on a Hopper GPU are; default: 16 bits", 0,
     "int8|fp8"},
    {"load_adapter", kFiles, "a LoRA adapter that requests may name: NAME=PATH"},
    {"draft_heads", kText, "folder of Medusa's heads, loaded for engines with draft=heads"},
    {"ranks", kInteger,
     "threads of this process that compute a model together: one for each GPU, say", 1},
    {"split", kChoice, "how ranks share a model; exact: to the bits of one rank", 0,
     "fast|exact|pipeline"},
    {"exchange", kChoice, "how ranks on GPUs exchange numbers; auto: by NCCL where all have it", 0,
     "auto|nccl|host"},
    {"rank_deadline", kNumber, "seconds that ranks wait for one that does not come"},
    // oort_embedder_load and oort_reranker_load.
    {"pooling", kChoice, "how a text's tokens become one vector; auto: as the model says", 0,
     "auto|mean|cls"},
    {"normalize", kFlag, "give vectors of length 1, which they have unless this is false"},
    {"raw_scores", kFlag,
     "give what a reranker's head says, even where the model asks for a sigmoid"},
    {"text_tokens", kInteger,
     "tokens that are read of a text, or of query and text; 0: as many as the model says"},
    {"batch_tokens", kInteger, "tokens that an encoder reads at a time, padding included", 1},
    // Tokenizer and chat template.
    {"add_special", kFlag, "add the tokens that the model wants around a text"},
    {"parse_special", kFlag, "read special tokens in a text as what they are"},
    {"skip_special", kFlag, "leave special tokens out of decoded text"},
    {"chat_template", kText, "which of the model's templates"},
    {"tools", kText, "functions that the model may call: a JSON array"},
    {"tool_choice", kText,
     "auto, none, required, or the name of the function that the answer must call"},
    {"parallel_tool_calls", kFlag, "whether an answer may call more than once, as it may"},
    {"documents", kText, "documents for the template: a JSON array"},
    {"template_variables", kText, "further variables of the template: a JSON object"},
    {"add_generation_prompt", kFlag, "end the conversation with what begins an answer"},
    {"continue_final_message", kFlag, "let the answer go on with the last message"},
    // oort_engine_new.
    {"kv", kChoice, "how keys and values are kept", 0, "f32|f16|int8|fp8|k6v4"},
    {"cache_tokens", kInteger,
     "tokens that the cache holds for all requests; 0: the model's context, 8192 at most"},
    {"prompt_chunk", kInteger, "most tokens of a prompt in one step", 1},
    {"step_tokens", kInteger, "most tokens of a step on a GPU", 1},
    {"step_seconds", kNumber,
     "about how long an answer waits for its next token while prompts are read; 0: no limit"},
    {"most_running", kInteger, "requests at a time; others wait", 1},
    {"most_waiting", kInteger, "requests that wait; more are refused", 1},
    {"most_waiting_tokens", kInteger, "tokens of the prompts that wait", 1},
    {"reserve_cache", kFlag, "start a request only when the cache has room for all of it"},
    {"swap_bytes", kInteger, "host memory for requests that wait in the middle"},
    {"reuse_prefixes", kFlag, "begin a prompt with what was read of others that begin alike"},
    {"deterministic", kFlag, "compute each answer as it would be alone, to the last bit"},
    {"draft", kChoice, "who guesses what answers say next, so that they take fewer steps", 0,
     "none|ngram|model|heads"},
    {"draft_model", kText, "path of the smaller model that guesses, with draft=model"},
    {"draft_tokens", kInteger, "guesses in a step for each answer; 0: as many as pay"},
    // Requests.
    {"max_tokens", kInteger, "tokens of the answer at most; unset: as many as fit"},
    {"min_tokens", kInteger, "tokens of the answer at least"},
    {"temperature", kNumber,
     "0: always the most likely token; else divides the logits before a draw"},
    {"top_k", kInteger, "draw among the k most likely; 0: all"},
    {"top_p", kNumber, "draw among the most likely that sum to p"},
    {"min_p", kNumber, "draw among those at least this share as likely as the most likely"},
    {"repetition_penalty", kNumber, "divides the logits of tokens that were there already"},
    {"presence_penalty", kNumber, "taken from logits of tokens that the answer has"},
    {"frequency_penalty", kNumber, "the same for each time that it has them"},
    {"logit_bias", kBiases, "added to the logit of a token: ID=NUMBER; -inf forbids it"},
    {"seed", kUnsigned, "the same seed gives the same draws"},
    {"top_logprobs", kInteger,
     "report log-probabilities, and so many most likely tokens of each place"},
    {"prompt_logprobs", kInteger, "the same for the prompt"},
    {"stop", kTexts, "the answer ends before this text"},
    {"stop_token", kNumbers, "the answer ends with this token"},
    {"ignore_end", kFlag, "go on behind a token that ends answers"},
    {"n", kInteger, "so many answers", 1},
    {"best_of", kInteger, "make so many and give the n most likely"},
    {"beams", kInteger, "beam search of this width"},
    {"length_penalty", kNumber, "scores of beams are divided by their length to this power"},
    {"early_stopping", kChoice, "when beam search ends", 0, "yes|no|never"},
    {"most_draft_tokens", kInteger, "guesses in a step at most, where the engine makes some"},
    {"json_object", kFlag, "the answer is a JSON object"},
    {"json_schema", kText, "the answer keeps to this JSON Schema"},
    {"grammar", kText, "the answer keeps to this GBNF grammar"},
    {"regex", kText, "the answer matches this regular expression"},
    {"choice", kTexts, "the answer is one of these"},
    {"adapter", kText, "the LoRA adapter to answer with"},
    {"priority", kInteger, "higher ones begin earlier", INT32_MIN},
    {"caller", kUnsigned, "requests of different callers share the machine evenly"},
    {"cache_salt", kText, "share beginnings of prompts only with requests of the same salt"},
    {"deadline_seconds", kNumber, "when the request ends at the latest, from now"},
    {"stream", kFlag, "keep pieces for oort_request_read"},
};

}  // namespace

std::span<const OptionSpec> OptionTable() { return kTable; }

}  // namespace oort::c_api

size_t oort_option_count(void) { return oort::c_api::OptionTable().size(); }

const char* oort_option_name(size_t index) {
  const auto table = oort::c_api::OptionTable();
  return index < table.size() ? table[index].name : nullptr;
}

const char* oort_option_help(size_t index) {
  const auto table = oort::c_api::OptionTable();
  return index < table.size() ? table[index].help : nullptr;
}
