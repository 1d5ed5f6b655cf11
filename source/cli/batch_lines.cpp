// SPDX-License-Identifier: MIT
#include "cli/batch_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/problems.h"
#include "openai/json_writer.h"

namespace oort::cli {

using openai::ApiError;
using openai::Fields;
using openai::JsonWriter;
using openai::RequestError;

namespace {

constexpr size_t kReadBytes = size_t{1} << 16;
constexpr size_t kLongestId = 512;

struct Url {
  std::string_view path;
  BatchLine::Kind kind;
};
constexpr std::array kUrls = {Url{"/v1/chat/completions", BatchLine::kChat},
                              Url{"/v1/completions", BatchLine::kCompletions},
                              Url{"/v1/embeddings", BatchLine::kEmbeddings}};

[[noreturn]] void ThrowErrno(const std::string& path) {
  const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  throw Error(code, "cannot read " + Quote(path) + ": " + std::strerror(errno));
}

/// Reads what fits, also where a signal comes between.
size_t ReadSome(int fd, char* to, size_t most, const std::string& path) {
  for (;;) {
    const ssize_t got = read(fd, to, most);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) ThrowErrno(path);
  }
}

void ReadPlain(Fields& fields, BatchLine& line) {
  const auto prompt = fields.Text("prompt");
  if (!prompt) fields.Ignore({"method", "body"});
  fields.CheckAllKnown();
  if (!prompt) fields.Fail("prompt", "is missing, and so is \"url\"");
  line.prompt = *prompt;
}

void ReadRequest(Fields& fields, BatchLine& line, const std::string& url) {
  if (line.custom_id.empty()) fields.Fail("custom_id", "is missing");
  if (fields.Text("method").value_or("") != "POST") fields.Fail("method", "must be \"POST\"");
  bool known = false;
  for (const auto& [path, kind] : kUrls) {
    if (path != url) continue;
    line.kind = kind;
    known = true;
  }
  if (!known) {
    fields.Fail("url", "must be /v1/chat/completions, /v1/completions or /v1/embeddings, not " +
                           Quote(url));
  }
  const openai::Json* body = fields.Object("body");
  if (body == nullptr) fields.Fail("body", "is missing");
  fields.CheckAllKnown();
  const auto stream = body->find("stream");
  if (stream != body->end() && *stream == true) {
    throw RequestError("body.stream", "\"stream\" has no place in a batch");
  }
  line.body = *body;
}

/// {"line": 7, "custom_id": …, as every line of the output begins.
void Begin(JsonWriter& out, const BatchLine& line) {
  out.Open('{').Key("id").String("batch_req_" + std::to_string(line.number));
  out.Key("line").Integer(line.number);
  out.Key("custom_id").StringOrNull(line.custom_id);
}

}  // namespace

LineReader::LineReader(const std::string& path, size_t most_bytes)
    : path_(path), most_bytes_(most_bytes) {
  fd_ = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) ThrowErrno(path);
  struct stat about = {};
  if (fstat(fd_, &about) == 0 && S_ISDIR(about.st_mode)) {
    close(fd_);
    throw Error(ErrorCode::kIo, "cannot read " + Quote(path) + ": it is a folder");
  }
}

LineReader::~LineReader() { close(fd_); }

bool LineReader::Fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const size_t got = ReadSome(fd_, buffer_.data() + before, kReadBytes, path_);
  buffer_.resize(before + got);
  return got > 0;
}

bool LineReader::Next(std::string& line, bool& cut) {
  line.clear();
  cut = false;
  bool any = false;
  for (;;) {
    if (at_ == buffer_.size() && !Fill()) break;
    any = true;
    const size_t end = std::min(buffer_.find('\n', at_), buffer_.size());
    const size_t room = most_bytes_ - std::min(line.size(), most_bytes_);
    cut |= end - at_ > room;
    line.append(buffer_, at_, std::min(end - at_, room));
    const bool whole = end < buffer_.size();
    at_ = whole ? end + 1 : end;
    if (whole) break;
  }
  if (!any) return false;
  if (line.ends_with('\r')) line.pop_back();
  ++number_;
  return true;
}

int64_t LineReader::CountLines() const {
  struct stat about = {};
  if (path_ == "-" || fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode)) return 0;
  LineReader again(path_, 0);
  std::string line;
  bool cut = false;
  while (again.Next(line, cut)) {
  }
  return again.number();
}

void ReadBatchLine(std::string_view text, BatchLine& line) {
  const openai::Json json = openai::ParseBody(text);
  if (json.is_string()) {
    line.prompt = json.get<std::string>();
    return;
  }
  Fields fields(json);
  line.custom_id = fields.Text("custom_id").value_or("");
  if (line.custom_id.size() > kLongestId) {
    line.custom_id.clear();
    fields.Fail("custom_id", "has more than " + std::to_string(kLongestId) + " bytes");
  }
  if (const auto url = fields.Text("url")) {
    ReadRequest(fields, line, std::string(*url));
  } else {
    ReadPlain(fields, line);
  }
}

std::string AnswerLine(const BatchLine& line, int status, std::string_view body) {
  JsonWriter out;
  Begin(out, line);
  out.Key("response").Open('{').Key("status_code").Integer(status);
  out.Key("request_id").String("req_" + std::to_string(line.number));
  out.Key("body").Raw(body).Close('}').Key("error").Null().Close('}');
  return out.Take();
}

std::string PlainAnswerLine(const BatchLine& line, const GenerateResult& result,
                            int64_t prompt_tokens) {
  JsonWriter out;
  Begin(out, line);
  out.Key("text").String(result.text).Key("finish_reason").String(Name(result.finish));
  out.Key("prompt_tokens").Integer(prompt_tokens);
  out.Key("completion_tokens").Integer(static_cast<int64_t>(result.tokens.size()));
  out.Key("error").Null().Close('}');
  return out.Take();
}

std::string PlainVectorLine(const BatchLine& line, std::span<const float> vector, int64_t tokens) {
  JsonWriter out;
  Begin(out, line);
  out.Key("embedding").Open('[');
  for (const float value : vector) out.Number(value);
  out.Close(']').Key("prompt_tokens").Integer(tokens).Key("error").Null().Close('}');
  return out.Take();
}

std::string ErrorLine(const BatchLine& line, const ApiError& error) {
  if (line.kind == BatchLine::kPlain) return BadLine(line, error);
  return AnswerLine(line, error.status, openai::ErrorBody(error));
}

std::string BadLine(const BatchLine& line, const ApiError& error) {
  JsonWriter out;
  Begin(out, line);
  if (!line.custom_id.empty()) out.Key("response").Null();
  out.Key("error").Open('{');
  out.Key("code").String(error.code.empty() ? "invalid_request" : error.code);
  out.Key("message").String(error.message).Key("param").StringOrNull(error.param);
  out.Close('}').Close('}');
  return out.Take();
}

}  // namespace oort::cli
