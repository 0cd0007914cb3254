"use strict";
// The page without this script reloads itself. With it, only what changed is replaced, and charts show values under the pointer.
const every = 5000, patience = 15000, samples = 360;
let last = Date.now();

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = fresh.title;
    document.getElementById("main").replaceWith(fresh.getElementById("main"));
    last = Date.now();
    document.getElementById("old")?.remove();
  } catch (e) {
    if (Date.now() - last < patience) return;
    const old = document.getElementById("old") ?? document.createElement("p");
    old.id = "old";
    old.setAttribute("role", "alert");
    old.textContent = "The consumer has not answered for " + Math.round((Date.now() - last) / 1000) + " s: this page is outdated.";
    document.body.prepend(old);
  }
}
setInterval(refresh, every);
document.addEventListener("visibilitychange", refresh);

function written(value, unit) {
  if (unit === "seconds") return value < 120 ? value + " s" : Math.round(value / 60) + " min";
  return Number(value).toLocaleString("en");
}

document.addEventListener("pointermove", (event) => {
  const svg = event.target.closest?.("svg[data-values]");
  let tip = document.getElementById("tip");
  if (!svg) { tip?.remove(); return; }
  const box = svg.getBoundingClientRect();
  const i = Math.max(0, Math.min(samples - 1, Math.floor((event.clientX - box.left) / box.width * samples)));
  const value = svg.dataset.values.split(",")[i];
  if (!tip) {
    tip = document.createElement("div");
    tip.id = "tip";
    document.body.append(tip);
  }
  const at = new Date(last - (samples - 1 - i) * 10000).toTimeString().slice(0, 8);
  tip.textContent = at + "  " + (value ? written(value, svg.dataset.unit) : "not known");
  tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
  tip.style.top = event.clientY + 14 + "px";
});
