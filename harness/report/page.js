"use strict";
/* Draws the document that lies in this page. Whatever it says becomes text, never markup. */
(() => {
  const STEERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const escaped = (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const readable = (_, value) => (typeof value === "string" ? value.replace(STEERS, escaped) : value);
  const data = JSON.parse(document.getElementById("data").textContent, readable);
  const LONG = 16; // cells of a strip from which it is shown by its ends
  const HEAD = 7;
  const TAIL = 3;
  const EDGES = 60; // edges of a tree from which only those that matter are drawn
  const DEEPEST = 40; // edges below each other
  const HUES = 8;

  // ---- elements --------------------------------------------------------------------------

  function h(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (name === "class") element.className = value;
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat(9).filter((each) => each !== null && each !== undefined));
    return element;
  }

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const number = (value) => value.toLocaleString("en-US");
  const counted = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
  const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

  function duration(seconds) {
    if (seconds < 10) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    const parts = [[Math.floor(whole / 3600), "h"], [Math.floor(whole / 60) % 60, "min"],
      [whole % 60, "s"]];
    return parts.filter(([value]) => value).slice(0, 2).map(([v, unit]) => `${v} ${unit}`)
      .join(" ") || "0 s";
  }

  function table(heads, rows, kind) {
    if (!rows.length) return null;
    const cell = (tag, value, place) => h(tag, { class: heads[place][1] || null,
      scope: tag === "th" ? "col" : null }, value);
    return h("div", { class: "scroll" }, h("table", { class: kind || null },
      h("thead", null, h("tr", null, heads.map(([name], place) => cell("th", name, place)))),
      h("tbody", null, rows.map((row) =>
        h("tr", null, row.map((value, place) => cell("td", value, place)))))));
  }

  function copyable(text, label, kind) {
    const button = h("button", { type: "button", "aria-label": `Copy ${label}` }, "Copy");
    const pre = h("pre", { tabindex: "0", "aria-label": label }, h("code", null, text));
    button.addEventListener("click", async () => {
      let done = true;
      try { await navigator.clipboard.writeText(text); } catch { done = copied(pre); }
      button.textContent = done ? "Copied" : "Select it";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    return h("div", { class: `code ${kind || ""}` }, pre, button);
  }

  function copied(pre) { // a page from a file may have no clipboard
    getSelection().selectAllChildren(pre);
    return document.execCommand("copy");
  }

  function link(address) {
    let safe = false;
    try { safe = ["http:", "https:"].includes(new URL(address).protocol); } catch { /* no link */ }
    return safe ? h("a", { href: address, rel: "noopener noreferrer nofollow" }, address) : address;
  }

  // ---- numbers: "1-4 9" ------------------------------------------------------------------

  class Numbers {
    constructor(text) {
      this.runs = [];
      this.count = 0;
      for (const part of text ? text.split(" ") : []) {
        const [, first, last] = /^(-?\d+)(?:-(-?\d+))?$/.exec(part);
        const low = BigInt(first); // a token may be larger than a double can tell
        const size = last === undefined ? 1 : Number(BigInt(last) - low) + 1;
        this.runs.push([this.count, low, size]);
        this.count += size;
      }
    }

    at(place) {
      let low = 0;
      let high = this.runs.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.runs[middle][0] <= place) low = middle; else high = middle - 1;
      }
      const [start, first] = this.runs[low];
      return String(first + BigInt(place - start));
    }

    all() { return Array.from({ length: this.count }, (_, place) => this.at(place)); }

    static of(text) {
      if (!Numbers.known.has(text)) Numbers.known.set(text, new Numbers(text));
      return Numbers.known.get(text);
    }
  }
  Numbers.known = new Map();

  /* The places that are shown of a run, a gap as [first, last]; `around` a place, or by its ends. */
  function shown(count, around) {
    const all = Array.from({ length: count }, (_, place) => place);
    if (count <= LONG) return all;
    const from = around === undefined ? 0 : Math.max(0, around - 3);
    const to = around === undefined ? HEAD : Math.min(count, from + HEAD + 3);
    const last = Math.max(to, count - TAIL);
    const gap = (first, end) => (end - first === 1 ? [first] : end > first ? [[first, end]] : []);
    return [...gap(0, from), ...all.slice(from, to), ...gap(to, last), ...all.slice(last)];
  }

  function cells(count, draw, noun, around) {
    return shown(count, around).map((place) => {
      if (!Array.isArray(place)) return draw(place);
      const [first, end] = place;
      const more = h("button", { type: "button", class: "gap",
        "aria-label": `Show ${counted(end - first, `more ${noun}`)}` }, `… ${number(end - first)} …`);
      more.addEventListener("click", () => {
        more.replaceWith(...Array.from({ length: end - first }, (_, i) => draw(first + i)));
      });
      return more;
    });
  }

  // ---- who owns a slot -------------------------------------------------------------------

  /* Tells for each picture of a finding whose each slot is: in a pool its holder, in a tree the
     step that stored it. So a split changes no colour, and a foreign slot has another. */
  class Owners {
    constructor(finding) {
      this.finding = finding;
      this.first = finding.steps.length - Math.max(0, finding.pictures.length - 1);
      this.names = new Map();
      this.maps = [];
      this.calls = finding.steps.map((step) => step.call);
      finding.pictures.forEach((picture, place) => this.maps.push(this.of(picture, place)));
    }

    hue(name) {
      if (name === undefined) return "none";
      if (name === "free") return "free";
      if (!this.names.has(name)) this.names.set(name, this.names.size % HUES);
      return `o${this.names.get(name)}`;
    }

    of(picture, place) {
      const before = this.maps[place - 1] || new Map();
      const owned = new Map();
      const step = this.first + place - 1;
      const name = step >= 0 && place ? `${step + 1}  ${this.calls[step]}` : "stored before";
      for (const tree of picture.trees) {
        for (const { edge } of tree.rows) {
          for (const slot of Numbers.of(this.finding.edges[edge].slots).all()) {
            owned.set(slot, before.has(slot) ? before.get(slot) : name);
          }
        }
      }
      for (const each of picture.holdings) {
        const holding = this.finding.holdings[each];
        for (const slot of Numbers.of(holding.slots).all()) owned.set(slot, holding.owner);
      }
      for (const owner of owned.values()) this.hue(owner);
      return owned;
    }

    chip(slot, place, off) {
      const map = this.maps[Math.max(0, Math.min(place, this.maps.length - 1))] || new Map();
      const owner = map.get(slot);
      return h("span", { class: `slot ${this.hue(owner)}${off ? " off" : ""}`,
        title: `slot ${slot}: ${owner === undefined ? "nobody's" : owner}` }, slot);
    }

    legend(places) {
      const seen = new Set(places.flatMap((place) => [...(this.maps[place] || new Map()).values()]));
      const names = [...this.names.keys()].filter((name) => seen.has(name));
      if (!names.length) return null;
      return h("div", { class: "legend", role: "group",
        "aria-label": "Whose a slot is, by colour" },
      names.slice(0, HUES).map((name) => h("span", null, h("i", { class: this.hue(name) }),
        h("code", { title: name }, name))),
      names.length > HUES ? `and ${number(names.length - HUES)} more, in the same colours` : null);
    }
  }

  // ---- pictures --------------------------------------------------------------------------

  function rowsOf(picture) {
    return new Map(picture.trees.map((tree) => [tree.namespace, tree.rows]));
  }

  /* Draws a picture; what `other` lacks is `word` ("new" after a step, "gone" before it). */
  function drawPicture(finding, owners, place, other, word, key) {
    const picture = finding.pictures[place];
    const box = h("div", { class: "scroll", tabindex: "0",
      "aria-label": word === "gone" ? "Stored before" : "Stored after" });
    const named = picture.trees.length > 1 || picture.trees.some((tree) => tree.namespace);
    for (const tree of picture.trees) {
      if (named) box.append(h("p", { class: "namespace" }, `namespace ${tree.namespace || "()"}`));
      const rest = rowsOf(other).get(tree.namespace) || [];
      const path = key && key.namespace === tree.namespace ? key.tokens : null;
      box.append(drawTree(finding, owners, place, tree.rows, rest, word, path));
    }
    if (picture.holdings.length) box.append(drawHoldings(finding, owners, place, other, word));
    if (!box.childNodes.length) box.append(h("p", { class: "empty" }, "nothing is stored"));
    return box;
  }

  function drawTree(finding, owners, place, rows, others, word, path) {
    const theirs = others.map(({ edge }) => finding.edges[edge]);
    const same = new Set(others.map(({ edge }) => edge));
    const runs = new Set(theirs.map((edge) => edge.slots));
    const slots = new Set(theirs.flatMap((edge) => Numbers.of(edge.slots).all()));
    const nodes = hung(finding, rows, path);
    for (const node of nodes) { // where a run was only cut, nothing came, went or changed
      node.other = slots;
      node.word = word;
      node.mark = same.has(node.edge) ? "" : runs.has(finding.edges[node.edge].slots) ? "changed"
        : node.slots.all().some((slot) => !slots.has(slot)) ? word : "";
    }
    const list = h("ul", { class: "tree root" });
    const draw = (whole) => {
      const wanted = whole ? null : worthDrawing(nodes);
      list.replaceChildren(...branches(nodes.filter((node) => !node.parent), wanted, 0));
      if (wanted && wanted.size < nodes.length) {
        const all = h("button", { type: "button", class: "plain small", onclick: () => draw(true) },
          `show all ${counted(nodes.length, "edge")}`);
        list.append(h("li", null, all));
      }
    };
    const branches = (some, wanted, depth) => some.filter((node) => !wanted || wanted.has(node))
      .map((node) => h("li", null, strip(owners, place, node), below(node, wanted, depth)));
    const below = (node, wanted, depth) => {
      const drawn = node.children.filter((child) => !wanted || wanted.has(child));
      if (!drawn.length) return null;
      if (depth < DEEPEST) return h("ul", null, branches(drawn, wanted, depth + 1));
      const more = h("button", { type: "button", class: "gap",
        onclick: () => more.replaceWith(h("ul", null, branches(drawn, wanted, 0))) },
      "… more below");
      return more;
    };
    draw(nodes.length <= EDGES);
    return list;
  }

  /* Hangs the rows of a tree below each other, and tells how far the key of a call leads. */
  function hung(finding, rows, path) {
    const chain = [];
    return rows.map(({ edge, depth }) => {
      const { tokens, slots, locks, handles } = finding.edges[edge];
      const parent = chain[depth - 1] || null;
      const node = { edge, parent, children: [], tokens: Numbers.of(tokens),
        slots: Numbers.of(slots), locks, handles, start: parent ? parent.start + parent.tokens.count
          : 0, on: 0 };
      if (path && (!parent || parent.on === parent.tokens.count)) {
        const length = Math.min(node.tokens.count, path.count - node.start);
        while (node.on < length && node.tokens.at(node.on) === path.at(node.start + node.on)) {
          node.on += 1;
        }
      }
      if (parent) parent.children.push(node);
      chain.length = depth;
      chain.push(node);
      return node;
    });
  }

  function worthDrawing(nodes) {
    const wanted = new Set();
    const add = (node) => { for (let up = node; up; up = up.parent) wanted.add(up); };
    nodes.filter((node) => node.mark || node.on).slice(0, EDGES).forEach(add);
    for (const node of nodes) if (wanted.size < EDGES / 2) add(node);
    return wanted;
  }

  function strip(owners, place, node) {
    const draw = (each) => {
      const slot = each < node.slots.count ? node.slots.at(each) : null;
      const alone = slot !== null && !node.other.has(slot) ? ` ${node.word}` : "";
      return h("span", { class: `cell${each < node.on ? " on" : ""}${alone}` },
        h("b", null, node.tokens.at(each)), slot === null ? null : owners.chip(slot, place));
    };
    const marks = [
      node.locks ? h("span", { class: "lock", title: counted(node.locks, "lock") },
        counted(node.locks, "lock")) : null,
      ...node.handles.slice(0, 6).map((name) => h("span", { class: "handle" }, name)),
      node.handles.length > 6 ? `+${node.handles.length - 6}` : null,
      node.mark ? h("span", { class: "flag" }, node.mark) : null,
    ].filter(Boolean);
    const said = `${counted(node.tokens.count, "token")}${node.mark ? `, ${node.mark}` : ""}`;
    return h("div", { class: `strip ${node.mark}`, role: "group", "aria-label": said },
      cells(node.tokens.count, draw, "token", node.on > HEAD ? node.on : undefined),
      marks.length ? h("span", { class: "marks" }, marks) : null);
  }

  function drawHoldings(finding, owners, place, other, word) {
    const rest = new Set(other.holdings);
    return h("table", { class: "holdings" }, h("tbody", null,
      finding.pictures[place].holdings.map((each) => {
        const { owner, slots, start, note } = finding.holdings[each];
        const numbers = Numbers.of(slots);
        const size = owner === "free" ? counted(numbers.count, "slot")
          : `[${start}, ${start + numbers.count})`;
        return h("tr", { class: rest.has(each) ? null : word },
          h("td", null, h("span", { class: "mono" }, owner)), h("td", { class: "soft nowrap" }, size),
          h("td", null, chips(owners, numbers.all(), place),
            note ? h("span", { class: "soft small" }, `  ${note}`) : null));
      })));
  }

  function chips(owners, slots, place, off, around) {
    return h("span", { class: "slots" }, cells(slots.length,
      (each) => owners.chip(slots[each], place, off && off(each)), "slot", around));
  }

  // ---- expected against actual -----------------------------------------------------------

  const LIST = /^\[(-?\d+(?:, -?\d+)*)?\]$/;

  function versus(finding, owners) {
    const last = Math.max(0, finding.pictures.length - 2);
    const lists = [finding.expected, finding.actual].map((text) => LIST.exec(text));
    const said = lists.every(Boolean) && finding.pictures.length
      ? bothLists(owners, last, lists.map((found) => (found[1] ? found[1].split(", ") : [])))
      : bothTexts(finding.expected, finding.actual);
    return h("div", { class: "versus" },
      h("div", { class: "expected" }, h("h4", null, "expected"), said[0]),
      h("div", { class: "actual" }, h("h4", null, "actual"), said[1]));
  }

  function bothLists(owners, place, [expected, actual]) {
    let first = 0;
    while (first < Math.min(expected.length, actual.length) && expected[first] === actual[first]) {
      first += 1;
    }
    const draw = (ours, theirs, wrong) => (ours.length
      ? chips(owners, ours, place, (each) => wrong && ours[each] !== theirs[each],
        first > HEAD ? first : undefined)
      : h("span", { class: "empty" }, "none"));
    return [draw(expected, actual, false), draw(actual, expected, true)];
  }

  function bothTexts(expected, actual) {
    let first = 0;
    while (first < Math.min(expected.length, actual.length) && expected[first] === actual[first]) {
      first += 1;
    }
    return [expected, actual].map((text, side) => {
      const box = h("div", { class: "said", tabindex: text.length > 600 ? "0" : null });
      const draw = (whole) => {
        const from = whole ? 0 : Math.max(0, first - 60);
        const to = whole ? text.length : from + 400;
        const rest = text.slice(Math.max(first, from), to);
        box.replaceChildren(from ? "… " : "", text.slice(from, first),
          side && 2 * first >= text.length && rest ? h("mark", null, rest) : rest,
          to < text.length || from ? h("button", { type: "button", class: "plain",
            onclick: () => draw(true) }, ` … all ${number(text.length)} characters`) : "");
      };
      draw(text.length <= 400);
      return box;
    });
  }

  // ---- the steps of a finding ------------------------------------------------------------

  function stepper(finding, owners) {
    const { steps } = finding;
    let now = -1;
    const total = steps.length;
    const back = h("button", { type: "button", onclick: () => go(now - 1) }, "← Previous");
    const next = h("button", { type: "button", onclick: () => go(now + 1) }, "Next →");
    const count = h("span", { class: "count", role: "status" });
    const list = h("ol", { class: "step-list", "aria-label": "Steps" });
    const view = h("div", { class: "step" });
    const items = steps.map((step, place) => {
      const button = h("button", { type: "button", onclick: () => go(place) },
        h("span", { class: "n" }, place + 1), h("span", { class: "call" }, step.call));
      list.append(h("li", { class: place === total - 1 ? "broke" : null }, button));
      return button;
    });
    const box = h("div", { class: "stepper", tabindex: "0", role: "group",
      "aria-label": "Step by step: left and right arrow keys, Home, End" },
    h("div", { class: "steps-head" }, back, next, count,
      h("span", { class: "keys" }, h("kbd", null, "←"), " ", h("kbd", null, "→"), " step  ",
        h("kbd", null, "Home"), " ", h("kbd", null, "End"))),
    h("div", { class: "steps" }, list, view));

    function go(place) {
      const to = Math.max(0, Math.min(total - 1, place));
      if (to === now) return;
      if (now >= 0) items[now].removeAttribute("aria-current");
      now = to;
      items[now].setAttribute("aria-current", "step");
      const item = items[now];
      list.scrollTop = Math.max(0, item.offsetTop - list.offsetTop - list.clientHeight / 2);
      back.disabled = now === 0;
      next.disabled = now === total - 1;
      count.textContent = `step ${number(now + 1)} of ${number(total)}`;
      box.dataset.step = now + 1;
      view.replaceChildren(...drawStep(finding, owners, now));
    }

    box.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const places = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: total - 1 };
      if (!(event.key in places)) return;
      event.preventDefault();
      go(places[event.key]);
    });
    if (!total) return null;
    go(total - 1);
    requestAnimationFrame(() => { list.scrollTop = list.scrollHeight; });
    return box;
  }

  function drawStep(finding, owners, now) {
    const step = finding.steps[now];
    const place = now - owners.first; // of the picture before it
    const last = now === finding.steps.length - 1;
    const parts = [
      h("p", { class: "call-line" }, step.call, " ",
        step.audit ? h("span", { class: "tag" }, "audit") : null,
        step.clock ? h("span", { class: "tag", title: "reading of the injected clock" },
          `clock ${Number(step.clock.toPrecision(12))}`) : null),
      h("p", { class: "answer" }, "→ ", step.answer),
    ];
    if (last) {
      parts.push(h("p", { class: "broken-line" }, `✘ broke ${finding.rule}: ${finding.statement}`));
    }
    parts.push(keyStrips(finding, owners, step, place), ownersTable(owners, step, place));
    if (place < 0 || place + 1 >= finding.pictures.length) {
      parts.push(h("p", { class: "empty" }, "Of this step there is no picture."));
      return parts.filter(Boolean);
    }
    const [before, after] = [finding.pictures[place], finding.pictures[place + 1]];
    const key = step.tokens ? { tokens: Numbers.of(step.tokens), namespace: step.namespace } : null;
    const shot = (title, at, other, word) => h("div", { class: "picture" }, h("h4", null, title),
      drawPicture(finding, owners, at, other, word, key));
    const still = alike(before, after);
    parts.push(h("div", { class: "pictures" },
      shot(still ? "before and after" : "before", place, after, "gone"),
      still ? null : shot("after", place + 1, before, "new")));
    parts.push(owners.legend([place, place + 1]));
    return parts.filter(Boolean);
  }

  const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);

  /* Of a match: the slots that are stored for its key, and below them those that it answered. */
  function keyStrips(finding, owners, step, place) {
    const tokens = Numbers.of(step.tokens);
    if (step.kind !== "match_prefix" || !tokens.count || !finding.pictures[place]) return null;
    const answered = Numbers.of(step.slots);
    const stored = [];
    const tree = finding.pictures[place].trees.find((each) => each.namespace === step.namespace);
    for (const node of hung(finding, tree ? tree.rows : [], tokens)) {
      for (let each = 0; each < node.on; each += 1) {
        stored[node.start + each] = node.slots.count > each ? node.slots.at(each) : undefined;
      }
    }
    let first = 0;
    while (first < answered.count && answered.at(first) === stored[first]) first += 1;
    const count = Math.max(tokens.count, answered.count);
    const none = () => h("span", { class: "slot none" }, "–");
    const line = (slot, wrong) => cells(count, (each) => h("span", { class: "cell" },
      h("b", null, each < tokens.count ? tokens.at(each) : "–"),
      slot(each) === undefined ? none() : owners.chip(slot(each), place, wrong(each))), "token",
    first > HEAD && first < answered.count ? first : undefined);
    const got = (each) => (each < answered.count ? answered.at(each) : undefined);
    const row = (title, slot, wrong) => h("tr", null, h("th", { scope: "row" }, title),
      h("td", null, h("div", { class: "scroll" }, h("div", { class: "strip" }, line(slot, wrong)))));
    return h("table", { class: "key" }, h("tbody", null,
      row("stored for the key", (each) => stored[each], () => false),
      row("answered", got, (each) => got(each) !== stored[each])));
  }

  function ownersTable(owners, step, place) {
    if (!step.owners.length) return null;
    const rows = step.owners.map((claim) => [chips(owners, Numbers.of(claim.slots).all(), place),
      claim.owner, claim.trouble ? h("span", { class: "trouble" }, claim.trouble) : ""]);
    return h("div", { class: "owners" }, table(
      [[step.kind === "evict" ? "freed" : "answered"], ["whose"], [""]], rows));
  }

  // ---- findings --------------------------------------------------------------------------

  const findings = data.targets.flatMap((target) =>
    target.findings.map((finding) => ({ target, finding })));
  findings.forEach((each, place) => { each.number = place + 1; });

  function tagsOf(finding) {
    const kind = finding.excused ? "" : finding.flaky ? "unsure" : "bad";
    return h("span", { class: "tags" },
      finding.flaky ? h("span", { class: "tag unsure" }, "flaky") : null,
      finding.new === true ? h("span", { class: "tag accent" }, "new") : null,
      finding.new === false ? h("span", { class: "tag" }, "on the baseline too") : null,
      finding.shrunk ? h("span", { class: "tag unsure" }, `${finding.shrunk} shrunk`) : null,
      finding.repeats ? h("span", { class: "tag" }, `×${number(finding.repeats + 1)}`) : null,
      h("span", { class: `tag ${kind}` }, finding.severity));
  }

  function row(each) {
    const { target, finding, number: place } = each;
    const id = `finding-${place}`;
    const body = h("div", { class: "body", id: `${id}-body`, hidden: true });
    const button = h("button", { type: "button", class: "open", "aria-expanded": "false",
      "aria-controls": `${id}-body` },
    h("span", { class: "name" }, h("span", { class: "rule" }, finding.rule), " ",
      h("span", { class: "where" }, `at ${finding.operation}, ${target.spec}`,
        finding.config ? `, ${finding.config}` : "")), tagsOf(finding));
    const box = h("article", { class: "finding", id, "aria-label": `Finding ${place}` },
      h("h3", null, button), body);
    each.box = box;
    each.button = button;
    each.toggle = (open) => {
      if (open && !body.childNodes.length) body.append(...drawFinding(target, finding));
      body.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => each.toggle(body.hidden));
    return box;
  }

  function drawFinding(target, finding) {
    const owners = new Owners(finding);
    const shrunk = finding.original_operations > finding.steps.length && finding.steps.length
      ? `shrunk from ${counted(finding.original_operations, "operation")}` : "";
    const facts = [counted(finding.steps.length, "step"), shrunk,
      finding.seed === null ? "" : `seed ${finding.seed}`,
      finding.config ? `under ${finding.config}` : ""].filter(Boolean);
    const steps = stepper(finding, owners);
    return [
      h("p", { class: "lead" }, `${sentence(finding.statement)}: ${finding.cost}.`),
      h("p", { class: "facts" }, facts.map((fact) => h("span", null, fact))),
      finding.flaky ? h("p", { class: "note" },
        "It did not come back when the same trace ran again: inconclusive, no violation.") : null,
      finding.excused ? h("p", { class: "note" },
        "It fails on the baseline too: no violation.") : null,
      finding.shrunk ? h("p", { class: "note" },
        `${sentence(finding.shrunk)} shrunk, since time was up; radixcheck shrink goes on with it.`) : null,
      versus(finding, owners),
      finding.detail ? h("p", { class: "said" }, finding.detail) : null,
      finding.also.length ? h("p", { class: "soft small" },
        `Also broken: ${finding.also.join(", ")}.`) : null,
      finding.answers.length ? [h("h3", null, "What each target answered"), table(
        [["target"], ["answer"]], finding.answers.map((each) =>
          [h("code", null, each.target), each.answer]))] : null,
      steps ? [h("h3", null, "Step by step"), steps] : null,
      h("h3", null, "Program"), copyable(finding.program, "the program"),
      finding.reproduce ? [h("h3", null, "Reproduce"),
        copyable(finding.reproduce, "the command", "one")] : null,
      more("Traceback", finding.raised, () => copyable(finding.raised, "the traceback")),
      more("Situations of the trace", finding.situations.length,
        () => h("p", { class: "mono" }, finding.situations.join(", "))),
      more(finding.path ? `Trace file ${finding.path}` : "Trace file", finding.trace,
        () => copyable(finding.trace, "the trace file")),
    ].flat(9).filter(Boolean);
  }

  function more(title, there, draw) {
    if (!there) return null;
    const box = h("details", { class: "more" }, h("summary", null, title));
    box.addEventListener("toggle", () => {
      if (box.open && box.childNodes.length === 1) box.append(draw());
    });
    return box;
  }

  function findingsSection() {
    const head = h("h2", { id: "findings" }, findings.length
      ? `Findings (${number(findings.length)})` : "Findings");
    if (!findings.length) return [head, h("p", { class: "soft" }, "None.")];
    const told = h("p", { class: "soft small", role: "status" });
    const list = h("div", null, findings.map(row));
    const search = h("input", { type: "search", placeholder: "Filter: rule, operation, target …",
      "aria-label": "Filter findings" });
    const pick = (label, values) => h("select", { "aria-label": label },
      h("option", { value: "" }, label), values.map((value) => h("option", { value }, value)));
    const distinct = (of) => [...new Set(findings.map(of))].sort();
    const severity = pick("any severity", distinct((each) => each.finding.severity));
    const spec = pick("any target", distinct((each) => each.target.spec));
    for (const each of findings) {
      const { rule, operation, config, detail, severity: cost } = each.finding;
      each.text = [rule, operation, config, detail, cost, each.target.spec,
        each.finding.flaky ? "flaky" : "", each.finding.new ? "new" : "",
        each.finding.shrunk ? `${each.finding.shrunk} shrunk` : ""].join(" ").toLowerCase();
    }
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const each of findings) {
        const fits = words.every((word) => each.text.includes(word))
          && (!severity.value || each.finding.severity === severity.value)
          && (!spec.value || each.target.spec === spec.value);
        each.box.hidden = !fits;
        left += fits;
      }
      told.textContent = left < findings.length ? `${number(left)} of ${number(findings.length)}` : "";
    };
    [search, severity, spec].forEach((each) => each.addEventListener("input", filter));
    const close = h("button", { type: "button",
      onclick: () => findings.forEach((each) => each.toggle(false)) }, "Collapse all");
    const bar = findings.length > 1 ? h("div", { class: "bar" }, search, severity, spec, close) : null;
    const first = findings.find((each) => !each.finding.excused);
    if (first && findings.length <= 3) first.toggle(true);
    return [head, bar, told, list];
  }

  // ---- targets ---------------------------------------------------------------------------

  const MARKS = { clean: "✔", violation: "✘", inconclusive: "?", nothing: "?", interrupted: "■",
    error: "!" };
  const KINDS = { clean: "good", violation: "bad", error: "bad" };
  const judged = data.targets.filter((target) => !target.canary);

  function verdictTag(target) {
    return h("span", { class: `tag ${KINDS[target.verdict] || "unsure"}` },
      `${MARKS[target.verdict]} ${target.words}`);
  }

  function overview() {
    if (data.targets.length < 2) return null;
    const title = `Targets (${data.targets.length})`;
    return [h("h2", null, title), h("details", { class: "more", open: data.targets.length <= 12 },
      h("summary", null, "verdict of each"), table(
      [["target"], ["verdict"], ["operations", "num"], ["traces", "num"], ["time", "num"],
        ["seed", "num"]],
      data.targets.map((target) => [h("code", null, target.spec, target.canary ? " (canary)" : ""),
        verdictTag(target), number(target.operations), number(target.traces),
        duration(target.elapsed_s), target.seed === null ? "" : String(target.seed)])))];
  }

  function targetSection(target) {
    const box = h("details", { class: "target" }, h("summary", null,
      target.canary ? h("span", { class: "soft" }, "Canary") : null, h("code", null, target.spec),
      verdictTag(target), h("span", { class: "soft small" },
        counted(target.operations, "operation"))));
    const draw = () => { if (box.childNodes.length === 1) box.append(...drawTarget(target)); };
    box.addEventListener("toggle", draw);
    const telling = judged.length === 1 || target.missing.length;
    if ((telling && !target.canary) || target.error) {
      box.open = true;
      draw();
    }
    return box;
  }

  function drawTarget(target) {
    const speed = target.elapsed_s > 0 ? Math.round(target.operations / target.elapsed_s) : 0;
    const facts = [`level: ${target.level}`, counted(target.traces, "trace"),
      duration(target.elapsed_s), speed ? `${number(speed)} operations per second` : "",
      target.seed === null ? "" : `seed ${target.seed}`].filter(Boolean);
    return [
      h("p", { class: "facts" }, facts.map((fact) => h("span", null, fact))),
      target.canary ? h("p", { class: "soft small" }, "A target with a known bug, planted to be "
        + "found: if it is not, the night proves nothing.") : null,
      target.error ? h("p", { class: "note" }, target.error) : null,
      target.configurations ? [h("h3", null, "Configurations"),
        h("p", { class: "small mono" }, target.configurations)] : null,
      cases(target), charts(target), drivers(target), situations(target), known(target),
      unjudged(target),
      target.skipped.length ? more(`Skipped operations: ${counted(target.skipped.length, "reason")}`,
        true, () => table([["why"], ["times", "num"]],
          target.skipped.map((each) => [each.reason, number(each.times)]))) : null,
    ].flat(9).filter(Boolean);
  }

  const CASE = { passed: "good", failed: "bad", error: "bad", skipped: "" };

  function cases(target) {
    if (!target.cases.length) return null;
    return [h("h3", null, `Traces (${number(target.cases.length)})`), table(
      [["status"], ["trace"], ["what"], ["time", "num"]], target.cases.map((each) => [
        h("span", { class: `tag ${CASE[each.status]}` }, each.status), h("code", null, each.name),
        each.words, duration(each.elapsed_s)]))];
  }

  function situations(target) {
    if (!target.situations.length) return null;
    const wanted = target.situations.filter((each) => each.required);
    const reached = wanted.filter((each) => each.count);
    const most = Math.max(...target.situations.map((each) => each.count), 1);
    const missed = (each) => each.required && !each.count;
    const ordered = [...target.situations].sort((one, other) =>
      missed(other) - missed(one) || (other.count > 0) - (one.count > 0));
    const meter = (count) => {
      const bar = h("i", null);
      bar.style.width = `${count ? Math.max(3, 100 * Math.log1p(count) / Math.log1p(most)) : 0}%`;
      return h("span", { class: "meter", "aria-hidden": "true" }, bar);
    };
    const rows = ordered.map((each) => [h("code", null, each.name), each.statement,
      missed(each) ? h("span", { class: "tag unsure" }, "missed")
        : each.required ? "required" : h("span", { class: "soft" }, "optional"),
      [number(each.count), meter(each.count)]]);
    const told = `Situations: ${reached.length} of ${wanted.length} required reached`;
    const lost = target.missing.length && !target.canary ? h("p", { class: "note" },
      `Never reached: ${target.missing.join(", ")}. About these the run proves nothing.`) : null;
    return [h("h3", null, told), lost,
      table([["situation"], ["what"], [""], ["times", "num"]], rows)];
  }

  function drivers(target) {
    if (!target.drivers.length) return null;
    const rows = target.drivers.map((each) => [h("code", null, each.name), number(each.traces),
      number(each.operations), duration(each.elapsed_s), number(each.discovered)]);
    return [h("h3", null, "Drivers"), table([["driver"], ["traces", "num"], ["operations", "num"],
      ["time", "num"], ["discovered", "num"]], rows)];
  }

  function known(target) {
    if (!target.known.length) return null;
    const rows = target.known.map((each) => [h("span", null, h("code", null, each.rule), " at ",
      h("code", null, each.operation)), number(each.times), each.reason, link(each.issue)]);
    const times = target.known.reduce((sum, each) => sum + each.times, 0);
    const behind = target.cut_short
      ? `; ${counted(target.cut_short, "operation")} behind them were not judged` : "";
    return [h("h3", null, "Known failures"),
      table([["failure"], ["times", "num"], ["why"], ["issue"]], rows),
      h("p", { class: "soft small" },
        `They cut short ${number(times)} of ${counted(target.traces, "trace")}${behind}.`)];
  }

  function unjudged(target) {
    if (!target.unjudged.length) return null;
    const rows = target.unjudged.map((each) => [h("code", null, each.rules.join(", ")),
      each.reason, each.hint ? h("code", null, each.hint) : ""]);
    return [h("h3", null, "Not judged, since the target does not promise it"),
      table([["rules"], ["why"], ["to judge it"]], rows)];
  }

  // ---- rate over time --------------------------------------------------------------------

  function charts(target) {
    const rates = target.rates;
    if (rates.length < 2) return null;
    return [h("h3", null, "Over time"), h("div", { class: "charts" },
      chart("operations per second", rates, (each) => each.operations_per_s),
      chart("situations reached", rates, (each) => each.situations),
      rates[rates.length - 1].findings ? chart("findings", rates, (each) => each.findings) : null)];
  }

  function chart(title, rates, value) {
    const [width, height, left, bottom] = [420, 110, 44, 18];
    const most = Math.max(...rates.map(value), 1);
    const end = rates[rates.length - 1].elapsed_s || 1;
    const x = (each) => left + (width - left) * (each.elapsed_s / end);
    const y = (each) => 8 + (height - bottom - 8) * (1 - value(each) / most);
    const first = `${left},${y(rates[0]).toFixed(1)}`; // it tells of all that was before it
    const points = [first, ...rates.map((each) => `${x(each).toFixed(1)},${y(each).toFixed(1)}`)]
      .join(" ");
    const base = height - bottom;
    const label = (at, text, place, anchor) => {
      const element = svg("text", { x: at, y: place, "text-anchor": anchor });
      element.textContent = text;
      return element;
    };
    const said = `${title}: at most ${number(Math.round(most))}, in ${duration(end)}`;
    return h("figure", { class: "chart" }, h("figcaption", null, title),
      svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
        svg("polygon", { class: "area",
          points: `${left},${base} ${points} ${x(rates[rates.length - 1])},${base}` }),
        svg("line", { class: "axis", x1: left, y1: base, x2: width, y2: base }),
        svg("polyline", { class: "curve", points }),
        label(left - 6, number(Math.round(most)), 14, "end"), label(left - 6, "0", base, "end"),
        label(left, "0", height - 3, "start"), label(width, duration(end), height - 3, "end")));
  }

  // ---- the page --------------------------------------------------------------------------

  const SEVEREST = ["violation", "error", "interrupted", "inconclusive", "nothing", "clean"];

  function verdict() {
    const worst = SEVEREST.find((each) => data.targets.some((target) => target.verdict === each));
    const one = judged.length === 1 ? judged[0] : null;
    const sure = findings.filter(({ finding }) => !finding.flaky && !finding.excused);
    const missed = data.targets.filter((target) => target.canary && target.verdict !== "clean");
    const words = one ? `${one.spec}: ${one.words}`
      : sure.length ? `${counted(sure.length, "violation")} in ${counted(new Set(sure.map((each) =>
        each.target)).size, "target")}`
        : judged.length && judged.every((target) => target.verdict === "clean")
          ? `no violation in ${counted(judged.length, "target")}` : worst || "nothing ran";
    return { kind: worst || "nothing", words: missed.length ? `${words}; canary ${missed[0].words}` : words };
  }

  function top() {
    const { kind, words } = verdict();
    const operations = data.targets.reduce((sum, target) => sum + target.operations, 0);
    const facts = [counted(operations, "operation"), duration(data.elapsed_s),
      data.began.replace("T", " ").replace("Z", " UTC"), `exit code ${data.exit_code}`];
    return h("header", null,
      h("div", { class: "top" }, h("span", { class: "brand" }, "radixcheck"), themes()),
      h("div", { class: "verdict" },
        h("span", { class: `mark is-${kind}`, "aria-hidden": "true" }, MARKS[kind]),
        h("div", null, h("h1", null, words),
          h("p", { class: "facts" }, facts.map((fact) => h("span", null, fact))))),
      data.notes.map((note) => h("p", { class: "note" }, note)),
      h("div", { class: "command" }, copyable(data.command, "the command", "one")));
  }

  function themes() {
    const names = ["auto", "light", "dark"];
    const button = h("button", { type: "button" });
    let theme = "auto";
    try { theme = localStorage.getItem("radixcheck-theme") || "auto"; } catch { /* a plain file */ }
    const show = () => {
      document.documentElement.dataset.theme = theme;
      button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
      button.setAttribute("aria-label", `Colours: ${theme}. Change them`);
    };
    button.addEventListener("click", () => {
      theme = names[(names.indexOf(theme) + 1) % names.length];
      try { localStorage.setItem("radixcheck-theme", theme); } catch { /* then until it is closed */ }
      show();
    });
    if (!names.includes(theme)) theme = "auto";
    show();
    return button;
  }

  function footer() {
    return h("footer", null, h("p", null, `radixcheck ${data.radixcheck_version}. `,
      h("kbd", null, "j"), " ", h("kbd", null, "k"), " next and previous finding, ",
      h("kbd", null, "Enter"), " opens it, ", h("kbd", null, "←"), " ", h("kbd", null, "→"),
      " its steps, ", h("kbd", null, "/"), " filter."));
  }

  function typing(event) {
    return /^(input|select|textarea)$/i.test(event.target.tagName);
  }

  /* A step forth or back in the findings that the filter leaves. */
  function wander(by) {
    const seen = findings.filter((each) => !each.box.hidden);
    const at = seen.findIndex((each) => each.box.contains(document.activeElement));
    const to = seen[at < 0 ? (by > 0 ? 0 : seen.length - 1) : at + by];
    if (to) { to.button.focus(); to.box.scrollIntoView({ block: "nearest" }); }
  }

  function keys(event) {
    if (typing(event) || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "j") wander(1);
    else if (event.key === "k") wander(-1);
    else if (event.key === "/") {
      const search = document.querySelector("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); }
    } else if (["ArrowLeft", "ArrowRight"].includes(event.key)) fromAfar(event);
  }

  /* The arrow keys step even where nothing has the focus yet, in the first finding that is open. */
  function fromAfar(event) {
    if (event.defaultPrevented || event.target.closest(".scroll, pre, .stepper")) return;
    const near = event.target.closest(".finding");
    const box = (near || document).querySelector(".body:not([hidden]) .stepper");
    if (!box) return;
    event.preventDefault();
    box.focus({ preventScroll: true });
    box.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
  }

  function open() { // #finding-3
    const each = findings.find((one) => `#${one.box.id}` === location.hash);
    if (each) { each.toggle(true); each.box.scrollIntoView(); each.button.focus(); }
  }

  document.getElementById("page").append(...[top(), overview(), findingsSection(),
    data.targets.length ? h("h2", null, data.targets.length > 1 ? "Each target" : "The target")
      : null, data.targets.map(targetSection), footer()].flat(9).filter(Boolean));
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", open);
  open();
})();
