// The tree of radix.hpp behind the functions of radixcheck_target.h.

#include <radixcheck_target.h>

#include <algorithm>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "radix.hpp"

namespace {

radix::Policy policy_named(std::string_view name) {
    if (name == "lru" || name.empty()) return radix::Policy::lru;
    if (name == "fifo") return radix::Policy::fifo;
    throw std::invalid_argument{"eviction=" + std::string{name} + ": choose lru or fifo"};
}

std::size_t positive(std::int64_t page_size) {
    if (page_size > 0) return static_cast<std::size_t>(page_size);
    throw std::invalid_argument{"page_size=" + std::to_string(page_size) + ": must be 1 or more"};
}

}  // namespace

struct radixcheck_tree {
    explicit radixcheck_tree(const radixcheck_config &config)
        : tree{positive(config.page_size), policy_named(config.eviction)},
          disabled{config.disable != 0},
          promises{"page_size=" + std::to_string(config.page_size) +
                   "&eviction=" + (*config.eviction ? config.eviction : "lru") +
                   "&namespaces=structured&deltas=present&disable=present"
                   "&misuse=raises&deterministic=true&clock=own&resolution_s=0"} {}

    radix::Tree tree;
    bool disabled;
    std::string promises;
    std::string error;
};

namespace {

std::span<const std::int64_t> tokens_of(const radixcheck_tree *tree, const radixcheck_key *key) {
    return {key->tokens, tree->disabled ? 0 : static_cast<std::size_t>(key->num_tokens)};
}

std::string_view space_of(const radixcheck_key *key) {
    return {key->namespace_bytes, static_cast<std::size_t>(key->num_namespace_bytes)};
}

// Answers what `call` does, or the code of what it throws.
std::int64_t answer(radixcheck_tree *tree, auto &&call) {
    try {
        return call();
    } catch (const radix::Refused &refused) {
        tree->error = refused.what();
        return RADIXCHECK_REFUSED;
    } catch (const std::exception &error) {
        tree->error = error.what();
        return RADIXCHECK_ERROR;
    }
}

}  // namespace

std::int64_t radixcheck_abi_version() { return RADIXCHECK_ABI_VERSION; }

const char *radixcheck_supports() { return "page_size=1,2,4,16&eviction=lru,fifo"; }

radixcheck_tree *radixcheck_create(const radixcheck_config *config, char *error,
                                   std::int64_t error_capacity) {
    try {
        if (*config->arguments)
            throw std::invalid_argument{std::string{"takes no "} + config->arguments};
        return new radixcheck_tree{*config};
    } catch (const std::exception &trouble) {
        const std::string_view text = trouble.what();
        const auto size = std::min<std::size_t>(text.size(), error_capacity - 1);
        *std::copy_n(text.begin(), size, error) = '\0';
        return nullptr;
    }
}

void radixcheck_destroy(radixcheck_tree *tree) { delete tree; }

const char *radixcheck_capabilities(radixcheck_tree *tree) { return tree->promises.c_str(); }

const char *radixcheck_error(radixcheck_tree *tree) { return tree->error.c_str(); }

std::int64_t radixcheck_match(radixcheck_tree *tree, const radixcheck_key *key,
                              radixcheck_matched *matched) {
    return answer(tree, [&]() -> std::int64_t {
        const std::span into{matched->slots, static_cast<std::size_t>(matched->capacity)};
        const radix::Match match = tree->tree.match(tokens_of(tree, key), space_of(key), into);
        matched->handle = match.handle;
        return match.length;
    });
}

std::int64_t radixcheck_insert(radixcheck_tree *tree, const radixcheck_key *key,
                               const radixcheck_given *given) {
    return answer(tree, [&]() -> std::int64_t {
        const std::span slots{given->slots, static_cast<std::size_t>(key->num_tokens)};
        return tree->tree.insert(tokens_of(tree, key), space_of(key), slots);
    });
}

std::int64_t radixcheck_evict(radixcheck_tree *tree, std::int64_t num_tokens,
                              radixcheck_freed *freed) {
    return answer(tree, [&]() -> std::int64_t {
        std::int64_t written = 0;
        freed->num_victims = 0;
        tree->tree.evict(num_tokens, [&](std::span<const radix::Slot> victim) {
            const auto size = static_cast<std::int64_t>(victim.size());
            if (written + size > freed->capacity) throw std::length_error{"freed too much"};
            std::ranges::copy(victim, freed->slots + written);
            written += size;
            freed->victims[freed->num_victims++] = size;
        });
        return written;
    });
}

std::int64_t radixcheck_inc(radixcheck_tree *tree, std::uint64_t handle, std::int64_t *delta) {
    return answer(tree, [&] { return *delta = tree->tree.lock(handle), 0; });
}

std::int64_t radixcheck_dec(radixcheck_tree *tree, std::uint64_t handle, std::int64_t *delta) {
    return answer(tree, [&] { return *delta = tree->tree.unlock(handle), 0; });
}

std::int64_t radixcheck_sizes(radixcheck_tree *tree, radixcheck_counts *counts) {
    counts->evictable_tokens = tree->tree.evictable_tokens();
    counts->protected_tokens = tree->tree.protected_tokens();
    counts->total_tokens = counts->evictable_tokens + counts->protected_tokens;
    return 0;
}

std::int64_t radixcheck_reset(radixcheck_tree *tree) {
    tree->tree.reset();
    return 0;
}

std::int64_t radixcheck_dump(radixcheck_tree *tree, radixcheck_show show, void *to) {
    tree->tree.visit([&](const radix::Node &node, std::int64_t parent) {
        const auto size = static_cast<std::int64_t>(node.run.size());
        const auto slots = static_cast<std::int64_t>(node.slots.size());
        const radixcheck_node shown{node.run.data(), size,       node.slots.data(),
                                    slots,           node.locks, parent};
        show(to, &shown);
    });
    return 0;
}
