# cmake -DCOMMAND=<words> -DREPORT=<file> -P compile.cmake: runs a compiler and writes its output to the report, or
# prints the output if the compiler fails.
execute_process(COMMAND ${COMMAND} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${said}")
endif()
file(WRITE ${REPORT} "${said}")
