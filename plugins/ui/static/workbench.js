// The pages work without this script; it adds the theme's button, lists that keep themselves current, and keys.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (kept) root.dataset.theme = kept;

  const button = document.querySelector("[data-theme-button]");
  if (button) {
    const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
    button.hidden = false;
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* a browser that keeps nothing */ }
      name();
    });
    name();
  }

  // A part with data-refresh="SECONDS" is fetched again, as long as the page is looked at and the part still asks for it.
  async function refresh() {
    const live = document.querySelector("#live[data-refresh]");
    if (!live) return;
    const again = () => setTimeout(refresh, 1000 * Number(live.dataset.refresh));
    if (document.hidden || live.contains(document.activeElement)) return again();
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#live");
      if (answer.ok && fresh) live.replaceWith(document.adoptNode(fresh));
    } catch { /* the server may be back at the next try */ }
    setTimeout(refresh, 1000 * Number(live.dataset.refresh));
  }
  if (document.querySelector("#live[data-refresh]")) setTimeout(refresh, 3000);

  // An element with data-key="K L" is focused, or pressed, by the keys K and L.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing) { if (event.key === "Escape") typing.blur(); return; }
    const wanted = document.querySelector(`[data-key~="${CSS.escape(event.key)}"]`);
    if (!wanted || wanted.disabled) return;
    event.preventDefault();
    if (wanted.matches("input:not([type=radio]):not([type=checkbox]), textarea, select")) wanted.focus();
    else wanted.click();
  });

  // A form with data-live sends itself when one of its choices changes.
  for (const form of document.querySelectorAll("form[data-live]"))
    form.addEventListener("change", (event) => { if (event.target.matches("select")) form.requestSubmit(); });
})();
