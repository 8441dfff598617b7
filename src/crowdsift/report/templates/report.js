"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 25;
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // Everything from the votes goes through textContent or setAttribute: text, never markup.
  const make = (tag, kind, text) => {
    const node = document.createElement(tag);
    if (kind) node.className = kind;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const shape = (tag, attributes) => {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const count = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  const percent = (share) => {
    if (share === null) return "–";
    const rounded = Math.floor(100 * share + 0.5);
    if (rounded === 0 && share > 0) return "under 1\u00a0%";
    if (rounded === 100 && share < 1) return "over 99\u00a0%";
    return `${rounded}\u00a0%`;
  };
  const decimal = (value, digits) => {
    const size = Math.floor(Math.abs(value) * 10 ** digits + 0.5) / 10 ** digits;
    return `${value < 0 && size ? "−" : ""}${size.toFixed(digits)}`;
  };
  const number = (value, digits = 2) => (value === null ? "–" : decimal(value, digits));
  const ends = (low, high, digits, nothing = null) => {
    if (low === null || high === null) return nothing === null ? "–" : "not informative";
    if (low === high) return low === nothing ? "not informative" : decimal(low, digits);
    const limits = new Set(nothing === null ? [low, high] : [low, high, nothing]);
    const texts = () => new Set([...limits].map((end) => decimal(end, digits)));
    while (digits < 9 && texts().size < limits.size) digits += 1;
    if (decimal(low, digits) === decimal(high, digits)) return `${low.toExponential(2)} to ${high.toExponential(2)}`;
    return `${decimal(low, digits)} to ${decimal(high, digits)}`;
  };

  const cell = (kind, content, label) => {
    const td = make("td", kind);
    if (label) td.dataset.label = label;
    td.setAttribute("role", "cell"); // rows are no table rows to a browser where they are grids
    if (content !== null && content !== undefined) td.append(content);
    return td;
  };
  const name = (text, kind = "name") => {
    const node = make("bdi", "clip", text);
    node.dir = "auto";
    if (text.length > 80) node.title = text;
    return cell(kind, node);
  };
  const interval = (value, low, high, scale, kind, zero) => {
    if (value === null) return null;
    const at = (v) => `${decimal((100 * (v - scale[0])) / (scale[1] - scale[0] || 1), 1)}%`;
    const svg = shape("svg", { class: `bar ${kind}`, width: "100%", height: 16, "aria-hidden": "true" });
    if (zero !== null) svg.append(shape("line", { class: "zero", x1: at(zero), x2: at(zero), y1: 0, y2: 16 }));
    svg.append(
      shape("line", { class: "span", x1: at(low ?? value), x2: at(high ?? value), y1: 8, y2: 8 }),
      shape("line", { class: "at", x1: at(value), x2: at(value), y1: 1, y2: 15 }),
    );
    return svg;
  };
  const why = (parts) =>
    parts.map(([code, ...figures]) => data.reasons[code].replace(/\{(\d)\}/g, (_, k) => figures[k])).join("; ");
  const chip = (word) => {
    const node = make("span", "chip");
    node.append(make("i", `v-${word}`), word);
    return node;
  };

  const rows = {
    items(t, i, has) {
      const zero = t.scale[0] < 0 && t.scale[1] > 0 ? 0 : null;
      const title = name(t.name[i]);
      if (t.badge && t.badge[i]) title.append(make("span", "badge", data.badges[t.badge[i]]));
      const cells = [cell("num rank", count(t.rank[i])), title];
      if (has("context")) cells.push(name(t.context[i], "context"));
      if (has("component")) cells.push(cell("num", String(t.component[i]), "component"));
      cells.push(
        cell("bars", interval(t.score[i], t.lower[i], t.upper[i], t.scale, "score", zero)),
        cell("num", number(t.score[i], t.digits), "score"),
        cell("num ends", ends(t.lower[i], t.upper[i], t.digits)),
      );
      if (has("rank_upper")) {
        const known = t.rank_lower[i] !== null;
        cells.push(cell("num", known ? `${count(t.rank_lower[i])}–${count(t.rank_upper[i])}` : "–", "ranks"));
      }
      cells.push(cell("num", count(t.votes[i]), "votes"));
      return cells;
    },
    workers(t, i, has) {
      const cells = [name(t.name[i])];
      if (has("verdict")) cells.push(cell("verdict", chip(t.verdict[i])));
      if (has("bars"))
        cells.push(cell("bars", interval(t.reliability[i], t.lower[i], t.upper[i], t.scale, `v-${t.verdict[i] || "none"}`, t.level)));
      if (has("bars"))
        cells.push(cell("num", number(t.reliability[i]), "reliability"), cell("num ends", ends(t.lower[i], t.upper[i], 2, t.level)));
      cells.push(cell("num", count(t.votes[i]), "votes"), cell("num", percent(t.agreement[i]), "agrees"));
      if (has("left")) cells.push(cell("num", percent(t.left[i]), "left"));
      if (has("side_bias")) cells.push(cell("num", number(t.side_bias[i], 1), "side"));
      if (has("verdict")) cells.push(cell("why", why(t.why[i])));
      return cells;
    },
  };

  const start = (id) => {
    const table = document.getElementById(`${id}-table`);
    if (!table) return;
    const columns = data[id];
    const body = table.tBodies[0];
    const heads = [...table.querySelectorAll("th[data-key]")];
    const keys = new Set(heads.map((th) => th.dataset.key));
    if (table.querySelector("th[data-bars]")) keys.add("bars");
    const has = (key) => keys.has(key);
    const tools = document.querySelector(`[data-tools="${id}"]`);
    const search = document.querySelector(`[data-search="${id}"]`);
    const filter = document.querySelector(`[data-filter="${id}"]`);
    const pager = document.querySelector(`[data-pager="${id}"]`);
    const [previous, next] = pager.querySelectorAll("button");
    const told = pager.querySelector("span");
    const filtered = id === "items" ? columns.context || columns.component : columns.verdict;
    let order = columns.name.map((_, i) => i);
    let found = order;
    let page = 0;
    let lower = null;

    const draw = () => {
      const shown = found.slice(page * PAGE, page * PAGE + PAGE);
      const fragment = document.createDocumentFragment();
      for (const i of shown) {
        const tr = make("tr");
        tr.setAttribute("role", "row");
        tr.append(...rows[id](columns, i, has));
        fragment.append(tr);
      }
      body.replaceChildren(fragment);
      tell();
    };
    const tell = () => {
      const from = page * PAGE;
      told.textContent = found.length
        ? `${count(from + 1)}–${count(Math.min(from + PAGE, found.length))} of ${count(found.length)}`
        : "nothing found";
      previous.disabled = page === 0;
      next.disabled = from + PAGE >= found.length;
      pager.hidden = columns.name.length <= PAGE && found.length === columns.name.length;
    };
    const choose = () => {
      const wanted = search.value.trim().toLowerCase();
      const kind = filter ? filter.value.trim() : "";
      const searched = filter && filter.tagName === "INPUT" && columns.context;
      const fits = (value) =>
        searched ? value.toLowerCase().includes(kind.toLowerCase()) : String(value) === kind;
      lower ??= columns.name.map((text) => text.toLowerCase());
      found = order.filter((i) => (!wanted || lower[i].includes(wanted)) && (!kind || fits(filtered[i])));
      page = 0;
      draw();
    };
    const sort = (th) => {
      const falling = th.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.setAttribute("aria-sort", "none");
      th.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const values = columns[th.dataset.key];
      const sign = falling ? -1 : 1;
      const compare = (a, b) => {
        const one = values[a], two = values[b];
        if (one === null || two === null) return (one === null) - (two === null) || a - b;
        const by = typeof one === "string" ? collator.compare(one, two) : one - two;
        return sign * by || a - b;
      };
      order = [...order].sort(compare);
      choose();
    };

    for (const th of heads) th.querySelector("button").addEventListener("click", () => sort(th));
    search.addEventListener("input", choose);
    if (filter) {
      if (id === "items" && filter.tagName === "SELECT")
        for (const part of [...new Set(filtered)].sort((a, b) => (columns.context ? collator.compare(a, b) : a - b)))
          filter.append(make("option", "", String(part)));
      filter.addEventListener("input", choose);
    }
    for (const button of [previous, next])
      button.addEventListener("click", () => {
        page += Number(button.dataset.step);
        draw();
      });
    tools.hidden = false;
    tell();
  };
  for (const note of document.querySelectorAll("[data-still]")) note.hidden = true;
  start("items");
  start("workers");

  const copy = document.getElementById("copy-flagged");
  if (copy) {
    const told = document.getElementById("copied");
    const text = data.workers.name.slice(0, data.workers.flagged).join("\n");
    // Where the page may not write to the clipboard (a frame of a notebook), by a selection.
    const select = () => {
      const area = make("textarea");
      area.value = text;
      area.setAttribute("aria-label", "Flagged workers");
      told.replaceChildren(area);
      area.select();
      const done = document.execCommand("copy");
      if (done) told.textContent = "Copied, one a line.";
    };
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text);
        told.textContent = "Copied, one a line.";
      } catch {
        select();
      }
    });
  }

  const theme = document.getElementById("theme");
  const dark = () => {
    const set = document.documentElement.dataset.theme;
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name_theme = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.setAttribute("aria-label", "Switch between light and dark");
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name_theme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name_theme);
  theme.hidden = false;
  name_theme();
})();
