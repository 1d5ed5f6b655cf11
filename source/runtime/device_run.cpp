// SPDX-License-Identifier: MIT
#include "runtime/device_run.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "oort/log.h"

namespace oort {
namespace {

bool GraphsTurnedOff() {
  const char* const value = std::getenv("OORT_CUDA_GRAPHS");
  return value != nullptr && std::string_view(value) == "0";
}

}  // namespace

DeviceRun::DeviceRun(const RuntimeImpl& graph, bool record)
    : graph_(graph),
      record_(record && !GraphsTurnedOff()),
      backend_(BackendOf(graph.device)),
      queue_(backend_->MakeQueue()) {}

DeviceRun::~DeviceRun() {
  running_ = true;
  Abandon();
}

void DeviceRun::Prepare(const ExecutionPlan& plan) {
  if (arena_ && arena_->size() >= plan.device_arena_size) return;
  if (arena_) Finish();  // who left without waiting still uses it
  records_.clear();      // they hold addresses of the old arena
  arena_.reset();
  arena_ = queue_->Allocate(plan.device_arena_size);
}

Value DeviceRun::CopyNew(const Value& from, bool to_device) {
  if (from.IsList()) {
    Value::List list;
    for (const Value& item : from.AsList()) list.push_back(CopyNew(item, to_device));
    return list;
  }
  if (!from.IsTensor()) return from;
  const Tensor& source = from.AsTensor();
  std::shared_ptr<Buffer> buffer =
      to_device ? queue_->Allocate(source.bytes()) : AllocateHost(source.bytes());
  Tensor target(source.dtype(), source.shape(), std::move(buffer));
  queue_->Copy(source, target);
  return target;
}

void DeviceRun::Copy(const Node& node, const Value& from, Value& to, bool allocated) {
  const bool to_device = node.copy == Node::kToDevice;
  if (to_device) WaitForHost();  // it may read what an earlier copy brings
  if (allocated) {
    queue_->Copy(from.AsTensor(), to.AsTensor());
  } else {
    to = CopyNew(from, to_device);
  }
  host_waits_ = host_waits_ || !to_device;
}

std::vector<Value> DeviceRun::OnHost(std::span<const Value> values) {
  std::vector<Value> copies;
  for (const Value& value : values) {
    const bool away = value.IsTensor() && value.AsTensor().device().type != DeviceType::kCpu;
    copies.push_back(away ? CopyNew(value, false) : value);
  }
  Finish();
  return copies;
}

void DeviceRun::CopyNow(const Tensor& from, Tensor& to) {
  if (from.device() == Device::Cpu() && to.device() == Device::Cpu()) {
    CopyElements(from, to);
    return;
  }
  queue_->Copy(from, to);
  Finish();
}

void DeviceRun::WaitForHost() {
  if (host_waits_) Finish();
}

void DeviceRun::Finish() {
  queue_->Synchronize();
  host_waits_ = false;
}

void DeviceRun::End() {
  running_ = false;
  Finish();
}

void DeviceRun::Leave() {
  running_ = false;
  host_waits_ = false;
}

void DeviceRun::Abandon() noexcept {
  if (!running_) return;
  running_ = false;
  try {
    Finish();
  } catch (const std::exception&) {
    // Whoever runs next is told; the error that led here is the one that matters now.
  }
}

std::vector<DeviceRun::Segment> DeviceRun::FindSegments(const ExecutionPlan& plan) const {
  std::vector<Segment> segments;
  size_t work = 0;
  const auto close = [&](size_t end) {
    // One kernel alone is started faster than a recording of it.
    if (!segments.empty() && segments.back().end == 0) {
      segments.back().end = end;
      if (work < 2) segments.pop_back();
    }
    work = 0;
  };
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    const Step::Kind kind = plan.steps[i].kind;
    const bool fits =
        kind == Step::kSkip || (kind == Step::kRun && node.OnDevice() &&
                                node.copy == Node::kNoCopy && !node.layer->Traits().unrecordable);
    if (!fits || !plan.steps[i].release.empty()) {
      close(i);
      continue;
    }
    if (segments.empty() || segments.back().end != 0) {
      segments.emplace_back();
      segments.back().begin = i;
    }
    work += kind == Step::kRun ? 1 : 0;
  }
  close(graph_.nodes.size());
  return segments;
}

DeviceRun::PlanRecord& DeviceRun::RecordOf(const RunKey& key) {
  const auto found = std::find_if(records_.begin(), records_.end(),
                                  [&](const PlanRecord& record) { return record.key == key; });
  if (found != records_.end()) {
    records_.splice(records_.begin(), records_, found);
  } else {
    records_.push_front({key, 0, FindSegments(*key.plan)});
    if (records_.size() > kMostPlans) records_.pop_back();
  }
  return records_.front();
}

size_t DeviceRun::Replay(const RunKey& key, size_t index,
                         const std::function<void(size_t step)>& run_step) {
  if (!record_) return index;
  PlanRecord& record = RecordOf(key);
  if (record.runs == 0) return index;
  const auto found = std::find_if(record.segments.begin(), record.segments.end(),
                                  [&](const Segment& segment) { return segment.begin == index; });
  if (found == record.segments.end() || found->refused) return index;
  if (!found->recording) {
    try {
      found->recording = queue_->Record([run_step, begin = found->begin, end = found->end] {
        for (size_t i = begin; i < end; ++i) run_step(i);
      });
    } catch (const Error& error) {
      found->refused = true;
      log::Write(log::Level::kInfo,
                 "a part of the graph runs step by step: " + std::string(error.what()));
      return index;
    }
  }
  found->recording->Launch();
  return found->end;
}

void DeviceRun::CountRun(const RunKey& key) {
  if (record_) ++RecordOf(key).runs;
}

size_t DeviceRun::recordings() const {
  size_t count = 0;
  for (const PlanRecord& record : records_) {
    for (const Segment& segment : record.segments) count += segment.recording ? 1 : 0;
  }
  return count;
}

ShapeArgs::ShapeArgs(const Args& args) {
  for (int i = 0; i < args.size(); ++i) args_.push_back(Shape(&args[i]));
  for (const Value* value : args.variadic()) variadic_.push_back(Shape(value));
  for (const Value* value : args.inputs()) inputs_.push_back(Shape(value));
}

const Value* ShapeArgs::Shape(const Value* value) {
  const bool away = value->IsTensor() && value->AsTensor().device().type != DeviceType::kCpu;
  if (!away) return value;
  const Tensor& tensor = value->AsTensor();
  shapes_.emplace_back(Tensor::Meta(tensor.dtype(), tensor.shape()));
  return &shapes_.back();
}

}  // namespace oort
