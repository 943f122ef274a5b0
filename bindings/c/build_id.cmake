# Writes the header OUTPUT, which defines the name of the build. The name consists of VERSION, ABI and a digest. The
# digest covers COMPILER and the texts of HEADERS.
set(all "${COMPILER}")
foreach(header IN LISTS HEADERS)
  file(SHA256 ${header} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUTPUT} "#pragma once\n#define LSCHED_BUILD \"${VERSION}, ABI ${ABI}, build ${digest}\"\n")
