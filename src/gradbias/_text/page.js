"use strict";
// The filter: every word must occur somewhere in a row.
(() => {
  const box = document.getElementById("filter");
  if (!box) return;
  const rows = [...document.querySelectorAll("#theorems tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const shown = document.getElementById("shown");
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      count += row.hidden ? 0 : 1;
    });
    shown.textContent = `${count} of ${rows.length}`;
  };
  box.addEventListener("input", apply);
  apply();
})();
