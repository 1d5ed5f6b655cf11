/* SPDX-License-Identifier: MIT */
/* Oort from C, and from every language that can call C. docs/c-api.md has examples.
 *
 * - Handles are opaque. Each has one oort_..._free, which takes NULL, too, and may be called from
 * any thread.
 * - What can fail returns an oort_code and has `error` as its last argument. That may be NULL. Else
 * *error is NULL after a success, and after a failure an object that the caller frees with
 * oort_error_free.
 * - A failure leaves results (*network, *tokens ...) NULL or 0. NULL where an object is needed is a
 * failure, not a crash. Functions without `error` cannot fail; for NULL they return 0, NULL or "",
 * and where 0 would be an answer (oort_network_..._rank, oort_piece_token) -1.
 * - Texts are UTF-8. Those that go in end with a zero, or have their length beside them. Those that
 * come out end with a zero and belong to the handle that they came from, unless it says that
 * oort_free frees them.
 * - The library prints nothing and never ends the process. No C++ exception leaves it.
 * - Functions are only ever added, and no signature changes, within one OORT_ABI_VERSION.
 */
#ifndef OORT_C_H
#define OORT_C_H

#include "oort/c_network.h"

#include "oort/c_language.h"

#include "oort/c_embedding.h"

#endif /* OORT_C_H */
