// SPDX-License-Identifier: MIT
// The plug-in that connects ranks by MPI. It is the only file that includes <mpi.h>, and it is
// built where that is found.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <thread>
#include <vector>

#include "collectives/transport.h"

namespace {

constexpr int kFailureTag = 1, kPassTag = 2;
constexpr size_t kMostFailureBytes = 2048;

MPI_Comm exchanges = MPI_COMM_NULL;  // collectives
MPI_Comm failures = MPI_COMM_NULL;   // what ranks that fail say
MPI_Request request = MPI_REQUEST_NULL;
bool started_here = false;
std::vector<int> counts, places;

int Explain(int code, char* error, size_t bytes) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::strncpy(error, text, bytes - 1);
  return 1;
}

int Open(int* rank, int* ranks, char* error, size_t error_bytes) {
  int initialized = 0, provided = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    // Threads call it in turns: a step's, and the one that tells others that rank 0 is there.
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return Explain(code, error, error_bytes);
    started_here = true;
  } else {
    MPI_Query_thread(&provided);
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    std::strncpy(error, "this MPI cannot be called by several threads in turns", error_bytes - 1);
    return 1;
  }
  for (MPI_Comm* comm : {&exchanges, &failures}) {
    if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, comm); code != MPI_SUCCESS) {
      return Explain(code, error, error_bytes);
    }
    MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  }
  MPI_Comm_rank(exchanges, rank);
  MPI_Comm_size(exchanges, ranks);
  return 0;
}

int StartGather(const void* mine, size_t bytes, void* all, const size_t* sizes,
                const size_t* offsets) {
  int ranks = 0;
  MPI_Comm_size(exchanges, &ranks);
  counts.clear();
  places.clear();
  for (int i = 0; i < ranks; ++i) {
    if (sizes[i] > INT_MAX || offsets[i] > INT_MAX) return 1;
    counts.push_back(static_cast<int>(sizes[i]));
    places.push_back(static_cast<int>(offsets[i]));
  }
  const int code = MPI_Iallgatherv(mine, static_cast<int>(bytes), MPI_BYTE, all, counts.data(),
                                   places.data(), MPI_BYTE, exchanges, &request);
  return code == MPI_SUCCESS ? 0 : 1;
}

int StartBroadcast(void* data, size_t bytes, int root) {
  if (bytes > INT_MAX) return 1;
  const int code = MPI_Ibcast(data, static_cast<int>(bytes), MPI_BYTE, root, exchanges, &request);
  return code == MPI_SUCCESS ? 0 : 1;
}

int StartSend(const void* data, size_t bytes, int to) {
  if (bytes > INT_MAX) return 1;
  const int code =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, kPassTag, exchanges, &request);
  return code == MPI_SUCCESS ? 0 : 1;
}

int StartReceive(void* data, size_t bytes, int from) {
  if (bytes > INT_MAX) return 1;
  const int code =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, kPassTag, exchanges, &request);
  return code == MPI_SUCCESS ? 0 : 1;
}

int Test() {
  int done = 0;
  if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return -1;
  return done != 0 ? 1 : 0;
}

void SendFailure(const char* text, size_t bytes) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(failures, &rank);
  MPI_Comm_size(failures, &ranks);
  // It outlives the sends, which nobody may ever receive.
  static char kept[kMostFailureBytes];
  const size_t length = std::min(bytes, kMostFailureBytes);
  std::memcpy(kept, text, length);
  std::vector<MPI_Request> sends;
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    MPI_Isend(kept, static_cast<int>(length), MPI_BYTE, other, kFailureTag, failures,
              &sends.emplace_back());
  }
  // Others that live look within a moment; what is short has left by then in any case.
  for (int turn = 0; turn < 200; ++turn) {
    int done = 0;
    MPI_Testall(static_cast<int>(sends.size()), sends.data(), &done, MPI_STATUSES_IGNORE);
    if (done != 0 && turn >= 100) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

int PollFailure(int* rank, char* text, size_t text_bytes) {
  int found = 0, length = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, failures, &found, &status) != MPI_SUCCESS) return 0;
  if (found == 0) return 0;
  MPI_Get_count(&status, MPI_BYTE, &length);
  if (length < 0 || static_cast<size_t>(length) > kMostFailureBytes) return 0;
  std::vector<char> received(static_cast<size_t>(length) + 1);
  MPI_Recv(received.data(), length, MPI_BYTE, status.MPI_SOURCE, kFailureTag, failures,
           MPI_STATUS_IGNORE);
  const size_t kept = std::min(static_cast<size_t>(length), text_bytes - 1);
  std::memcpy(text, received.data(), kept);
  text[kept] = '\0';
  *rank = status.MPI_SOURCE;
  return 1;
}

void Close(int clean) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  // MPI_Finalize would wait for ranks that do not come. mpirun ends them when this one is gone.
  if (clean == 0 || finalized != 0) return;
  MPI_Comm_free(&exchanges);
  MPI_Comm_free(&failures);
  if (started_here) MPI_Finalize();
}

constexpr OortTransport kTransport = {
    .version = OORT_TRANSPORT_VERSION,
    .name = "MPI",
    .open = Open,
    .start_gather = StartGather,
    .start_broadcast = StartBroadcast,
    .test = Test,
    .send_failure = SendFailure,
    .poll_failure = PollFailure,
    .close = Close,
    .start_send = StartSend,
    .start_receive = StartReceive,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const OortTransport* oort_transport() {
  return &kTransport;
}
