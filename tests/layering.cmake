# cmake -DROOT=<tree> -P layering.cmake: fails if an #include is not allowed, and names file and line.
#
# Two tables define what is allowed. `room(name rooms...)` names a folder with sources, and the folders whose headers it
# may include besides its own. A room may only name rooms above it in the table, so the dependencies form a DAG. There
# are no exceptions. `home_of_<third party>` matches the only places that may include the headers of a third party.
# Tests, examples and documentation may include all our headers, and only tests may include googletest.
#
# A folder has at most 25 sources, and a source at most 500 lines. The public headers may be longer.
cmake_minimum_required(VERSION 3.21...3.25)
if(NOT ROOT)
  message(FATAL_ERROR "usage: cmake -DROOT=<tree> -P layering.cmake")
endif()

set(folders ops libsched collectives offload bindings microbench)
set(extensions h hpp cc c cpp cu)

set(problems "")
function(complain file line text)
  set(problems "${problems}  ${file}:${line}: ${text}\n" PARENT_SCOPE)
endfunction()

# Top-level folders form no cycle either: a room may only include rooms of its own top-level folder and of earlier
# folders in this list.
function(room name)
  string(REGEX MATCH "^[^/]+" folder ${name})
  list(FIND folders ${folder} place)
  foreach(below IN LISTS ARGN)
    if(NOT DEFINED may_include_${below})
      message(FATAL_ERROR "layering: the table lets ${name} include ${below}, which is not above ${name}")
    endif()
    string(REGEX MATCH "^[^/]+" folder ${below})
    list(FIND folders ${folder} place_below)
    if(place_below GREATER place)
      message(FATAL_ERROR "layering: the table lets ${name} include ${below}, but ${folder} comes later in the list")
    endif()
  endforeach()
  set(may_include_${name} ${name} ${ARGN} PARENT_SCOPE)
endfunction()

room(ops)
room(ops/elementwise ops)
room(ops/adasum ops ops/elementwise)
room(ops/host ops ops/elementwise ops/adasum)
room(ops/sparse ops ops/elementwise)
room(libsched/schedule ops)
room(libsched/analysis ops libsched/schedule)
room(libsched/postcondition ops libsched/schedule)
room(libsched/trace ops libsched/schedule)
room(libsched/place ops libsched/schedule)
room(libsched/simulate ops libsched/schedule libsched/trace)
room(libsched/transport ops)
room(libsched/partial ops libsched/transport)
room(libsched/engine ops ops/elementwise ops/adasum libsched/schedule libsched/place libsched/analysis libsched/trace libsched/transport
  libsched/partial)
room(libsched/commit ops libsched/analysis libsched/transport libsched/engine)
room(libsched/session ops libsched/schedule libsched/trace libsched/engine libsched/commit)
room(libsched/transport/shm libsched/transport)
room(libsched/transport/net/crypto ops)
room(libsched/transport/net ops libsched/transport libsched/transport/net/crypto)
room(libsched/transport/hybrid libsched/transport libsched/transport/shm)
room(libsched/verify ops libsched/schedule libsched/analysis libsched/postcondition)
room(collectives/algorithm ops ops/adasum libsched/schedule libsched/postcondition)
room(collectives/activation libsched/schedule collectives/algorithm)
room(collectives/patterns libsched/schedule collectives/algorithm)
room(collectives/allgather libsched/schedule collectives/algorithm collectives/patterns)
room(collectives/allreduce libsched/schedule collectives/algorithm collectives/patterns)
room(collectives/adasum libsched/schedule libsched/postcondition collectives/algorithm collectives/patterns)
room(collectives/rooted libsched/schedule collectives/algorithm collectives/patterns)
room(collectives ops libsched/postcondition collectives/algorithm collectives/activation collectives/allgather
  collectives/allreduce collectives/adasum collectives/rooted)
room(collectives/written ops libsched/schedule libsched/verify collectives collectives/algorithm collectives/patterns)
room(collectives/proof ops libsched/schedule libsched/verify collectives)
room(collectives/sparse/steps ops ops/elementwise ops/sparse libsched/schedule)
room(collectives/sparse libsched/schedule libsched/postcondition collectives/algorithm collectives/activation
  collectives/patterns collectives/allgather collectives/allreduce collectives/sparse/steps)
room(collectives/requests ops libsched/schedule libsched/postcondition libsched/engine libsched/commit libsched/session
  collectives/algorithm collectives/activation collectives collectives/sparse/steps collectives/sparse)
room(collectives/baselines ops ops/elementwise ops/sparse libsched/schedule libsched/postcondition collectives/algorithm
  collectives/patterns collectives/allgather collectives/adasum collectives collectives/sparse/steps collectives/sparse)
room(offload ops libsched/trace libsched/transport libsched/engine libsched/commit libsched/session
  libsched/transport/shm)
room(offload/cuda/kernels)
room(offload/cuda/driver ops ops/adasum offload/cuda/kernels)
room(offload/cuda/streams ops libsched/transport libsched/engine offload/cuda/driver offload/cuda/kernels)
room(offload/cuda ops ops/adasum libsched/transport libsched/engine offload offload/cuda/driver offload/cuda/streams
  offload/cuda/kernels)
room(offload/open ops libsched/transport libsched/transport/shm libsched/transport/net/crypto libsched/transport/net
  libsched/transport/hybrid offload)
room(bindings ops libsched/transport/net collectives collectives/written offload/open)
room(bindings/mpi ops libsched/transport libsched/transport/shm libsched/transport/hybrid offload bindings)
room(bindings/c ops ops/elementwise ops/adasum libsched/schedule libsched/place libsched/simulate libsched/session
  libsched/transport libsched/transport/shm libsched/verify collectives/algorithm collectives collectives/proof
  collectives/written collectives/sparse/steps collectives/sparse collectives/requests offload offload/open bindings
  bindings/mpi)
room(bindings/cpp bindings/c)
room(bindings/python/src bindings bindings/c)
room(bindings/cli/msccl ops)
room(bindings/cli/goal ops libsched/schedule libsched/simulate)
room(bindings/cli/common ops libsched/schedule libsched/simulate libsched/transport/shm collectives collectives/sparse
  collectives/written collectives/requests bindings/cli/msccl bindings/cli/goal offload bindings bindings/mpi bindings/c)
room(bindings/cli/picture ops libsched/schedule libsched/trace libsched/simulate bindings)
room(bindings/cli/program ops bindings bindings/cli/common)
room(bindings/cli/hosts ops offload/open bindings bindings/c bindings/cli/common)
room(bindings/cli ops libsched/schedule libsched/trace libsched/transport/shm collectives/requests collectives/baselines
  offload bindings bindings/mpi bindings/c bindings/cli/goal bindings/cli/picture bindings/cli/common
  bindings/cli/program bindings/cli/hosts)
room(bindings/cli/simulate ops libsched/schedule libsched/simulate collectives/algorithm collectives
  collectives/requests bindings bindings/cpp bindings/cli/common bindings/cli/goal bindings/cli/picture)
room(bindings/cli/verify ops libsched/schedule libsched/postcondition libsched/verify collectives collectives/requests
  bindings bindings/cli/common)
room(bindings/cli/doctor ops libsched/transport/shm offload bindings bindings/mpi bindings/c bindings/cli/common)
room(microbench ops collectives/algorithm offload bindings bindings/c)
room(microbench/lockstep ops ops/elementwise libsched/schedule collectives/sparse/steps)
room(microbench/coll ops collectives/algorithm collectives collectives/requests bindings bindings/mpi microbench)
room(microbench/cuda ops ops/adasum ops/elementwise ops/sparse offload/cuda/driver offload/cuda/kernels bindings/c microbench)
room(microbench/command ops collectives/baselines bindings bindings/cli/common bindings/cli/program microbench
  microbench/coll)
room(microbench/soak ops libsched/schedule bindings bindings/c bindings/cli/common bindings/cli/program)
room(microbench/adasum ops/adasum bindings/c microbench microbench/coll)
room(microbench/engine ops collectives offload microbench)
room(microbench/partial ops libsched/schedule libsched/simulate libsched/transport collectives collectives/requests
  offload microbench microbench/coll)
room(microbench/sparse ops libsched/schedule collectives collectives/sparse/steps collectives/sparse bindings/c
  microbench microbench/lockstep microbench/coll)

if(PLANTED) # set by layering_sabotage.cmake
  separate_arguments(PLANTED)
  room(${PLANTED})
endif()

# For each third party: a pattern of its headers, and a pattern of the sources that may include them.
set(third_parties mpi hwloc tbb hwy cli11 json pugixml gtest cuda nanobind build_options)
set(header_of_mpi   "^mpi(o|ext|[-_].*)?\\.h$")
set(home_of_mpi     "^(bindings/mpi/.*|bindings/cli/common/session\\.cc|bindings/c/lsched_mpi\\.h|microbench/coll/mpi_[^/]*)$")
set(header_of_hwloc "^hwloc(\\.h|/)")
set(home_of_hwloc   "^offload/pinning\\.cc$")
set(header_of_tbb   "^(oneapi/)?tbb(\\.h|/)")
set(home_of_tbb     "^(offload/tbb_lane\\.cc|microbench/.*)$")
set(header_of_hwy   "^hwy/")
set(home_of_hwy     "^(ops/|collectives/baselines/merge_add\\.cc)")
set(header_of_cli11 "^CLI/")
set(home_of_cli11   "^(bindings/cli|microbench)/")
set(header_of_json  "^nlohmann/")
set(home_of_json    "^(bindings/cli|microbench)/")
set(header_of_pugixml "^pugixml\\.hpp$")
set(home_of_pugixml   "^bindings/cli/msccl/")
set(header_of_gtest "^g(test|mock)/")
set(home_of_gtest   "^tests/")
set(header_of_cuda  "^((cuda|nccl)[A-Za-z0-9_]*\\.h$|(cub|cuda|thrust|nv)/)")
set(home_of_cuda    "^offload/cuda/.*$")
set(header_of_nanobind "^nanobind/")
set(home_of_nanobind   "^bindings/python/src/")
# CMake generates build_options.h, which states whether this build has each optional third party. Sources that may not
# include this header compile to the same objects in every build.
set(header_of_build_options "^build_options\\.h$")
set(home_of_build_options   "^(offload|bindings/cli|microbench)/[^.]*\\.cc$")

# All other headers belong to the standard library or to the operating system. Names of standard headers have no dot
# (<cstdint>, not <stdint.h>). `ops` and `collectives` never call the operating system.
set(system_header "^((sys|linux|net|netinet|arpa|asm)/[a-z_0-9]+|errno|fcntl|dirent|ifaddrs|dlfcn|limits|link|poll|pthread|sched|signal|stdlib|string|time|unistd|spawn|[a-z]*intrin)\\.h$")
set(system_users  "^(libsched|offload|bindings|microbench)$")

foreach(folder IN LISTS folders)
  foreach(extension IN LISTS extensions)
    file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.${extension})
    foreach(file IN LISTS files)
      get_filename_component(here ${file} DIRECTORY)
      if(NOT DEFINED may_include_${here})
        complain(${file} 1 "${here} is not in the table of rooms")
        continue()
      endif()
      # Square brackets and semicolons would confuse CMake's lists; no rule below needs them.
      file(READ ${ROOT}/${file} text)
      list(APPEND sources_of_${here} ${file})
      string(REGEX REPLACE "[][;]" " " text "${text}")
      string(REGEX REPLACE "\\\\" " " text "${text}")
      string(REGEX REPLACE "\n" ";" lines "${text}")
      set(number 0)
      foreach(line IN LISTS lines)
        math(EXPR number "${number} + 1")
        string(REGEX REPLACE "//.*" "" code "${line}")
        if(code MATCHES "^[ \t]*(/?\\*|\\*)") # inside a block comment
          continue()
        endif()
        string(REGEX REPLACE "\"[^\"]*\"" "\"\"" bare "${code}")
        if(bare MATCHES "(^|[^A-Za-z0-9_])volatile([^A-Za-z0-9_]|$)" AND NOT bare MATCHES "asm +volatile")
          complain(${file} ${number} "`volatile` does not order anything; use std::atomic")
        endif()
        if(NOT line MATCHES "^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]")
          continue()
        endif()
        set(style "${CMAKE_MATCH_1}")
        set(header "${CMAKE_MATCH_2}")

        set(home "")
        foreach(party IN LISTS third_parties)
          if(header MATCHES "${header_of_${party}}")
            set(home ${party})
          endif()
        endforeach()
        if(home)
          if(NOT file MATCHES "${home_of_${home}}")
            complain(${file} ${number} "${header} does not live here (its home: ${home_of_${home}})")
          endif()
        elseif(style STREQUAL "\"")
          get_filename_component(there ${header} DIRECTORY)
          if(header MATCHES "^lsched[a-z_]*\\.hpp$") # the public headers are included by their installed names
            set(there bindings/cpp)
          elseif(header MATCHES "^lsched[a-z_]*\\.h$")
            set(there bindings/c)
          endif()
          if(NOT there IN_LIST may_include_${here})
            complain(${file} ${number} "${here} may not include ${header}")
          endif()
        elseif(header MATCHES "^(ops|libsched|collectives|offload|bindings|microbench|tests)/")
          complain(${file} ${number} "our own headers are included with quotes: ${header}")
        elseif(header MATCHES "[./]")
          if(header MATCHES "^lsched(_mpi|_cuda)?\\.h(pp)?$" AND folder STREQUAL "bindings")
            continue()
          elseif(header MATCHES "^std(int|def|bool)\\.h$" AND file MATCHES "^bindings/c/.*\\.h$")
            continue() # the public headers are C, so they may include C headers
          elseif(header STREQUAL "stdio.h" AND file STREQUAL "bindings/c/lsched_must.h")
            continue() # the functions of this header are compiled into the user's program, which may print
          elseif(NOT (header MATCHES "${system_header}" AND folder MATCHES "${system_users}"))
            complain(${file} ${number} "${here} may not include <${header}>")
          endif()
        endif()
      endforeach()
      if(number GREATER 501 AND NOT file MATCHES "^bindings/c(pp)?/lsched\\.h(pp)?$") # the list of lines ends with an
                                                                                      # empty line
        complain(${file} 501 "more than 500 lines")
      endif()
      list(LENGTH sources_of_${here} number)
      if(number EQUAL 26)
        complain(${file} 1 "${here} has more than 25 sources")
      endif()
    endforeach()
  endforeach()
endforeach()

if(problems)
  message(FATAL_ERROR "layering:\n${problems}")
endif()
