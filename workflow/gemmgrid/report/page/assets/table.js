// The big table: sorts, filters, opens rows. Values are set as text, never as markup.
"use strict";
(() => {
  const source = document.getElementById("data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const at = Object.fromEntries(data.keys.map((key, index) => [key, index]));
  const get = (row, key) => row[at[key]];
  const body = document.querySelector("#cells tbody");
  const form = document.getElementById("filters");
  const search = document.getElementById("search");
  const more = document.getElementById("more");
  const PAGE = 100;
  let limit = PAGE;
  let sort = { key: null, down: false };

  const plain = (value) => (value === null || value === undefined || value === "" ? "–" : String(value));
  const number = (value, digits = 4) => {
    if (typeof value !== "number") return plain(value);
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(1);
    const rounded = Number(value.toPrecision(digits));
    const exponent = rounded === 0 ? 0 : Math.floor(Math.log10(Math.abs(rounded)));
    return rounded.toFixed(Math.max(0, digits - 1 - exponent));
  };
  const seconds = (value) => {
    if (typeof value !== "number") return "–";
    const [factor, unit] = value < 1e-6 ? [1e9, "ns"] : value < 1e-3 ? [1e6, "µs"] : value < 1 ? [1e3, "ms"] : [1, "s"];
    return `${number(value * factor)} ${unit}`;
  };
  const range = (low, high) => (typeof low === "number" ? `${number(low)} – ${number(high)}` : "–");
  const texts = {
    number: (row, key) => number(get(row, key)),
    seconds: (row, key) => seconds(get(row, key)),
    interval: (row) => range(get(row, "gflops_low"), get(row, "gflops_high")),
    spread: (row) => range(get(row, "spread_low"), get(row, "spread_high")),
    share: (row, key) => (typeof get(row, key) === "number" ? `${number(100 * get(row, key), 3)} %` : "–"),
    evidence: (row, key) => {
      const mark = get(row, key.replace("seen", "evidence"));
      return get(row, key) ? `${get(row, key)} (${mark})` : plain(mark);
    },
  };
  const text = (row, key, kind) => (texts[kind] ? texts[kind](row, key) : plain(get(row, key)));

  const element = (name, content, className) => {
    const made = document.createElement(name);
    if (content !== undefined) made.textContent = content;
    if (className) made.className = className;
    return made;
  };
  const cell = (row, [key, , kind]) => {
    const made = element("td", undefined, ["number", "count", "seconds"].includes(kind) ? "number" : `is-${kind}`);
    if (kind === "status") {
      const badge = element("span", get(row, key), "status");
      badge.dataset.status = get(row, key);
      made.append(badge);
    } else if (kind === "flags") {
      const flags = (get(row, key) || "").split(";").filter(Boolean);
      flags.forEach((flag) => {
        const badge = element("span", flag, "flag");
        badge.dataset.flag = flag;
        made.append(badge, " ");
      });
    } else {
      made.textContent = text(row, key, kind);
    }
    return made;
  };
  const details = (row) => {
    const list = element("dl", undefined, "facts");
    data.details.forEach(([key, name, kind]) => {
      const value = text(row, key, kind);
      if (value === "–") return;
      const definition = element("dd");
      if (kind === "command") {
        const line = element("div", undefined, "command");
        const button = element("button", "copy", "copy");
        button.type = "button";
        line.append(element("code", value), button);
        definition.append(line);
      } else {
        definition.append(kind === "code" ? element("code", value) : value);
      }
      list.append(element("dt", name), definition);
    });
    return list;
  };
  const toggle = (button, line, row) => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) {
      line.nextElementSibling.remove();
      return;
    }
    const opened = element("tr", undefined, "details");
    const inside = element("td");
    inside.colSpan = data.columns.length + 1;
    inside.append(details(row));
    opened.append(inside);
    line.after(opened);
  };
  const line = (row) => {
    const made = element("tr");
    const button = element("button", undefined, "open");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-label", `details of ${get(row, "backend")} ${get(row, "cell")}`);
    button.addEventListener("click", () => toggle(button, made, row));
    const first = element("td");
    first.append(button);
    made.append(first, ...data.columns.map((column) => cell(row, column)));
    return made;
  };

  const sortKeys = { shape: "size", interval: "gflops_low" };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const wanted = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")]
      .filter((select) => select.selectedIndex > 0)
      .map((select) => [select.dataset.key, select.value]);
    const rows = data.rows.filter((row) => {
      if (!chosen.every(([key, value]) => String(get(row, key) ?? "None") === value)) return false;
      const all = words.length ? row.join(" ").toLowerCase() : "";
      return words.every((word) => all.includes(word));
    });
    if (sort.key) {
      const key = sortKeys[sort.key] || sort.key;
      const empty = (value) => value === null || value === "";
      rows.sort((a, b) => {
        const [x, y] = [get(a, key), get(b, key)];
        if (empty(x) || empty(y)) return empty(x) - empty(y); // the unknown stays at the end
        return sort.down ? compare(y, x) : compare(x, y);
      });
    }
    return rows;
  };
  const render = () => {
    const rows = wanted();
    body.replaceChildren(...rows.slice(0, limit).map(line));
    const visible = Math.min(limit, rows.length);
    document.getElementById("shown").textContent =
      `${rows.length} of ${data.rows.length} cells match` + (visible < rows.length ? `, the first ${visible} are shown` : "");
    more.hidden = visible === rows.length;
    more.textContent = `show all ${rows.length}`;
  };

  document.querySelectorAll("#cells [data-sort]").forEach((button) => {
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      const numeric = data.columns.some(([name, , kind]) => name === key && ["number", "interval"].includes(kind));
      // The first press shows the fastest on top; the second turns it round.
      sort = sort.key === key ? { key, down: !sort.down } : { key, down: numeric };
      document.querySelectorAll("#cells th[aria-sort]").forEach((head) => head.setAttribute("aria-sort", "none"));
      button.parentElement.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      render();
    });
  });
  const refilter = () => { limit = PAGE; render(); };
  search.addEventListener("input", refilter);
  form.querySelectorAll("select").forEach((select) => select.addEventListener("change", refilter));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refilter));
  more.addEventListener("click", () => { limit = Infinity; render(); });
  form.hidden = false;
  render();
})();
