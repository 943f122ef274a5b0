#include "libsched/transport/net/crypto/tls_library.h"

#include <dlfcn.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "libsched/transport/net/crypto/tls_session.h"

namespace lsched {
namespace {

// Constants of OpenSSL 3.
constexpr int k_control_of_mode = 33, k_control_of_least_version = 123;
constexpr long k_tls_1_3 = 0x0304;
constexpr long k_partial_writes = 1, k_moving_buffer = 2;
constexpr int k_source_sink = 0x0400;
constexpr int k_flag_read = 1, k_flag_write = 2, k_flag_retry = 8;
constexpr int k_control_of_end = 2, k_control_of_flush = 11;

/// The functions with which load() creates the objects that all sessions share.
struct creation {
  const void* (*TLS_method)();
  void* (*SSL_CTX_new)(const void* method);
  long (*SSL_CTX_ctrl)(void*, int command, long number, void* pointer);
  int (*SSL_CTX_set_ciphersuites)(void*, const char*);
  int (*SSL_CTX_set_num_tickets)(void*, std::size_t);
  void (*SSL_CTX_set_psk_client_callback)(void*,
                                          unsigned (*)(void*, const char*, char*, unsigned, unsigned char*, unsigned));
  void (*SSL_CTX_set_psk_server_callback)(void*, unsigned (*)(void*, const char*, unsigned char*, unsigned));
  int (*BIO_get_new_index)();
  void* (*BIO_meth_new)(int type, const char* name);
  int (*BIO_meth_set_read)(void*, int (*)(void*, char*, int));
  int (*BIO_meth_set_write)(void*, int (*)(void*, const char*, int));
  int (*BIO_meth_set_ctrl)(void*, long (*)(void*, int, long, void*));
};

/// The loaded library. Valid once load() has returned a library.
tls_library functions{};

tls_session& session_of(const void* ssl) {
  return *static_cast<tls_session*>(functions.SSL_get_ex_data(ssl, tls_library::k_place_of_session));
}

// --- functions that OpenSSL calls ------------------------------------------------------------------------------

unsigned copy_key(const tls_session& of, unsigned char* key, unsigned most) {
  if (of.key().size() > most) return 0;
  std::memcpy(key, of.key().data(), of.key().size());
  return static_cast<unsigned>(of.key().size());
}

unsigned client_key(void* ssl, const char*, char* identity, unsigned most_identity, unsigned char* key, unsigned most) {
  constexpr char name[] = "libsched";
  if (most_identity < sizeof name) return 0;
  std::memcpy(identity, name, sizeof name);
  return copy_key(session_of(ssl), key, most);
}

unsigned server_key(void* ssl, const char*, unsigned char* key, unsigned most) {
  return copy_key(session_of(ssl), key, most);
}

/// Reports the result of recv() or send() to OpenSSL: sets the flags of the BIO, and returns the number of bytes or -1.
int report(void* bio, ssize_t moved, int direction) {
  functions.BIO_clear_flags(bio, k_flag_read | k_flag_write | k_flag_retry);
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    functions.BIO_set_flags(bio, direction | k_flag_retry);
  return static_cast<int>(moved);
}

int read_socket(void* bio, char* into, int room) {
  auto& of = *static_cast<tls_session*>(functions.BIO_get_data(bio));
  return report(bio, of.read_socket(into, static_cast<std::size_t>(std::max(room, 0))), k_flag_read);
}

int write_socket(void* bio, const char* from, int bytes) {
  auto& of = *static_cast<tls_session*>(functions.BIO_get_data(bio));
  return report(bio, of.write_socket(from, static_cast<std::size_t>(std::max(bytes, 0))), k_flag_write);
}

long control(void* bio, int command, long, void*) {
  if (command == k_control_of_end) return static_cast<tls_session*>(functions.BIO_get_data(bio))->has_ended() ? 1 : 0;
  return command == k_control_of_flush ? 1 : 0;
}

// --- loading ---------------------------------------------------------------------------------------------------

/// Finds functions by name, and remembers whether all were found.
class finder {
 public:
  explicit finder(void* library) : library_(library) {}
  template <typename Function>
  void operator()(const char* name, Function*& into) {
    into = reinterpret_cast<Function*>(dlsym(library_, name));
    is_complete_ = is_complete_ && into != nullptr;
  }
  bool is_complete() const { return is_complete_; }

 private:
  void* library_;
  bool is_complete_ = true;
};

bool find_functions(finder& find, creation& make) {
  find("SSL_new", functions.SSL_new);
  find("SSL_free", functions.SSL_free);
  find("SSL_set_bio", functions.SSL_set_bio);
  find("SSL_set_ex_data", functions.SSL_set_ex_data);
  find("SSL_get_ex_data", functions.SSL_get_ex_data);
  find("SSL_set_connect_state", functions.SSL_set_connect_state);
  find("SSL_set_verify", functions.SSL_set_verify);
  find("SSL_set_accept_state", functions.SSL_set_accept_state);
  find("SSL_read_ex", functions.SSL_read_ex);
  find("SSL_write_ex", functions.SSL_write_ex);
  find("SSL_pending", functions.SSL_pending);
  find("SSL_get_error", functions.SSL_get_error);
  find("SSL_key_update", functions.SSL_key_update);
  find("ERR_clear_error", functions.ERR_clear_error);
  find("BIO_new", functions.BIO_new);
  find("BIO_set_init", functions.BIO_set_init);
  find("BIO_set_data", functions.BIO_set_data);
  find("BIO_get_data", functions.BIO_get_data);
  find("BIO_set_flags", functions.BIO_set_flags);
  find("BIO_clear_flags", functions.BIO_clear_flags);
  find("TLS_method", make.TLS_method);
  find("SSL_CTX_new", make.SSL_CTX_new);
  find("SSL_CTX_ctrl", make.SSL_CTX_ctrl);
  find("SSL_CTX_set_ciphersuites", make.SSL_CTX_set_ciphersuites);
  find("SSL_CTX_set_num_tickets", make.SSL_CTX_set_num_tickets);
  find("SSL_CTX_set_psk_client_callback", make.SSL_CTX_set_psk_client_callback);
  find("SSL_CTX_set_psk_server_callback", make.SSL_CTX_set_psk_server_callback);
  find("BIO_get_new_index", make.BIO_get_new_index);
  find("BIO_meth_new", make.BIO_meth_new);
  find("BIO_meth_set_read", make.BIO_meth_set_read);
  find("BIO_meth_set_write", make.BIO_meth_set_write);
  find("BIO_meth_set_ctrl", make.BIO_meth_set_ctrl);
  return find.is_complete();
}

/// Creates the context and the method.
bool create(const creation& make) {
  void* const context = make.SSL_CTX_new(make.TLS_method());
  void* const method = make.BIO_meth_new(make.BIO_get_new_index() | k_source_sink, "libsched");
  if (context == nullptr || method == nullptr) return false;
  make.SSL_CTX_set_psk_client_callback(context, client_key);
  make.SSL_CTX_set_psk_server_callback(context, server_key);
  functions.context = context;
  functions.method = method;
  return make.SSL_CTX_ctrl(context, k_control_of_least_version, k_tls_1_3, nullptr) == 1 &&
         make.SSL_CTX_ctrl(context, k_control_of_mode, k_partial_writes | k_moving_buffer, nullptr) != 0 &&
         make.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") == 1 &&
         make.SSL_CTX_set_num_tickets(context, 0) == 1 && make.BIO_meth_set_read(method, read_socket) == 1 &&
         make.BIO_meth_set_write(method, write_socket) == 1 && make.BIO_meth_set_ctrl(method, control) == 1;
}

result<const tls_library*> load_once() {
  void* const library = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return failure{status::unsupported, std::string("encryption needs OpenSSL 3: ") + (why != nullptr ? why : "") +
                                            ". Install OpenSSL 3 (libssl3), or unset LSCHED_NET_ENCRYPT"};
  }
  finder find(library);
  creation make{};
  if (!find_functions(find, make) || !create(make))
    return failure{status::unsupported,
                   "encryption needs OpenSSL 3, but libssl.so.3 of this system lacks TLS "
                   "1.3: install OpenSSL 3 (libssl3), or unset LSCHED_NET_ENCRYPT"};
  return &functions;
}

}  // namespace

result<const tls_library*> tls_library::load() {
  static const result<const tls_library*> loaded = load_once();
  return loaded;
}

}  // namespace lsched
