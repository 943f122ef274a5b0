# Checks that LIBRARY has the SONAME of its version (SOVERSION), and that MAP has a version node of that name. TABLE
# must list the value of LSCHED_ABI for this SONAME. Therefore LSCHED_ABI cannot change unless the SONAME changes.
cmake_minimum_required(VERSION 3.21...3.25)
execute_process(COMMAND ${READELF} -d ${LIBRARY} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output MATCHES "soname: \\[([^]]+)\\]" OR NOT CMAKE_MATCH_1 STREQUAL "libsched.so.${SOVERSION}")
  message(FATAL_ERROR "the SONAME is `${CMAKE_MATCH_1}`, not libsched.so.${SOVERSION}")
endif()
file(STRINGS ${TABLE} lines REGEX "^[^#]")
if(NOT "${SOVERSION} ${ABI}" IN_LIST lines)
  message(FATAL_ERROR "${TABLE} does not say `${SOVERSION} ${ABI}`: LSCHED_ABI is ${ABI}. If version ${SOVERSION} has been "
    "released, the next version has another SONAME")
endif()
file(READ ${MAP} map)
string(REPLACE "." "[.]" node ${SOVERSION})
if(NOT map MATCHES "LSCHED_${node} {")
  message(FATAL_ERROR "${MAP} has no node LSCHED_${SOVERSION}")
endif()
