// A prefix cache in JavaScript, and the server that shows it to radixcheck. No packages needed:
//
//     radixcheck run 'cmd:node targets/node/radix.js'
//
// `Radix` is the cache: a radix tree with pages, namespaces, and leaves that go by lru or fifo.
// Below it, `operations` translates one line of the protocol into one call. docs/protocol.md says
// what the lines mean; whoever wraps a cache of their own needs only that second half.
"use strict";

const readline = require("node:readline");

const POLICIES = { lru: (node) => node.used, fifo: (node) => node.created };

class Refused extends Error {}

// A run of tokens, with one slot each: the edge that leads from `parent` to here.
class Node {
  constructor(parent, tokens, slots, now) {
    Object.assign(this, { parent, tokens, slots, created: now, used: now });
    this.children = new Map(); // by the first page of their run
    this.locks = 0; // on this node or below it
    this.held = 0; // those that were taken on this very node
  }
}

class Radix {
  constructor({ page_size = 1, eviction = "lru" }) {
    if (!(eviction in POLICIES)) throw new RangeError(`eviction=${eviction}: choose lru or fifo`);
    this.page = page_size;
    this.rank = POLICIES[eviction];
    this.now = 0;
    this.reset();
  }

  reset() {
    this.roots = new Map(); // by namespace, as JSON, in which no two of them look alike
    this.total = 0;
    this.locked = 0;
  }

  match(tokens, namespace) {
    const path = this.walk(this.aligned(tokens), namespace);
    return { slots: path.flatMap((node) => node.slots), node: path.at(-1) };
  }

  // Stores `tokens`, and answers how many of them were stored before.
  insert(tokens, slots, namespace) {
    const key = this.aligned(tokens);
    const path = this.walk(key, namespace);
    const existing = path.reduce((sum, node) => sum + node.tokens.length, 0);
    if (existing < key.length) {
      const rest = key.slice(existing);
      const leaf = new Node(path.at(-1), rest, slots.slice(existing, key.length), this.now);
      leaf.parent.children.set(this.firstPage(rest), leaf);
      this.total += rest.length;
    }
    return existing;
  }

  // Frees at least `wanted` tokens, leaf by leaf, and answers the slots of each.
  evict(wanted) {
    this.now += 1;
    const groups = [];
    const leaves = [...this.nodes()].filter((node) => this.mayGo(node));
    while (wanted > 0 && leaves.length) {
      const first = leaves.reduce((a, b) => (this.rank(b) < this.rank(a) ? b : a));
      leaves.splice(leaves.indexOf(first), 1);
      first.parent.children.delete(this.firstPage(first.tokens));
      if (this.mayGo(first.parent)) leaves.push(first.parent);
      groups.push(first.slots);
      this.total -= first.slots.length;
      wanted -= first.slots.length;
    }
    return groups;
  }

  lock(node) {
    return this.count(node, 1);
  }

  unlock(node) {
    if (!node.held) throw new Refused("no lock is held on this handle");
    return this.count(node, -1);
  }

  // ---- inside

  // Adds one lock to the path up from `node`, or takes one away; answers by how much more, or less,
  // may be evicted now.
  count(node, change) {
    node.held += change;
    const before = this.locked;
    for (; node.parent; node = node.parent) {
      const was = node.locks > 0;
      node.locks += change;
      const is = node.locks > 0;
      if (is !== was) this.locked += is ? node.tokens.length : -node.tokens.length;
    }
    return before - this.locked;
  }

  mayGo(node) {
    return node.parent && !node.children.size && !node.locks;
  }

  aligned(tokens) {
    return tokens.slice(0, tokens.length - (tokens.length % this.page));
  }

  firstPage(tokens) {
    return tokens.slice(0, this.page).join();
  }

  // Answers the nodes along the stored part of `key`, the root first, and refreshes them.
  walk(key, namespace) {
    this.now += 1;
    const name = JSON.stringify(namespace);
    if (!this.roots.has(name)) this.roots.set(name, new Node(null, [], [], this.now));
    const path = [this.roots.get(name)];
    for (;;) {
      const child = path.at(-1).children.get(this.firstPage(key));
      if (!child) return path;
      const shared = this.shared(child.tokens, key);
      path.push(shared < child.tokens.length ? this.cut(child, shared) : child);
      path.at(-1).used = this.now;
      key = key.slice(shared);
    }
  }

  // Counts the tokens at the front of `run` that `key` shares, in whole pages.
  shared(run, key) {
    let length = 0;
    while (length < run.length && run[length] === key[length]) length += 1;
    return length - (length % this.page);
  }

  // The old node keeps the end of its run, and with it whoever holds it:
  //
  //     parent --A B C D--> node      becomes      parent --A B--> front --C D--> node
  cut(node, at) {
    const front = new Node(node.parent, node.tokens.slice(0, at), node.slots.slice(0, at), 0);
    Object.assign(front, { created: node.created, used: node.used, locks: node.locks });
    node.parent.children.set(this.firstPage(node.tokens), front);
    node.tokens = node.tokens.slice(at);
    node.slots = node.slots.slice(at);
    node.parent = front;
    front.children.set(this.firstPage(node.tokens), node);
    return front;
  }

  // Every node but the roots, parents first.
  *nodes() {
    const waiting = [...this.roots.values()];
    while (waiting.length) {
      const node = waiting.pop();
      if (node.parent) yield node;
      waiting.push(...node.children.values());
    }
  }
}

// ---------------------------------------------------------------------------------- the server

let cache;
let handles; // the node behind each number that the client gave out

const greetings = {
  hello: () => ({
    version: 1,
    supports: { page_size: [1, 2, 4, 16], eviction: Object.keys(POLICIES) },
  }),

  open: ({ config }) => {
    cache = new Radix(config);
    handles = new Map();
    return {
      methods: `match_prefix insert evict inc_ref dec_ref reset dump
        evictable_size protected_size total_size`.split(/\s+/),
      capabilities: {
        page_size: cache.page,
        eviction: config.eviction ?? "lru",
        resolution_s: 0, // it counts operations
        deterministic: true,
        namespaces: "structured",
        deltas: "present",
        protected_size: "present",
        total_size: "present",
        reset: "present",
        dump: "present",
      },
    };
  },
};

const operations = {
  match_prefix: ({ tokens, namespace = [], as }) => {
    const { slots, node } = cache.match(tokens, namespace);
    handles.set(as, node);
    return { length: slots.length, slots };
  },

  insert: ({ tokens, slots, namespace = [] }) => ({
    existing: cache.insert(tokens, slots, namespace),
  }),

  evict: ({ num_tokens }) => ({ groups: cache.evict(num_tokens) }),
  inc_ref: ({ handle }) => ({ delta: cache.lock(handles.get(handle)) }),
  dec_ref: ({ handle }) => ({ delta: cache.unlock(handles.get(handle)) }),
  reset: () => cache.reset(),

  dump: () => {
    const nodes = [...cache.nodes()];
    const place = new Map(nodes.map((node, index) => [node, index]));
    const show = ({ tokens, slots, locks, parent }) => {
      return { tokens, slots, locks, parent: place.get(parent) ?? null };
    };
    return { nodes: nodes.map(show) };
  },

  sizes: () => {}, // every answer tells them
};

function sizes() {
  const { total, locked } = cache;
  return { evictable_size: total - locked, protected_size: locked, total_size: total };
}

function answer(request) {
  try {
    if (request.op in greetings) return greetings[request.op](request);
    for (const number of request.forget ?? []) handles.delete(number);
    return { ...attempt(request), ...sizes() };
  } catch (error) {
    return { error: String(error), where: (error.stack ?? "").split("\n")[1]?.trim() ?? "" };
  }
}

function attempt(request) {
  try {
    return operations[request.op](request);
  } catch (error) {
    if (error instanceof Refused) return { refused: error.message };
    throw error;
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const request = JSON.parse(line);
  const reply = Array.isArray(request) ? request.map(answer) : answer(request);
  process.stdout.write(JSON.stringify(reply) + "\n");
});
