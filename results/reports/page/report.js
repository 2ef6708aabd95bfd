"use strict";
(() => {
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const one = (what, where = document) => where.querySelector(what);

  // Theme: what the system says, unless the reader chose.
  const root = document.documentElement, theme = one("#theme"), themes = ["auto", "light", "dark"];
  const setTheme = (name) => {
    if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
    one(".name", theme).textContent = name;
    theme.setAttribute("aria-label", `Theme: ${name}`);
    try { localStorage.setItem("lowtide-theme", name); } catch { /* a browser may refuse files to store */ }
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    setTheme(themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length]);
  });
  try {
    const stored = localStorage.getItem("lowtide-theme");
    if (themes.includes(stored)) setTheme(stored);
  } catch { /* as above */ }

  // Sorting: a second click turns the order round; what is absent comes last either way.
  const words = new Intl.Collator("en", { numeric: true });
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : cell.dataset.v;
  };
  for (const table of all("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => one("button", head)?.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending", numeric = head.classList.contains("num");
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0], keyed = [...body.rows].map((row) => [value(row, column), row]);
      keyed.sort(([a], [b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        const order = numeric ? Number(a) - Number(b) : words.compare(a, b);
        return up ? order : -order;
      });
      for (const [, row] of keyed) body.append(row);
      table.dispatchEvent(new Event("sorted"));
    }));
  }

  // Filters: the text may hold several words, all of which must be there. Of very many items the first are
  // shown, and more on demand: a browser takes long to lay out tens of thousands of rows.
  for (const form of all("form.filters")) {
    const target = document.getElementById(form.dataset.for), output = one("output", form);
    const list = target.tagName === "TABLE" ? target.tBodies[0] : target, page = Number(form.dataset.page);
    const total = list.children.length, noun = form.dataset.noun + (total === 1 ? "" : "s");
    const nothing = one(`.nothing[data-of="${target.id}"]`), further = one(`.further[data-of="${target.id}"]`);
    let limit = page;
    const apply = () => {
      const parts = one("input", form).value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = all("select", form).filter((s) => s.value).map((s) => [camel(s.dataset.key), s.value]);
      let found = 0;
      for (const item of list.children) {
        const fits = parts.every((p) => item.dataset.text.includes(p)) && chosen.every(([k, v]) => item.dataset[k] === v);
        found += fits;
        item.hidden = !fits || found > limit;
      }
      output.textContent = (found === total ? "" : `${found.toLocaleString("en")} of `) + `${total.toLocaleString("en")} ${noun}`;
      nothing.hidden = found > 0;
      further.hidden = found <= limit;
      one("span", further).textContent = `The first ${limit.toLocaleString("en")} of ${found.toLocaleString("en")} are shown.`;
    };
    const restart = () => { limit = page; apply(); };
    form.addEventListener("input", restart);
    form.addEventListener("reset", () => setTimeout(restart));
    form.addEventListener("submit", (event) => event.preventDefault());
    target.addEventListener("sorted", apply);
    one("button", further).addEventListener("click", () => { limit += page; apply(); });
    apply();
  }
  function camel(key) { return key.replace(/-(\w)/g, (_, letter) => letter.toUpperCase()); }

  // Details of runs fold; a link to one unfolds everything around it.
  const fold = (button, open) => {
    button.setAttribute("aria-expanded", open);
    document.getElementById(button.getAttribute("aria-controls")).hidden = !open;
  };
  for (const button of all("button.more")) {
    fold(button, false);
    button.addEventListener("click", () => fold(button, button.getAttribute("aria-expanded") !== "true"));
  }
  const follow = () => {
    const id = decodeURIComponent(location.hash.slice(1)), target = id && document.getElementById(id);
    if (!target) return;
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") { e.open = true; e.hidden = false; }
    const button = one("button.more", target);
    if (button && target.tagName === "TR") {
      fold(button, true);
      target.scrollIntoView({ block: "center" });
      button.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });
  follow();

  // Copying a command.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const code = one("code", document.getElementById(`${button.dataset.of}-more`));
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      location.hash = button.dataset.of;
      getSelection().selectAllChildren(code);
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });

  // Reading values off a chart, under the pointer or by arrow keys.
  const number = (v) => v.toLocaleString("en");
  const scaled = (v, units, base) => {
    let k = 0;
    while (k + 1 < units.length && Math.abs(v) >= base) { v /= base; k += 1; }
    return `${k ? v.toLocaleString("en", { maximumSignificantDigits: 4 }) : number(v)} ${units[k]}`;
  };
  const inUnit = (v, unit) => {
    if (unit === "bytes") return scaled(v, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
    return unit === "ns" ? scaled(v, ["ns", "µs", "ms", "s"], 1000) : number(v);
  };
  const percent = (gap) => `${(100 * gap).toPrecision(3)} %`;
  const atTime = (t, unit) => {
    if (unit === "op") return `op ${number(Math.floor(t))}`;
    if (unit === "ns") return inUnit(Math.floor(t), "ns");
    if (unit === "gap") return `gap up to ${percent(t)}`;
    return t < 1 ? `${(1000 * t).toPrecision(3)} ms` : `${t.toPrecision(4)} s`;
  };
  const lastBefore = (times, t) => {
    let low = 0, high = times.length;
    while (low < high) { const mid = (low + high) >> 1; if (times[mid] <= t) low = mid + 1; else high = mid; }
    return low - 1;
  };
  const MOST = 14;

  // Of an allocation: which buffer lies where, under the pointer or by arrow keys from one to the next.
  const prepareMap = (figure, { x, y, names, sizes, rectangles }) => {
    const plot = one(".plot", figure), tip = one(".tip", figure), spot = document.createElement("span");
    spot.className = "spot";
    spot.hidden = true;
    plot.append(spot);
    const count = rectangles.length / 5, span = x.high - x.low || 1;
    const order = [...Array(count).keys()].sort((a, b) => rectangles[5 * a + 1] - rectangles[5 * b + 1] || rectangles[5 * a + 3] - rectangles[5 * b + 3]);
    const time = (t) => inUnit(x.times ? x.times[t] : t, x.unit === "op" ? "" : x.unit);
    const show = (k) => {
      const [n, begin, end, low, high] = rectangles.slice(5 * k, 5 * k + 5);
      const left = 100 * (begin - x.low) / span, middle = 100 * ((begin + end) / 2 - x.low) / span;
      spot.style.cssText = `left:${left}%;width:${100 * (end - begin) / span}%;bottom:${100 * low / y.high}%;height:${100 * (high - low) / y.high}%`;
      const title = document.createElement("b"), table = document.createElement("table");
      title.textContent = names[n];
      const about = [["size", inUnit(sizes[n], "bytes")], ["address", `${number(low)} to ${number(high)}`], [x.unit === "op" ? "ops" : "time", `${time(begin)} to ${time(end)}`]];
      for (const [name, text] of about) {
        const row = table.insertRow(), label = document.createElement("th");
        label.textContent = name;
        row.append(label);
        row.insertCell().textContent = text;
      }
      tip.replaceChildren(title, table);
      spot.hidden = tip.hidden = false;
      tip.style.left = middle < 50 ? "auto" : ".6rem";
      tip.style.right = middle < 50 ? ".6rem" : "auto";
    };
    const hide = () => { spot.hidden = tip.hidden = true; };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect(), across = box.width / span, up = box.height / y.high;
      const t = x.low + (event.clientX - box.left) / across, address = (box.bottom - event.clientY) / up;
      let best = -1, least = 16; // squared distance in pixels: what is thin can be hit too
      for (let i = 0; i < count && least > 0; i += 1) {
        const dx = across * Math.max(rectangles[5 * i + 1] - t, t - rectangles[5 * i + 2], 0);
        const dy = up * Math.max(rectangles[5 * i + 3] - address, address - rectangles[5 * i + 4], 0);
        if (dx * dx + dy * dy < least) { best = i; least = dx * dx + dy * dy; }
      }
      if (best < 0) hide(); else show(best);
    });
    plot.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    let stop = -1;
    figure.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: stop + 1, ArrowLeft: stop - 1, Home: 0, End: count - 1 };
      if (event.key === "Escape") { hide(); stop = -1; return; }
      if (!(event.key in moves) || !count) return;
      event.preventDefault();
      stop = Math.min(count - 1, Math.max(0, moves[event.key]));
      show(order[stop]);
    });
  };

  const prepare = (figure) => {
    const data = JSON.parse(one("script", figure).textContent), { x, unit, times, series } = data;
    if (data.rectangles) { prepareMap(figure, data); return; }
    const plot = one(".plot", figure), cursor = one(".cursor", figure), tip = one(".tip", figure);
    const log = x.log ? Math.log : (v) => v, exp = x.log ? Math.exp : (v) => v;
    const low = log(x.low), span = log(x.high) - low || 1;
    for (const s of series) if (s.points) s.times = s.points.map((p) => p[0]);
    const stops = [...new Set(times ? times.slice(0, -1) : series.flatMap((s) => s.times))].sort((a, b) => a - b);
    // The rows of the read-out: name, style, and one text for each column.
    const rowsAt = (t) => {
      if (times) {
        const k = Math.min(Math.max(lastBefore(times, t), 0), times.length - 2);
        const kinds = series.filter((s) => s.values[k]).map((s) => [s.name, s.style, s.values[k]]);
        return [["total", "", kinds.reduce((sum, row) => sum + row[2], 0)], ...kinds];
      }
      const rows = new Map();
      for (const s of series) {
        const k = lastBefore(s.times, t), v = k < 0 || t > s.end * 1.0001 ? null : s.points[k][1];
        if (v === null) continue;
        const row = rows.get(s.name) ?? [s.name, s.style.replace(" dashed", ""), null, null];
        row[s.isBound ? 3 : 2] = v;
        rows.set(s.name, row);
      }
      return [...rows.values()];
    };
    const paired = !times && series.some((s) => s.isBound);
    const show = (t) => {
      const percentage = 100 * Math.min(1, Math.max(0, (log(Math.max(t, x.low)) - low) / span));
      const rows = rowsAt(t), title = document.createElement("b"), table = document.createElement("table");
      title.textContent = atTime(t, x.unit);
      if (paired && rows.length) {
        const head = table.insertRow();
        for (const word of ["", "incumbent", "bound", "gap"]) head.insertCell().textContent = word;
      }
      for (const [name, style, v, bound] of rows.slice(0, MOST)) {
        const row = table.insertRow(), label = document.createElement("th"), swatch = document.createElement("i");
        if (style) { swatch.className = `swatch ${style}`; label.append(swatch); }
        label.append(name);
        row.append(label);
        row.insertCell().textContent = v === null ? "-" : inUnit(v, unit);
        if (paired) {
          row.insertCell().textContent = bound === null ? "-" : inUnit(bound, unit);
          const known = v !== null && bound !== null;
          row.insertCell().textContent = !known ? "-" : v === bound ? "0 %" : percent((v - bound) / v);
        }
      }
      tip.replaceChildren(title, table);
      if (rows.length > MOST) tip.append(`and ${rows.length - MOST} more`);
      cursor.style.left = `${percentage}%`;
      const right = percentage < 50;
      tip.style.left = right ? `min(${percentage}% + .6rem, 100% - ${tip.offsetWidth}px)` : "auto";
      tip.style.right = right ? "auto" : `calc(${100 - percentage}% + .6rem)`;
      cursor.hidden = tip.hidden = false;
    };
    const hide = () => { cursor.hidden = tip.hidden = true; };
    let stop = -1;
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      show(exp(low + span * Math.min(1, Math.max(0, (event.clientX - box.left) / box.width))));
    });
    plot.addEventListener("pointerleave", hide);
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: stop + 1, ArrowLeft: stop - 1, Home: 0, End: stops.length - 1 };
      if (event.key === "Escape") { hide(); stop = -1; return; }
      if (!(event.key in moves) || !stops.length) return;
      event.preventDefault();
      stop = Math.min(stops.length - 1, Math.max(0, moves[event.key]));
      show(stops[stop]);
    });
  };
  // A chart is prepared when the reader first comes to it: there may be thousands.
  const ready = new WeakSet();
  for (const kind of ["pointerover", "focusin"]) {
    document.addEventListener(kind, (event) => {
      const figure = event.target.closest?.("figure.chart");
      if (figure && !ready.has(figure)) { ready.add(figure); prepare(figure); }
    });
  }
})();
