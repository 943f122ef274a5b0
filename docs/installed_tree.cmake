# Copies DOCUMENTS from ROOT to TREE. In the pages of TREE, a link to one of HEADERS leads to the installed header, which is
# in TO_HEADERS, relative to TREE. A link to any other file of the repository becomes its text, as that file is not
# installed.
cmake_minimum_required(VERSION 3.21...3.25)
file(REMOVE_RECURSE ${TREE})
list(TRANSFORM HEADERS REPLACE "[.]" "[.]")
list(JOIN HEADERS "|" headers)
set(sources "ops|libsched|collectives|offload|bindings|microbench|tests|[.]ci|[.]clang-format")

foreach(document IN LISTS DOCUMENTS)
  get_filename_component(folder ${document} DIRECTORY)
  if(NOT document MATCHES "[.]md$")
    file(COPY ${ROOT}/${document} DESTINATION ${TREE}/${folder})
    continue()
  endif()
  string(REGEX REPLACE "[^/]+" ".." up "${folder}")
  if(up)
    string(APPEND up "/")
  endif()
  string(REPLACE "." "[.]" up_pattern "${up}")
  file(READ ${ROOT}/${document} text)
  if(headers)
    string(REGEX REPLACE "\\]\\(${up_pattern}bindings/(c|cpp)/(${headers})(#[^)]*)?\\)" "](${up}${TO_HEADERS}/\\2)"
      text "${text}")
  endif()
  string(REGEX REPLACE "\\[([^][]*)\\]\\(${up_pattern}(${sources})[^)]*\\)" "\\1" text "${text}")
  file(WRITE ${TREE}/${document} "${text}")
endforeach()
