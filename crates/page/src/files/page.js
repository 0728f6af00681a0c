// The page works without this. It logs in by the link's fragment, and shows when a live part can no longer be had.
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
  const when = (n) => (data.at[n] === undefined ? "" : new Date(data.at[n] * 1000).toISOString().slice(0, 16).replace("T", " "));
  const count = (n) => (n === null || n === undefined ? "" : n.toLocaleString("en"));
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
        { ...axis, values: (u, at) => at.map((n) => when(n).slice(5)), space: 90 },
        { ...axis, values: (u, at) => at.map(count), size: 64 },
      ],
      series: [
        { label: "call", value: (u, n) => when(n) },
        { label: "tokens", stroke: colour("--r1"), width: 1.5, value: (u, n) => count(n) },
        { label: "from the cache", stroke: colour("--r4"), width: 1, value: (u, n) => count(n) },
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
