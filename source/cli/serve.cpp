// SPDX-License-Identifier: MIT
#include "cli/language.h"
#include "cli/model.h"
#include "cli/pictures.h"
#include "cli/version.h"

#ifdef OORT_SERVE
#include <fcntl.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>

#include "cli/file_watch.h"
#include "cli/log_level.h"
#include "serve/http/tls.h"
#include "serve/log_writer.h"
#include "serve/model_server.h"
#endif

namespace oort::cli {

#ifdef OORT_SERVE
namespace {

struct ServeArguments {
  LanguageOptions language;
  std::string host = "127.0.0.1", name, key_file, tls_certificate, tls_key, access_log, encoder;
  std::string reranker;
  uint16_t port = 8080;
  std::vector<std::string> aliases, origins, models, graphs, adapters;
  uint64_t models_memory = 0;
  int64_t graph_batch = serve::GraphOptions().most_batch;
  bool allow_open = false, any_name = false, no_page = false, quiet = false;
  bool no_prefix_cache = false, reserve = false;
  int64_t cache_tokens = 0, max_tokens = -1;
  int64_t parallel = EngineOptions().most_running, queue = EngineLoopOptions().most_waiting;
  int64_t time = 600, drain = 30;
  std::optional<double> step_time;
};

/// How often the program was asked to end. What a signal handler may touch is little.
std::atomic<int> asked_to_end = 0;
std::atomic<bool> asked_to_reload = false;
sem_t something_asked;
constexpr time_t kWatchSeconds = 1;  // how soon a new certificate or key file is noticed

void AskToEnd(int signal) {
  if (++asked_to_end > 1) _exit(128 + signal);
  sem_post(&something_asked);
}

void AskToReload(int) {
  asked_to_reload = true;
  sem_post(&something_asked);
}

/// From here on SIGTERM and Ctrl-C let running answers end; the second one ends at once. SIGHUP
/// reads keys and certificates anew.
void CatchSignals() {
  sem_init(&something_asked, 0, 0);
  struct sigaction action = {};
  action.sa_handler = AskToEnd;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = AskToReload;
  sigaction(SIGHUP, &action, nullptr);
}

/// Each connection is a descriptor, and shells allow 1024 of these unless asked.
void AllowManyDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 65536);
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::shared_ptr<const serve::http::TlsIdentity> LoadTls(const ServeArguments& options) {
  if (options.tls_certificate.empty()) return nullptr;
  return std::make_shared<serve::http::TlsIdentity>(options.tls_certificate, options.tls_key);
}

/// Writes lines of JSON to a file, or to the standard output where its name is "-". The file stays
/// open as long as the process.
std::shared_ptr<serve::LogWriter> AccessLog(const std::string& path) {
  if (path.empty()) return nullptr;
  const int file = path == "-"
                       ? STDOUT_FILENO
                       : open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw Error(ErrorCode::kIo, "cannot write the access log to " + path);
  serve::LogWriter::Options options;
  options.dropped_line = [](int64_t dropped) {
    return "{\"dropped_lines\":" + std::to_string(dropped) + '}';
  };
  return std::make_shared<serve::LogWriter>(file, std::move(options));
}

/// Reads keys and certificates anew. What cannot be read stays as it was.
void Reload(const ServeArguments& options, serve::ModelServer& server, serve::LogWriter& log) {
  try {
    if (!options.key_file.empty()) server.SetKeys(serve::ApiKeys::FromFile(options.key_file));
    if (!options.tls_certificate.empty()) server.SetTls(LoadTls(options));
    log.Write("oort: keys and certificates were read anew");
  } catch (const std::exception& error) {
    log.Write("oort: keys and certificates stay as they were: " + SingleLine(error.what()));
  }
}

/// Returns when the program is asked to end.
void WaitForEnd(const ServeArguments& options, serve::ModelServer& server, serve::LogWriter& log) {
  FileWatch watch({options.key_file, options.tls_certificate, options.tls_key});
  while (asked_to_end == 0) {
    if (watch.empty()) {
      sem_wait(&something_asked);
    } else {
      timespec until = {};
      clock_gettime(CLOCK_REALTIME, &until);
      until.tv_sec += kWatchSeconds;
      sem_timedwait(&something_asked, &until);
    }
    const bool changed = watch.Changed();
    if (asked_to_reload.exchange(false) || changed) Reload(options, server, log);
  }
}

/// "SmolLM2-135M" of "models/SmolLM2-135M.gguf", or of a folder of that name.
std::string NameOf(const ServeArguments& options) {
  if (!options.name.empty()) return options.name;
  if (!options.language.random.empty()) return options.language.random;
  std::filesystem::path path = std::filesystem::path(options.language.model).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  const bool folder = std::filesystem::is_directory(path);
  return (folder ? path.filename() : path.stem()).string();
}

serve::LanguageSetup SetupOf(const ServeArguments& options,
                             std::shared_ptr<const LanguageModel> model) {
  serve::LanguageSetup setup;
  EngineOptions& engine = setup.loop.engine;
  engine = options.language.ForEngine(*model);
  // The cache is for all answers together, the context for each of them.
  const int64_t context = model->info().context;
  const int64_t asked = options.language.context > 0 ? options.language.context : context;
  if (options.cache_tokens > 0) engine.cache_tokens = options.cache_tokens;
  engine.most_running = options.parallel;
  engine.step_seconds = options.step_time;
  if (options.reserve) engine.reserve_cache = true;
  if (options.no_prefix_cache) engine.reuse_prefixes = false;
  setup.loop.most_waiting = options.queue;
  setup.served.read_picture = PictureReading(model);
  setup.served.model = std::move(model);
  setup.served.max_tokens = options.max_tokens;
  setup.served.context = std::min(asked, context);
  return setup;
}

/// Bytes of a file, or of the files of a folder: about what its weights take.
size_t SizeOnDisk(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto size_of = [&](const std::filesystem::path& file) {
    const uintmax_t bytes = std::filesystem::file_size(file, ignored);
    return ignored ? 0 : static_cast<size_t>(bytes);
  };
  if (!std::filesystem::is_directory(path, ignored)) return size_of(path);
  size_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(path, ignored)) {
    if (file.is_regular_file(ignored)) bytes += size_of(file.path());
  }
  return bytes;
}

/// "NAME=PATH"
std::pair<std::string, std::string> NameAndPath(const std::string& text, const char* option) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw UsageError(std::string(option) + " takes NAME=PATH, not '" + text + "'");
  }
  if (!std::filesystem::exists(text.substr(equals + 1))) {
    throw UsageError(std::string(option) + " " + text + ": there is no such file or folder");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// The adapters of one model: "NAME=PATH@BASE", or without a base those of the first one.
std::vector<AdapterFile> AdaptersOf(const ServeArguments& options, const std::string& base,
                                    bool first) {
  std::vector<AdapterFile> adapters;
  for (const std::string& text : options.adapters) {
    const size_t at = text.rfind('@');
    const bool named = at != std::string::npos;
    if (named ? text.substr(at + 1) != base : !first) continue;
    auto [name, path] = NameAndPath(text.substr(0, at), "--lora");
    adapters.push_back({std::move(name), std::move(path)});
  }
  return adapters;
}

std::vector<std::string> NamesOf(const std::vector<AdapterFile>& adapters) {
  std::vector<std::string> names;
  for (const AdapterFile& adapter : adapters) names.push_back(adapter.name);
  return names;
}

serve::LanguageSource SourceOf(const ServeArguments& options, const std::string& text, bool first) {
  auto [name, path] = NameAndPath(text, "--model");
  serve::LanguageSource source;
  source.name = std::move(name);
  source.guessed_bytes = SizeOnDisk(path);
  const std::vector<AdapterFile> adapters = AdaptersOf(options, source.name, first);
  source.adapters = NamesOf(adapters);
  source.load = [options, adapters, first, file = path] {
    ServeArguments own = options;
    own.language.model = file;
    own.language.adapters = adapters;
    // A smaller model has the vocabulary of one, and heads are those of one, which is MODEL where
    // there is one.
    if (own.language.draft != "ngram" && !first) own.language.draft.clear();
    std::shared_ptr<const LanguageModel> model = own.language.Load();
    own.language.context = std::min(own.language.context, model->info().context);
    return SetupOf(own, std::move(model));
  };
  return source;
}

serve::GraphSource GraphOf(const ServeArguments& options, const std::string& text) {
  auto [name, path] = NameAndPath(text, "--graph");
  const ModelFiles files = FindModel(path);
  serve::GraphSource source;
  source.name = std::move(name);
  source.guessed_bytes = SizeOnDisk(files.param) + (files.bin.empty() ? 0 : SizeOnDisk(files.bin));
  source.options.threads = options.language.threads;
  source.options.most_batch = options.graph_batch;
  source.options.exact = options.language.exact.value_or(false);
  source.load = [files, isa = options.language.isa, device = options.language.device] {
    LoadOptions load;
    load.isa = isa;
    load.device = device.Get();
    return LoadModel(files, std::move(load));
  };
  return source;
}

/// Whether MODEL is an encoder or a reranker, which is then served alone.
bool IsAlone(const ServeArguments& options, bool (*is)(const std::filesystem::path&)) {
  const std::string& model = options.language.model;
  return !model.empty() && std::filesystem::is_directory(model) && is(model);
}

/// Of --encoder or --reranker: "NAME=PATH", or a path whose last part is the name. Else MODEL, if
/// that `is` one.
template <typename Model, typename ModelOptions>
std::shared_ptr<serve::EncoderLoop> LoadEncoder(const ServeArguments& options,
                                                const std::string& given, const std::string& kind,
                                                bool (*is)(const std::filesystem::path&)) {
  const bool alone = IsAlone(options, is);
  if (given.empty() && !alone) return nullptr;
  ModelOptions load;
  load.threads = options.language.threads;
  if (alone) {
    if (!given.empty()) throw UsageError("MODEL is one already: leave out --" + kind);
    return std::make_shared<serve::EncoderLoop>(Model(options.language.model, load),
                                                NameOf(options), options.aliases);
  }
  const size_t equals = given.find('=');
  const bool named = equals != std::string::npos;
  std::filesystem::path path = named ? given.substr(equals + 1) : given;
  path = path.lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return std::make_shared<serve::EncoderLoop>(
      Model(path, load), named ? given.substr(0, equals) : path.filename().string());
}

serve::ServeOptions ServerOptions(const ServeArguments& options,
                                  const std::shared_ptr<serve::LogWriter>& log) {
  serve::ServeOptions serve;
  serve.host = options.host;
  serve.port = options.port;
  if (!options.key_file.empty()) serve.access.keys = serve::ApiKeys::FromFile(options.key_file);
  serve.access.origins = options.origins;
  serve.allow_open = options.allow_open;
  serve.page = !options.no_page;
  serve.version = Version();
  serve.most_time = std::chrono::seconds(options.time);
  serve.encoder =
      LoadEncoder<Embedder, EmbedderOptions>(options, options.encoder, "encoder", IsEncoder);
  serve.reranker =
      LoadEncoder<Reranker, RerankerOptions>(options, options.reranker, "reranker", IsReranker);
  serve.tls = LoadTls(options);
  const std::shared_ptr<serve::LogWriter> access_log = AccessLog(options.access_log);
  if (access_log) {
    serve.access_log = [access_log](std::string_view line) { access_log->Write(line); };
  }
  serve.dropped_lines = [log, access_log] {
    return log->dropped() + (access_log ? access_log->dropped() : 0);
  };
  serve.models_memory = options.models_memory;
  for (const std::string& graph : options.graphs) serve.graphs.push_back(GraphOf(options, graph));
  serve.warn = [log](std::string_view line) { log->Write("oort: " + SingleLine(line)); };
  if (!options.quiet) serve.log = [log](std::string_view line) { log->Write(line); };
  const bool alone = IsAlone(options, IsEncoder) || IsAlone(options, IsReranker);
  const bool first =
      !alone && (!options.language.model.empty() || !options.language.random.empty());
  if (!first && !serve.encoder && !serve.reranker && options.models.empty() &&
      options.graphs.empty()) {
    throw UsageError("name a MODEL, --model NAME=PATH or --graph NAME=PATH");
  }
  if (!first && !alone && (!options.name.empty() || !options.aliases.empty())) {
    throw UsageError("--name and --alias are for MODEL: --model has the name in front of its path");
  }
  for (const std::string& model : options.models) {
    serve.models.push_back(SourceOf(options, model, !first && serve.models.empty()));
  }
  if (first) {
    LanguageOptions language = options.language;
    language.adapters = AdaptersOf(options, NameOf(options), true);
    serve::LanguageSetup setup = SetupOf(options, language.Load());
    serve.served = std::move(setup.served);
    serve.loop = std::move(setup.loop);
    serve.served.name = NameOf(options);
    serve.served.aliases = options.aliases;
  }
  serve.served.any_name = options.any_name;
  size_t adapters = serve.served.model ? serve.served.model->adapters().size() : 0;
  for (const serve::LanguageSource& model : serve.models) adapters += model.adapters.size();
  if (adapters < options.adapters.size()) {
    throw UsageError("--lora NAME=PATH@BASE: one names a BASE that is not served");
  }
  return serve;
}

/// All that requests may name: "a, b and c"
std::string Joined(const serve::ServeOptions& serve) {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<std::string>& more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  if (serve.served.model) {
    names.push_back(serve.served.name);
    add(serve.served.model->adapters());
  }
  for (const auto& encoder : {serve.encoder, serve.reranker}) {
    if (encoder) names.push_back(encoder->name());
  }
  for (const serve::LanguageSource& model : serve.models) {
    names.push_back(model.name);
    add(model.adapters);
  }
  for (const serve::GraphSource& graph : serve.graphs) names.push_back(graph.name);
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  }
  return text;
}

int RunServe(const ServeArguments& options) {
  if (std::isnan(options.step_time.value_or(0))) {  // no range keeps it out
    throw UsageError("--step-time wants a number of seconds, 0 for no limit");
  }
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    throw UsageError("TLS wants both --tls-cert FILE and --tls-key FILE");
  }
  AllowManyDescriptors();
  const auto log = std::make_shared<serve::LogWriter>(STDERR_FILENO);
  const LogElsewhere library([log](std::string_view line) { log->Write(line); });
  serve::ServeOptions serve = ServerOptions(options, log);
  const std::string names = Joined(serve);
  CatchSignals();
  serve::ModelServer server(std::move(serve));
  const bool v6 = options.host.find(':') != std::string::npos;
  log->Write("oort: serving " + names + " at " +
             (options.tls_certificate.empty() ? "http://" : "https://") +
             (v6 ? '[' + options.host + ']' : options.host) + ':' + std::to_string(server.port()));
  WaitForEnd(options, server, *log);
  log->Write("oort: answers what was asked, " + std::to_string(options.drain) +
             " s at most, and ends");
  server.Drain(std::chrono::seconds(options.drain));
  return 0;
}

}  // namespace

Action AddServe(CLI::App& app) {
  auto options = std::make_shared<ServeArguments>();
  options->language.Add(app);
  options->language.AddRanks(app);
  options->language.AddContext(app);
  options->language.AddDraft(app);
  app.get_option("MODEL")->required(false);
  app.add_option("--model", options->models,
                 "Another model, loaded when a request names it (may be given several times)")
      ->type_name("NAME=PATH");
  app.add_option("--lora", options->adapters,
                 "A LoRA adapter, which is a model of that name on the weights of BASE, the first "
                 "model unless given (may be given several times)")
      ->type_name("NAME=PATH[@BASE]");
  app.add_option("--graph", options->graphs,
                 "A network of pnnx, which answers at /v2/models/NAME/infer (may be given several "
                 "times)")
      ->type_name("NAME=PATH");
  app.add_option("--graph-batch", options->graph_batch,
                 "Rows of requests to a network that run together, where none depends on others "
                 "(with --exact: in no bit); 1: none")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1024}));
  app.add_option("--models-memory", options->models_memory,
                 "Bytes (or 20GB) that loaded models may take together: those not used for the "
                 "longest time are unloaded (default: no limit)")
      ->transform(CLI::AsSizeValue(true));
  app.add_option("--host", options->host, "Address to listen on")->capture_default_str();
  app.add_option("--port", options->port, "Port to listen on; 0: one that is free")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  app.add_option("--name", options->name, "What clients call the model (default: of the file)");
  app.add_option("--alias", options->aliases, "Another name for it (may be given several times)");
  app.add_flag("--any-name", options->any_name, "Clients may call the model whatever they like");
  app.add_option("--encoder", options->encoder,
                 "An encoder beside the model, which answers /v1/embeddings: its folder")
      ->type_name("[NAME=]PATH");
  app.add_option("--reranker", options->reranker,
                 "A reranker beside the model, which answers /v1/rerank: its folder")
      ->type_name("[NAME=]PATH");
  app.add_option("--api-key-file", options->key_file,
                 "A file with the keys that let clients in, one a line")
      ->check(CLI::ExistingFile);
  app.add_option("--tls-cert", options->tls_certificate,
                 "Speak TLS with this certificate (PEM, chain included)")
      ->check(CLI::ExistingFile);
  app.add_option("--tls-key", options->tls_key, "The certificate's key (PEM)")
      ->check(CLI::ExistingFile);
  app.add_flag("--allow-open", options->allow_open,
               "Serve other machines without keys (default: only this machine)");
  app.add_option("--cors-origin", options->origins,
                 "A site whose pages may ask, as https://example.org (may be given several times)");
  app.add_option("--cache-tokens", options->cache_tokens,
                 "Tokens that all answers together may hold (default: the context, 8192 at most)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--parallel", options->parallel, "Answers that are computed at a time")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  app.add_option("--queue", options->queue, "Requests that may wait; others are told to come later")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--max-tokens", options->max_tokens,
                 "Tokens of an answer whose request does not say (default: as many as fit)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--step-time", options->step_time,
                 "Seconds, about, that an answer waits for its next token while prompts are read; "
                 "0: until they are read (default: 0.1 on a GPU; on a CPU 0.04, and longer where "
                 "parts of prompts would be too short to pay, which a time given here ignores)")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--request-time", options->time, "Seconds that one request may take")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  app.add_option("--drain-time", options->drain, "Seconds that running answers have after SIGTERM")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  app.add_flag("--reserve", options->reserve,
               "Begin an answer only when the cache has room for all of it");
  app.add_flag("--no-prefix-cache", options->no_prefix_cache,
               "Read every prompt anew, though others began alike");
  app.add_flag("--no-page", options->no_page, "Leave out the page to chat with");
  app.add_option("--access-log", options->access_log,
                 "Add a line of JSON for each request to this file, never its text; -: to the "
                 "standard output");
  app.add_flag("--quiet", options->quiet, "No line for each request");
  app.footer(
      "Example: oort serve SmolLM2.gguf --port 8080\n"
      "Then open http://127.0.0.1:8080 in a browser, or point a client of OpenAI's API at\n"
      "http://127.0.0.1:8080/v1. SIGTERM and Ctrl-C let running answers end.");
  return [options] { return RunServe(*options); };
}

#else

Action AddServe(CLI::App& app) {
  app.allow_extras();
  return []() -> int {
    throw Error(ErrorCode::kUnsupported,
                "this program was built without its server: tools/build builds it with one, which "
                "needs Boost (Debian: libboost-dev)");
  };
}

#endif

}  // namespace oort::cli
