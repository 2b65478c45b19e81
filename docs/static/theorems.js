// Filters of the page of theorems. Without this script all of them are shown.
"use strict";
(() => {
  const form = document.querySelector("form.theorem-filters");
  if (!form) return;
  const theorems = [...document.querySelectorAll("article.theorem")];
  const sections = [...new Set(theorems.map((theorem) => theorem.parentElement))];
  const texts = new Map(theorems.map((theorem) => [theorem, theorem.textContent.toLowerCase()]));
  const kinds = [...form.querySelectorAll("select")];
  const count = form.querySelector("output");

  const wanted = (theorem, words) =>
    kinds.every(({ name, value }) => !value || theorem.dataset[name].split("|").includes(value)) &&
    words.every((word) => texts.get(theorem).includes(word));

  function show() {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const theorem of theorems) theorem.hidden = !wanted(theorem, words);
    for (const section of sections)
      section.hidden = !section.querySelector("article.theorem:not([hidden])");
    const shown = theorems.filter((theorem) => !theorem.hidden).length;
    count.textContent =
      shown === theorems.length ? `${shown} theorems` : `${shown} of ${theorems.length} theorems`;
  }

  // What is chosen is kept in the address, so that it can be sent to somebody.
  function keep() {
    const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const query = chosen.size ? `?${chosen}` : location.pathname;
    try {
      history.replaceState(null, "", query);
    } catch {
      // Of a file on this disk some browsers do not let a page change its address.
    }
  }

  // A link to a theorem shows it, whatever is filtered.
  function reveal() {
    const theorem = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!theorem?.closest("[hidden]")) return;
    form.reset();
    show();
    theorem.scrollIntoView();
  }

  form.addEventListener("input", () => { show(); keep(); });
  form.addEventListener("reset", () => {
    setTimeout(() => { show(); keep(); }); // the fields are empty only after this event
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", reveal);

  for (const [name, value] of new URLSearchParams(location.search)) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.hidden = false;
  show();
  reveal();
})();
