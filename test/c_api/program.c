/* SPDX-License-Identifier: MIT */
/* What a C program does with Oort, from loading to freeing; ends with 0 if all of it is right.
 *   program MODELS ENCODERS      the folders models and test/encoders of the repository */
#include <oort/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                   \
  do {                                                                      \
    if (!(condition)) {                                                     \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                           \
    }                                                                       \
  } while (0)

/* Ends the program where nothing more could be tried. The error comes by its address: as an argument it might be read
 * before the call that sets it. */
static void must(oort_code code, oort_error* const* error, const char* what) {
  if (code == OORT_OK && *error == NULL) return;
  fprintf(stderr, "%s: %s: %s\n", what, oort_error_name(*error), oort_error_message(*error));
  exit(1);
}

static const char kRelu[] =
    "7767517\n3 2\n"
    "pnnx.Input pnnx_input_0 0 1 a #a=(1,4)f32\n"
    "F.relu relu 1 1 a b $input=a #a=(1,4)f32 #b=(1,4)f32\n"
    "pnnx.Output pnnx_output_0 1 0 b #b=(1,4)f32\n";

static void count_release(void* user) { ++*(int*)user; }

static void try_ports(const oort_network* network) {
  EXPECT(oort_network_input_count(network) == 1);
  EXPECT(oort_network_output_count(network) == 1);
  EXPECT(strcmp(oort_network_input_name(network, 0), "pnnx_input_0") == 0);
  EXPECT(strcmp(oort_network_output_name(network, 0), "pnnx_output_0") == 0);
  EXPECT(oort_network_input_name(network, 1) == NULL);
  EXPECT(oort_network_input_dtype(network, 0) == OORT_F32);
  EXPECT(oort_network_output_dtype(network, 0) == OORT_F32);
  EXPECT(oort_network_input_rank(network, 0) == 2);
  EXPECT(oort_network_output_rank(network, 0) == 2);
  EXPECT(oort_network_input_extents(network, 0)[1] == 4);
  EXPECT(oort_network_output_extents(network, 0)[0] == 1);
}

static void try_run(const oort_network* network) {
  oort_session* session = NULL;
  oort_error* error = NULL;
  float in[6] = {-1, 2, -3, 4, -5, 6}, out[6] = {9, 9, 9, 9, 9, 9};
  const int64_t extents[2] = {2, 3}; /* not the shape that was traced */
  int released = 0;
  oort_tensor *input = NULL, *output = NULL, *made = NULL;
  const oort_tensor* inputs[1];
  must(oort_session_new(network, NULL, &session, &error), &error, "session");
  must(oort_tensor_borrow(OORT_F32, 2, extents, in, sizeof in, count_release, &released, &input, &error), &error, "in");
  must(oort_tensor_borrow(OORT_F32, 2, extents, out, sizeof out, NULL, NULL, &output, &error), &error, "out");
  inputs[0] = input;
  must(oort_session_run(session, inputs, 1, &output, 1, &error), &error, "run into");
  EXPECT(out[0] == 0 && out[1] == 2 && out[4] == 0 && out[5] == 6);
  must(oort_session_run(session, inputs, 1, &made, 1, &error), &error, "run");
  EXPECT(oort_tensor_dtype(made) == OORT_F32);
  EXPECT(oort_tensor_rank(made) == 2 && oort_tensor_extents(made)[1] == 3);
  EXPECT(oort_tensor_bytes(made) == sizeof out);
  EXPECT(memcmp(oort_tensor_data(made), out, sizeof out) == 0);
  oort_session_cancel(session); /* nothing is under way */
  oort_session_free(session);
  EXPECT(released == 0);
  oort_tensor_free(input);
  EXPECT(released == 1);
  oort_tensor_free(output);
  oort_tensor_free(made);
}

static int count_progress(const char* phase, uint64_t done, uint64_t total, void* user) {
  EXPECT(phase[0] != '\0' && done <= total);
  ++*(int*)user;
  return 0;
}

static int stop_progress(const char* phase, uint64_t done, uint64_t total, void* user) {
  (void)phase, (void)done, (void)total, (void)user;
  return 1;
}

static void try_network(const char* models) {
  oort_network* network = NULL;
  oort_options* options = oort_options_new();
  oort_error* error = NULL;
  char path[4096];
  int calls = 0;
  must(oort_network_load_memory(kRelu, sizeof kRelu - 1, NULL, 0, NULL, &network, &error), &error, "memory");
  try_ports(network);
  try_run(network);
  oort_network_free(network);

  snprintf(path, sizeof path, "%s/digits/digits.pnnx.param", models);
  must(oort_options_on_progress(options, count_progress, &calls, &error), &error, "progress");
  must(oort_network_load(path, NULL, options, &network, &error), &error, path);
  EXPECT(calls > 0);
  EXPECT(oort_network_input_rank(network, 0) == 4);
  oort_network_free(network);
  must(oort_options_on_progress(options, stop_progress, NULL, &error), &error, "progress");
  EXPECT(oort_network_load(path, NULL, options, &network, &error) == OORT_CANCELLED);
  EXPECT(network == NULL);
  EXPECT(oort_error_code(error) == OORT_CANCELLED && strcmp(oort_error_name(error), "cancelled") == 0);
  oort_error_free(error);
  EXPECT(oort_network_load("no/such/file.param", NULL, NULL, &network, &error) == OORT_NOT_FOUND);
  EXPECT(strstr(oort_error_message(error), "no/such/file.param") != NULL);
  oort_error_free(error);
  oort_options_free(options);
}

struct heard {
  char text[4096];
  size_t length;
  int pieces, most;
};

static int hear(const oort_piece* piece, void* user) {
  struct heard* heard = user;
  memcpy(heard->text + heard->length, oort_piece_text(piece), oort_piece_length(piece));
  heard->length += oort_piece_length(piece);
  ++heard->pieces;
  return heard->pieces == heard->most;
}

static void try_chat(const oort_model* model, oort_engine* engine, oort_options* options) {
  static const char kAsked[] = "Tell me a story about a fox.";
  struct heard heard = {"", 0, 0, 0};
  oort_chat* chat = oort_chat_new();
  oort_result* result = NULL;
  oort_error* error = NULL;
  size_t length = 0, count = 0;
  double seconds = -1;
  char* text = NULL;
  must(oort_chat_add(chat, "user", kAsked, strlen(kAsked), &error), &error, "chat");
  must(oort_model_format_chat(model, chat, NULL, &text, &length, &error), &error, "format");
  EXPECT(strstr(text, "<|user|>Tell me") != NULL && strlen(text) == length);
  oort_free(text);
  must(oort_engine_chat(engine, chat, options, hear, &heard, &result, &error), &error, "answer");
  EXPECT(oort_result_count(result) == 1);
  text = (char*)oort_result_text(result, 0, &length);
  EXPECT(length == heard.length && memcmp(text, heard.text, length) == 0);
  EXPECT(oort_result_tokens(result, 0, &count) != NULL && count == 12);
  EXPECT(strcmp(oort_result_finish(result, 0), "length") == 0);
  EXPECT(strcmp(oort_result_stop(result, 0), "") == 0);
  must(oort_result_number(result, "prompt_seconds", &seconds, &error), &error, "number");
  EXPECT(seconds >= 0);
  oort_result_free(result);

  /* The callback ends it behind the third token. */
  heard.most = heard.pieces + 3;
  must(oort_engine_chat(engine, chat, options, hear, &heard, &result, &error), &error, "stopped");
  EXPECT(strcmp(oort_result_finish(result, 0), "cancelled") == 0);
  oort_result_tokens(result, 0, &count);
  EXPECT(count < 12);
  oort_result_free(result);
  oort_chat_free(chat);
}

static void count_ready(void* user) { ++*(int*)user; }

static void try_requests(const oort_model* model, oort_engine* engine, oort_options* options) {
  oort_request *one = NULL, *two = NULL;
  const oort_piece* piece = NULL;
  oort_result* result = NULL;
  oort_error* error = NULL;
  int32_t* tokens = NULL;
  size_t count = 0, length = 0, read = 0;
  int64_t number = 0;
  int ended = 0, ready = 0;
  must(oort_model_encode(model, "A fox", 5, NULL, &tokens, &count, &error), &error, "encode");
  must(oort_options_set(options, "stream", "true", &error), &error, "stream");
  must(oort_engine_submit(engine, tokens, count, options, NULL, NULL, NULL, &one, &error), &error, "submit");
  must(oort_options_set(options, "stream", NULL, &error), &error, "stream");
  must(oort_engine_submit(engine, tokens, count, options, NULL, count_ready, &ready, &two, &error), &error, "submit");
  while (!ended) {
    must(oort_request_read(one, -1, &piece, &ended, &error), &error, "read");
    read += oort_piece_length(piece);
  }
  must(oort_request_wait(one, -1, &result, &error), &error, "wait");
  oort_result_text(result, 0, &length);
  EXPECT(read == length && length > 0);
  oort_result_free(result);
  EXPECT(oort_request_wait(one, -1, &result, &error) == OORT_INVALID_ARGUMENT); /* once */
  oort_error_free(error);
  oort_request_free(one);
  oort_request_cancel(two);
  must(oort_request_wait(two, -1, &result, &error), &error, "wait");
  oort_result_free(result);
  oort_request_free(two);
  must(oort_engine_number(engine, "generated_tokens", &number, &error), &error, "number");
  EXPECT(number > 12);
  oort_free(tokens);
}

static void try_tokens(const oort_model* model) {
  static const char kText[] = "A fox ran.";
  oort_error* error = NULL;
  int32_t* tokens = NULL;
  size_t count = 0, length = 0;
  int64_t vocabulary = 0;
  char* text = NULL;
  must(oort_model_number(model, "vocabulary", &vocabulary, &error), &error, "number");
  must(oort_model_encode(model, kText, strlen(kText), NULL, &tokens, &count, &error), &error, "encode");
  EXPECT(count > 0 && tokens[0] >= 0 && tokens[0] < vocabulary);
  must(oort_model_decode(model, tokens, count, NULL, &text, &length, &error), &error, "decode");
  EXPECT(strcmp(text, kText) == 0 && length == strlen(kText));
  EXPECT(strcmp(oort_model_family(model), "llama") == 0);
  EXPECT(!oort_model_is_end(model, tokens[count - 1]));
  oort_free(text);
  oort_free(tokens);
}

static void try_language(const char* models) {
  oort_model* model = NULL;
  oort_engine* engine = NULL;
  oort_options* options = oort_options_new();
  oort_error* error = NULL;
  char path[4096];
  int all = 0;
  snprintf(path, sizeof path, "%s/storyteller", models);
  must(oort_model_load(path, NULL, &model, &error), &error, path);
  try_tokens(model);
  must(oort_options_set(options, "max_tokens", "12", &error), &error, "max_tokens");
  must(oort_engine_new(model, options, &engine, &error), &error, "engine");
  try_chat(model, engine, options);
  try_requests(model, engine, options);
  oort_model_free(model); /* the engine still has it */
  must(oort_engine_drain(engine, 60, &all, &error), &error, "drain");
  EXPECT(all == 1);
  oort_engine_free(engine);
  oort_options_free(options);
}

static void try_embedder(const char* encoders) {
  static const char* const kTexts[3] = {"the comet", "ice, dust & light", "the comet"};
  static const size_t kLengths[3] = {9, 3, 9}; /* of the second one "ice" alone */
  oort_embedder* embedder = NULL;
  oort_error* error = NULL;
  float *whole = NULL, *part = NULL;
  size_t truncated = 9, i = 0;
  float square = 0, near = 0;
  char path[4096];
  snprintf(path, sizeof path, "%s/tiny_bert", encoders);
  must(oort_embedder_load(path, NULL, &embedder, &error), &error, path);
  EXPECT(oort_embedder_dimensions(embedder) == 32 && oort_embedder_max_tokens(embedder) == 24);
  must(oort_embedder_embed(embedder, kTexts, NULL, 3, &whole, &truncated, &error), &error, "embed");
  EXPECT(truncated == 0);
  must(oort_embedder_embed(embedder, kTexts, kLengths, 3, &part, NULL, &error), &error, "embed parts");
  for (i = 0; i < 32; ++i) {
    square += whole[i] * whole[i];
    near += whole[i] * whole[64 + i];
  }
  EXPECT(square > 0.999F && square < 1.001F && near > 0.999F && near < 1.001F);
  EXPECT(memcmp(whole + 32, part + 32, 32 * sizeof *whole) != 0);
  oort_embedder_cancel(embedder); /* nothing is under way */
  oort_free(whole);
  oort_free(part);
  oort_embedder_free(embedder);
}

static void try_reranker(const char* encoders) {
  static const char kQuery[] = "ice";
  static const char* const kTexts[2] = {"the comet is far", "ice and dust from two clouds"};
  oort_options* options = oort_options_new();
  oort_reranker* reranker = NULL;
  oort_error* error = NULL;
  float* scores = NULL;
  char path[4096];
  int calls = 0;
  snprintf(path, sizeof path, "%s/modernbert_reranker", encoders);
  must(oort_options_on_progress(options, count_progress, &calls, &error), &error, "progress");
  must(oort_reranker_load(path, options, &reranker, &error), &error, path);
  EXPECT(calls > 0);
  EXPECT(oort_reranker_max_tokens(reranker) == 40);
  must(oort_reranker_score(reranker, kQuery, strlen(kQuery), kTexts, NULL, 2, &scores, NULL, &error), &error, "score");
  EXPECT(scores[0] > 0 && scores[0] < 1 && scores[1] > 0 && scores[1] < 1 && scores[0] != scores[1]);
  oort_free(scores);
  oort_reranker_free(reranker);
  snprintf(path, sizeof path, "%s/tiny_bert", encoders);
  EXPECT(oort_reranker_load(path, NULL, &reranker, &error) == OORT_UNSUPPORTED && reranker == NULL);
  oort_error_free(error);
  oort_options_free(options);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "program MODELS ENCODERS\n");
    return 2;
  }
  EXPECT(oort_abi_version() == OORT_ABI_VERSION);
  EXPECT(strchr(oort_version(), '.') != NULL);
  try_network(argv[1]);
  try_language(argv[1]);
  try_embedder(argv[2]);
  try_reranker(argv[2]);
  if (failures == 0) printf("oort %s from C: all right\n", oort_version());
  return failures == 0 ? 0 : 1;
}
