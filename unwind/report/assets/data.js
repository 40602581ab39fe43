"use strict";
// The data of the page, and how its numbers are written.

const report = JSON.parse(document.getElementById("report").textContent);
const profile = report.profile;
const plain = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

function bytesText(count) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (Math.abs(count) >= size) return `${short.format(count / size)} ${unit}`;
  }
  return `${plain.format(count)} ${count === 1 ? "byte" : "bytes"}`;
}

function weightText(weight) {
  if (profile.unit === "bytes") return bytesText(weight);
  if (profile.unit === "nanoseconds") return `${short.format(weight / 1e9)} s`;
  const noun = profile.unit === "count" || !profile.unit ? profile.value : profile.unit;
  return `${plain.format(weight)} ${weight === 1 ? noun.replace(/s$/, "") : noun}`;
}

function percent(part, whole) {
  if (!whole) return "0 %";
  const share = (100 * part) / whole;
  if (share > 0 && share < 0.01) return "< 0.01 %";
  if (share > 99.99 && share < 100) return "> 99.99 %";
  return `${share.toFixed(share >= 10 ? 1 : 2).replace(/\.?0+$/, "")} %`;
}

// Return an element; children are elements or texts, which are never read as markup.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Return the frames of a tree, each with those that it called: n name, v weight, k kind, o its other name, c callees.
function treeOf(columns) {
  const above = [];
  for (let row = 0; row < columns.depth.length; row++) {
    const depth = columns.depth[row];
    const frame = {
      n: profile.names[columns.name[row]],
      v: columns.weight[row],
      k: profile.kinds[columns.kind[row]],
      o: columns.other[row] < 0 ? "" : profile.names[columns.other[row]],
      c: [],
    };
    above.length = depth;
    if (depth) above[depth - 1].c.push(frame);
    above.push(frame);
  }
  return above.length ? above[0] : { n: "all", v: 0, k: "same", o: "", c: [] };
}
