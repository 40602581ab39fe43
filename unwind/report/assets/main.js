"use strict";
// What the page shows, from top to bottom.

const at = (id) => document.getElementById(id);
const tables = [];
const flames = [];
const sum = (rows, key) => rows.reduce((total, row) => total + row[key], 0);
const count = (number, noun, plural) => `${plain.format(number)} ${number === 1 ? noun : plural || `${noun}s`}`;

function tile(number, text, mark = "") {
  at("summary").append(element("div", { class: mark }, element("dt", {}, text), element("dd", {}, number)));
}

function name(text) {
  return element("span", { class: "name", title: text }, text);
}

function mark(text) {
  return element("span", { class: "mark" }, text.replace(/-/g, " "));
}

function weightCell(weight) {
  return element("span", { title: weightText(weight) }, percent(weight, profile.weight));
}

function addTable(place, options) {
  const table = new Table(place, options);
  tables.push(table);
  return table;
}

function showTitle() {
  at("title").textContent = report.file;
  const weight = profile ? weightText(profile.weight) : "";
  const samples = profile ? count(profile.samples, weight.includes("sample") ? "stack" : "sample") : "";
  at("subtitle").textContent = profile ? `${profile.format}: ${samples}, ${weight}` : "What is merged in this image";
}

function showSummary() {
  const { images } = report;
  if (profile) {
    tile(percent(profile.changed, profile.weight), "of the profile is in stacks that show a wrong function today", "strong");
    tile(percent(profile.changed_self, profile.weight), "of the profile is counted for a wrong function today", "strong");
    const merged = profile.settled_frames + profile.open_frames;
    tile(merged ? percent(profile.settled_frames, merged) : "–", "of the frames in merged functions have one name now");
    tile(percent(profile.open, profile.weight), "of the profile is in stacks with a frame that stays one of several functions", "doubt");
  }
  tile(bytesText(sum(images, "saved_bytes")), "of code are saved by merging", "next");
  tile(plain.format(sum(images, "functions")), `functions share ${count(sum(images, "bodies"), "body", "bodies")}`);
  tile(plain.format(sum(images, "open_bodies")), `of these bodies may stay ambiguous in some stacks: ${count(sum(images, "open_functions"), "function")}`, "doubt");
}

function showFlames() {
  at("flames").hidden = false;
  for (const panel of document.querySelectorAll(".panel")) {
    const flame = new Flame(panel, panel.dataset.side, profile[panel.dataset.side]);
    flame.onZoom = () => {
      at("reset").disabled = !flames.some((each) => each.zoomed);
    };
    flames.push(flame);
  }
  at("reset").addEventListener("click", () => flames.forEach((flame) => flame.reset()));
  at("order").addEventListener("change", () => flames.forEach((flame) => flame.order(at("order").value)));
  for (const choice of document.querySelectorAll("input[name=view]")) {
    choice.addEventListener("change", () => {
      at("flames").dataset.view = choice.value;
    });
  }
}

function showFunctions() {
  at("functions").hidden = false;
  const change = (row) => row.self_after - row.self_before;
  const isChanged = (row) => row.self_after !== row.self_before || row.total_after !== row.total_before;
  const numbers = [
    ["Self before", "self_before"],
    ["Self after", "self_after"],
    ["Total before", "total_before"],
    ["Total after", "total_after"],
  ];
  const table = addTable(at("functions").querySelector(".table"), {
    caption: "Functions before and after",
    rows: profile.functions,
    sort: [5, true],
    text: (row) => row.name,
    mark: (row) => (row.is_open ? "open" : isChanged(row) ? "changed" : ""),
    columns: [
      { label: "Function", value: (row) => row.name, cell: (row) => name(row.name) },
      ...numbers.slice(0, 2).map(([label, key]) => ({ label, number: true, value: (row) => row[key], cell: (row) => weightCell(row[key]) })),
      { label: "Change of self", number: true, value: change, cell: (row) => changeCell(change(row)) },
      ...numbers.slice(2).map(([label, key]) => ({ label, number: true, value: (row) => row[key], cell: (row) => weightCell(row[key]) })),
    ],
  });
  at("only-changed").addEventListener("change", () => {
    table.keep = at("only-changed").checked ? isChanged : () => true;
    table.draw();
  });
}

function changeCell(weight) {
  if (!weight) return "0";
  const text = `${weight > 0 ? "+" : "−"}${percent(Math.abs(weight), profile.weight)}`;
  return element("span", { class: weight > 0 ? "up" : "down", title: weightText(weight) }, text);
}

function showReasons() {
  const { reasons, evidence, open_frames: open, settled_frames: settled } = profile;
  if (!open && !settled) return;
  at("reasons").hidden = false;
  const [left, right] = at("reasons").querySelectorAll(".table");
  const columns = (label, whole) => [
    { label, value: (row) => row.text, cell: (row) => row.text },
    { label: "Weight", number: true, value: (row) => row.weight, cell: (row) => weightText(row.weight) },
    { label: "Share", number: true, value: (row) => row.weight, cell: (row) => percent(row.weight, whole) },
  ];
  const text = (row) => row.text;
  if (!open) left.append(element("p", {}, "No frame stays open."));
  else new Table(left, { caption: "Why frames stay open", columns: columns("Reason", open), rows: reasons, sort: [1, true], text });
  if (settled) new Table(right, { caption: "What settled frames", columns: columns("Evidence", settled), rows: evidence, sort: [1, true], text });
}

function functionsCell(body) {
  const kept = body.functions.find((each) => each.kept) || body.functions[0];
  const items = body.functions.map((each) => {
    const marks = [each.kept && "shown today", each.pointed_at && "a pointer may lead here"].filter(Boolean);
    return element("li", {}, name(each.name), " ", ...marks.map(mark));
  });
  const left = body.function_count - body.functions.length;
  if (left) items.push(element("li", {}, `and ${plain.format(left)} more`));
  return element("details", {}, element("summary", {}, name(kept.name)), element("ul", {}, ...items));
}

function stateCell(body) {
  if (!body.doubts.length) return "–";
  return element("span", {}, ...body.doubts.map(mark));
}

function showBodies() {
  const left = report.bodies_left_out ? ` ${plain.format(report.bodies_left_out)} more are left out: those with the least weight, and that save the least.` : "";
  at("bodies-note").textContent = `Each row is machine code that several functions share. Open one to see them all. Where nothing keeps a body open, the callers tell its functions apart.${left}`;
  for (const doubt of Object.keys(report.doubts).filter((each) => report.bodies.some((body) => body.doubts.includes(each)))) {
    at("doubts").append(element("dt", {}, mark(doubt)), element("dd", {}, report.doubts[doubt]));
  }
  const withImage = report.images.length > 1;
  const columns = [
    { label: "Shown today as", value: (row) => row.functions[0].name, cell: functionsCell },
    { label: "Functions", number: true, value: (row) => row.function_count, cell: (row) => plain.format(row.function_count) },
    { label: "Size", number: true, value: (row) => row.size_bytes, cell: (row) => bytesText(row.size_bytes) },
    { label: "Saved", number: true, value: (row) => row.saved_bytes, cell: (row) => bytesText(row.saved_bytes) },
  ];
  if (profile) {
    const frames = (row) => row.settled + row.open;
    columns.push(
      { label: "Profile", number: true, value: (row) => row.total, cell: (row) => weightCell(row.total) },
      { label: "One name", number: true, value: (row) => (frames(row) ? row.settled / frames(row) : -1), cell: (row) => (frames(row) ? percent(row.settled, frames(row)) : "–") },
      { label: "By", value: (row) => Object.keys(row.evidence).join(" "), cell: (row) => Object.keys(row.evidence).map((each) => each || "exclusion").join(", ") },
    );
  }
  columns.push({ label: "May stay open by", value: (row) => row.doubts.length, cell: stateCell });
  columns.push({ label: "Address", value: (row) => parseInt(row.address, 16), cell: (row) => element("code", {}, row.address) });
  if (withImage) columns.push({ label: "Image", value: (row) => report.images[row.image].path, cell: (row) => report.images[row.image].path.replace(/.*\//, "") });
  addTable(at("bodies").querySelector(".table"), {
    caption: "Merged bodies",
    rows: report.bodies,
    sort: profile ? [4, true] : [3, true],
    text: (row) => row.functions.map((each) => `${each.name} ${each.linkage_name}`).join(" "),
    mark: (row) => (row.open || (!profile && row.doubts.length) ? "open" : ""),
    columns,
  });
}

function tablesText(row) {
  if (row.has_tables) return "yes";
  return row.is_folded ? "none, though functions are merged: run icf pass" : "none: nothing is merged";
}

function showImages() {
  new Table(at("images").querySelector(".table"), {
    caption: "Images",
    rows: report.images,
    sort: [3, true],
    text: (row) => row.path,
    columns: [
      { label: "Image", value: (row) => row.path, cell: (row) => name(row.path) },
      { label: "Merged bodies", number: true, value: (row) => row.bodies, cell: (row) => plain.format(row.bodies) },
      { label: "Functions", number: true, value: (row) => row.functions, cell: (row) => plain.format(row.functions) },
      { label: "Saved", number: true, value: (row) => row.saved_bytes, cell: (row) => bytesText(row.saved_bytes) },
      { label: "May stay ambiguous", number: true, value: (row) => row.open_bodies, cell: (row) => plain.format(row.open_bodies) },
      { label: "Tables", value: (row) => Number(row.has_tables) - Number(row.is_folded), cell: tablesText },
      { label: "Build id", value: (row) => row.build_id, cell: (row) => element("code", {}, row.build_id || "–") },
    ],
  });
}

function leftOut() {
  const threshold = Math.max(profile.before.threshold, profile.after.threshold);
  const light = threshold > 1 ? `frames of less than ${weightText(threshold)} (${percent(threshold, profile.weight)}), and ` : "";
  return `Left out of the graphs: ${light}frames that are deeper than ${plain.format(profile.depth_limit)} others. Frames narrower than a pixel are drawn where a zoom makes them wider. The numbers at the top and in the tables count everything.`;
}

function showNotes() {
  const notes = ["A linker with --icf, or a compiler, keeps one body for functions whose machine code is the same. From then on one address has several names."];
  if (profile) {
    notes.push(
      "Before is what a tool shows that knows nothing of the calls: one name for each body, whichever function ran. Here that is the function that the linker kept; perf, gdb and others each have their own rule which of a body's names to take, so theirs may be another one. Inlined functions stand in both graphs where the name is the same; those of a frame whose name changes stand after alone.",
      "After is what the call sites, the tables of the image and the whole stack leave. A frame that can be several functions has all of their names, up to four; it is never a guess.",
      leftOut(),
    );
    if (profile.functions_left_out) notes.push(`The table of functions has the heaviest; ${plain.format(profile.functions_left_out)} others are left out.`);
    if (profile.unknown) notes.push(`${percent(profile.unknown, profile.weight)} of the profile is in stacks with a frame that has no name, before and after.`);
  }
  notes.push("Saved bytes are those of the bodies that the linker did not write a second time: size times functions less one.");
  at("notes").append(...notes.map((note) => element("li", {}, note)));
}

function search() {
  const query = at("search").value.trim();
  const weights = flames.map((flame) => flame.search(query));
  tables.forEach((table) => table.filter(query));
  const rows = plain.format(tables[tables.length - 1].found.length);
  if (!query) at("found").textContent = "";
  else if (profile) at("found").textContent = `${percent(weights[0], profile.weight)} before, ${percent(weights[1], profile.weight)} after`;
  else at("found").textContent = `${rows} merged ${rows === "1" ? "body" : "bodies"}`;
}

function listen() {
  let waiting = 0;
  at("search").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  at("search").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    at("search").value = "";
    search();
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.matches("input[type=search], select");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    at("search").focus();
    at("search").select();
  });
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const nameTheme = () => {
    at("theme").textContent = theme() === "dark" ? "Light" : "Dark";
    at("theme").setAttribute("aria-label", `Switch to ${theme() === "dark" ? "light" : "dark"} colours`);
  };
  at("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = theme() === "dark" ? "light" : "dark";
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();
}

showTitle();
showSummary();
if (profile) {
  showFlames();
  showFunctions();
  showReasons();
}
showBodies();
showImages();
showNotes();
listen();
