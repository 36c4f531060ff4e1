/* A record of eight words is written by one request, and read by the CPU at any time.
 * Mended: the record has a check word, and one that does not fit is read again. */
#include "pair.h"

int main(int argc, char **argv) {
    arguments(argc, argv);
    struct pair p = make_pair(0, 7);
    for (long round = 1; round <= rounds; round++) {
        for (int word = 0; word < 8; word++)
            p.here[word] = round;
        p.here[8] = 8 * (uint64_t)round * 31;
        CHECK(!post(&p, p.a, IBV_WR_RDMA_WRITE, 0, 0, 9, IBV_SEND_SIGNALED));
        for (;;) {
            uint64_t seen[9], whole = 1, sum = 0;
            for (int word = 8; word >= 0; word--)
                seen[word] = p.there[word];
            for (int word = 0; word < 8; word++)
                sum += seen[word];
            if (mended && seen[8] != sum * 31) {
                let_go(&p);
                continue;
            }
            for (int word = 1; word < 8; word++)
                whole &= seen[word] == seen[0];
            if (!whole)
                shows("the record is of two rounds");
            if (seen[0] == (uint64_t)round)
                break;
            let_go(&p);
        }
        complete(p.cq_a, 1);
    }
    return 0;
}
