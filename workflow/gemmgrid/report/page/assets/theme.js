// Light, dark, or what the system says; the choice is kept where the browser allows it.
"use strict";
(() => {
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  const stored = () => {
    try { return localStorage.getItem("gemmgrid-theme"); } catch { return null; }
  };
  const apply = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.querySelector("span").textContent = theme;
    try { localStorage.setItem("gemmgrid-theme", theme); } catch { /* kept for this visit only */ }
  };
  const first = stored();
  let current = themes.includes(first) ? first : "auto";
  apply(current);
  button.hidden = false;
  button.addEventListener("click", () => {
    current = themes[(themes.indexOf(current) + 1) % themes.length];
    apply(current);
  });
})();
