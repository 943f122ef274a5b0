# Runs COMMAND, which draws a picture, and parses the output as XML with PYTHON. The parser must refuse the output if a
# tag is misspelt.
execute_process(COMMAND ${COMMAND} ${ARGUMENTS} --svg - OUTPUT_VARIABLE svg COMMAND_ERROR_IS_FATAL ANY)
set(parse "import sys, xml.etree.ElementTree as t; r = t.parse(sys.argv[1]).getroot(); sys.exit(r.tag[-3:] != 'svg')")
file(WRITE ${FILE} "${svg}")
execute_process(COMMAND ${PYTHON} -c "${parse}" ${FILE} COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "</title>" "</titel>" broken "${svg}")
file(WRITE ${FILE} "${broken}")
execute_process(COMMAND ${PYTHON} -c "${parse}" ${FILE} RESULT_VARIABLE refused ERROR_QUIET)
file(REMOVE ${FILE})
if(NOT refused)
  message(FATAL_ERROR "the parser takes a picture that is no XML")
endif()
