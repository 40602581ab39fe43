// Print what speedscope's own importer makes of a profile: the weight of each frame, with what it calls.
//
//     node speedscope.js .../speedscope/dist/release PROFILE
//
// The package holds only the program of its page. It runs here until it wants the page; its importer is there by then.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [folder, profile] = process.argv.slice(2);
const program = fs.readdirSync(folder).find((name) => /^speedscope-.*\.js$/.test(name));
const source = fs
  .readFileSync(path.join(folder, program), "utf8")
  .replace(/\.then\(\(\)=>\((\w+)\(\),(\w+)\)\);/, ".then(()=>($1(),globalThis.importer=$2));");

const anything = new Proxy(function () {}, {
  get: (_, key) => (key === Symbol.toPrimitive ? () => "" : key === "length" ? 0 : anything),
  set: () => true,
  apply: () => anything,
  construct: () => anything,
});
globalThis.window = globalThis;
globalThis.document = globalThis.localStorage = anything;
globalThis.location = { hash: "", protocol: "file:", href: "" };
globalThis.addEventListener = globalThis.requestAnimationFrame = () => {};
globalThis.matchMedia = () => anything;
process.on("unhandledRejection", () => {});
const print = console.log;
console.log = () => {};
try {
  vm.runInThisContext(source);
} catch (error) {
  // the page is not there
}

setTimeout(async () => {
  const bytes = new Uint8Array(fs.readFileSync(profile));
  const group = await globalThis.importer.importProfilesFromArrayBuffer(path.basename(profile), bytes.buffer);
  const weights = {};
  group.profiles[group.indexToView].forEachFrame((frame) => (weights[frame.name] = frame.getTotalWeight()));
  print(JSON.stringify(weights));
  process.exit(0);
}, 50);
