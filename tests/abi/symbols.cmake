# Compares the symbols that LIBRARY exports, each with its version node, with the list in GOLDEN, or writes that list
# (MODE=update).
cmake_minimum_required(VERSION 3.21...3.25)
set(how "cmake --build build --target update-symbols")

execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" lines "${output}")
set(actual "")
foreach(line IN LISTS lines)
  if(line MATCHES " ([A-Za-z]) ([^ ]+)$" AND NOT CMAKE_MATCH_1 STREQUAL "A") # A: the version node itself
    list(APPEND actual ${CMAKE_MATCH_2})
  endif()
endforeach()
list(SORT actual)

if(MODE STREQUAL "update")
  list(JOIN actual "\n" text)
  file(WRITE ${GOLDEN} "${text}\n")
  return()
endif()

if(NOT EXISTS ${GOLDEN})
  message(FATAL_ERROR "${GOLDEN} is missing; write it with: ${how}")
endif()
file(STRINGS ${GOLDEN} expected)
set(lost ${expected})
set(added ${actual})
list(REMOVE_ITEM lost ${actual} "")
list(REMOVE_ITEM added ${expected} "")
if(lost OR added)
  list(JOIN lost "\n  " lost)
  list(JOIN added "\n  " added)
  message(FATAL_ERROR "exported symbols changed\nlost:\n  ${lost}\nadded:\n  ${added}\nIf that is meant: ${how}")
endif()
