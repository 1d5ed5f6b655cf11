// SPDX-License-Identifier: MIT
// Everything a program needs to load and run models.
#pragma once

#include "oort/error.h"          // IWYU pragma: export
#include "oort/graph.h"          // IWYU pragma: export
#include "oort/layer.h"          // IWYU pragma: export
#include "oort/log.h"            // IWYU pragma: export
#include "oort/npy.h"            // IWYU pragma: export
#include "oort/pnnx.h"           // IWYU pragma: export
#include "oort/profile.h"        // IWYU pragma: export
#include "oort/random.h"         // IWYU pragma: export
#include "oort/runtime_graph.h"  // IWYU pragma: export
#include "oort/session.h"        // IWYU pragma: export
#include "oort/source.h"         // IWYU pragma: export
#include "oort/tensor.h"         // IWYU pragma: export
#include "oort/value.h"          // IWYU pragma: export
