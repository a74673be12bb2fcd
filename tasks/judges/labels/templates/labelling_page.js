"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const place = `leadline-labels-${data.sample}-${data.question}${data.person}`;
  const choices = data.scale
    ? [["s", "Can't tell", null, ""]]
    : [["1", "Good", 1, "good"], ["0", "Bad", 0, "bad"], ["s", "Can't tell", null, ""]];
  let state = { person: "", index: 0, said: {} };
  try {
    state = { ...state, ...JSON.parse(localStorage.getItem(place) || "{}") };
  } catch {
    // A browser that keeps nothing for files: labels stay until the page is closed.
  }
  if (data.person) state.person = data.person;

  const keep = () => {
    try {
      localStorage.setItem(place, JSON.stringify(state));
    } catch {
      at("done").textContent += " (this browser keeps nothing: save before you close the page)";
    }
  };
  const fill = (id, texts, kind) => {
    at(id).replaceChildren(...texts.map((text) => {
      const part = document.createElement("div");
      part.className = kind;
      part.textContent = text;
      return part;
    }));
  };
  const task = () => data.tasks[state.index];

  const show = () => {
    const shown = task();
    if (!shown) return;
    at("question").textContent = shown.question;
    fill("contexts", shown.contexts, "text");
    fill("expected", shown.expected, "text");
    at("with-contexts").hidden = !shown.contexts.length;
    at("with-expected").hidden = !shown.expected.length;
    fill("said", shown.said || [], "text");
    at("with-said").hidden = !shown.said;
    at("answer").textContent = shown.answer || "(no text)";
    const said = state.said[shown.key];
    at("note").value = said?.note || "";
    for (const button of at("choices").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Boolean(said) && String(said.value) === button.dataset.value));
    }
    const number = at("number");
    if (number) number.value = said && said.value !== null ? said.value : "";
    const done = Object.keys(state.said).length;
    at("done").textContent = `${done} of ${data.tasks.length} labelled, this is ${state.index + 1}`;
    at("progress").value = data.tasks.length ? done / data.tasks.length : 0;
    at("person").value = state.person;
    at("back").disabled = state.index === 0;
    at("next").disabled = state.index === data.tasks.length - 1;
  };
  const move = (by) => {
    state.index = Math.min(Math.max(0, state.index + by), data.tasks.length - 1);
    keep();
    show();
    window.scrollTo(0, 0);
    at("task").focus({ preventScroll: true });
  };
  const say = (value) => {
    state.said[task().key] = { value, note: at("note").value, at: new Date().toISOString() };
    keep();
    if (state.index < data.tasks.length - 1) move(1);
    else show();
  };

  for (const [key, text, value, kind] of choices) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${text} (${key})`;
    button.className = kind;
    button.dataset.value = String(value);
    button.addEventListener("click", () => say(value));
    at("choices").append(button);
  }
  if (data.scale) {
    const [low, high] = data.scale;
    const label = document.createElement("label");
    const number = document.createElement("input");
    number.id = "number";
    number.type = "number";
    number.step = "any";
    if (Number.isFinite(low)) number.min = low;
    if (Number.isFinite(high)) number.max = high;
    label.append(`Value (${low} to ${high}), then Enter `, number);
    number.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && number.value !== "" && number.checkValidity()) say(Number(number.value));
    });
    at("choices").prepend(label);
  }

  at("back").addEventListener("click", () => move(-1));
  at("next").addEventListener("click", () => move(1));
  at("person").addEventListener("input", () => {
    state.person = at("person").value;
    keep();
  });
  at("note").addEventListener("input", () => {
    const said = state.said[task().key];
    if (said) {
      said.note = at("note").value;
      keep();
    }
  });
  at("export").addEventListener("click", () => {
    if (!state.person.trim()) {
      at("person").focus();
      at("person").placeholder = "your name first";
      return;
    }
    const labels = data.tasks.filter((entry) => state.said[entry.key]).map((entry) => ({
      key: entry.key,
      case: entry.case,
      question: data.question,
      sample: entry.sample,
      person: state.person.trim(),
      saw_judge: false,
      ...state.said[entry.key],
    }));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify({ labels }, null, 1)], { type: "application/json" }));
    link.download = `labels-${data.question}-${state.person.trim().replace(/\W+/g, "-")}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    const choice = choices.find(([key]) => key === event.key);
    const criterion = at("criterion");
    if (choice) say(choice[2]);
    else if (event.key === "c" && criterion) criterion.open = !criterion.open;
    else if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else return;
    event.preventDefault();
  });
  show();
  document.body.dataset.ready = "true";
})();
