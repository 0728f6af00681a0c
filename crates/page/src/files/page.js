// The page works without this. It logs in by the link's fragment, shows times in the viewer's zone, and says when a live part can no
// longer be had.
"use strict";

const login = document.getElementById("login");
const enter = () => {
  // Other fragments are places in a view.
  if (!login || !/^#[0-9a-f]{32}$/.test(location.hash)) return;
  document.getElementById("code").value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  login.submit();
};
enter();
// A link that is opened where this form is shown already loads nothing.
addEventListener("hashchange", enter);

// The server writes times in UTC: to the minute, or to the second.
const two = (n) => String(n).padStart(2, "0");
const here = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
const localise = (root) => {
  const times = root.matches?.("time[datetime]") ? [root] : root.querySelectorAll?.("time[datetime]") ?? [];
  for (const time of times) {
    const at = new Date(time.dateTime);
    if (time.title || Number.isNaN(at.getTime())) continue;
    time.title = `${time.textContent} UTC`;
    time.textContent = here(at) + (time.textContent.length > 16 ? `:${two(at.getSeconds())}` : "");
  }
};
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
if (document.getElementById("zone")) document.getElementById("zone").textContent = `Time zone: ${zone}`;
// On a phone the menu is one row that scrolls: to where one is.
document.querySelector("header [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
localise(document);
// What comes in later: live parts, events, answers.
new MutationObserver((changes) => {
  for (const change of changes) for (const node of change.addedNodes) localise(node);
}).observe(document.body, { childList: true, subtree: true });

// The session is over, or the daemon restarted: load the page again, which says so.
document.addEventListener("htmx:responseError", (event) => {
  if (event.detail.xhr.status === 401) location.reload();
});

const lost = () => document.getElementById("lost");
document.addEventListener("htmx:sendError", () => lost()?.removeAttribute("hidden"));
document.addEventListener("htmx:afterOnLoad", () => lost()?.setAttribute("hidden", ""));

// The chart: the numbers that the drawing of the server shows, with a value under the pointer.
document.addEventListener("DOMContentLoaded", () => {
  const figure = document.getElementById("chart");
  if (!figure || !window.uPlot) return;
  const data = JSON.parse(figure.dataset.points);
  const numbers = data.at.map((_, n) => n);
  const when = (n) => (data.at[n] === undefined ? "" : here(new Date(data.at[n] * 1000)));
  const count = (n) => n.toLocaleString("en");
  // Without a pointer on the chart it tells the last call.
  const last = (line) => line[line.length - 1] ?? 0;
  // A label that says the same as the one before it is left out.
  const distinct = (labels) => labels.map((label, n) => (label === labels[n - 1] ? "" : label));
  let plot = null;

  const draw = () => {
    const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    const runs = (u) => {
      u.ctx.save();
      u.ctx.strokeStyle = colour("--r2");
      u.ctx.setLineDash([4, 3]);
      for (const run of data.runs) {
        const x = u.valToPos(run, "x", true);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
      }
      u.ctx.restore();
    };
    plot?.destroy();
    plot = new uPlot({
      width: figure.clientWidth,
      height: 220,
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(high, 1) * 1.05] } },
      axes: [
        { ...axis, values: (u, at) => distinct(at.map((n) => (Number.isInteger(n) ? when(n).slice(5) : ""))), space: 90 },
        { ...axis, values: (u, at) => distinct(at.map((n) => count(Math.round(n)))), size: 64 },
      ],
      series: [
        { label: "call", value: (u, n) => when(n ?? numbers.length - 1) },
        { label: "tokens", stroke: colour("--r1"), width: 1.5, value: (u, n) => count(n ?? last(data.tokens)) },
        { label: "from the cache", stroke: colour("--r4"), width: 1, value: (u, n) => count(n ?? last(data.cached)) },
      ],
      hooks: { draw: [runs] },
    }, [numbers, data.tokens, data.cached], figure);
    figure.prepend(plot.root);
  };

  figure.querySelector("svg").remove();
  draw();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
});
