# cmake -DCOMMAND=<words> -DREPORT=<file> -P compile.cmake: runs a compiler, keeps what it says, and shows it if it fails.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${said}")
endif()
file(WRITE ${REPORT} "${said}")
