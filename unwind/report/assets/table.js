"use strict";
// Tables that are sorted by a click on a column's name, and filtered by the search.

const ROWS_AT_FIRST = 25;

class Table {
  // columns: {label, value(row), cell(row), number: true} each; the first one names its row.
  // text(row): what the search looks into; mark(row): the class of its <tr>
  constructor(place, { caption, columns, rows, sort, text, mark }) {
    Object.assign(this, { columns, rows, text, mark });
    this.found = rows;
    this.keep = () => true;
    this.query = "";
    this.sorted = { column: sort[0], descending: sort[1] };
    this.limit = ROWS_AT_FIRST;
    this.body = element("tbody");
    this.heads = columns.map((column, idx) => {
      const button = element("button", { type: "button" }, column.label);
      button.addEventListener("click", () => this.sortBy(idx));
      return element("th", { scope: "col", class: column.number ? "number" : "" }, button);
    });
    this.more = element("button", { type: "button", class: "more" });
    this.more.addEventListener("click", () => {
      this.limit = Infinity;
      this.draw();
    });
    this.caption = element("caption");
    this.captionText = caption;
    place.append(element("table", {}, this.caption, element("thead", {}, element("tr", {}, ...this.heads)), this.body), this.more);
    this.draw();
  }

  sortBy(idx) {
    const isSame = this.sorted.column === idx;
    this.sorted = { column: idx, descending: isSame ? !this.sorted.descending : Boolean(this.columns[idx].number) };
    this.draw();
  }

  filter(query) {
    this.query = query.toLowerCase();
    this.draw();
  }

  draw() {
    const { column, descending } = this.sorted;
    const value = this.columns[column].value;
    this.found = this.rows.filter((row) => this.keep(row) && (!this.query || this.text(row).toLowerCase().includes(this.query)));
    this.found.sort((a, b) => {
      const [first, second] = [value(a), value(b)];
      const order = typeof first === "string" ? first.localeCompare(second) : first - second;
      return descending ? -order : order;
    });
    this.heads.forEach((head, idx) => {
      if (idx === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...this.found.slice(0, this.limit).map((row) => this.rowOf(row)));
    const count = this.found.length;
    this.more.hidden = count <= this.limit;
    this.more.textContent = `Show all ${plain.format(count)} rows`;
    const of = count === this.rows.length ? "" : ` of ${plain.format(this.rows.length)}`;
    this.caption.textContent = `${this.captionText}: ${plain.format(count)}${of} ${count === 1 && !of ? "row" : "rows"}`;
  }

  rowOf(row) {
    const cells = this.columns.map((column, idx) => {
      const content = column.cell(row);
      const attributes = { class: column.number ? "number" : "" };
      if (!idx) attributes.scope = "row";
      return element(idx ? "td" : "th", attributes, content);
    });
    return element("tr", { class: this.mark ? this.mark(row) : "" }, ...cells);
  }
}
