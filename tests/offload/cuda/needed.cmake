# cmake -DLIBRARY=<file> -DREADELF=<program> -DFORBIDDEN=<expression> -P needed.cmake: fails if LIBRARY needs a library
# whose name matches the expression.
cmake_minimum_required(VERSION 3.21...3.25)
execute_process(COMMAND ${READELF} --dynamic --wide ${LIBRARY} OUTPUT_VARIABLE entries COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "NEEDED[^\n]*" needed "${entries}")
if(NOT needed)
  message(FATAL_ERROR "this does not say what the library needs:\n${entries}")
endif()
if(needed MATCHES "${FORBIDDEN}")
  message(FATAL_ERROR "${LIBRARY} must not need ${CMAKE_MATCH_0}")
endif()
