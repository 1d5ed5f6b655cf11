// SPDX-License-Identifier: MIT
// The only file that knows OpenSSL.
#include "serve/http/tls.h"

#include "oort/error.h"

#ifdef OORT_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <climits>
#endif

namespace oort::serve::http {

#ifdef OORT_TLS
namespace {

/// Why the last call failed, in OpenSSL's words.
std::string Reason() {
  std::array<char, 256> text = {};
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  const char* const reason = ERR_reason_error_string(code);
  if (reason != nullptr) return reason;
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

/// Of what a client offers, HTTP/1.1; one that offers only others is refused by name.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_length,
                   const unsigned char* in, unsigned int in_length, void*) {
  static constexpr std::array<unsigned char, 9> kHttp = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_length, kHttp.data(), kHttp.size(), in, in_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

}  // namespace

struct TlsIdentity::Impl {
  std::unique_ptr<SSL_CTX, FreeContext> context;
};

TlsIdentity::TlsIdentity(const std::filesystem::path& certificate, const std::filesystem::path& key)
    : impl_(std::make_unique<Impl>()) {
  ERR_clear_error();
  impl_->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const context = impl_->context.get();
  if (context == nullptr) throw Error(ErrorCode::kOutOfMemory, "TLS has no memory: " + Reason());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Many connections wait for a long time: their buffers go meanwhile.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, ChooseProtocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot use the certificate in " + certificate.string() + " (PEM): " + Reason());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    throw Error(ErrorCode::kInvalidArgument, "cannot use the key in " + key.string() +
                                                 " (PEM, of that certificate): " + Reason());
  }
}

struct TlsSession::Impl {
  std::shared_ptr<const TlsIdentity> identity;
  std::unique_ptr<SSL, FreeSession> ssl;
  BIO* input = nullptr;  // both belong to ssl
  BIO* output = nullptr;
};

TlsSession::TlsSession(std::shared_ptr<const TlsIdentity> identity)
    : impl_(std::make_unique<Impl>()) {
  impl_->identity = std::move(identity);
  impl_->ssl.reset(SSL_new(impl_->identity->impl_->context.get()));
  impl_->input = BIO_new(BIO_s_mem());
  impl_->output = BIO_new(BIO_s_mem());
  if (impl_->ssl == nullptr || impl_->input == nullptr || impl_->output == nullptr) {
    BIO_free(impl_->input);
    BIO_free(impl_->output);
    throw std::bad_alloc();
  }
  SSL_set_bio(impl_->ssl.get(), impl_->input, impl_->output);
  SSL_set_accept_state(impl_->ssl.get());
}

bool TlsSession::Receive(std::string_view bytes, std::string& plain) {
  ERR_clear_error();
  if (BIO_write(impl_->input, bytes.data(), static_cast<int>(bytes.size())) < 0) return false;
  std::array<char, 16 << 10> part;  // a record holds no more
  while (true) {
    const int count = SSL_read(impl_->ssl.get(), part.data(), static_cast<int>(part.size()));
    if (count > 0) {
      plain.append(part.data(), static_cast<size_t>(count));
      continue;
    }
    const bool waits = SSL_get_error(impl_->ssl.get(), count) == SSL_ERROR_WANT_READ;
    ERR_clear_error();
    return waits;
  }
}

void TlsSession::Send(std::string_view plain) {
  ERR_clear_error();
  while (!plain.empty()) {
    const auto size = static_cast<int>(std::min<size_t>(plain.size(), INT_MAX));
    const int count = SSL_write(impl_->ssl.get(), plain.data(), size);
    if (count <= 0) break;  // memory takes all: only a session that is broken comes here
    plain.remove_prefix(static_cast<size_t>(count));
  }
  ERR_clear_error();
}

void TlsSession::End() {
  if (SSL_is_init_finished(impl_->ssl.get()) == 1) SSL_shutdown(impl_->ssl.get());
  ERR_clear_error();
}

std::string TlsSession::TakeOutput() {
  std::string bytes(BIO_ctrl_pending(impl_->output), '\0');
  if (!bytes.empty()) BIO_read(impl_->output, bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

#else

struct TlsIdentity::Impl {};
struct TlsSession::Impl {};

TlsIdentity::TlsIdentity(const std::filesystem::path&, const std::filesystem::path&) {
  throw Error(ErrorCode::kUnsupported,
              "this program was built without TLS: install OpenSSL (Debian: libssl-dev) and build "
              "it again, or let a proxy do it");
}

// There is no identity to begin one with.
TlsSession::TlsSession(std::shared_ptr<const TlsIdentity>) {}
bool TlsSession::Receive(std::string_view, std::string&) { return false; }
void TlsSession::Send(std::string_view) {}
void TlsSession::End() {}
std::string TlsSession::TakeOutput() { return {}; }

#endif

TlsIdentity::~TlsIdentity() = default;
TlsSession::~TlsSession() = default;

}  // namespace oort::serve::http
