/* SPDX-License-Identifier: MIT */
/* Oort from C: language models, conversations, and the engine that answers many requests at once.
 * oort/c.h has the rules, and docs/c-api.md examples. */
#ifndef OORT_C_LANGUAGE_H
#define OORT_C_LANGUAGE_H

#include <stddef.h>
#include <stdint.h>

#include "oort/c_network.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Language models. Immutable: share one between any number of threads. ---- */

typedef struct oort_model oort_model;
/* A GGUF file, a folder of Hugging Face, or a .pnnx.param that `oort convert` wrote. Options:
 * device, weights, ranks ... */
OORT_C_API oort_code oort_model_load(const char* path, const oort_options* options,
                                     oort_model** model, oort_error** error);
/* "llama", "qwen2" ... */
OORT_C_API const char* oort_model_family(const oort_model* model);
/* By name: "layers", "hidden", "heads", "kv_heads", "head_dim", "vocabulary", "context",
 * "weight_bytes", "step_bytes", "file_bytes". */
OORT_C_API oort_code oort_model_number(const oort_model* model, const char* name, int64_t* value,
                                       oort_error** error);
/* Tokens of a text; oort_free frees them. Options: add_special, parse_special. */
OORT_C_API oort_code oort_model_encode(const oort_model* model, const char* text, size_t length,
                                       const oort_options* options, int32_t** tokens, size_t* count,
                                       oort_error** error);
/* Text of tokens; oort_free frees it. Options: skip_special. */
OORT_C_API oort_code oort_model_decode(const oort_model* model, const int32_t* tokens, size_t count,
                                       const oort_options* options, char** text, size_t* length,
                                       oort_error** error);
/* Whether a token ends answers. */
OORT_C_API int oort_model_is_end(const oort_model* model, int32_t token);
/* Engines of it stay usable. */
OORT_C_API void oort_model_free(oort_model* model);

/* A conversation. One thread at a time. */
typedef struct oort_chat oort_chat;
/* NULL where there is no memory. */
OORT_C_API oort_chat* oort_chat_new(void);
/* `role`: "system", "user" or "assistant". What is in the text is text alone: "<|im_end|>" ends
 * nothing. */
OORT_C_API oort_code oort_chat_add(oort_chat* chat, const char* role, const char* text,
                                   size_t length, oort_error** error);
/* A message as a JSON object, as OpenAI's API has them: for parts, tool calls and their results. */
OORT_C_API oort_code oort_chat_add_json(oort_chat* chat, const char* message, size_t length,
                                        oort_error** error);
/* A picture of the message that is added next, for models that read pictures: a file's bytes (PNG,
 * JPEG, BMP, PPM), or pixels row by row of 1 (gray) or 3 (RGB) bytes each. They are copied. Before
 * the text of oort_chat_add stand all of them; in a message of oort_chat_add_json each part
 * {"type": "image"} is the next one. A picture is decoded, and read by the model, when the chat is
 * answered. OORT_UNSUPPORTED in a library that was built without pictures. */
OORT_C_API oort_code oort_chat_add_picture(oort_chat* chat, const void* file, size_t bytes,
                                           oort_error** error);
OORT_C_API oort_code oort_chat_add_pixels(oort_chat* chat, const uint8_t* pixels, int32_t width,
                                          int32_t height, int32_t channels, oort_error** error);
OORT_C_API void oort_chat_free(oort_chat* chat);
/* The conversation by the model's own template, as tokens (oort_free) or, to look at, as text
 * (oort_free). Options: chat_template, tools, tool_choice, documents, template_variables,
 * add_generation_prompt, continue_final_message. */
OORT_C_API oort_code oort_model_encode_chat(const oort_model* model, const oort_chat* chat,
                                            const oort_options* options, int32_t** tokens,
                                            size_t* count, oort_error** error);
OORT_C_API oort_code oort_model_format_chat(const oort_model* model, const oort_chat* chat,
                                            const oort_options* options, char** text,
                                            size_t* length, oort_error** error);

/* ---- Engines: answers of a language model, any number at a time, on a thread of their own. ----
 * Any number of threads may use one. */

/* A token, and the log-probability that it had at its place. */
typedef struct oort_token_logprob {
  int32_t token;
  float logprob;
} oort_token_logprob;

/* What came out for one token; valid while the callback, or until the next oort_request_read. */
typedef struct oort_piece oort_piece;
/* May be empty, and may belong to tokens before: whole characters only. */
OORT_C_API const char* oort_piece_text(const oort_piece* piece);
OORT_C_API size_t oort_piece_length(const oort_piece* piece);
/* -1 for text that was held back at the end, and for NULL. */
OORT_C_API int32_t oort_piece_token(const oort_piece* piece);
/* Of several answers (option n): which one, from 0. */
OORT_C_API int32_t oort_piece_answer(const oort_piece* piece);
/* 0 unless option top_logprobs asks for it. */
OORT_C_API float oort_piece_logprob(const oort_piece* piece);
/* The most likely tokens at its place, most likely first, as many as option top_logprobs says; NULL
 * where that is 0 or unset, and for text that was held back at the end. */
OORT_C_API const oort_token_logprob* oort_piece_top(const oort_piece* piece, size_t* count);

/* Called on the engine's thread: it should be quick, must not wait for a request, and returns 0 to
 * go on or anything else to end the answer, whose finish is then "cancelled". */
typedef int (*oort_on_piece)(const oort_piece* piece, void* user);

/* What an answer came to. Immutable: any thread may read one. */
typedef struct oort_result oort_result;
/* As option n says; those of best_of and beams are the best, best first. */
OORT_C_API size_t oort_result_count(const oort_result* result);
/* All that the model wrote: reasoning, and calls of tools, too. */
OORT_C_API const char* oort_result_text(const oort_result* result, size_t answer, size_t* length);
/* An answer to a chat taken apart, as a message for oort_chat_add_json: a JSON object with "role",
 * "content" (null where there is none beside calls), "reasoning_content" where the model reasons,
 * and "tool_calls" where it calls: [{"id", "type", "function": {"name", "arguments"}}], whose
 * arguments are a string of JSON, not always whole where the answer was cut off. oort_free frees
 * it. Of other answers all is content. */
OORT_C_API oort_code oort_result_message(const oort_result* result, size_t answer, char** message,
                                         size_t* length, oort_error** error);
OORT_C_API const int32_t* oort_result_tokens(const oort_result* result, size_t answer,
                                             size_t* count);
/* "stop", "length", "cancelled" or "deadline" */
OORT_C_API const char* oort_result_finish(const oort_result* result, size_t answer);
/* The stop string that ended it, or "". */
OORT_C_API const char* oort_result_stop(const oort_result* result, size_t answer);
/* One for each token, where option top_logprobs asks for them. */
OORT_C_API const float* oort_result_logprobs(const oort_result* result, size_t answer,
                                             size_t* count);
/* The most likely tokens at a place of the answer, most likely first. */
OORT_C_API const oort_token_logprob* oort_result_top(const oort_result* result, size_t answer,
                                                     size_t place, size_t* count);
/* One for each token of the prompt but the first, where option prompt_logprobs asks for them. */
OORT_C_API const float* oort_result_prompt_logprobs(const oort_result* result, size_t* count);
/* The most likely tokens at one of these places, most likely first: as many as prompt_logprobs
 * says. Place 0 is the prompt's second token. */
OORT_C_API const oort_token_logprob* oort_result_prompt_top(const oort_result* result, size_t place,
                                                            size_t* count);
/* By name, of the first answer: "prompt_seconds", "generate_seconds", "first_token_seconds",
 * "reused_tokens", "score". */
OORT_C_API oort_code oort_result_number(const oort_result* result, const char* name, double* value,
                                        oort_error** error);
OORT_C_API void oort_result_free(oort_result* result);

typedef struct oort_engine oort_engine;
/* Options: threads, kv, cache_tokens, memory_limit, most_running ... With draft=model the one at
 * draft_model is loaded, with device, isa and exact as these options have them, but without
 * load_adapter, weights, group, draft_heads and ranks, which are the main model's: the same object
 * may serve both. draft=heads takes those that the model was loaded with. With ranks, each has so
 * many threads. */
OORT_C_API oort_code oort_engine_new(const oort_model* model, const oort_options* options,
                                     oort_engine** engine, oort_error** error);
/* Answers a prompt, text or conversation, and waits for the end. `on_piece` may be NULL. Options:
 * max_tokens, temperature, seed, stop, json_schema ... */
OORT_C_API oort_code oort_engine_generate(oort_engine* engine, const int32_t* prompt, size_t count,
                                          const oort_options* options, oort_on_piece on_piece,
                                          void* user, oort_result** result, oort_error** error);
OORT_C_API oort_code oort_engine_complete(oort_engine* engine, const char* text, size_t length,
                                          const oort_options* options, oort_on_piece on_piece,
                                          void* user, oort_result** result, oort_error** error);
OORT_C_API oort_code oort_engine_chat(oort_engine* engine, const oort_chat* chat,
                                      const oort_options* options, oort_on_piece on_piece,
                                      void* user, oort_result** result, oort_error** error);
/* By name, as of the last step: "waiting", "waiting_tokens", "running", "blocks", "used_blocks",
 * "used_tokens", "cached_blocks", "steps", "prompt_tokens", "reused_tokens", "generated_tokens",
 * "preemptions", "draft_steps", "drafted_tokens", "accepted_tokens". */
OORT_C_API oort_code oort_engine_number(const oort_engine* engine, const char* name, int64_t* value,
                                        oort_error** error);
/* Takes no more requests, waits for those that it has, and cancels what is left after `seconds`.
 * *all (may be NULL) tells whether all came to their own end. */
OORT_C_API oort_code oort_engine_drain(oort_engine* engine, double seconds, int* all,
                                       oort_error** error);
/* Cancels what is left and waits for the callback that is under way. No other one comes once it has
 * returned. Requests stay readable. In a callback of this engine it waits for nothing: callbacks of
 * its other requests, on_ready too, do not come any more, and its thread ends later. */
OORT_C_API void oort_engine_free(oort_engine* engine);

/* A request under way. One thread at a time, but for cancel. */
typedef struct oort_request oort_request;
typedef void (*oort_on_ready)(void* user);
/* Queues a prompt and returns at once; OORT_LIMIT where too many wait. `on_piece` and `on_ready`
 * may be NULL and are called on the engine's thread, the latter when oort_request_wait would not
 * wait. They may still be called until on_ready was, or oort_request_wait has returned the result
 * or what went wrong, or oort_request_free or oort_engine_free has returned: these wait for a
 * callback that another thread is in, and on_ready does not come where they were first. With
 * `on_piece` NULL and option stream, oort_request_read gives the pieces. */
OORT_C_API oort_code oort_engine_submit(oort_engine* engine, const int32_t* prompt, size_t count,
                                        const oort_options* options, oort_on_piece on_piece,
                                        oort_on_ready on_ready, void* user, oort_request** request,
                                        oort_error** error);
/* The same for a conversation, which may have pictures. These are read before it returns. */
OORT_C_API oort_code oort_engine_submit_chat(oort_engine* engine, const oort_chat* chat,
                                             const oort_options* options, oort_on_piece on_piece,
                                             oort_on_ready on_ready, void* user,
                                             oort_request** request, oort_error** error);
/* The next piece, waiting for it up to `seconds` (below 0: as long as it takes). *piece is NULL
 * where none came in time, and where the answer is complete, which *ended (may be NULL) tells. */
OORT_C_API oort_code oort_request_read(oort_request* request, double seconds,
                                       const oort_piece** piece, int* ended, oort_error** error);
/* The result, once, waiting for it up to `seconds` (below 0: as long as it takes); *result is NULL
 * where it takes longer. Then callbacks may still come, else none does: it waits for one that is
 * under way, so hold no lock meanwhile that a callback takes. */
OORT_C_API oort_code oort_request_wait(oort_request* request, double seconds, oort_result** result,
                                       oort_error** error);
/* Ends it within a step; the result is what it has by then. */
OORT_C_API void oort_request_cancel(oort_request* request);
/* Cancels it where it still runs. */
OORT_C_API void oort_request_free(oort_request* request);

#ifdef __cplusplus
}
#endif

#endif /* OORT_C_LANGUAGE_H */
