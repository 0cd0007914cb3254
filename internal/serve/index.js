"use strict";
// What this page shows comes from /v1: it has no other data.
const $ = (id) => document.getElementById(id);
const colours = ["#2f6fb5", "#d9601a", "#2e8b57", "#7a6ff0", "#c62828", "#c98a00", "#00838f", "#8e5ba6"];
const most = 20000, shownRows = 50, shownSeries = 12, left = 70, right = 990, top_ = 10, bottom = 330;
// A long time is plotted from totals by windows of such a length, a short one from measurements.
const steps = { "24h": "5m", "7d": "30m", "30d": "2h", "365d": "1d" };
let token = sessionStorage.getItem("token") ?? "";

const load = (url) => fetch(url, { headers: token ? { Authorization: "Bearer " + token } : {} });

async function ask(path, parameters) {
  const answer = await load(path + (parameters ? "?" + new URLSearchParams(parameters) : ""));
  if (answer.status === 401) {
    const given = prompt("This server requires a token (SERVE_TOKEN):");
    if (given) { token = given; sessionStorage.setItem("token", token); return ask(path, parameters); }
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

function say(text, bad) { $("said").textContent = text; $("said").className = bad ? "bad" : ""; }

// Conditions stand side by side, as on the command line. A value with spaces is in quotes.
function conditions() { return ($("match").value.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((c) => c.replaceAll('"', "")); }

function written(condition) { return /\s/.test(condition) ? condition.replace(/=([^]*)$/, '="$1"') : condition; }

function parameters(limit) {
  const p = [["series", $("series").value], ["last", $("last").value], ["limit", limit]];
  for (const c of conditions()) p.push(["match", c]);
  return p;
}

// What is asked for a plot: measurements, or the means of windows, which are drawn as if they were measurements.
function request(limit) {
  const every = steps[$("last").value], field = $("field").value, p = parameters(limit);
  if (!every || !field) return { path: "v1/measurements", parameters: p, drawn: field };
  return { path: "v1/totals", parameters: [...p, ["every", every], ["agg", "mean,min,max"], ["fields", field]], drawn: field + ".mean" };
}

const timeOf = (row) => Object.keys(row)[0];
const isMeta = (name, meta) => name === meta || name.startsWith(meta + ".");

// What a row is called: its meta, which comes behind its time. The other names are fields.
async function choose() {
  say("reading the list of series …");
  try {
    const metas = await ask("v1/series", [["series", $("series").value], ["limit", 500]]);
    const options = new Set();
    for (const meta of metas) for (const [name, value] of Object.entries(meta)) options.add(written(name.replace(/^[^.]*\./, "") + "=" + value));
    $("metas").replaceChildren(...[...options].slice(0, 500).map((value) => Object.assign(document.createElement("option"), { value })));
    $("series").dataset.meta = metas.length ? (Object.keys(metas[0])[0] ?? "").split(".")[0] : "";
    const rows = await ask("v1/measurements", [["series", $("series").value], ["latest", "true"], ["limit", 200]]);
    const fields = new Set();
    for (const row of rows) for (const [name, value] of Object.entries(row))
      if (typeof value === "number" && name !== timeOf(row) && !isMeta(name, $("series").dataset.meta)) fields.add(name);
    $("field").replaceChildren(...[...fields].sort().map((name) => new Option(name)));
    say("");
  } catch (e) { say(e.message, true); }
}

function node(name, attributes, text) {
  const n = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) n.setAttribute(key, value);
  if (text !== undefined) n.textContent = text;
  return n;
}

function draw(rows, field) {
  const lines = new Map();
  for (const row of rows) {
    if (typeof row[field] !== "number") continue;
    const name = Object.entries(row).filter(([n]) => isMeta(n, $("series").dataset.meta)).map(([n, v]) => n.replace(/^[^.]*\./, "") + "=" + v).join(" ") || "(no meta)";
    if (!lines.has(name)) lines.set(name, []);
    lines.get(name).push([Date.parse(row[timeOf(row)]), row[field]]);
  }
  const all = [...lines.values()].flat();
  $("figure").hidden = all.length === 0;
  if (all.length === 0) return 0;
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of all) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
  // The axis ends now: data that stopped coming leaves a gap at the right.
  x1 = Math.max(x1, Date.now());
  if (x1 === x0) x1++;
  if (y1 === y0) { y0--; y1++; }
  const px = (x) => left + (x - x0) / (x1 - x0) * (right - left), py = (y) => bottom - (y - y0) / (y1 - y0) * (bottom - top_);
  const plot = $("plot");
  plot.replaceChildren();
  for (let i = 0; i <= 4; i++) {
    const y = y0 + (y1 - y0) * i / 4;
    plot.append(node("line", { class: "grid", x1: left, x2: right, y1: py(y), y2: py(y) }));
    plot.append(node("text", { x: left - 6, y: py(y) + 4, "text-anchor": "end" }, Number(y.toPrecision(4)).toLocaleString("en")));
  }
  // The times are those of the table below, in UTC, and as fine as the axis needs them: two marks never have the same text.
  const within = x1 - x0, clock = new Intl.DateTimeFormat("en-GB", {
    timeZone: "UTC", hour: "2-digit", minute: "2-digit",
    ...(within > 864e5 ? { month: "short", day: "numeric" } : within < 6e5 ? { second: "2-digit", fractionalSecondDigits: within < 5e3 ? 3 : undefined } : {}),
  });
  for (let i = 0; i <= 5; i++) {
    const x = x0 + (x1 - x0) * i / 5;
    plot.append(node("text", { x: px(x), y: bottom + 22, "text-anchor": i === 0 ? "start" : i === 5 ? "end" : "middle" }, clock.format(x) + (i === 5 ? " UTC" : "")));
  }
  const legend = [];
  [...lines].forEach(([name, points], i) => {
    points.sort((a, b) => a[0] - b[0]);
    const gap = 5 * (points.length > 1 ? (points.at(-1)[0] - points[0][0]) / (points.length - 1) : 1);
    const d = points.map(([x, y], n) => (n === 0 || x - points[n - 1][0] > gap ? "M" : "L") + px(x).toFixed(1) + " " + py(y).toFixed(1)).join("");
    const line = node("path", { class: "series", d, stroke: colours[i % colours.length] });
    line.append(node("title", {}, name));
    plot.append(line);
    if (i < shownSeries) {
      const one = document.createElement("span"), key = document.createElement("i");
      key.style.background = colours[i % colours.length];
      one.append(key, name);
      legend.push(one);
    }
  });
  if (lines.size > shownSeries) legend.push(`and ${lines.size - shownSeries} more`);
  plot.setAttribute("aria-label", `${field} of ${lines.size} series, from ${y0} to ${y1}`);
  $("legend").replaceChildren(...legend);
  return lines.size;
}

function table(rows) {
  const names = [...new Set(rows.slice(0, shownRows).flatMap(Object.keys))];
  const line = (cells, kind) => {
    const tr = document.createElement("tr");
    tr.append(...cells.map((c) => Object.assign(document.createElement(kind), { textContent: c === undefined ? "" : typeof c === "object" ? JSON.stringify(c) : c })));
    return tr;
  };
  $("rows").replaceChildren(...(rows.length ? [line(names, "th")] : []), ...rows.slice(0, shownRows).map((row) => line(names.map((n) => row[n]), "td")));
}

async function plot(event) {
  event?.preventDefault();
  say("reading …");
  try {
    const began = performance.now(), what = request(most), every = steps[$("last").value], rows = await ask(what.path, what.parameters);
    const lines = draw(rows, what.drawn), took = Math.round(performance.now() - began);
    table(rows);
    const unit = what.path === "v1/totals" ? `windows of ${every}` : "measurements";
    say(`${rows.length.toLocaleString("en")} ${unit} in ${took} ms, ${lines} series with ${what.drawn || "a number"}` +
      (rows.length === most ? `: these are only the first ${most.toLocaleString("en")}; choose a shorter time or a single series` : "") + (rows.length > shownRows ? `; the first ${shownRows} are below` : ""));
    remember();
    $("link").hidden = false;
    for (const format of ["json", "csv"]) $(format).href = what.path + "?" + new URLSearchParams([...what.parameters, ["format", format]]);
    $("command").textContent = ["waterwheel", "query", $("series").value, ...conditions(), "--last", $("last").value, ...(what.path === "v1/totals" ? ["--every", every] : []), ...($("field").value ? ["--plot", $("field").value] : [])].map(quoted).join(" ");
  } catch (e) { say(e.message, true); }
}

// A browser follows a link without the token, so the page loads the data itself.
async function download(event) {
  if (!token) return;
  event.preventDefault();
  try {
    const answer = await load(event.target.href);
    if (!answer.ok) throw new Error((await answer.json()).error);
    const href = URL.createObjectURL(await answer.blob());
    Object.assign(document.createElement("a"), { href, download: $("series").value + "." + event.target.id }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
  } catch (e) { say(e.message, true); }
}

// A shell takes a word as it is only if all its characters are harmless.
const quoted = (word) => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";

// The address holds what is plotted, so that it can be sent to others and kept.
function remember() {
  const p = new URLSearchParams([["series", $("series").value], ["field", $("field").value], ["last", $("last").value]]);
  for (const c of conditions()) p.append("match", c);
  history.replaceState(null, "", "?" + p);
}

function pick(id, value) {
  if (!value) return;
  if (![...$(id).options].some((o) => o.value === value)) $(id).append(new Option(value));
  $(id).value = value;
}

$("series").addEventListener("change", choose);
$("form").addEventListener("submit", plot);
for (const format of ["json", "csv"]) $(format).addEventListener("click", download);
(async () => {
  try {
    const names = await ask("v1/collections");
    $("series").replaceChildren(...names.map((name) => new Option(name)));
    if (names.length === 0) { say("This database has no time series yet.", true); return; }
    const asked = new URLSearchParams(location.search);
    pick("series", asked.get("series"));
    pick("last", asked.get("last"));
    $("match").value = asked.getAll("match").map(written).join(" ");
    await choose();
    pick("field", asked.get("field"));
    await plot();
  } catch (e) { say(e.message, true); }
})();
