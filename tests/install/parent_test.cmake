# Configures the project in PARENT, which adds the library as a subfolder. CMake must not find oneTBB, CLI11,
# nlohmann_json or googletest. The library must be built alone and without -Werror, and the project must install only
# its own files. (.ci/portability also builds the project.)
cmake_minimum_required(VERSION 3.21...3.25)
file(REMOVE_RECURSE ${WORK})
set(absent "")
foreach(package TBB CLI11 nlohmann_json GTest)
  list(APPEND absent -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
function(configure)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${PARENT} -B ${WORK} -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC}
    -DCMAKE_CXX_COMPILER=${CXX} -DLSCHED=${LSCHED} -DHELLO=${HELLO} ${absent} -DLSCHED_MPI=OFF -DLSCHED_HWLOC=OFF
    -DLSCHED_CUDA=OFF ${ARGN}
    RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(failed ${failed} PARENT_SCOPE)
  set(text "${text}" PARENT_SCOPE)
endfunction()

configure(-DLSCHED_TBB=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
if(failed)
  message(FATAL_ERROR "the library alone cannot be configured\n${text}")
endif()
file(READ ${WORK}/compile_commands.json commands)
foreach(part "-Werror" "${LSCHED}/bindings/cli/" "${LSCHED}/tests/")
  string(FIND "${commands}" "${part}" place)
  if(NOT place EQUAL -1)
    message(FATAL_ERROR "${part} is part of another project's build")
  endif()
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} --install ${WORK} --prefix ${WORK}/installed
  RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
file(GLOB_RECURSE installed RELATIVE ${WORK}/installed ${WORK}/installed/*)
if(failed OR NOT installed STREQUAL "share/hello.c")
  message(FATAL_ERROR "the parent installs `${installed}`, not only its own share/hello.c\n${text}")
endif()
configure(-DLSCHED_TBB=OFF -DLSCHED_INSTALL=ON)
file(READ ${WORK}/libsched/bindings/c/cmake_install.cmake rules)
if(failed OR NOT rules MATCHES "/lsched[.]h\"")
  message(FATAL_ERROR "LSCHED_INSTALL is ON, but lsched.h has no install rule\n${text}")
endif()

# If an option is ON but cannot be satisfied, the error must name the option.
configure(-DLSCHED_TBB=ON)
if(NOT failed OR NOT text MATCHES "LSCHED_TBB is ON, but")
  message(FATAL_ERROR "oneTBB is wanted and absent, and this is all that is said of it\n${text}")
endif()
configure(-DLSCHED_TBB=OFF -DLSCHED_TESTS=ON)
if(NOT failed OR NOT text MATCHES "LSCHED_TESTS is ON, but needs the command")
  message(FATAL_ERROR "tests are wanted without the command, and this is all that is said of it\n${text}")
endif()
