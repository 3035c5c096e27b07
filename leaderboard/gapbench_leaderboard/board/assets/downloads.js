// Downloads are made of the page's own data, so that a page that was sent alone has them as well.
/** @type {Record<string, Table>} */
const CSV_OF = { "scores.csv": scores, "population.csv": population, "measurements.csv": measurements };

// RFC 4180 with line feeds; numbers in the shortest form that reads back as the same number.
/** @type {(table: Table) => string} */
function csv(table) {
  const names = Object.keys(table);
  /** @type {(cell: Cell) => string} */
  const field = (cell) => { const text = typeof cell === "boolean" ? (cell ? "True" : "False") : exact(cell); return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const lines = [names.map(field).join(",")];
  const columns = names.map((name) => table[name]);
  for (let row = 0; row < columns[0].length; row++) lines.push(columns.map((column) => field(column[row])).join(","));
  return `${lines.join("\n")}\n`;
}

/** @type {(name: string, text: string, type: string) => void} */
function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

for (const link of document.querySelectorAll(".downloads a")) {
  const name = link.getAttribute("href") || "";
  if (!(name in CSV_OF) && name !== "data.json") continue;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    if (name === "data.json") save(name, byId("data").textContent || "", "application/json");
    else save(name, csv(CSV_OF[name]), "text/csv");
  });
}
