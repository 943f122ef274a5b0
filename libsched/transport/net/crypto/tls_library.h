// OpenSSL 3 encrypts the connections between hosts if the user asks for encryption. libsched loads OpenSSL at run time.
// So libsched neither links OpenSSL nor needs the headers of OpenSSL.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/status.h"

namespace lsched {

/// The functions of OpenSSL that tls_session uses. Each pointer has the name of its function. Objects of OpenSSL are
/// opaque pointers here.
struct tls_library {
  /// Index of the tls_session in the extra data of an SSL object.
  static constexpr int k_place_of_session = 0;

  /// Loads the library once per process. Returns UNSUPPORTED if the system has no OpenSSL 3. Any thread may call this
  /// function.
  static result<const tls_library*> load();

  void* (*SSL_new)(void* context);
  void (*SSL_free)(void*);
  void (*SSL_set_bio)(void*, void* reads, void* writes);
  int (*SSL_set_ex_data)(void*, int place, void* data);
  void* (*SSL_get_ex_data)(const void*, int place);
  void (*SSL_set_verify)(void*, int mode, void* callback);
  void (*SSL_set_connect_state)(void*);
  void (*SSL_set_accept_state)(void*);
  int (*SSL_read_ex)(void*, void* into, std::size_t room, std::size_t* moved);
  int (*SSL_write_ex)(void*, const void* from, std::size_t bytes, std::size_t* moved);
  int (*SSL_pending)(const void*);
  int (*SSL_get_error)(const void*, int answer);
  int (*SSL_key_update)(void*, int kind);
  void (*ERR_clear_error)();
  void* (*BIO_new)(const void* method);
  void (*BIO_set_init)(void*, int);
  void (*BIO_set_data)(void*, void* data);
  void* (*BIO_get_data)(void*);
  void (*BIO_set_flags)(void*, int);
  void (*BIO_clear_flags)(void*, int);

  void* context;       ///< SSL_CTX of all connections
  const void* method;  ///< BIO_METHOD of a socket
};

}  // namespace lsched
