// SPDX-License-Identifier: MIT
// The plug-in that connects ranks on GPUs by NCCL. It is the only file that includes <nccl.h>, and
// it is built where that is found; the library itself is opened when the plug-in is asked to.
#include <dlfcn.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "collectives/device_transport.h"

namespace {

static_assert(NCCL_UNIQUE_ID_BYTES == OORT_DEVICE_ID_BYTES);

struct Functions {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRank) comm_init_rank;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;  ///< null in releases before 2.13
};
Functions nccl;

struct Group {
  ncclComm_t comm = nullptr;
  int rank = 0, ranks = 1;
};
Group& GroupOf(void* group) { return *static_cast<Group*>(group); }

void Say(const std::string& text, char* error, size_t bytes) {
  if (bytes == 0) return;
  const size_t kept = std::min(text.size(), bytes - 1);
  std::memcpy(error, text.data(), kept);
  error[kept] = '\0';
}

int Explain(ncclResult_t code, ncclComm_t comm, char* error, size_t bytes) {
  if (code == ncclSuccess) return 0;
  std::string text = nccl.get_error_string(code);
  const char* last = nccl.get_last_error != nullptr ? nccl.get_last_error(comm) : nullptr;
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  Say(text, error, bytes);
  return 1;
}

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

int Load(const char* path, int* release, char* error, size_t error_bytes) {
  void* library = nullptr;
  if (path != nullptr) {
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  } else {
    for (const char* place : {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"}) {
      if (library == nullptr) library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == nullptr) {
    const char* text = dlerror();
    Say(text != nullptr ? text : "there is no libnccl.so.2", error, error_bytes);
    return 1;
  }
  const bool complete =
      Find(library, "ncclGetVersion", nccl.get_version) &&
      Find(library, "ncclGetUniqueId", nccl.get_unique_id) &&
      Find(library, "ncclCommInitRank", nccl.comm_init_rank) &&
      Find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error) &&
      Find(library, "ncclCommAbort", nccl.comm_abort) &&
      Find(library, "ncclCommDestroy", nccl.comm_destroy) &&
      Find(library, "ncclAllGather", nccl.all_gather) &&
      Find(library, "ncclBroadcast", nccl.broadcast) && Find(library, "ncclSend", nccl.send) &&
      Find(library, "ncclRecv", nccl.recv) && Find(library, "ncclGroupStart", nccl.group_start) &&
      Find(library, "ncclGroupEnd", nccl.group_end) &&
      Find(library, "ncclGetErrorString", nccl.get_error_string);
  if (!complete) {
    Say("it is no NCCL of 2.7 or later", error, error_bytes);
    return 1;
  }
  Find(library, "ncclGetLastError", nccl.get_last_error);
  return Explain(nccl.get_version(release), nullptr, error, error_bytes);
}

int MakeId(void* id, char* error, size_t error_bytes) {
  ncclUniqueId made;
  const ncclResult_t code = nccl.get_unique_id(&made);
  if (code == ncclSuccess) std::memcpy(id, made.internal, sizeof(made.internal));
  return Explain(code, nullptr, error, error_bytes);
}

void* Open(const void* id, int rank, int ranks, char* error, size_t error_bytes) {
  ncclUniqueId known;
  std::memcpy(known.internal, id, sizeof(known.internal));
  auto group = std::make_unique<Group>();
  group->rank = rank;
  group->ranks = ranks;
  const ncclResult_t code = nccl.comm_init_rank(&group->comm, ranks, known, rank);
  if (Explain(code, nullptr, error, error_bytes) != 0) return nullptr;
  return group.release();
}

/// What `enqueue` says, or what the end of the group of calls says.
template <typename Enqueue>
ncclResult_t Together(const Enqueue& enqueue) {
  ncclResult_t code = nccl.group_start();
  if (code != ncclSuccess) return code;
  code = enqueue();
  const ncclResult_t end = nccl.group_end();
  return code != ncclSuccess ? code : end;
}

int Gather(void* of, const void* mine, void* all, const size_t* sizes, void* stream, char* error,
           size_t error_bytes) {
  const Group& group = GroupOf(of);
  const auto queue = static_cast<cudaStream_t>(stream);
  const bool even =
      std::all_of(sizes, sizes + group.ranks, [&](size_t size) { return size == sizes[0]; });
  if (even) {
    return Explain(nccl.all_gather(mine, all, sizes[0], ncclInt8, group.comm, queue), group.comm,
                   error, error_bytes);
  }
  const ncclResult_t code = Together([&] {
    char* to = static_cast<char*>(all);
    for (int rank = 0; rank < group.ranks; to += sizes[rank], ++rank) {
      const ncclResult_t part =
          nccl.broadcast(mine, to, sizes[rank], ncclInt8, rank, group.comm, queue);
      if (part != ncclSuccess) return part;
    }
    return ncclSuccess;
  });
  return Explain(code, group.comm, error, error_bytes);
}

int Trade(void* of, const void* mine, void* all, size_t bytes, void* stream, char* error,
          size_t error_bytes) {
  const Group& group = GroupOf(of);
  const auto queue = static_cast<cudaStream_t>(stream);
  const ncclResult_t code = Together([&] {
    for (int rank = 0; rank < group.ranks; ++rank) {
      const size_t at = static_cast<size_t>(rank) * bytes;
      ncclResult_t part =
          nccl.send(static_cast<const char*>(mine) + at, bytes, ncclInt8, rank, group.comm, queue);
      if (part == ncclSuccess) {
        part = nccl.recv(static_cast<char*>(all) + at, bytes, ncclInt8, rank, group.comm, queue);
      }
      if (part != ncclSuccess) return part;
    }
    return ncclSuccess;
  });
  return Explain(code, group.comm, error, error_bytes);
}

int Check(void* of, char* error, size_t error_bytes) {
  const Group& group = GroupOf(of);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = nccl.comm_get_async_error(group.comm, &state);
  if (code == ncclSuccess && state == ncclInProgress) return 0;
  return Explain(code != ncclSuccess ? code : state, group.comm, error, error_bytes);
}

void BreakOff(void* of) {
  const std::unique_ptr<Group> group(&GroupOf(of));
  nccl.comm_abort(group->comm);
}

void Close(void* of) {
  const std::unique_ptr<Group> group(&GroupOf(of));
  nccl.comm_destroy(group->comm);
}

constexpr OortDeviceTransport kTransport = {
    .version = OORT_DEVICE_TRANSPORT_VERSION,
    .name = "NCCL",
    .load = Load,
    .make_id = MakeId,
    .open = Open,
    .gather = Gather,
    .trade = Trade,
    .check = Check,
    .break_off = BreakOff,
    .close = Close,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const OortDeviceTransport*
oort_device_transport() {
  return &kTransport;
}
