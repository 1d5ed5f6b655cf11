// SPDX-License-Identifier: MIT
#include "serve/http/head.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace oort::serve::http {
namespace {

constexpr size_t kMostMethodBytes = 16;
constexpr size_t kMostLengthDigits = 18;  // fits in 64 bits

bool IsTokenChar(char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsDigits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The next line, without its CR LF.
std::string_view TakeLine(std::string_view& rest) {
  const size_t end = rest.find("\r\n");
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  return line;
}

void ParseRequestLine(std::string_view line, const HeadLimits& limits, Request& request) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    throw Refusal{400, "the request line is not METHOD PATH VERSION"};
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!IsToken(method) || method.size() > kMostMethodBytes) {
    throw Refusal{400, "the method has characters that a method cannot have"};
  }
  if (target.size() > limits.target_bytes) throw Refusal{414, "the address is too long"};
  const bool printable =
      std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable || (!target.starts_with('/') && target != "*")) {
    throw Refusal{400, "the address of a request begins with /"};
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    throw Refusal{version.starts_with("HTTP/") ? 505 : 400, "the version is not HTTP/1.1"};
  }
  request.method = method;
  const size_t question = target.find('?');
  request.path = target.substr(0, question);
  if (question != std::string_view::npos) request.query = target.substr(question + 1);
  request.http_1_0 = version == "HTTP/1.0";
}

Field ParseField(std::string_view line) {
  if (line.starts_with(' ') || line.starts_with('\t')) {
    throw Refusal{400, "a header field goes on over a second line"};
  }
  const size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  if (colon == std::string_view::npos || !IsToken(name)) {
    throw Refusal{400, "a header field is not NAME: VALUE"};
  }
  const std::string_view value = Trim(line.substr(colon + 1));
  if (std::any_of(value.begin(), value.end(), [](char c) { return c != '\t' && IsControl(c); })) {
    throw Refusal{400, "a header field has a control character"};
  }
  return {std::string(name), std::string(value)};
}

/// Whether a list like "keep-alive, Upgrade" has a word.
bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (EqualsIgnoringCase(Trim(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// What says how long the body is, and whether the connection stays open.
void SettleFraming(Request& request) {
  std::array<int, 3> seen = {};
  constexpr std::array<std::string_view, 3> kOnce = {"host", "content-length", "transfer-encoding"};
  for (const Field& field : request.fields) {
    for (size_t i = 0; i < kOnce.size(); ++i) {
      if (EqualsIgnoringCase(field.name, kOnce[i]) && ++seen[i] > 1) {
        throw Refusal{400, "the header field " + std::string(kOnce[i]) + " is there twice"};
      }
    }
  }
  const auto [hosts, lengths, encodings] = seen;
  if (hosts == 0 && !request.http_1_0) throw Refusal{400, "the header field Host is missing"};
  if (lengths > 0 && encodings > 0) {
    throw Refusal{400, "a request has Content-Length or Transfer-Encoding, not both"};
  }
  if (lengths > 0) {
    const std::string_view text = request.Get("content-length");
    if (!IsDigits(text)) throw Refusal{400, "Content-Length is no number"};
    if (text.size() > kMostLengthDigits) throw Refusal{413, "the body is too large"};
    uint64_t length = 0;
    std::from_chars(text.data(), text.data() + text.size(), length);
    request.length = length;
  }
  if (encodings > 0) {
    if (request.http_1_0 || !EqualsIgnoringCase(request.Get("transfer-encoding"), "chunked")) {
      throw Refusal{501, "the only Transfer-Encoding here is chunked"};
    }
    request.chunked = true;
  }
  const std::string_view connection = request.Get("connection");
  request.keep_alive =
      request.http_1_0 ? ListHas(connection, "keep-alive") : !ListHas(connection, "close");
}

}  // namespace

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenChar);
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view Request::Get(std::string_view name) const {
  for (const Field& field : fields) {
    if (EqualsIgnoringCase(field.name, name)) return field.value;
  }
  return {};
}

std::string_view StatusText(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

std::optional<size_t> FindHeadEnd(std::string_view bytes, size_t& scanned) {
  for (; scanned < bytes.size(); ++scanned) {
    const char before = scanned > 0 ? bytes[scanned - 1] : '\0';
    const bool line_feed = bytes[scanned] == '\n';
    if (line_feed != (before == '\r')) throw Refusal{400, "a line does not end with CR LF"};
    if (line_feed && scanned >= 3 && bytes[scanned - 2] == '\n') return ++scanned;
  }
  return std::nullopt;
}

Request ParseHead(std::string_view head, const HeadLimits& limits) {
  if (head.size() > limits.bytes) throw Refusal{431, "the head of the request is too large"};
  Request request;
  ParseRequestLine(TakeLine(head), limits, request);
  while (true) {
    const std::string_view line = TakeLine(head);
    if (line.empty()) break;
    if (request.fields.size() == limits.fields)
      throw Refusal{431, "there are too many header fields"};
    request.fields.push_back(ParseField(line));
  }
  SettleFraming(request);
  return request;
}

}  // namespace oort::serve::http
