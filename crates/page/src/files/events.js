// The view of events works without this: it shows what came before it was loaded. This adds what comes after.
"use strict";

const list = document.getElementById("events");
const state = document.getElementById("stream");
const pause = document.getElementById("pause");
const most = Number(list.dataset.most);
let waiting = [];
let paused = false;
let broken = false;

// The server writes each line as it writes those of the page: what people wrote is escaped in it.
const show = (lines) => {
  for (const line of lines) {
    const made = document.createElement("template");
    made.innerHTML = line;
    list.prepend(made.content);
  }
  while (list.children.length > most) list.lastElementChild.remove();
};

const stream = new EventSource(list.dataset.stream);
stream.addEventListener("open", () => {
  // What came in between is on the page only when it is loaded again.
  if (broken && !paused) location.reload();
  state.textContent = paused ? "Paused; reload the page to see the events in between." : "Live.";
});
stream.addEventListener("error", () => {
  broken = true;
  state.textContent = "The daemon does not respond; this page may be out of date.";
});
stream.addEventListener("message", ({ data }) => {
  if (!paused) return show([data]);
  waiting = [...waiting, data].slice(-most);
  state.textContent = `Paused, ${waiting.length} waiting.`;
});

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume" : "Pause";
  state.textContent = paused ? "Paused." : "Live.";
  if (!paused) {
    show(waiting);
    waiting = [];
  }
});
