(() => {
  "use strict";
  const root = document.documentElement;
  const twins = JSON.parse(document.getElementById("dark-twins").textContent);
  const figures = [...document.querySelectorAll("figure.plot")];
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const PRINT_WIDTH = 660;
  let chosen = null; // "light" or "dark" once the reader has said so
  let printing = false;
  let queue = Promise.resolve();
  let newest = 0;

  const isDark = () => !printing && (chosen ?? (system.matches ? "dark" : "light")) === "dark";

  // A figure's JSON is in light colours; each has one dark twin.
  function specification(figure) {
    const text = figure.querySelector("script").textContent;
    const spec = JSON.parse(isDark() ? text.replace(/#[0-9a-f]{6}\b/g, (c) => twins[c] ?? c) : text);
    spec.layout.uirevision = "keep";
    if (printing) Object.assign(spec.layout, { width: PRINT_WIDTH, autosize: false });
    else spec.layout.autosize = true;
    return spec;
  }

  // One drawing at a time; of several that wait, only the newest counts.
  function draw() {
    root.dataset.theme = isDark() ? "dark" : "light";
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    const turn = ++newest;
    queue = queue.then(() => (turn === newest && window.Plotly ? drawFigures() : undefined));
    return queue;
  }

  async function drawFigures() {
    let undrawn = 0;
    for (const figure of figures) {
      const canvas = figure.querySelector(".canvas");
      try {
        const { data, layout, config } = specification(figure);
        await Plotly.react(canvas, data, layout, config);
      } catch (error) {
        undrawn += 1;
        canvas.className = "canvas undrawn";
        canvas.textContent = `This figure could not be drawn: ${error.message}`;
        console.error(error);
      }
    }
    root.dataset.figures = undrawn ? "failed" : `drawn-${root.dataset.theme}`;
  }

  async function loadPlotly() {
    const packed = atob(document.getElementById("plotly-bundle").textContent);
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(unpacked).text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("the drawing library did not start");
  }

  function sortBy(header) {
    const table = header.closest("table");
    const column = [...header.parentNode.children].indexOf(header);
    const down = header.getAttribute("aria-sort") === "ascending";
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...table.tBodies[0].rows].sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // missing values last, either way
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -order : order;
    });
    for (const other of header.parentNode.children) if (other.ariaSort) other.ariaSort = "none";
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...rows);
  }

  // Words above a table that is wider than its frame, for as long as it is.
  function hintAt(frame) {
    const hint = document.createElement("p");
    hint.className = "table-hint";
    hint.textContent = "more columns to the right: scroll the table \u2192";
    frame.before(hint);
    const look = () => { hint.hidden = frame.scrollWidth <= frame.clientWidth; };
    new ResizeObserver(look).observe(frame);
    look();
  }

  document.querySelectorAll(".table-frame").forEach(hintAt);
  for (const header of document.querySelectorAll("th[aria-sort]"))
    header.querySelector("button").addEventListener("click", () => sortBy(header));
  button.hidden = false;
  button.addEventListener("click", () => { chosen = isDark() ? "light" : "dark"; draw(); });
  system.addEventListener("change", draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });

  draw();
  loadPlotly().then(draw).catch((error) => {
    root.dataset.figures = "failed";
    for (const figure of figures) {
      const canvas = figure.querySelector(".canvas");
      canvas.className = "canvas undrawn";
      canvas.textContent = "This browser cannot draw the figures: it needs DecompressionStream " +
        `(Chromium 80, Firefox 113, Safari 16.4 or later). ${error.message}`;
    }
    console.error(error);
  });
})();
