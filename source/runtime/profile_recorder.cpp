// SPDX-License-Identifier: MIT
#include "runtime/profile_recorder.h"

namespace oort {

ProfileRecorder::ProfileRecorder(Profile& profile, const RuntimeImpl& graph, const ArgTable& args,
                                 const std::vector<Value>& slots)
    : profile_(profile), graph_(graph), args_(args), slots_(slots) {
  profile_.seconds = 0;
  profile_.steps.clear();
  profile_.steps.reserve(graph.nodes.size());
  profile_.pieces.clear();
  profile_.work.assign(graph.nodes.size(), {});
  threads_[std::this_thread::get_id()] = 0;
  before_ = SetPieceObserver(nullptr);
  start_ = Clock::now();
}

ProfileRecorder::~ProfileRecorder() { SetPieceObserver(before_); }

void ProfileRecorder::Begin(size_t index) {
  node_ = static_cast<int>(index);
  SetPieceObserver(this);
  step_ = Clock::now();
}

void ProfileRecorder::Skip(size_t index) {
  skipped_.resize(graph_.nodes.size(), false);
  skipped_[index] = true;
  const double now = Since(Clock::now());
  profile_.steps.push_back({static_cast<int>(index), 0, now, now});
}

void ProfileRecorder::End(size_t index, bool dynamic, std::optional<double> seconds) {
  const Clock::time_point end = Clock::now();
  SetPieceObserver(nullptr);
  const double begin = Since(step_);
  profile_.steps.push_back({node_, 0, begin, seconds ? begin + *seconds : Since(end)});
  if (!dynamic) return;
  // What was allocated for this step may be gone at the end of the run.
  TakeWork(index);
  own_ += std::chrono::duration<double>(Clock::now() - end).count();
}

void ProfileRecorder::Finish(const ExecutionPlan& plan) {
  profile_.seconds = Since(Clock::now()) - own_;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const bool skipped = i < skipped_.size() && skipped_[i];
    if (plan.steps[i].kind == Step::kRun && !skipped) TakeWork(i);
  }
}

void ProfileRecorder::TakeWork(size_t index) {
  const Node& node = graph_.nodes[index];
  const std::span<const Value> outputs(slots_.data() + node.first_output,
                                       static_cast<size_t>(node.output_count));
  profile_.work[index] = node.layer->Work(args_[index], outputs);
}

void ProfileRecorder::OnPiece(Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  const auto [found, added] =
      threads_.try_emplace(std::this_thread::get_id(), static_cast<int>(threads_.size()));
  profile_.pieces.push_back({node_, found->second, Since(begin), Since(end)});
}

}  // namespace oort
