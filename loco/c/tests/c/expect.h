/* What the test programs share: each expectation that fails says where and why, and ends the program. */
#ifndef EXPECT_H
#define EXPECT_H

#include <loco.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The call returns this status. */
#define EXPECT(expected, call)                                                                                        \
    do {                                                                                                              \
        loco_status status_ = (call);                                                                                 \
        if (status_ != (expected)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is %s, not %s; last error: %s\n", __FILE__, __LINE__, #call,                   \
                    loco_status_name(status_), loco_status_name(expected), loco_last_error());                        \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* The call succeeds. */
#define OK(call) EXPECT(LOCO_OK, call)

/* The condition holds. */
#define HOLDS(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: not %s; last error: %s\n", __FILE__, __LINE__, #condition, loco_last_error());    \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* The call is refused with this status, and the message says this. */
#define REFUSED(expected, words, call)                                                                                \
    do {                                                                                                              \
        EXPECT(expected, call);                                                                                       \
        if (strstr(loco_last_error(), words) == NULL) {                                                               \
            fprintf(stderr, "%s:%d: `%s` is not in: %s\n", __FILE__, __LINE__, words, loco_last_error());             \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

#endif
