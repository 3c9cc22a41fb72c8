// Buttons that copy the command beside them; pages opened from disk may lack the clipboard API.
"use strict";
const copyText = async (text, code) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const range = document.createRange();
    range.selectNodeContents(code);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
};
document.querySelectorAll("button.copy").forEach((button) => { button.hidden = false; });
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  const done = await copyText(code.textContent, code);
  button.textContent = done ? "copied" : "selected: press Ctrl+C";
  setTimeout(() => { button.textContent = "copy"; }, 2000);
});
