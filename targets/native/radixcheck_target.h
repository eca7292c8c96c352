/* A prefix cache as radixcheck meets it: version 1 of the C interface. C99 and C++.
 *
 * Define `struct radixcheck_tree` to hold your cache, write the functions at the end of this file,
 * link them into a shared library, and judge it:
 *
 *     radixcheck native build my_cache.cpp
 *     radixcheck run native:PATH/libmy_cache.so
 *
 * abi_version, create, destroy, capabilities, match and insert must be there. Any other function
 * may be missing from the library, and takes the rules that need it along. A walk through all of
 * this is docs/writing-a-native-target.md.
 *
 * Memory. Whatever is passed in belongs to the caller and is reused after the call: copy what you
 * keep. Buffers for answers are the caller's too, and each says how much it holds. Text that you
 * return is yours, and must last until the next call on the same tree.
 *
 * Handles. A handle names the matched prefix as long as that is stored, locked or not, whatever
 * else comes and goes and wherever edges are split. It dies when its prefix is evicted, which no
 * lock allows, and with a reset. A dead one is not passed again, unless you promise an answer:
 * misuse=raises or ignored. If an unlocked one dies sooner, with the next insert, evict or reset,
 * promise idle_handles=until-next-mutation. No call gives a handle back: nobody tells you when it
 * is no longer wanted, so keep nothing for it that the tree does not hold anyway.
 *
 * Results. 0 or above is the answer; below, one of the two codes. Never let an exception leave a
 * function: there is nobody to catch it, and the process ends.
 */
#ifndef RADIXCHECK_TARGET_H
#define RADIXCHECK_TARGET_H

#include <stdint.h>

#define RADIXCHECK_ABI_VERSION 1

#define RADIXCHECK_REFUSED (-1) /* "no", and nothing has changed; only insert and evict may, and
                                   inc and dec, to a dead handle or an unlock too many */
#define RADIXCHECK_ERROR (-2)   /* something failed that should not */

#if defined(_WIN32)
#define RADIXCHECK_VISIBLE __declspec(dllexport)
#else
#define RADIXCHECK_VISIBLE __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define RADIXCHECK_API extern "C" RADIXCHECK_VISIBLE
#else
#define RADIXCHECK_API RADIXCHECK_VISIBLE
#endif

/* Yours to define. */
typedef struct radixcheck_tree radixcheck_tree;

/* What a cache is made with. */
typedef struct radixcheck_config {
    int64_t page_size;     /* tokens per page, 1 or more */
    const char *eviction;  /* a policy by name, such as "lru"; "" for your default */
    int64_t disable;       /* not 0: store nothing. A run asks if you promise disable=present */
    const char *arguments; /* what else the spec says: "key=value&key=value", or "" */
} radixcheck_config;

/* Which prefix. Tokens are 0 or above. Namespaces are equal exactly if their bytes are; there is
 * none if there are no bytes. They may hold any byte, 0 included. */
typedef struct radixcheck_key {
    const int64_t *tokens;
    int64_t num_tokens;
    const char *namespace_bytes;
    int64_t num_namespace_bytes;
} radixcheck_key;

/* The answer to a match, next to its length. */
typedef struct radixcheck_matched {
    int64_t *slots;   /* write the slots here, one per matched token ... */
    int64_t capacity; /* ... at most so many; there is room for the whole key */
    uint64_t handle;  /* set this to a number that names the matched prefix, also an empty one;
                         for how long, see "Handles" above */
} radixcheck_matched;

/* What an insert hands over. */
typedef struct radixcheck_given {
    const int64_t *slots; /* one per token of the key */
    int64_t owned_from;   /* slots[0 .. owned_from) are yours already, lent by an earlier match */
    int64_t priority;     /* 0, unless you promise priorities=present */
} radixcheck_given;

/* The answer to an eviction, next to the number of freed slots. */
typedef struct radixcheck_freed {
    int64_t *slots;      /* write the freed slots here, victim by victim ... */
    int64_t *victims;    /* ... and here how many slots each victim had; leave it if you cannot */
    int64_t capacity;    /* room in either: for all that was ever inserted and not freed */
    int64_t num_victims; /* is -1; set it to the number of victims, if you wrote `victims` */
} radixcheck_freed;

/* Stored tokens, by whether a lock covers them. What you cannot tell, call absent in your
 * capabilities: "protected_size=absent". */
typedef struct radixcheck_counts {
    int64_t evictable_tokens;
    int64_t protected_tokens;
    int64_t total_tokens;
} radixcheck_counts;

/* One node of your tree, for people and for the rule `structure`. */
typedef struct radixcheck_node {
    const int64_t *tokens; /* the edge that leads to it */
    int64_t num_tokens;
    const int64_t *slots;
    int64_t num_slots;
    int64_t locks;  /* every lock on it or below it */
    int64_t parent; /* which shown node it hangs on, counted from 0; -1 below a root */
} radixcheck_node;

typedef void (*radixcheck_show)(void *to, const radixcheck_node *node);

/* RADIXCHECK_ABI_VERSION, as your library was compiled with it. */
RADIXCHECK_API int64_t radixcheck_abi_version(void);

/* Optional: what a run may sweep, "page_size=1,4,16&eviction=lru,fifo". */
RADIXCHECK_API const char *radixcheck_supports(void);

/* Makes an empty cache. Cannot: write a text that ends in 0 to `error`, and answer NULL. */
RADIXCHECK_API radixcheck_tree *radixcheck_create(const radixcheck_config *config, char *error,
                                                  int64_t error_capacity);

RADIXCHECK_API void radixcheck_destroy(radixcheck_tree *tree);

/* What this cache promises, by the names of docs/contract.md:
 * "page_size=16&eviction=lru&namespaces=structured&deltas=present&clock=own&resolution_s=0".
 * What has its default may be left out. Which functions there are need not be said. */
RADIXCHECK_API const char *radixcheck_capabilities(radixcheck_tree *tree);

/* Optional: why the last call was refused or failed. */
RADIXCHECK_API const char *radixcheck_error(radixcheck_tree *tree);

/* Finds the longest stored prefix of `key`: how many tokens, whole pages. */
RADIXCHECK_API int64_t radixcheck_match(radixcheck_tree *tree, const radixcheck_key *key,
                                        radixcheck_matched *matched);

/* Stores `key`: how many leading tokens were stored before. The slots of whole new pages are yours
 * now. All others go back to the caller by themselves. */
RADIXCHECK_API int64_t radixcheck_insert(radixcheck_tree *tree, const radixcheck_key *key,
                                         const radixcheck_given *given);

/* Optional: evicts unlocked leaves until `num_tokens` tokens are free or none is left: how many
 * slots that were. */
RADIXCHECK_API int64_t radixcheck_evict(radixcheck_tree *tree, int64_t num_tokens,
                                        radixcheck_freed *freed);

/* Optional, both or none: locks the prefix behind a handle, or gives one lock back. Answers 0, and
 * if you promise deltas=present sets `delta` to the change of the evictable size; with
 * deltas=inc-only the lock alone does. */
RADIXCHECK_API int64_t radixcheck_inc(radixcheck_tree *tree, uint64_t handle, int64_t *delta);
RADIXCHECK_API int64_t radixcheck_dec(radixcheck_tree *tree, uint64_t handle, int64_t *delta);

/* Optional: counts. Answers 0. */
RADIXCHECK_API int64_t radixcheck_sizes(radixcheck_tree *tree, radixcheck_counts *counts);

/* Optional: forgets everything. Every handle dies, and every slot is the caller's. Answers 0. */
RADIXCHECK_API int64_t radixcheck_reset(radixcheck_tree *tree);

/* Optional: calls `show(to, &node)` for every node but the roots, in any order. Answers 0. */
RADIXCHECK_API int64_t radixcheck_dump(radixcheck_tree *tree, radixcheck_show show, void *to);

#endif
