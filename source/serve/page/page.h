// SPDX-License-Identifier: MIT
// Pages that are in the program itself: nothing is read from a disk, or loaded from elsewhere.
#pragma once

#include <string_view>

namespace oort::serve {

struct Page {
  std::string_view text;
  std::string_view policy;  ///< Content-Security-Policy: only its own script and style may run
  std::string_view tag;     ///< ETag
};

Page ChatPage();
Page DashboardPage();
Page ImagesPage();
/// All routes, as an OpenAPI file describes them.
Page OpenapiPage();

}  // namespace oort::serve
