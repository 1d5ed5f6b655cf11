// SPDX-License-Identifier: MIT
// What the plug-in for exchanges between GPUs gives, as transport.h is for those between processes:
// a table of functions of C. Streams are those of CUDA.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// Grows at its end alone; a plug-in of another version is refused.
#define OORT_DEVICE_TRANSPORT_VERSION 1u
/// Of what rank 0 makes and all others need to find it.
#define OORT_DEVICE_ID_BYTES 128u

/// Functions that give an int give 0, or another number with a text in `error`.
struct OortDeviceTransport {
  uint32_t version;
  const char* name;  ///< "NCCL", for people
  /// Opens the library: that at `path`, or, where it is null, where it is as a rule. `release` gets
  /// its version: 23003 is 2.30.3.
  int (*load)(const char* path, int* release, char* error, size_t error_bytes);
  int (*make_id)(void* id, char* error, size_t error_bytes);
  /// Joins the others with the GPU that is this thread's, and waits for them. Null where that
  /// fails.
  void* (*open)(const void* id, int rank, int ranks, char* error, size_t error_bytes);
  /// Every rank gets the bytes of all, one behind the other.
  int (*gather)(void* group, const void* mine, void* all, const size_t* sizes, void* stream,
                char* error, size_t error_bytes);
  /// Every rank gets `bytes` of each other one, those at the place of its own number.
  int (*trade)(void* group, const void* mine, void* all, size_t bytes, void* stream, char* error,
               size_t error_bytes);
  /// Whether nothing has gone wrong so far.
  int (*check)(void* group, char* error, size_t error_bytes);
  /// Ends what is under way at once, and then the group; may wait for its recordings to be gone.
  void (*break_off)(void* group);
  /// Ends a group of which nothing is under way.
  void (*close)(void* group);
};

/// The only symbol of a plug-in.
typedef const struct OortDeviceTransport* (*OortDeviceTransportFunction)(void);
#define OORT_DEVICE_TRANSPORT_FUNCTION "oort_device_transport"
}
