// SPDX-License-Identifier: MIT
// Requests and responses of HTTP/1.1 as the rest of the server sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oort::serve::http {

struct Field {
  std::string name, value;
};

struct Request {
  std::string method;  ///< "GET"
  std::string path;    ///< as it was sent, without the query
  std::string query;   ///< behind the '?'
  std::vector<Field> fields;
  std::string body;
  std::string peer;  ///< the address of who asks

  // How the message is framed.
  bool http_1_0 = false;
  bool keep_alive = true;
  bool chunked = false;
  std::optional<uint64_t> length;

  /// The value of a field, whatever the case of its name; empty where it is missing.
  std::string_view Get(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<Field> fields = {};  ///< besides type and length
};

/// "Not Found" of 404.
std::string_view StatusText(int status);

/// Whether two texts of ASCII are the same but for the case.
bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace oort::serve::http
