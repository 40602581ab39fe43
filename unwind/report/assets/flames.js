"use strict";
// Flame graphs, drawn by d3-flame-graph. Here is what it does not have: kinds of frames, the keyboard, and names and
// roles for screen readers. Frames narrower than a pixel are not drawn until a zoom makes them wider.

const CELL = 20;
const MARKS = { changed: "≠ ", open: "? ", "tail-call": "↷ " };
const NAMELESS = "or a function that nothing names";
const KINDS = {
  before: {
    changed: (frame) => `it is ${frame.o}`,
    open: (frame) => (frame.o === frame.n ? NAMELESS : `it is one of several: ${frame.o}`),
  },
  after: {
    changed: (frame) => `shown as ${frame.o} today`,
    open: (frame) => (frame.o === frame.n ? NAMELESS : `one of several functions${frame.o ? `, shown as ${frame.o} today` : ""}`),
    "tail-call": () => "left by a tail call, so today's tools do not show it",
  },
};
const COMMON = { inlined: () => "inlined", unknown: () => "without a name" };

class Flame {
  constructor(panel, side, columns) {
    this.side = side;
    this.graph = panel.querySelector(".graph");
    this.details = panel.querySelector(".details");
    this.root = treeOf(columns);
    this.current = 0; // id of the frame that Tab enters
    this.zoomed = false;
    this.onZoom = () => {};
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.chart = d3flame
      .flamegraph()
      .width(this.width())
      .cellHeight(CELL)
      .minFrameSize(1)
      .inverted(true)
      .resetHeightOnZoom(true)
      .transitionDuration(calm ? 0 : 120)
      .sort(Flame.orders.weight)
      .getName((node) => (MARKS[node.data.k] || "") + node.data.n)
      .setLabelHandler((node) => this.describe(node))
      .setSearchMatch((node, query) => node.data.n.toLowerCase().includes(query))
      .setSearchHandler(() => {})
      .setDetailsHandler((text) => {
        this.details.textContent = text || this.describeCurrent();
      })
      .onClick((node) => this.zoomedTo(node));
    d3flame.select(this.graph).datum(this.root).call(this.chart);
    this.graph.addEventListener("keydown", (event) => this.key(event));
    this.graph.addEventListener("focusin", (event) => this.focused(event.target));
    new ResizeObserver(() => this.resize()).observe(this.graph);
    this.decorate();
  }

  static orders = {
    weight: (a, b) => b.data.v - a.data.v || a.data.n.localeCompare(b.data.n),
    name: (a, b) => a.data.n.localeCompare(b.data.n) || b.data.v - a.data.v,
  };

  width() {
    return Math.max(200, this.graph.clientWidth);
  }

  resize() {
    if (this.graph.clientWidth && this.width() !== this.chart.width()) {
      this.chart.width(this.width());
      this.update();
    }
  }

  update() {
    this.chart.update();
    this.decorate();
  }

  order(name) {
    this.chart.sort(Flame.orders[name]);
    this.update();
  }

  // Return the weight of the stacks that have a function whose name holds the query.
  search(query) {
    const wanted = query.toLowerCase();
    if (query) this.chart.search(wanted);
    else this.chart.clear();
    this.graph.classList.toggle("searching", Boolean(query));
    this.decorate();
    const weightIn = (frame) =>
      frame.n.toLowerCase().includes(wanted) ? frame.v : frame.c.reduce((weight, callee) => weight + weightIn(callee), 0);
    return query ? weightIn(this.root) : 0;
  }

  reset() {
    this.chart.resetZoom();
  }

  describe(node) {
    const frame = node.data;
    const note = KINDS[this.side][frame.k] || COMMON[frame.k];
    const parts = [frame.n, `${percent(frame.v, this.root.v)}, ${weightText(frame.v)}`];
    return [...parts, ...(note ? [note(frame)] : [])].join("; ");
  }

  describeCurrent() {
    const at = this.elementOf(this.current);
    return at && at === document.activeElement ? this.describe(at.__data__) : "";
  }

  // What the library draws anew with each update: classes, and what screen readers read.
  decorate() {
    const svg = this.graph.querySelector("svg");
    svg.setAttribute("role", "none");
    const groups = this.inOrder(svg);
    if (!this.elementOf(this.current)) this.current = 0;
    for (const group of groups) {
      const node = group.__data__;
      group.classList.add(node.data.k);
      group.classList.toggle("found", Boolean(node.highlight));
      group.setAttribute("role", "treeitem");
      group.setAttribute("aria-level", node.depth + 1);
      group.setAttribute("aria-label", this.describe(node));
      group.setAttribute("tabindex", node.id === this.current ? 0 : -1);
      group.removeAttribute("name");
      group.dataset.id = node.id;
      for (const child of group.children) child.setAttribute("aria-hidden", "true");
    }
  }

  // Put the frames into the order that a tree is read in, each before those that it called; return them.
  inOrder(svg) {
    const groups = [...svg.querySelectorAll("g")];
    const sorted = groups.slice().sort((a, b) => a.__data__.x0 - b.__data__.x0 || a.__data__.depth - b.__data__.depth);
    if (sorted.some((group, idx) => group !== groups[idx])) {
      const { current } = this;
      const active = document.activeElement;
      svg.append(...sorted);
      if (svg.contains(active)) active.focus({ preventScroll: true });
      this.current = current;
    }
    return sorted;
  }

  elementOf(id) {
    return this.graph.querySelector(`g[data-id="${id}"]`);
  }

  zoomedTo(node) {
    this.zoomed = node.depth > 0;
    if (this.zoomed) this.current = node.id;
    this.decorate();
    this.onZoom();
  }

  focused(target) {
    const node = target.__data__;
    if (!node) return;
    const before = this.elementOf(this.current);
    if (before) before.setAttribute("tabindex", -1);
    target.setAttribute("tabindex", 0);
    this.current = node.id;
    this.details.textContent = this.describe(node);
  }

  key(event) {
    const node = event.target.__data__;
    if (!node || event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = {
      ArrowDown: () => this.drawn((each) => each.parent === node)[0],
      ArrowUp: () => node.parent,
      ArrowLeft: () => this.drawn((each) => each.depth === node.depth && each.x0 < node.x0).pop(),
      ArrowRight: () => this.drawn((each) => each.depth === node.depth && each.x0 > node.x0)[0],
      Home: () => this.drawn((each) => !each.parent)[0],
    };
    if (moves[event.key]) this.focus(moves[event.key]());
    else if (event.key === "Enter" || event.key === " ") this.chart.zoomTo(node);
    else if (event.key === "Escape") this.reset();
    else return;
    event.preventDefault();
    if (event.key === "Enter" || event.key === " " || event.key === "Escape") this.focus({ id: this.current });
  }

  // Return the frames that are drawn and fulfil a condition, from left to right.
  drawn(fulfils) {
    const nodes = [...this.graph.querySelectorAll("g")].map((group) => group.__data__).filter(fulfils);
    return nodes.filter((node) => node.x1 > node.x0).sort((a, b) => a.x0 - b.x0);
  }

  focus(node) {
    const target = node && this.elementOf(node.id);
    if (target) target.focus();
  }
}
