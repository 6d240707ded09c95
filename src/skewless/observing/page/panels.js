// Tables and tiles: every text of the ledger goes through textContent.

import {bar, element, milliseconds, short} from "./charts.js";

const MOST_WORKERS = 300, MOST_EVENTS = 100, MOST_OWNERS = 12;

const key = (text) => element("bdi", {className: "key", textContent: text});
const cell = (content, number = false) => element("td", {className: number ? "number" : ""}, content);
const heading = (...names) => element("thead", {}, element("tr", {}, ...names.map((name) => element("th", {textContent: name}))));

export function tiles(host, column, workers) {
  if (!column) { host.replaceChildren(); return; }
  const took = column.elapsed_ms, would = column.key_grouping_ms;
  const times = took && would ? `${(would / took).toFixed(1)} times as long` : "";
  const all = [
    ["batch", column.batch, column.began_ms === null ? "" : new Date(column.began_ms).toLocaleTimeString()],
    ["rows", short(column.rows), `${column.reports < workers ? `${column.reports} of ${workers}` : column.reports} workers reported`],
    ["imbalance λ", `${column.imbalance.toFixed(1)} %`, "largest load above the mean"],
    ["skew score", `${column.skew.toFixed(1)} %`, "as in Flink (FLIP-418)"],
    ["rows per second", short(column.throughput), `p95 ${milliseconds(column.latency_ms[1])}`],
    ["took", milliseconds(took), "start to last worker"],
    ["with key grouping", milliseconds(would), times],
    ["rejected", short(column.rejected), "rows set aside"],
  ];
  host.replaceChildren(...all.map(([name, value, remark]) => element("div", {className: "tile"},
    element("small", {textContent: name}), element("b", {textContent: value}), element("small", {textContent: remark}))));
}

// The focus stays on its button: news draw the table anew.
function refill(table, ...content) {
  const of = table.contains(document.activeElement) ? document.activeElement.dataset.of : undefined;
  table.replaceChildren(...content);
  if (of !== undefined) [...table.querySelectorAll("button")].find((button) => button.dataset.of === of)?.focus();
}

export function keys(table, batch, workers, followed, follow) {
  if (!batch) { table.replaceChildren(); return; }
  const rows = batch.keys.map((hot) => {
    const owners = hot.owners.slice(0, MOST_OWNERS).map(([worker, count]) => `${worker} (${short(count)})`).join(", ");
    const more = hot.workers > Math.min(MOST_OWNERS, hot.owners.length) ? ", …" : "";
    const age = hot.age_batches ? `${hot.age_batches} batches${hot.age_ms === null ? "" : `, ${milliseconds(hot.age_ms)}`}` : "new";
    const button = element("button", {textContent: hot.key === followed ? "following" : "follow"});
    button.setAttribute("aria-pressed", String(hot.key === followed));
    button.dataset.of = hot.key;
    button.addEventListener("click", () => follow(hot.key === followed ? null : hot.key));
    return element("tr", {className: hot.key === followed ? "followed" : ""}, cell(key(hot.key)),
      cell(short(hot.rows), true), cell(`${(100 * hot.share).toFixed(1)} %`, true),
      cell(bar(hot.share, hot.share > 1 / workers)), cell(age), cell(hot.workers, true), cell(owners + more), cell(button));
  });
  refill(table, heading("key", "rows", "share", "", "hot since", "pieces", "workers (rows)", ""), element("tbody", {}, ...rows));
}

export function events(table, all, pick) {
  const rows = all.slice(-MOST_EVENTS).reverse().map((event) => {
    const button = element("button", {textContent: event.batch});
    button.dataset.of = `${event.batch} ${event.what} ${event.key}`;
    button.addEventListener("click", () => pick(event.batch));
    return element("tr", {}, cell(button), cell(event.what), cell(key(event.key)), cell(event.why));
  });
  refill(table, heading("batch", "what", "key", "why"), element("tbody", {}, ...rows));
}

export function workers(table, batch) {
  if (!batch) { table.replaceChildren(); return; }
  const most = Math.max(1, ...batch.loads), fair = batch.rows / Math.max(1, batch.loads.length);
  const order = batch.loads.map((_, worker) => worker);
  if (order.length > MOST_WORKERS) order.sort((a, b) => batch.loads[b] - batch.loads[a]);
  const rows = order.slice(0, MOST_WORKERS).map((worker) => element("tr", {}, cell(worker, true),
    cell(short(batch.loads[worker]), true), cell(bar(batch.loads[worker] / most, batch.loads[worker] > 1.5 * fair)),
    cell(short(batch.by_home[worker]), true), cell(`${batch.busy_s[worker].toFixed(2)} s`, true),
    cell(short(batch.states[worker]), true), cell(short(batch.rejects[worker]), true)));
  table.replaceChildren(heading("worker", "rows", "", "with key grouping", "busy", "state", "rejected"),
    element("tbody", {}, ...rows));
}
