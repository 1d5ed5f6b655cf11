// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "core/similar.h"
#include "oort/layer.h"

namespace oort {

namespace builtin {
// Generated from layers/ by the build; the second does nothing in a build without CUDA.
void RegisterAll(LayerRegistry& registry);
void RegisterAllCuda(LayerRegistry& registry);
}  // namespace builtin

namespace {

Error NoLayer(Device device) {
  return Error(ErrorCode::kUnsupported, "has no layer for " + device.ToString());
}

}  // namespace

struct LayerRegistry::Impl {
  struct Entry {
    std::shared_ptr<const OperatorSchema> schema;
    LayerCreator cpu;
    std::map<DeviceType, LayerCreator> others;  // without a function: the CPU's
    Decomposition decomposition = {};
  };
  mutable std::shared_mutex mutex;
  std::map<std::string, Entry, std::less<>> entries;
  // Schemas that were replaced: pointers to them may still be in use.
  std::vector<std::shared_ptr<const OperatorSchema>> retired;

  void Add(OperatorSchema schema, LayerCreator cpu, bool replace) {
    if (schema.types().empty() || !cpu) {
      throw Error(ErrorCode::kInvalidArgument, "an operator needs a type and a creator");
    }
    const auto shared = std::make_shared<const OperatorSchema>(std::move(schema));
    const std::unique_lock lock(mutex);
    for (const std::string& type : shared->types()) {
      if (!replace && entries.count(type) != 0) {
        throw Error(ErrorCode::kInvalidArgument,
                    "operator type '" + type + "' is registered already");
      }
    }
    for (const std::string& type : shared->types()) {
      Entry& entry = entries[type];
      if (entry.schema) retired.push_back(entry.schema);
      entry = Entry{shared, cpu, {}, {}};
    }
  }

  Entry& Declared(const std::string& type) {
    const auto entry = entries.find(type);
    if (entry == entries.end()) {
      throw Error(ErrorCode::kInvalidArgument, "operator type '" + type + "' is not declared");
    }
    return entry->second;
  }

  const Entry* Find(std::string_view type) const {
    const auto found = entries.find(type);
    return found == entries.end() ? nullptr : &found->second;
  }
};

LayerRegistry::LayerRegistry() : impl_(std::make_unique<Impl>()) {}

LayerRegistry::LayerRegistry(const LayerRegistry& other) : impl_(std::make_unique<Impl>()) {
  const std::shared_lock lock(other.impl_->mutex);
  impl_->entries = other.impl_->entries;
}

LayerRegistry::~LayerRegistry() = default;

LayerRegistry& LayerRegistry::Global() {
  // Never destroyed: graphs in other static objects may outlive any order of destruction.
  static LayerRegistry* const registry = [] {
    auto built = std::make_unique<LayerRegistry>();
    builtin::RegisterAll(*built);
    builtin::RegisterAllCuda(*built);
    return built.release();
  }();
  return *registry;
}

void LayerRegistry::Add(OperatorSchema schema, LayerCreator cpu) {
  impl_->Add(std::move(schema), std::move(cpu), false);
}

void LayerRegistry::Replace(OperatorSchema schema, LayerCreator cpu) {
  impl_->Add(std::move(schema), std::move(cpu), true);
}

void LayerRegistry::AddDevice(const std::vector<std::string>& types, DeviceType device,
                              LayerCreator creator) {
  const std::unique_lock lock(impl_->mutex);
  for (const std::string& type : types) impl_->Declared(type).others[device] = creator;
}

void LayerRegistry::SetDecomposition(const std::vector<std::string>& types,
                                     Decomposition decomposition) {
  const std::unique_lock lock(impl_->mutex);
  for (const std::string& type : types) impl_->Declared(type).decomposition = decomposition;
}

const OperatorSchema* LayerRegistry::Schema(std::string_view type) const {
  const std::shared_lock lock(impl_->mutex);
  const Impl::Entry* const entry = impl_->Find(type);
  return entry == nullptr ? nullptr : entry->schema.get();
}

bool LayerRegistry::Has(std::string_view type, DeviceType device) const {
  const std::shared_lock lock(impl_->mutex);
  const Impl::Entry* const entry = impl_->Find(type);
  return entry != nullptr && (device == DeviceType::kCpu || entry->others.count(device) != 0);
}

std::unique_ptr<Layer> LayerRegistry::Make(const LayerInit& init) const {
  const Device device = init.device();
  const bool on_cpu = device.type == DeviceType::kCpu;
  LayerCreator cpu, own;
  {
    const std::shared_lock lock(impl_->mutex);
    const Impl::Entry* const entry = impl_->Find(init.type());
    if (entry == nullptr) throw NoLayer(device);
    cpu = entry->cpu;
    const auto other = entry->others.find(device.type);
    if (!on_cpu && other == entry->others.end()) throw NoLayer(device);
    if (!on_cpu) own = other->second;
  }
  if (own) return own(init);
  std::unique_ptr<Layer> layer = cpu(init);
  if (!on_cpu && !layer->Traits().either_device) throw NoLayer(device);
  return layer;
}

Decomposition LayerRegistry::DecompositionOf(std::string_view type) const {
  const std::shared_lock lock(impl_->mutex);
  const Impl::Entry* const entry = impl_->Find(type);
  return entry == nullptr ? Decomposition() : entry->decomposition;
}

std::vector<std::string> LayerRegistry::Types() const {
  const std::shared_lock lock(impl_->mutex);
  std::vector<std::string> types;
  for (const auto& [type, entry] : impl_->entries) types.push_back(type);
  return types;
}

namespace {

/// Letters of the part after the last '.' or ':', without case and underscores.
std::string Stem(std::string_view type) {
  const size_t dot = type.find_last_of(".:");
  std::string stem;
  for (char c : type.substr(dot == std::string_view::npos ? 0 : dot + 1)) {
    if (c != '_') stem += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return stem;
}

}  // namespace

std::vector<std::string> LayerRegistry::Similar(std::string_view type) const {
  const std::string wanted = Stem(type.substr(0, 200));
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& known : Types()) {
    const size_t distance = EditDistance(wanted, Stem(known));
    if (distance <= std::max<size_t>(1, wanted.size() / 4)) ranked.emplace_back(distance, known);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < ranked.size() && i < 3; ++i) names.push_back(ranked[i].second);
  return names;
}

}  // namespace oort
