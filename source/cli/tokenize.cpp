// SPDX-License-Identifier: MIT
#include <charconv>
#include <iostream>
#include <iterator>
#include <sstream>

#include "cli/command.h"
#include "cli/text.h"
#include "core/problems.h"
#include "oort/tokenizer.h"

namespace oort::cli {
namespace {

struct TokenizeOptions {
  std::string model;
  bool ids = false;
  bool no_special = false;
  bool no_parse_special = false;
  bool keep_special = false;
  bool decode = false;
  bool lines = false;
  bool json = false;

  EncodeOptions encoding() const { return {!no_special, !no_parse_special}; }
  DecodeOptions decoding() const { return {!keep_special}; }
};

std::vector<int32_t> ReadIds(std::istream& in) {
  std::vector<int32_t> ids;
  for (std::string word; in >> word;) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      throw UsageError("expected ids on the standard input, got '" + word + "'");
    }
    ids.push_back(id);
  }
  return ids;
}

std::string IdLine(const std::vector<int32_t>& ids) {
  std::ostringstream out;
  for (size_t i = 0; i < ids.size(); ++i) out << (i > 0 ? " " : "") << ids[i];
  return out.str();
}

/// A piece in one line, with visible ends.
std::string Visible(std::string_view piece) { return "'" + SingleLine(piece) + "'"; }

void PrintEncoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                  const TokenizeOptions& options) {
  if (options.ids) {
    std::cout << IdLine(ids) << '\n';
    return;
  }
  if (options.json) {
    Json pieces = Json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer.Piece(id));
    Print(std::cout, {{"count", ids.size()}, {"ids", ids}, {"pieces", pieces}});
    return;
  }
  Table table({{"id", Table::kRight}, {"piece"}, {"text"}});
  for (const int32_t id : ids) {
    const std::string text = tokenizer.Decode({&id, 1}, {false});
    table.Row({std::to_string(id), Visible(tokenizer.Piece(id)), Visible(text)});
  }
  table.Print(std::cout);
  std::cout << ids.size() << " tokens\n";
}

/// Every line of the input is JSON: a text, or a list of ids with --decode. So is every answer.
int TokenizeLines(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const Json input = Json::parse(line);
      if (options.decode) {
        const auto ids = input.get<std::vector<int32_t>>();
        TokenStream stream(tokenizer, options.decoding());
        std::string streamed;
        for (const int32_t id : ids) streamed += stream.Push(id);
        streamed += stream.Flush();
        const std::string text = tokenizer.Decode(ids, options.decoding());
        if (streamed != text) throw Error(ErrorCode::kInternal, "the stream differs");
        std::cout << Json(text).dump() << '\n';
      } else {
        const auto text = input.get<std::string>();
        std::cout << Json(tokenizer.Encode(text, options.encoding())).dump() << '\n';
      }
    } catch (const Json::exception& error) {
      throw UsageError(std::string("a line of the input is not what it should be: ") +
                       std::string(WithoutTag(error.what())));
    } catch (const Error& error) {
      std::cout << Json{{"error", error.what()}}.dump() << '\n';
    }
  }
  return 0;
}

int Tokenize(const TokenizeOptions& options) {
  const Tokenizer tokenizer = Tokenizer::FromFile(options.model);
  if (options.lines) return TokenizeLines(tokenizer, options);
  if (options.decode) {
    const std::vector<int32_t> ids = ReadIds(std::cin);
    const std::string text = tokenizer.Decode(ids, options.decoding());
    if (options.json) {
      Print(std::cout, {{"text", text}});
    } else {
      std::cout << text;
    }
    return 0;
  }
  const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  PrintEncoded(tokenizer, tokenizer.Encode(text, options.encoding()), options);
  return 0;
}

}  // namespace

Action AddTokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  TokenizeOptions& o = *options;
  app.add_option("MODEL", o.model,
                 "A GGUF file, tokenizer.json, sentencepiece .model or llama2.c tokenizer.bin, or "
                 "a folder that holds one")
      ->required();
  app.add_flag("--ids", o.ids, "Print one line of ids and nothing else");
  app.add_flag("--no-special", o.no_special, "Add no special tokens around the text");
  app.add_flag("--no-parse-special", o.no_parse_special,
               "Read special tokens that the text spells as plain text");
  app.add_flag("--decode", o.decode, "Ids in, text out");
  app.add_flag("--keep-special", o.keep_special, "With --decode: show special tokens")
      ->needs("--decode");
  app.add_flag("--lines", o.lines,
               "Many texts: each line in is a JSON string (with --decode a list of ids), each line "
               "out the JSON answer");
  app.add_flag("--json", o.json, "Print JSON");
  app.footer(
      "The text is read from the standard input, to its last byte.\n"
      "Example:\n"
      "  printf 'Hello world' | oort tokenize model.gguf --ids");
  return [options] { return Tokenize(*options); };
}

}  // namespace oort::cli
