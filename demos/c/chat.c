/* SPDX-License-Identifier: MIT */
/* Talks with a language model, and prints answers as they come.
 *   chat MODEL [QUESTION]      without a question it reads lines until the input ends */
#include <oort/c_language.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(oort_error* error) {
  fprintf(stderr, "chat: %s\n", oort_error_message(error));
  oort_error_free(error);
  return 1;
}

/* Called on the engine's thread for every token; anything but 0 would end the answer. */
static int print_piece(const oort_piece* piece, void* user) {
  FILE* out = user;
  fwrite(oort_piece_text(piece), 1, oort_piece_length(piece), out);
  fflush(out);
  return 0;
}

/* Asks, and keeps question and answer in the conversation. */
static int ask(oort_engine* engine, oort_chat* chat, const char* question, const oort_options* options) {
  oort_result* result = NULL;
  oort_error* error = NULL;
  const char* text = NULL;
  size_t length = 0;
  oort_code code = oort_chat_add(chat, "user", question, strlen(question), &error);
  if (code == OORT_OK) code = oort_engine_chat(engine, chat, options, print_piece, stdout, &result, &error);
  if (code == OORT_OK) {
    printf("\n");
    text = oort_result_text(result, 0, &length);
    code = oort_chat_add(chat, "assistant", text, length, &error);
  }
  oort_result_free(result);
  return code == OORT_OK ? 0 : failed(error);
}

static int talk(oort_engine* engine, const char* question, const oort_options* options) {
  char line[4096];
  oort_chat* chat = oort_chat_new();
  int status = 0;
  if (question != NULL) status = ask(engine, chat, question, options);
  while (question == NULL && status == 0 && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    status = ask(engine, chat, line, options);
  }
  oort_chat_free(chat);
  return status;
}

int main(int argc, char** argv) {
  oort_options* options = oort_options_new();
  oort_model* model = NULL;
  oort_engine* engine = NULL;
  oort_error* error = NULL;
  int status = 0;
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "chat MODEL [QUESTION]\n");
    return 2;
  }
  if (oort_options_set(options, "max_tokens", "200", &error) != OORT_OK ||
      oort_model_load(argv[1], options, &model, &error) != OORT_OK ||
      oort_engine_new(model, options, &engine, &error) != OORT_OK) {
    status = failed(error);
  } else {
    status = talk(engine, argc > 2 ? argv[2] : NULL, options);
  }
  oort_engine_free(engine);
  oort_model_free(model);
  oort_options_free(options);
  return status;
}
