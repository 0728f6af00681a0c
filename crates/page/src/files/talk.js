// Without this, what is said is taken and the page is loaded again. This shows an answer while it is written.
"use strict";

const form = document.getElementById("talk");
const field = document.getElementById("text");
const files = document.getElementById("files");
const draft = document.getElementById("draft");
const doing = document.getElementById("doing");
const answer = document.getElementById("words");

// The name that was used last in this browser.
const name = document.getElementById("name");
name.value ||= localStorage.getItem("name") ?? "";

// Files need no words.
const needed = () => { field.required = files.files.length === 0; };
files.addEventListener("change", needed);
needed();

const tell = (what) => {
  draft.hidden = false;
  doing.textContent = what;
};
const write = (text) => {
  answer.hidden = text === "";
  answer.textContent = text;
};
// The server draws what is in the conversation; the first answer in a channel makes that part.
const refresh = async () => {
  const newer = document.getElementById("newer");
  if (!newer) return location.reload();
  await htmx.ajax("GET", newer.getAttribute("hx-get"), { source: newer, target: newer, swap: "outerHTML" });
};

const event = async (name, data) => {
  if (name === "accepted") {
    tell("is working on it…");
    if (document.getElementById("newer")) await refresh();
  } else if (name === "delta") {
    tell("writes…");
    write(answer.textContent + data.text);
  } else if (name === "restarted") write("");
  else if (name === "tool") tell(`${data.name}: ${data.state}`);
  else if (name === "approval") {
    tell("waits for approval, see above");
    await refresh();
  } else if (name === "waiting") tell(data.message);
  else if (name === "reply") {
    await refresh();
    draft.hidden = true;
    write("");
  } else if (name === "error") tell(`failed: ${data.error?.message ?? data.message}`);
};

const read = async (body) => {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const of = (key) => lines.filter((line) => line.startsWith(key)).map((line) => line.slice(key.length).trimStart()).join("\n");
      if (of("event:")) await event(of("event:"), JSON.parse(of("data:")));
    }
  }
};

form.addEventListener("submit", async (submitted) => {
  submitted.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  write("");
  localStorage.setItem("name", name.value);
  try {
    const body = new FormData(form);
    const response = await fetch(form.action, { method: "POST", headers: { Accept: "text/event-stream" }, body });
    if (response.ok) {
      field.value = "";
      files.value = "";
      needed();
    }
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) await read(response.body);
    else {
      // A command, or a refusal: the words of the view that it leads to.
      const view = new DOMParser().parseFromString(await response.text(), "text/html");
      tell(response.ok ? "" : "did not take this:");
      write((view.querySelector("#reply") ?? view.querySelector("[role=alert]") ?? view.querySelector("main")).textContent);
    }
  } catch {
    tell("cannot be reached. Reload the page to see whether your message arrived.");
    write("");
  }
  button.disabled = false;
  field.focus();
});

field.addEventListener("keydown", (key) => {
  if (key.key !== "Enter" || key.shiftKey || key.isComposing) return;
  key.preventDefault();
  form.requestSubmit();
});
