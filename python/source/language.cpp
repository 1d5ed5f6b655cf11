// SPDX-License-Identifier: MIT
#include "language.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "load.h"
#include "network.h"

namespace oort::python {
namespace {

/// A keyword of a request or of a model. Python fills in all of them.
template <typename T>
T Get(const nb::dict& dict, const char* key) {
  T value{};
  if (nb::try_cast(dict[key], value)) return value;
  const nb::object given = dict[key];
  throw Error(ErrorCode::kInvalidArgument,
              std::string(key) + " cannot be " + nb::cast<std::string>(nb::repr(given)));
}

SamplingOptions SamplingOf(const nb::dict& request) {
  SamplingOptions sampling;
  sampling.temperature = Get<float>(request, "temperature");
  sampling.top_k = Get<int64_t>(request, "top_k");
  sampling.top_p = Get<float>(request, "top_p");
  sampling.min_p = Get<float>(request, "min_p");
  sampling.repetition_penalty = Get<float>(request, "repetition_penalty");
  sampling.presence_penalty = Get<float>(request, "presence_penalty");
  sampling.frequency_penalty = Get<float>(request, "frequency_penalty");
  sampling.logit_bias = Get<std::vector<std::pair<int32_t, float>>>(request, "logit_bias");
  sampling.seed = Get<uint64_t>(request, "seed");
  sampling.top_logprobs = Get<int>(request, "logprobs");
  return sampling;
}

Pictures PicturesOf(const nb::object& list) {
  Pictures pictures;
  for (const nb::handle picture : list) {
    pictures.push_back(nb::cast<PictureHandle>(picture).picture);
  }
  return pictures;
}

GenerateRequest RequestOf(const nb::dict& given) {
  GenerateRequest request;
  request.prompt = Get<std::vector<int32_t>>(given, "prompt");
  request.max_tokens = Get<int64_t>(given, "max_tokens");
  request.min_tokens = Get<int64_t>(given, "min_tokens");
  request.sampling = SamplingOf(given);
  request.stops = Get<std::vector<std::string>>(given, "stop");
  request.stop_tokens = Get<std::vector<int32_t>>(given, "stop_tokens");
  request.ignore_end = Get<bool>(given, "ignore_end");
  request.n = Get<int64_t>(given, "n");
  request.best_of = Get<int64_t>(given, "best_of");
  request.beams.width = Get<int64_t>(given, "beams");
  request.prompt_logprobs = Get<int>(given, "prompt_logprobs");
  request.priority = Get<int>(given, "priority");
  request.adapter = Get<std::string>(given, "adapter");
  request.pictures = PicturesOf(given["pictures"]);
  if (const auto seconds = Get<std::optional<double>>(given, "timeout")) {
    request.deadline = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(std::min(std::max(*seconds, 0.0), 1e9)));
  }
  return request;
}

GrammarSpec SpecOf(const nb::object& form) {
  const auto kind = nb::cast<std::string>(form[0]);
  if (kind == "choice") return GrammarSpec::Choice(nb::cast<std::vector<std::string>>(form[1]));
  const auto text = nb::cast<std::string>(form[1]);
  if (kind == "json") return GrammarSpec::JsonObject();
  if (kind == "json_schema") return GrammarSpec::JsonSchema(text);
  if (kind == "regex") return GrammarSpec::Regex(text);
  return GrammarSpec::Gbnf(text);
}

std::shared_ptr<Model> LoadModel(const std::string& path, const nb::dict& options) {
  LanguageModelOptions load;
  load.device = DeviceOfName(Get<std::string>(options, "device"));
  load.weights = Get<std::string>(options, "weights");
  load.group = Get<int64_t>(options, "group");
  load.exact = Get<std::optional<bool>>(options, "exact");
  for (auto& [name, file] :
       Get<std::vector<std::pair<std::string, std::string>>>(options, "adapters")) {
    load.adapters.push_back({std::move(name), std::move(file)});
  }
  load.progress = ProgressOf(options["progress"]);
  EngineLoopOptions engine;
  engine.engine.threads = Get<int>(options, "threads");
  engine.engine.cache_tokens = Get<int64_t>(options, "cache_tokens");
  engine.engine.memory_limit = Get<size_t>(options, "memory_limit");
  engine.engine.deterministic = Get<bool>(options, "deterministic");
  engine.engine.reuse_prefixes = Get<std::optional<bool>>(options, "reuse_prefixes");
  const auto kv = Get<std::string>(options, "kv");
  if (!kv.empty()) engine.engine.kv = KvTypeOf(kv);
  std::shared_ptr<const LanguageModel> model;
  RunUnlocked(true, [&](const std::stop_token& stop) {
    const ReadingOperators reading;
    load.stop = stop;
    model = LanguageModel::Load(path, load);
  });
  return std::make_shared<Model>(std::move(model), engine);
}

nb::dict InfoOf(const Model& self) {
  const LanguageModelInfo& info = self.model().info();
  nb::dict dict;
  dict["family"] = info.family;
  dict["layers"] = info.layers;
  dict["hidden"] = info.hidden;
  dict["heads"] = info.heads;
  dict["kv_heads"] = info.kv_heads;
  dict["head_dim"] = info.head_dim;
  dict["vocabulary"] = info.vocabulary;
  dict["context"] = info.context;
  dict["weight_bytes"] = info.weight_bytes;
  dict["step_bytes"] = info.step_bytes;
  dict["file_bytes"] = info.file_bytes;
  dict["device"] = self.model().graph()->device().ToString();
  dict["adapters"] = self.model().adapters();
  dict["chat_templates"] = self.model().chat_template_names();
  return dict;
}

ChatInputs ChatInputsOf(const nb::dict& chat) {
  ChatInputs inputs;
  inputs.messages = Get<std::string>(chat, "messages");
  inputs.tools = Get<std::string>(chat, "tools");
  inputs.documents = Get<std::string>(chat, "documents");
  inputs.variables = Get<std::string>(chat, "variables");
  inputs.continue_final_message = Get<bool>(chat, "continue_final_message");
  inputs.add_generation_prompt = !inputs.continue_final_message;
  return inputs;
}

template <typename Result, typename Work>
Result Without(const Work& work) {
  Result result;
  RunUnlocked(false, [&](const std::stop_token&) { result = work(); });
  return result;
}

void BindModel(nb::module_& module) {
  nb::class_<PictureHandle>(module, "Picture");
  nb::class_<Model>(module, "Model")
      .def(nb::new_(&LoadModel), nb::arg("path"), nb::arg("options"))
      .def("submit", &Model::Submit, nb::arg("request"))
      .def("stats", &Model::Stats)
      .def("info", &InfoOf)
      .def("tokenizer", [](const Model& self) { return self.model().tokenizer(); })
      .def("end_tokens",
           [](const Model& self) {
             const std::span<const int32_t> ends = self.model().end_tokens();
             return std::vector<int32_t>(ends.begin(), ends.end());
           })
      .def("encode_chat",
           [](const Model& self, const nb::dict& chat, const std::string& name,
              const nb::list& given) {
             const ChatInputs inputs = ChatInputsOf(chat);
             const Pictures pictures = PicturesOf(given);
             return Without<std::vector<int32_t>>(
                 [&] { return self.model().EncodeChat(inputs, name, {}, pictures); });
           })
      .def("read_picture", &Model::ReadPicture, nb::arg("given"))
      .def("format_chat", [](const Model& self, const nb::dict& chat, const std::string& name) {
        const ChatInputs inputs = ChatInputsOf(chat);
        return Without<std::string>([&] { return self.model().FormatChat(inputs, name); });
      });
}

void BindTokenizer(nb::module_& module) {
  nb::class_<Tokenizer>(module, "Tokenizer",
                        R"(Text to tokens and back, as the model's own tokenizer does it.

Its path is a GGUF file, a tokenizer.json, a sentencepiece model, or a folder with one of them.

>>> import oort
>>> tokenizer = oort.Tokenizer("models/storyteller")
>>> tokenizer.decode(tokenizer.encode("Once upon a time"))
'Once upon a time'
)")
      .def(
          "__init__",
          [](Tokenizer* self, const std::string& path) {
            RunUnlocked(false, [&](const std::stop_token&) {
              new (self) Tokenizer(Tokenizer::FromFile(path));
            });
          },
          nb::arg("path"))
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool add, bool parse) {
            return Without<std::vector<int32_t>>([&] { return self.Encode(text, {add, parse}); });
          },
          nb::arg("text"), nb::kw_only(), nb::arg("add_special") = true,
          nb::arg("parse_special") = true,
          "Ids of a text. add_special puts what the model wants around it; without parse_special\n"
          "the text of a special token is nothing but its characters.")
      .def(
          "decode",
          [](const Tokenizer& self, const std::vector<int32_t>& tokens, bool skip) {
            return Without<std::string>([&] { return self.Decode(tokens, {skip}); });
          },
          nb::arg("tokens"), nb::kw_only(), nb::arg("skip_special") = true, "The text of tokens.")
      .def("__len__", &Tokenizer::size)
      .def("piece", &Tokenizer::Piece, nb::arg("token"))
      .def("id_of", &Tokenizer::IdOf, nb::arg("piece"))
      .def("is_special", &Tokenizer::IsSpecial, nb::arg("token"))
      .def_prop_ro("bos", &Tokenizer::bos)
      .def_prop_ro("eos", &Tokenizer::eos);
}

}  // namespace

std::shared_ptr<EngineThread> Model::Engine() {
  const std::lock_guard lock(mutex_);
  if (!engine_ || engine_->IsForked()) {
    engine_ = std::make_shared<EngineThread>(model_, options_);
    EndAtExit(engine_);
  }
  return engine_;
}

std::shared_ptr<const TokenConstraint> Model::Constraint(const nb::object& form) {
  if (form.is_none()) return nullptr;
  const GrammarSpec spec = SpecOf(form);
  std::shared_ptr<const TokenConstraint> constraint;
  RunUnlocked(false, [&](const std::stop_token&) {
    const std::lock_guard lock(mutex_);
    if (!grammars_) {
      grammars_ = std::make_unique<GrammarCompiler>(model_->tokenizer(),
                                                    static_cast<size_t>(model_->info().vocabulary));
    }
    constraint = grammars_->Compile(spec);
  });
  return constraint;
}

std::unique_ptr<Stream> Model::Submit(const nb::dict& given) {
  GenerateRequest request = RequestOf(given);
  request.constraint = Constraint(given["form"]);
  std::shared_ptr<EngineThread> engine;
  RunUnlocked(false, [&](const std::stop_token&) { engine = Engine(); });
  return std::make_unique<Stream>(std::move(engine), std::move(request),
                                  Get<bool>(given, "stream"));
}

PictureHandle Model::ReadPicture(const nb::object& given) {
  PictureHandle read;
  {
    const std::lock_guard lock(mutex_);
    if (!pictures_) pictures_ = MakePictureSource(model_);
  }
  pictures_->Read(given, read);
  return read;
}

nb::dict Model::Stats() const {
  EngineStats stats;
  {
    const std::lock_guard lock(mutex_);
    if (engine_) stats = engine_->stats();
  }
  nb::dict dict;
  dict["waiting"] = stats.waiting;
  dict["running"] = stats.running;
  dict["steps"] = stats.steps;
  dict["prompt_tokens"] = stats.prompt_tokens;
  dict["reused_tokens"] = stats.reused_tokens;
  dict["generated_tokens"] = stats.generated_tokens;
  dict["preemptions"] = stats.preemptions;
  dict["cache_blocks"] = stats.blocks;
  dict["used_blocks"] = stats.used_blocks;
  return dict;
}

void BindLanguage(nb::module_& module) {
  BindTokenizer(module);
  BindStream(module);
  BindModel(module);
}

}  // namespace oort::python
