// SPDX-License-Identifier: MIT
// What a plug-in that connects processes gives: a table of functions of C, so that it may be built
// by another compiler, against libraries that Oort itself does not know. None of them blocks.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

/// Grows at its end alone; a plug-in of another version is refused.
#define OORT_TRANSPORT_VERSION 2u

struct OortTransport {
  uint32_t version;
  const char* name;  ///< "Open MPI 4.1", for people
  /// Joins the others. Gives 0, or another number with a text in `error`.
  int (*open)(int* rank, int* ranks, char* error, size_t error_bytes);
  /// One at a time: every rank gets the bytes of all, those of rank r at offsets[r] of `all`.
  int (*start_gather)(const void* mine, size_t bytes, void* all, const size_t* sizes,
                      const size_t* offsets);
  /// One at a time: every rank gets the bytes of `root`.
  int (*start_broadcast)(void* data, size_t bytes, int root);
  /// Of what was started: 1 done, 0 under way, below 0 failed.
  int (*test)(void);
  /// Tells the others that this rank has failed; gives up after a moment.
  void (*send_failure)(const char* text, size_t bytes);
  /// 1 where another rank has failed; its text is cut to `text_bytes` and ends with a 0.
  int (*poll_failure)(int* rank, char* text, size_t text_bytes);
  /// `clean`: all ranks are about to leave, too. Else nobody is waited for.
  void (*close)(int clean);
  /// One at a time: bytes of one rank go to one other.
  int (*start_send)(const void* data, size_t bytes, int to);
  int (*start_receive)(void* data, size_t bytes, int from);
};

/// The only symbol of a plug-in; null where it cannot be used.
typedef const struct OortTransport* (*OortTransportFunction)(void);
#define OORT_TRANSPORT_FUNCTION "oort_transport"
}
