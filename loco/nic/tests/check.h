/* Ends a program with exit code 1, and says where, if what it relies on does not hold. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #what, strerror(errno));                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
