/* SPDX-License-Identifier: MIT */
/* Oort from C: texts as vectors, and texts sorted by how well they answer a query. oort/c.h has the
 * rules, and docs/c-api.md examples. */
#ifndef OORT_C_EMBEDDING_H
#define OORT_C_EMBEDDING_H

#include <stddef.h>
#include <stdint.h>

#include "oort/c_network.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Embedders: share one between any number of threads. It embeds for one at a time, and the
 * others wait. ---- */

typedef struct oort_embedder oort_embedder;
/* A folder of Hugging Face with an encoder (BERT and its relatives), or one that
 * tools/export-encoder.py wrote. Options: device, isa, threads, precision, pooling, normalize,
 * text_tokens, batch_tokens. */
OORT_C_API oort_code oort_embedder_load(const char* folder, const oort_options* options,
                                        oort_embedder** embedder, oort_error** error);
/* Numbers of a vector. */
OORT_C_API int64_t oort_embedder_dimensions(const oort_embedder* embedder);
/* Tokens of a text that are read, those around it included; the rest of a longer text is not. */
OORT_C_API int64_t oort_embedder_max_tokens(const oort_embedder* embedder);
/* A vector for each of `count` texts, one behind the other; oort_free frees them. `lengths` NULL:
 * each text ends with a zero. *truncated (may be NULL) tells how many texts were longer than what
 * is read of one. */
OORT_C_API oort_code oort_embedder_embed(oort_embedder* embedder, const char* const* texts,
                                         const size_t* lengths, size_t count, float** vectors,
                                         size_t* truncated, oort_error** error);
/* Ends what another thread is embedding, with OORT_CANCELLED. Does nothing where none is. */
OORT_C_API void oort_embedder_cancel(oort_embedder* embedder);
OORT_C_API void oort_embedder_free(oort_embedder* embedder);

/* ---- Rerankers: shared in the same way. ---- */

typedef struct oort_reranker oort_reranker;
/* A folder of Hugging Face with an encoder whose head gives one score (bge-reranker-base ...).
 * Options: device, isa, threads, precision, raw_scores, text_tokens, batch_tokens. */
OORT_C_API oort_code oort_reranker_load(const char* folder, const oort_options* options,
                                        oort_reranker** reranker, oort_error** error);
/* Tokens of query and text together that are read. */
OORT_C_API int64_t oort_reranker_max_tokens(const oort_reranker* reranker);
/* A score for each of `count` texts, in their order: how well it answers the query. oort_free frees
 * them. `lengths` and `truncated` as above. */
OORT_C_API oort_code oort_reranker_score(oort_reranker* reranker, const char* query,
                                         size_t query_length, const char* const* texts,
                                         const size_t* lengths, size_t count, float** scores,
                                         size_t* truncated, oort_error** error);
/* Ends what another thread is scoring, with OORT_CANCELLED. Does nothing where none is. */
OORT_C_API void oort_reranker_cancel(oort_reranker* reranker);
OORT_C_API void oort_reranker_free(oort_reranker* reranker);

#ifdef __cplusplus
}
#endif

#endif /* OORT_C_EMBEDDING_H */
