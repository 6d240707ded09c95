// The page: what is shown, which batch is picked, which key is followed, and news from the server.

import {heat, lines, marks, milliseconds, scale, short} from "./charts.js";
import {events, keys, tiles, workers} from "./panels.js";

const STEPS = [12, 60], MOST = 600, MOST_EVENTS = 500, REPLAY_MS = 200;
const at = (id) => document.getElementById(id);
const state = {run: {}, columns: [], events: [], batch: null, picked: null, live: true, followed: null, replay: null};
let planned = false, listening = false, asked = 0, loads = 0;

async function get(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.json();
}

function draw() {
  if (planned) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; show(); });
}

const column = () => state.columns.find((one) => one.batch === state.picked) ?? state.columns.at(-1);

function show() {
  const {run, columns, picked, batch} = state, now = column();
  at("name").textContent = run.name ?? "skewless";
  document.title = `${run.name ?? ""} · skewless`;
  const masked = run.masked ? " · keys are masked" : "";
  at("about").textContent = run.workers ? `${run.grouping} · ${run.workers} workers · ${run.batches} batches · ${run.ledger}${masked}` : "";
  at("problem").hidden = !run.problem;
  at("problem").textContent = run.problem ?? "";
  at("pause").textContent = state.live ? "Pause" : "Follow";
  at("pause").setAttribute("aria-pressed", String(!state.live));
  at("replay").textContent = state.replay ? "Stop" : "Replay";
  tiles(at("tiles"), now, run.workers);
  at("picked").textContent = now ? `batch ${now.batch}${state.live ? ", the newest" : ""}` : "";
  heat(at("heat"), columns, picked);
  at("kinds").hidden = !marks(at("events"), columns, state.events);
  const draws = (id, series, options) => lines(at(id), columns, series, {picked, ...options});
  const of = (name, key, colour) => ({name, values: columns.map((one) => one[key]), colour});
  draws("balance", [of("λ %", "imbalance", "one"), of("stddev", "stddev", "two"), of("skew score %", "skew", "three")]);
  draws("elapsed", [of("took", "elapsed_ms", "one"), of("with key grouping", "key_grouping_ms", "two")], {format: milliseconds});
  draws("throughput", [of("rows per second", "throughput", "one")], {format: short});
  draws("latency", [0, 1, 2].map((which) => ({name: ["p50", "p95", "p99"][which],
    values: columns.map((one) => one.latency_ms[which]), colour: ["one", "two", "three"][which]})), {format: milliseconds});
  draws("state", [of("keys with state", "state_keys", "one"), of("keys moved", "moved_keys", "two")]);
  draws("rejects", [of("rejected rows", "rejected", "two")]);
  const about = batch ? `batch ${batch.batch}${batch.remark ? `: ${batch.remark}` : ""}` : "";
  at("keys-of").textContent = about;
  at("workers-of").textContent = batch ? `batch ${batch.batch}` : "";
  keys(at("keys"), batch, run.workers, state.followed, follow);
  workers(at("workers"), batch);
  events(at("log"), state.events.filter((event) => state.followed === null || event.key === state.followed), pick);
  at("followed").hidden = state.followed === null;
  if (state.followed !== null) showFollowed();
}

function showFollowed() {
  const of = (which, factor) => state.columns.map((one) => {
    const found = one.hot.find(([key]) => key === state.followed);
    return found ? factor * found[which] : null;
  });
  at("followed-key").textContent = state.followed;
  lines(at("followed-share"), state.columns, [{name: "share %", values: of(1, 100), colour: "one"}], {picked: state.picked});
  lines(at("followed-workers"), state.columns, [{name: "pieces", values: of(2, 1), colour: "two"}], {picked: state.picked});
}

function follow(key) {
  state.followed = key;
  draw();
}

async function pick(batch, live = false) {
  state.live = live;
  state.picked = batch;
  draw();
  const mine = ++asked;
  try {
    const found = await get(`api/batch/${batch}`);
    if (mine === asked) { state.batch = found; draw(); }
  } catch (error) {
    if (mine === asked) { state.run = {...state.run, problem: error.message}; draw(); }
  }
}

function step(by) {
  const place = state.columns.findIndex((one) => one.batch === state.picked);
  const next = state.columns[Math.max(0, Math.min(state.columns.length - 1, (place < 0 ? state.columns.length : place) + by))];
  if (next) pick(next.batch);
}

function goLive() {
  stopReplay();
  if (state.columns.length) pick(state.columns.at(-1).batch, true);
  else { state.live = true; draw(); }
}

function stopReplay() {
  clearInterval(state.replay);
  state.replay = null;
}

function replay() {
  if (state.replay) { stopReplay(); draw(); return; }
  if (!state.columns.length) return;
  pick(state.columns[0].batch);
  state.replay = setInterval(() => {
    if (state.picked === state.columns.at(-1)?.batch) { stopReplay(); draw(); } else step(1);
  }, REPLAY_MS);
}

const size = () => (at("window").value === "all" ? MOST : Number(at("window").value));

// The newest at once, then more of them, while news already come: reading a long history takes seconds.
async function load() {
  const range = (most) => (at("window").value === "all" || state.run.last === null ? ""
    : `&from=${Math.max(0, state.run.last - most + 1)}`);
  const mine = ++loads;
  for (const most of STEPS.filter((step) => step < size()).concat(size())) {
    const found = await get(`api/batches?most=${most}${range(most)}`);
    if (mine !== loads) return;
    const last = found.columns.at(-1)?.batch ?? -1, newer = (one) => one.batch > last;
    state.columns = [...found.columns, ...state.columns.filter(newer)].slice(-size());
    state.events = [...found.events, ...state.events.filter(newer)].slice(-MOST_EVENTS);
    const newest = state.columns.at(-1)?.batch;
    if (state.live && newest !== undefined && state.picked !== newest) pick(newest, true);
    draw();
    listen();
  }
}

function takeNews(news) {
  const before = state.run;
  state.run = news.run;
  if (news.run.last !== null && before.last !== null && news.run.last < before.last) { // the query has started again
    Object.assign(state, {picked: null, live: true, columns: [], events: []});
    load().catch(fail);
    return;
  }
  for (const one of news.columns) {
    state.columns = [...state.columns.filter((known) => known.batch < one.batch), one].slice(-size());
    const again = new Set([one.batch, ...news.events.map((event) => event.batch)]);
    const kept = state.events.filter((event) => event.batch < one.batch && !again.has(event.batch));
    state.events = [...kept, ...news.events].slice(-MOST_EVENTS);
    if (state.live) pick(one.batch, true);
  }
  draw();
}

function fail(error) {
  state.run = {...state.run, problem: error.message};
  draw();
}

function listen() {
  if (listening) return;
  listening = true;
  const source = new EventSource("api/stream");
  source.addEventListener("news", (event) => takeNews(JSON.parse(event.data)));
  source.addEventListener("error", () => fail(new Error("the connection to skewless is lost; trying again")));
}

function pickAt(event) {
  const box = at("heat").getBoundingClientRect();
  const place = Math.floor((event.clientX - box.left) / box.width * state.columns.length);
  if (state.columns[place]) { stopReplay(); pick(state.columns[place].batch); }
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
  const actions = {ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => step(-MOST), End: goLive, p: replay,
    Escape: () => follow(null)};
  if (event.key === " " && event.target.tagName !== "BUTTON") actions[" "] = togglePause;
  if (!actions[event.key]) return;
  event.preventDefault();
  if (event.key !== "p") stopReplay();
  actions[event.key]();
}

function togglePause() {
  if (state.live) { state.live = false; draw(); } else goLive();
}

at("back").addEventListener("click", () => { stopReplay(); step(-1); });
at("forward").addEventListener("click", () => { stopReplay(); step(1); });
at("pause").addEventListener("click", togglePause);
at("replay").addEventListener("click", replay);
at("unfollow").addEventListener("click", () => follow(null));
at("window").addEventListener("change", () => load().catch(fail));
at("heat").addEventListener("click", pickAt);
document.addEventListener("keydown", press);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { scale(at("scale")); draw(); });
new ResizeObserver(draw).observe(document.body);
scale(at("scale"));
get("api/run").then((run) => { state.run = run; draw(); return load(); }).catch((error) => { fail(error); listen(); });
