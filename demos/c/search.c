/* SPDX-License-Identifier: MIT */
/* Sorts texts by how near they are to a query.
 *   search ENCODER QUERY TEXT...                 by vectors; a folder such as all-MiniLM-L6-v2
 *   search --rerank RERANKER QUERY TEXT...       by what reads the query beside each text, such as bge-reranker-base */
#include <oort/c_embedding.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct found {
  const char* text;
  float score;
};

static int failed(oort_error* error) {
  fprintf(stderr, "search: %s\n", oort_error_message(error));
  oort_error_free(error);
  return 1;
}

/* texts[0] is the query. Vectors have length 1, so that their product says how near they are. */
static oort_code by_vectors(const char* folder, const char* const* texts, size_t count, struct found* found,
                            oort_error** error) {
  oort_embedder* embedder = NULL;
  float* vectors = NULL;
  size_t width = 0, text = 0, i = 0;
  oort_code code = oort_embedder_load(folder, NULL, &embedder, error);
  if (code == OORT_OK) code = oort_embedder_embed(embedder, texts, NULL, count, &vectors, NULL, error);
  if (code == OORT_OK) {
    width = (size_t)oort_embedder_dimensions(embedder);
    for (text = 1; text < count; ++text) {
      for (i = 0; i < width; ++i) found[text - 1].score += vectors[i] * vectors[text * width + i];
    }
  }
  oort_free(vectors);
  oort_embedder_free(embedder);
  return code;
}

static oort_code by_reranker(const char* folder, const char* const* texts, size_t count, struct found* found,
                             oort_error** error) {
  oort_reranker* reranker = NULL;
  float* scores = NULL;
  size_t text = 0;
  oort_code code = oort_reranker_load(folder, NULL, &reranker, error);
  if (code == OORT_OK) {
    code = oort_reranker_score(reranker, texts[0], strlen(texts[0]), texts + 1, NULL, count - 1, &scores, NULL, error);
  }
  for (text = 1; code == OORT_OK && text < count; ++text) found[text - 1].score = scores[text - 1];
  oort_free(scores);
  oort_reranker_free(reranker);
  return code;
}

static int better_first(const void* one, const void* other) {
  const float a = ((const struct found*)one)->score, b = ((const struct found*)other)->score;
  return a < b ? 1 : a > b ? -1 : 0;
}

int main(int argc, char** argv) {
  const int reranks = argc > 1 && strcmp(argv[1], "--rerank") == 0;
  const int first = reranks ? 3 : 2; /* the query */
  const char* const* texts = (const char* const*)argv + first;
  oort_error* error = NULL;
  struct found* found = NULL;
  size_t count = 0, i = 0;
  oort_code code = OORT_OK;
  if (argc < first + 2) {
    fprintf(stderr, "search ENCODER|--rerank RERANKER QUERY TEXT...\n");
    return 2;
  }
  count = (size_t)(argc - first);
  found = calloc(count, sizeof *found);
  if (found == NULL) return 1;
  for (i = 1; i < count; ++i) found[i - 1].text = texts[i];
  code = (reranks ? by_reranker : by_vectors)(argv[first - 1], texts, count, found, &error);
  if (code == OORT_OK) {
    qsort(found, count - 1, sizeof *found, better_first);
    for (i = 0; i + 1 < count; ++i) printf("%.3f  %s\n", (double)found[i].score, found[i].text);
  }
  free(found);
  return code == OORT_OK ? 0 : failed(error);
}
