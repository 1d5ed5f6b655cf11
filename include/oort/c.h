/* SPDX-License-Identifier: MIT */
/* Oort from C, and from every language that can call C. docs/c-api.md has examples.
 *
 * - Handles are opaque. Each has one oort_..._free, which takes NULL, too, and may be called from
 * any thread.
 * - What can fail returns an oort_code and has `error` as its last argument. That may be NULL. Else
 * *error is NULL after a success, and after a failure an object that the caller frees with
 * oort_error_free.
 * - A failure leaves results (*network, *tokens ...) NULL or 0. NULL where an object is needed is a
 * failure, not a crash. Functions without `error` cannot fail; for NULL they return 0, NULL or "".
 * - Texts are UTF-8. Those that go in end with a zero, or have their length beside them. Those that
 * come out end with a zero and belong to the handle that they came from, unless it says that
 * oort_free frees them.
 * - The library prints nothing and never ends the process. No C++ exception leaves it.
 * - Functions are only ever added, and no signature changes, within one OORT_ABI_VERSION.
 */
#ifndef OORT_C_H
#define OORT_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define OORT_C_API __attribute__((visibility("default")))
#else
#define OORT_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OORT_ABI_VERSION 1

/* "0.2.0": the version of the library that runs. */
OORT_C_API const char* oort_version(void);
/* OORT_ABI_VERSION of the library that runs. */
OORT_C_API int32_t oort_abi_version(void);
/* How many GPUs the library can use; 0 without a driver, and in a build without CUDA. */
OORT_C_API int32_t oort_cuda_device_count(void);
/* Frees what functions below say that it frees; takes NULL, too. */
OORT_C_API void oort_free(void* memory);

/* ---- Errors. Immutable: any thread may read one. ---- */

typedef int32_t oort_code;
enum {
  OORT_OK = 0,
  OORT_INVALID_ARGUMENT = 1, /* the caller passed something that cannot be right */
  OORT_INVALID_MODEL = 2,    /* a model file is damaged or contradicts itself */
  OORT_UNSUPPORTED = 3,      /* well formed, but this build cannot run it */
  OORT_NOT_FOUND = 4,        /* a file, operator or name that does not exist */
  OORT_IO = 5,               /* the operating system refused a read or a write */
  OORT_OUT_OF_MEMORY = 6,
  OORT_LIMIT = 7,     /* a limit that the caller set would be exceeded */
  OORT_CANCELLED = 8, /* the caller stopped it */
  OORT_DEVICE = 9,    /* a GPU or its driver failed */
  OORT_INTERNAL = 10  /* a bug in Oort */
};

typedef struct oort_error oort_error;
OORT_C_API oort_code oort_error_code(const oort_error* error);
/* "invalid_model" */
OORT_C_API const char* oort_error_name(const oort_error* error);
/* What went wrong and what to do; of a whole model all that is wrong, a line each. */
OORT_C_API const char* oort_error_message(const oort_error* error);
/* The single problems of a model, where the error lists them. */
OORT_C_API size_t oort_error_problem_count(const oort_error* error);
OORT_C_API const char* oort_error_problem(const oort_error* error, size_t index);
/* The operator that a problem is of, or ""; and its line in the .param file, or 0. */
OORT_C_API const char* oort_error_problem_operator(const oort_error* error, size_t index);
OORT_C_API int32_t oort_error_problem_line(const oort_error* error, size_t index);
OORT_C_API void oort_error_free(oort_error* error);

/* ---- Options: settings by name. Each function reads those that concern it, so one object may
 * serve all. ---- Any number of threads may read one while nobody changes it. NULL instead of one:
 * all defaults. */

typedef struct oort_options oort_options;
/* NULL where there is no memory. */
OORT_C_API oort_options* oort_options_new(void);
/* oort_options_set(options, "threads", "4", &error). A name that is unknown, or a value that it
 * cannot have, is an error here. Names that take several values (stop, choice ...) add one each
 * time. NULL takes a setting back. */
OORT_C_API oort_code oort_options_set(oort_options* options, const char* name, const char* value,
                                      oort_error** error);
OORT_C_API void oort_options_free(oort_options* options);
/* All names that there are, with what they mean in a line; NULL behind the last. */
OORT_C_API size_t oort_option_count(void);
OORT_C_API const char* oort_option_name(size_t index);
OORT_C_API const char* oort_option_help(size_t index);

/* Called while a model is loaded; `phase` is "read", "build" or "pack". What it returns: 0 to go
 * on, anything else to stop with OORT_CANCELLED. It comes on the thread that loads. */
typedef int (*oort_on_progress)(const char* phase, uint64_t done, uint64_t total, void* user);
OORT_C_API oort_code oort_options_on_progress(oort_options* options, oort_on_progress on_progress,
                                              void* user, oort_error** error);

/* ---- The log. Nobody hears it unless this is called; a NULL function ends it. ----
 * `level`: "debug", "info", "warning" or "error", and what is graver. Called from any thread,
 * several at once. */
typedef void (*oort_on_log)(const char* level, const char* message, void* user);
OORT_C_API oort_code oort_log(const char* level, oort_on_log on_log, void* user,
                              oort_error** error);

/* ---- Tensors: dense arrays, the last extent innermost. One thread at a time. ---- */

typedef int32_t oort_dtype;
enum {
  OORT_UNKNOWN = 0,
  OORT_F32 = 1,
  OORT_F64 = 2,
  OORT_F16 = 3,
  OORT_I32 = 4,
  OORT_I64 = 5,
  OORT_I16 = 6,
  OORT_I8 = 7,
  OORT_U8 = 8,
  OORT_BOOL = 9,
  OORT_C64 = 10,  /* two f32 */
  OORT_C128 = 11, /* two f64 */
  OORT_C32 = 12,  /* two f16 */
  OORT_BF16 = 13
};
/* "f32"; "null" for what is none. */
OORT_C_API const char* oort_dtype_name(oort_dtype dtype);
/* Bytes of an element; 0 for what is none. */
OORT_C_API size_t oort_dtype_size(oort_dtype dtype);

typedef struct oort_tensor oort_tensor;
typedef void (*oort_release)(void* user);
/* A tensor of its own memory, all zero. Rank 0 to 8. */
OORT_C_API oort_code oort_tensor_new(oort_dtype dtype, int32_t rank, const int64_t* extents,
                                     oort_tensor** tensor, oort_error** error);
/* A tensor in memory of the caller's, of `bytes` bytes, without a copy. It must stay until
 * `release` is called, which may be after oort_tensor_free where a run still has it. NULL for
 * `release`: it stays as long as anything uses it. After a failure `release` is not called. */
OORT_C_API oort_code oort_tensor_borrow(oort_dtype dtype, int32_t rank, const int64_t* extents,
                                        void* data, size_t bytes, oort_release release, void* user,
                                        oort_tensor** tensor, oort_error** error);
OORT_C_API oort_dtype oort_tensor_dtype(const oort_tensor* tensor);
OORT_C_API int32_t oort_tensor_rank(const oort_tensor* tensor);
OORT_C_API const int64_t* oort_tensor_extents(const oort_tensor* tensor);
OORT_C_API void* oort_tensor_data(const oort_tensor* tensor);
OORT_C_API size_t oort_tensor_bytes(const oort_tensor* tensor);
OORT_C_API void oort_tensor_free(oort_tensor* tensor);

/* ---- Networks: .pnnx.param and .pnnx.bin. Immutable: share one between any number of threads.
 * ---- */

typedef struct oort_network oort_network;
/* `bin` NULL: the file beside `param`, where there is one. Options: device, precision, isa ... */
OORT_C_API oort_code oort_network_load(const char* param, const char* bin,
                                       const oort_options* options, oort_network** network,
                                       oort_error** error);
/* The same from memory; `bin` must stay as long as the network does. */
OORT_C_API oort_code oort_network_load_memory(const void* param, size_t param_bytes,
                                              const void* bin, size_t bin_bytes,
                                              const oort_options* options, oort_network** network,
                                              oort_error** error);
OORT_C_API size_t oort_network_input_count(const oort_network* network);
OORT_C_API size_t oort_network_output_count(const oort_network* network);
/* Names as in the file ("pnnx_input_0"); NULL behind the last. */
OORT_C_API const char* oort_network_input_name(const oort_network* network, size_t index);
OORT_C_API const char* oort_network_output_name(const oort_network* network, size_t index);
/* OORT_UNKNOWN where the file does not say. */
OORT_C_API oort_dtype oort_network_input_dtype(const oort_network* network, size_t index);
OORT_C_API oort_dtype oort_network_output_dtype(const oort_network* network, size_t index);
/* The shape that was traced, a hint: an extent may be -1, and the rank is -1 where the file has
 * none. */
OORT_C_API int32_t oort_network_input_rank(const oort_network* network, size_t index);
OORT_C_API int32_t oort_network_output_rank(const oort_network* network, size_t index);
OORT_C_API const int64_t* oort_network_input_extents(const oort_network* network, size_t index);
OORT_C_API const int64_t* oort_network_output_extents(const oort_network* network, size_t index);
/* Sessions of it stay usable. */
OORT_C_API void oort_network_free(oort_network* network);

/* What one thread runs a network with. It stays usable after a failure. One thread at a time, but
 * for cancel. */
typedef struct oort_session oort_session;
/* Options: threads, memory_limit, record_graphs. */
OORT_C_API oort_code oort_session_new(const oort_network* network, const oort_options* options,
                                      oort_session** session, oort_error** error);
/* Runs the network on inputs of any shapes that it takes. Where outputs[i] is NULL, it becomes a
 * new tensor, which the caller frees; else the result is written into that tensor, whose dtype and
 * shape must fit. */
OORT_C_API oort_code oort_session_run(oort_session* session, const oort_tensor* const* inputs,
                                      size_t input_count, oort_tensor** outputs,
                                      size_t output_count, oort_error** error);
/* Ends a run that another thread is in, with OORT_CANCELLED. Does nothing where none is under way.
 */
OORT_C_API void oort_session_cancel(oort_session* session);
OORT_C_API void oort_session_free(oort_session* session);

/* ---- Language models. Immutable: share one between any number of threads. ---- */

typedef struct oort_model oort_model;
/* A GGUF file, a folder of Hugging Face, or a .pnnx.param that `oort convert` wrote. Options:
 * device, weights ... */
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
 * (oort_free). Options: chat_template, tools, documents, template_variables, add_generation_prompt,
 * continue_final_message. */
OORT_C_API oort_code oort_model_encode_chat(const oort_model* model, const oort_chat* chat,
                                            const oort_options* options, int32_t** tokens,
                                            size_t* count, oort_error** error);
OORT_C_API oort_code oort_model_format_chat(const oort_model* model, const oort_chat* chat,
                                            const oort_options* options, char** text,
                                            size_t* length, oort_error** error);

/* ---- Engines: answers of a language model, any number at a time, on a thread of their own. ----
 * Any number of threads may use one. */

/* What came out for one token; valid while the callback, or until the next oort_request_read. */
typedef struct oort_piece oort_piece;
/* May be empty, and may belong to tokens before: whole characters only. */
OORT_C_API const char* oort_piece_text(const oort_piece* piece);
OORT_C_API size_t oort_piece_length(const oort_piece* piece);
/* -1 for text that was held back at the end. */
OORT_C_API int32_t oort_piece_token(const oort_piece* piece);
/* Of several answers (option n): which one, from 0. */
OORT_C_API int32_t oort_piece_answer(const oort_piece* piece);
/* 0 unless option top_logprobs asks for it. */
OORT_C_API float oort_piece_logprob(const oort_piece* piece);

/* Called on the engine's thread: it should be quick, must not wait for a request, and returns 0 to
 * go on or anything else to end the answer, whose finish is then "cancelled". */
typedef int (*oort_on_piece)(const oort_piece* piece, void* user);

/* What an answer came to. Immutable: any thread may read one. */
typedef struct oort_result oort_result;
/* As option n says; those of best_of and beams are the best, best first. */
OORT_C_API size_t oort_result_count(const oort_result* result);
OORT_C_API const char* oort_result_text(const oort_result* result, size_t answer, size_t* length);
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
typedef struct oort_token_logprob {
  int32_t token;
  float logprob;
} oort_token_logprob;
OORT_C_API const oort_token_logprob* oort_result_top(const oort_result* result, size_t answer,
                                                     size_t place, size_t* count);
/* One for each token of the prompt but the first, where option prompt_logprobs asks for them. */
OORT_C_API const float* oort_result_prompt_logprobs(const oort_result* result, size_t* count);
/* By name, of the first answer: "prompt_seconds", "generate_seconds", "first_token_seconds",
 * "reused_tokens", "score". */
OORT_C_API oort_code oort_result_number(const oort_result* result, const char* name, double* value,
                                        oort_error** error);
OORT_C_API void oort_result_free(oort_result* result);

typedef struct oort_engine oort_engine;
/* Options: threads, kv, cache_tokens, memory_limit, most_running ... */
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
/* Cancels what is left. Requests stay readable. */
OORT_C_API void oort_engine_free(oort_engine* engine);

/* A request under way. One thread at a time, but for cancel. */
typedef struct oort_request oort_request;
typedef void (*oort_on_ready)(void* user);
/* Queues a prompt and returns at once; OORT_LIMIT where too many wait. `on_piece` and `on_ready`
 * may be NULL and are called on the engine's thread, the latter when oort_request_wait would not
 * wait. They may still be called until on_ready was, or oort_request_wait has returned the result,
 * or oort_engine_free has returned; with `on_piece` NULL and option stream, oort_request_read gives
 * the pieces. */
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
 * where it takes longer. */
OORT_C_API oort_code oort_request_wait(oort_request* request, double seconds, oort_result** result,
                                       oort_error** error);
/* Ends it within a step; the result is what it has by then. */
OORT_C_API void oort_request_cancel(oort_request* request);
/* Cancels it where it still runs. */
OORT_C_API void oort_request_free(oort_request* request);

#ifdef __cplusplus
}
#endif

#endif /* OORT_C_H */
