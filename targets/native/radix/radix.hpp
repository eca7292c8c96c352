// A radix tree over KV slots in C++20: pages, namespaces, lru and fifo, nodes in an arena.
//
// An edge carries a run of whole pages, one slot per token. Nodes live in one vector and name each
// other by index, so that a tree of any size is a handful of allocations to drop. Whoever left is
// on a free list. The leaves that may be evicted wait in a set, ordered by the policy, and are
// moved there whenever they change: an eviction takes from its front and never walks the tree.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace radix {

using Token = std::int64_t;
using Slot = std::int64_t;
using Time = std::int64_t;
using Index = std::uint32_t;
using Handle = std::uint64_t;  // the generation of a node in the upper half, its index in the lower

inline constexpr Index none = ~Index{0};

// Bugs to be planted at compile time, -DRADIX_MUTANT=name; each is explained where it is switched.
enum class Mutant {
    no,
    split_keeps_slots,
    stale_child,
    stale_reference,
    reads_past_edge,
    double_free,
    climbs_past_root,
    endless_loop,
};

#ifndef RADIX_MUTANT
#define RADIX_MUTANT no
#endif
inline constexpr Mutant mutant = Mutant::RADIX_MUTANT;

enum class Policy { lru, fifo };

// The tree says no, and has not changed.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Node {
    std::vector<Token> run;       // the edge from the parent to here
    std::vector<Slot> slots;      // one per token
    std::vector<Index> children;  // in the order of their first pages; no two share one
    Index parent = none;
    std::uint32_t generation = 0;  // how many nodes were here before
    bool alive = false;
    Time stamp = 0;              // when a match or an insert last came through
    Time created = 0;            // when it, or what it was cut from, was inserted
    std::int64_t locks = 0;      // every lock on this node or below it
    std::int64_t held = 0;       // those that were taken on this very node
    std::optional<Time> queued;  // its rank among the candidates, while it is one
};

struct Match {
    std::size_t length;
    Handle handle;
};

class Tree {
public:
    Tree(std::size_t page_size, Policy policy) : page_size_{page_size}, policy_{policy} {
        if (page_size == 0) throw std::invalid_argument{"page_size must be 1 or more"};
    }

    // Finds the longest stored prefix of `key`, cuts the edge in which it ends, and writes its
    // slots to `into`, which has room for them.
    Match match(std::span<const Token> key, std::string_view space, std::span<Slot> into) {
        ++now_;
        const auto [end, length] = walk(root(space), whole_pages(key));
        auto written = into.first(length);
        for (Index at = end; nodes_[at].parent != none; at = nodes_[at].parent) {
            const std::vector<Slot> &slots = nodes_[at].slots;
            std::ranges::copy(slots, written.last(slots.size()).begin());
            written = written.first(written.size() - slots.size());
        }
        return {length, handle_of(end)};
    }

    // Stores the whole pages of `key` with their slots; answers how many tokens were stored before.
    std::size_t insert(std::span<const Token> key, std::string_view space,
                       std::span<const Slot> slots) {
        ++now_;
        key = whole_pages(key);
        const auto [end, existing] = walk(root(space), key);
        if (existing < key.size())
            hang(end, key.subspan(existing), slots.subspan(existing, key.size() - existing));
        return existing;
    }

    // Evicts the first leaf by the policy until `wanted` tokens are free or none may go; passes the
    // slots of each victim to `take`.
    void evict(std::size_t wanted, auto &&take) {
        // endless_loop: where more is asked for than may go, it waits for another leaf to appear.
        const bool waits = mutant == Mutant::endless_loop;
        for (std::size_t freed = 0; freed < wanted && (waits || !candidates_.empty());) {
            if (candidates_.empty()) continue;
            const Index victim = candidates_.begin()->second;
            freed += nodes_[victim].run.size();
            take(std::span<const Slot>{nodes_[victim].slots});
            remove(victim);
        }
    }

    // Locks the path up from `handle`; answers the change of the evictable size, 0 or below.
    std::int64_t lock(Handle handle) {
        const Index node = living(handle);
        ++nodes_[node].held;
        std::int64_t covered = 0;
        for (Index at = node; goes_on(at); at = nodes_[at].parent)
            if (nodes_[at].locks++ == 0) covered += nodes_[at].run.size();
        return shift(node, -covered);
    }

    // Gives one lock on `handle` back; answers the change of the evictable size, 0 or above.
    std::int64_t unlock(Handle handle) {
        const Index node = living(handle);
        if (nodes_[node].held == 0) throw Refused{"no lock is held on this handle"};
        --nodes_[node].held;
        std::int64_t uncovered = 0;
        for (Index at = node; at != none; at = nodes_[at].parent)
            if (--nodes_[at].locks == 0) uncovered += nodes_[at].run.size();
        return shift(node, uncovered);
    }

    std::int64_t evictable_tokens() const { return evictable_; }
    std::int64_t protected_tokens() const { return protected_; }

    // Forgets everything. Handles die, for every node moves on by a generation.
    void reset() {
        for (Index at = 0; at < nodes_.size(); ++at)
            if (nodes_[at].alive) release(at);
        roots_.clear();
        candidates_.clear();
        evictable_ = protected_ = 0;
    }

    // Calls `show(node, parent)` for every node but the roots; `parent` is the place of its parent
    // among those shown before, or -1.
    void visit(auto &&show) const {
        std::int64_t shown = 0;
        std::vector<std::pair<Index, std::int64_t>> waiting;
        for (const auto &[space, root] : roots_) waiting.emplace_back(root, -1);
        while (!waiting.empty()) {
            const auto [at, parent] = waiting.back();
            waiting.pop_back();
            const bool is_root = nodes_[at].parent == none;
            if (!is_root) show(nodes_[at], parent);
            const std::int64_t place = is_root ? -1 : shown++;
            for (const Index child : nodes_[at].children) waiting.emplace_back(child, place);
        }
    }

private:
    struct Place {
        Index end;
        std::size_t length;
    };

    // Follows `key` down, stamps every edge that it enters, and cuts the one that it leaves.
    Place walk(Index at, std::span<const Token> key) {
        std::size_t length = 0;
        while (length < key.size()) {
            const Index child = child_of(at, key.subspan(length));
            if (child == none) break;
            touch(child);
            const std::size_t shared = shared_tokens(nodes_[child].run, key.subspan(length));
            length += shared;
            if (shared < nodes_[child].run.size()) return {cut(child, shared), length};
            at = child;
        }
        return {at, length};
    }

    // Cuts the edge into `back` after `at` tokens; answers the new node in front.
    //
    //     parent --A B C D--> back      becomes      parent --A B--> front --C D--> back
    //
    // The old node keeps the rest, so that a handle on it still names the same prefix. Whoever came
    // through it, or locked it, came through the front.
    Index cut(Index back, std::size_t at) {
        const Node &stale = nodes_[back];
        const Index front = claim();
        // stale_reference: claiming a node may move the arena, and `stale` stays behind in memory
        // that is free. AddressSanitizer sees the read; without it, it mostly goes well.
        const Node &whole = mutant == Mutant::stale_reference ? stale : nodes_[back];
        Node &node = nodes_[front];
        const Index parent = whole.parent;
        node.run.assign(whole.run.begin(), whole.run.begin() + at);
        node.slots.assign(whole.slots.begin(), whole.slots.begin() + at);
        node.stamp = whole.stamp;
        node.created = whole.created;
        node.locks = whole.locks;
        node.parent = parent;
        node.children = {back};
        // stale_child: the parent still leads to `back`, and the front is found by nobody.
        if (mutant != Mutant::stale_child) *child_place(parent, node.run) = front;
        shorten(back, at);
        nodes_[back].parent = front;
        return front;
    }

    // Takes the first `at` tokens off an edge, and their slots.
    void shorten(Index index, std::size_t at) {
        Node &node = nodes_[index];
        node.run.erase(node.run.begin(), node.run.begin() + at);
        // split_keeps_slots: the first slots stay instead of the last ones.
        if (mutant == Mutant::split_keeps_slots)
            node.slots.resize(node.slots.size() - at);
        else
            node.slots.erase(node.slots.begin(), node.slots.begin() + at);
    }

    void hang(Index parent, std::span<const Token> run, std::span<const Slot> slots) {
        const Index leaf = claim();
        Node &node = nodes_[leaf];
        node.run.assign(run.begin(), run.end());
        node.slots.assign(slots.begin(), slots.end());
        node.parent = parent;
        node.stamp = node.created = now_;
        nodes_[parent].children.insert(child_place(parent, run), leaf);
        evictable_ += run.size();
        settle(parent);
        settle(leaf);
    }

    void remove(Index leaf) {
        const Index parent = nodes_[leaf].parent;
        nodes_[parent].children.erase(child_place(parent, nodes_[leaf].run));
        evictable_ -= nodes_[leaf].run.size();
        release(leaf);
        // double_free: the node is twice on the free list, and will be two nodes at once.
        if (mutant == Mutant::double_free) free_.push_back(leaf);
        settle(parent);
    }

    // Moves a path's tokens between the two sizes when its locks have changed.
    std::int64_t shift(Index node, std::int64_t evictable_change) {
        evictable_ += evictable_change;
        protected_ -= evictable_change;
        settle(node);
        return evictable_change;
    }

    // Tells whether a climb from node to node ends above `at`.
    bool goes_on(Index at) const {
        // climbs_past_root: the climb goes on to a node that is not there.
        return at != none || mutant == Mutant::climbs_past_root;
    }

    // ------------------------------------------------------------------ who may be evicted

    void touch(Index index) {
        nodes_[index].stamp = now_;
        if (nodes_[index].queued && policy_ == Policy::lru) settle(index);
    }

    // Keeps a node among the candidates exactly while it may be evicted, and at its rank.
    void settle(Index index) {
        Node &node = nodes_[index];
        if (node.queued) candidates_.erase({*node.queued, index});
        node.queued.reset();
        if (!node.children.empty() || node.locks > 0 || node.parent == none) return;
        node.queued = policy_ == Policy::lru ? node.stamp : node.created;
        candidates_.emplace(*node.queued, index);
    }

    // ------------------------------------------------------------------------------- keys

    std::span<const Token> whole_pages(std::span<const Token> key) const {
        return key.first(key.size() - key.size() % page_size_);
    }

    // Counts the leading tokens that an edge and a key share, in whole pages.
    std::size_t shared_tokens(const std::vector<Token> &run, std::span<const Token> key) const {
        // reads_past_edge: looks at one token more than the edge has. AddressSanitizer sees it.
        const std::size_t beyond = mutant == Mutant::reads_past_edge ? 1 : 0;
        const std::size_t most = std::min(run.size() + beyond, key.size());
        const Token *differs = std::mismatch(key.data(), key.data() + most, run.data()).first;
        const std::size_t shared = std::min<std::size_t>(differs - key.data(), run.size());
        return shared - shared % page_size_;
    }

    // Finds the child whose first page is that of `key`, or where it would stand.
    std::vector<Index>::iterator child_place(Index parent, std::span<const Token> key) {
        const auto comes_first = [&](Index child, std::span<const Token> page) {
            const Token *run = nodes_[child].run.data();
            return std::lexicographical_compare(run, run + page_size_, page.begin(), page.end());
        };
        std::vector<Index> &children = nodes_[parent].children;
        return std::lower_bound(children.begin(), children.end(), key.first(page_size_),
                                comes_first);
    }

    Index child_of(Index parent, std::span<const Token> key) {
        const auto place = child_place(parent, key);
        if (place == nodes_[parent].children.end()) return none;
        const std::vector<Token> &run = nodes_[*place].run;
        return std::equal(run.begin(), run.begin() + page_size_, key.begin()) ? *place : none;
    }

    // -------------------------------------------------------------------------- the arena

    Index root(std::string_view space) {
        if (const auto found = roots_.find(space); found != roots_.end()) return found->second;
        return roots_.emplace(space, claim()).first->second;
    }

    // Answers a fresh node. References to other nodes may be stale after it.
    Index claim() {
        if (free_.empty()) {
            free_.push_back(static_cast<Index>(nodes_.size()));
            nodes_.emplace_back();
        }
        const Index index = free_.back();
        free_.pop_back();
        nodes_[index].alive = true;
        return index;
    }

    void release(Index index) {
        if (nodes_[index].queued) candidates_.erase({*nodes_[index].queued, index});
        Node next;
        next.generation = nodes_[index].generation + 1;
        nodes_[index] = std::move(next);
        free_.push_back(index);
    }

    Handle handle_of(Index index) const {
        return Handle{nodes_[index].generation} << 32 | index;
    }

    Index living(Handle handle) const {
        const auto index = static_cast<Index>(handle);
        const bool alive = index < nodes_.size() && nodes_[index].alive;
        if (!alive || handle_of(index) != handle)
            throw Refused{"the prefix of this handle was evicted, or the tree was reset"};
        return index;
    }

    std::size_t page_size_;
    Policy policy_;
    std::vector<Node> nodes_;
    std::vector<Index> free_;
    std::map<std::string, Index, std::less<>> roots_;
    std::set<std::pair<Time, Index>> candidates_;
    std::int64_t evictable_ = 0;
    std::int64_t protected_ = 0;
    Time now_ = 0;
};

}  // namespace radix
