/* SPDX-License-Identifier: MIT */
/* Oort from C: what all of it shares (versions, errors, options, the log), tensors and networks.
 * oort/c.h has the rules, and docs/c-api.md examples. */
#ifndef OORT_C_NETWORK_H
#define OORT_C_NETWORK_H

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
 * several at once. The function before is not called any more when oort_log returns, which waits
 * for calls that other threads are in: hold no lock meanwhile that the function takes. */
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
/* A tensor in memory of the caller's, of `bytes` bytes, without a copy. `data` is at a multiple of
 * a number's size (of complex ones: of their parts'). It must stay until `release` is called, which
 * may be after oort_tensor_free where a run still has it. NULL for `release`: it stays as long as
 * anything uses it. After a failure `release` is not called. */
OORT_C_API oort_code oort_tensor_borrow(oort_dtype dtype, int32_t rank, const int64_t* extents,
                                        void* data, size_t bytes, oort_release release, void* user,
                                        oort_tensor** tensor, oort_error** error);
/* The same in the memory of a GPU, for networks that were loaded on that one (option device): what
 * they take and give does not pass through the host. OORT_UNSUPPORTED in a library that was built
 * without CUDA, and OORT_DEVICE where there is no such GPU.
 *
 * The library does not know the streams of the caller: elements of inputs are there when a run is
 * called (after cudaStreamSynchronize, say), and nothing else reads or writes outputs meanwhile.
 * Results are there when it returns. */
OORT_C_API oort_code oort_tensor_new_cuda(int32_t device, oort_dtype dtype, int32_t rank,
                                          const int64_t* extents, oort_tensor** tensor,
                                          oort_error** error);
OORT_C_API oort_code oort_tensor_borrow_cuda(int32_t device, oort_dtype dtype, int32_t rank,
                                             const int64_t* extents, void* data, size_t bytes,
                                             oort_release release, void* user, oort_tensor** tensor,
                                             oort_error** error);
/* All elements into a tensor of the same dtype and shape, each wherever it is; they are there when
 * it returns. */
OORT_C_API oort_code oort_tensor_copy(const oort_tensor* from, oort_tensor* to, oort_error** error);
/* The number of the GPU that it is on, or -1. */
OORT_C_API int32_t oort_tensor_cuda_device(const oort_tensor* tensor);
OORT_C_API oort_dtype oort_tensor_dtype(const oort_tensor* tensor);
OORT_C_API int32_t oort_tensor_rank(const oort_tensor* tensor);
OORT_C_API const int64_t* oort_tensor_extents(const oort_tensor* tensor);
/* Of one on a GPU, the address there. */
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
/* The same from memory; `bin` must stay as long as the network and its sessions do. */
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
 * none, where there is no such input or output, and for NULL. */
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
 * new tensor in the host's memory, which the caller frees; else the result is written into that
 * tensor, whose dtype and shape must fit. */
OORT_C_API oort_code oort_session_run(oort_session* session, const oort_tensor* const* inputs,
                                      size_t input_count, oort_tensor** outputs,
                                      size_t output_count, oort_error** error);
/* Ends a run that another thread is in, with OORT_CANCELLED. Does nothing where none is under way.
 */
OORT_C_API void oort_session_cancel(oort_session* session);
OORT_C_API void oort_session_free(oort_session* session);

#ifdef __cplusplus
}
#endif

#endif /* OORT_C_NETWORK_H */
