# Defines the Debian packages that `cpack -G DEB` makes in a build tree. The packages contain the library, the library
# for programs that call MPI, the development files, the documents, and the command. Configure with
# -DCMAKE_INSTALL_PREFIX=/usr, so that libraries are installed in Debian's folders. dpkg-shlibdeps finds the
# dependencies of each package. The command contains its own copy of the library.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME libsched)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "collective communication as persistent schedules")
set(CPACK_PACKAGE_VENDOR "the libsched authors")
set(CPACK_PACKAGE_CONTACT "the libsched authors <maintainers@libsched.invalid>" CACHE STRING
  "Maintainer of the packages that cpack makes")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL "")

get_target_property(soversion libsched SOVERSION)
set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(about "Collectives are persistent schedules: graphs of sends, receives and
computations, which are proved and simulated before they run. Where wanted,
a round does not wait for the slowest rank.
")

set(triggers ${PROJECT_BINARY_DIR}/deb/triggers)
file(CONFIGURE OUTPUT ${triggers} CONTENT "activate-noawait ldconfig\n")

find_program(LSCHED_GZIP gzip)
mark_as_advanced(LSCHED_GZIP)
string(TIMESTAMP date "%a, %d %b %Y 00:00:00 +0000" UTC)
# lsched_deb(component package section text): defines a package, with the two files that Debian requires in every
# package. Other installations do not have these files (EXCLUDE_FROM_ALL).
macro(lsched_deb component package section text)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${about}\n${text}")
  if(${section} STREQUAL libs)
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${triggers})
  endif()
  set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package})
  install(FILES ${CPACK_RESOURCE_FILE_LICENSE} DESTINATION ${doc} RENAME copyright COMPONENT ${component}
    EXCLUDE_FROM_ALL)
  if(LSCHED_GZIP)
    set(changes ${PROJECT_BINARY_DIR}/deb/${package}/changelog.Debian)
    file(CONFIGURE OUTPUT ${changes} @ONLY CONTENT "libsched (@PROJECT_VERSION@-1) unstable; urgency=medium

  * What has changed: CHANGELOG.md of the sources.

 -- @CPACK_PACKAGE_CONTACT@  @date@
")
    execute_process(COMMAND ${LSCHED_GZIP} -9nkf ${changes})
    install(FILES ${changes}.gz DESTINATION ${doc} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
endmacro()

lsched_deb(runtime libsched${soversion} libs
  "This package has the library.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libsched${soversion} ${same}")
if(LSCHED_HAVE_MPI)
  lsched_deb(mpi libsched-mpi${soversion} libs
    "This package has the library for programs that call MPI.")
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "libsched${soversion} ${same}")
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", libsched-mpi${soversion} ${same}")
endif()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libhwy-dev, libhwloc-dev, libtbb-dev") # for the static library
lsched_deb(development libsched-dev libdevel
  "This package has headers, the static library, pkg-config files and the\nCMake package.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS libsched-doc)
lsched_deb(documents libsched-doc doc
  "This package has the documents and the examples.")
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOCUMENTS_PACKAGE_SHLIBDEPS OFF)
if(LSCHED_CLI)
  set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS libsched-doc) # help texts name pages
  lsched_deb(command libsched-tools utils
    "This package has the command, which starts ranks, proves, simulates,\nmeasures and explains.")
endif()
include(CPack)
