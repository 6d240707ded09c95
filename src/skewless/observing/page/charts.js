// Charts drawn by hand: a heat map on a canvas, lines in SVG. Nothing here interprets text as markup.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150, LEFT = 54, BOTTOM = 16, TOP = 6;
const STEPS = [1, 2, 2.5, 5, 10];

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function short(number) {
  if (number === null || number === undefined) return "–";
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (Math.abs(number) >= size) return `${+(number / (unit === "k" ? 1e3 : size)).toPrecision(3)} ${unit}`;
  return `${+(+number).toPrecision(4)}`;
}

export function milliseconds(time) {
  if (time === null || time === undefined) return "–";
  if (time < 1e3) return `${time < 10 ? +time.toPrecision(2) : Math.round(time)} ms`;
  if (time < 6e4) return `${(time / 1e3).toFixed(2)} s`;
  return time < 3.6e6 ? `${(time / 6e4).toFixed(1)} min` : `${(time / 3.6e6).toFixed(1)} h`;
}

function nice(most) {
  if (!(most > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return power * STEPS.find((step) => step * power >= most * 0.999);
}

// series: [{name, values, colour}], one value per column; null is a gap.
export function lines(host, columns, series, {format = short, picked = null} = {}) {
  const WIDTH = Math.max(240, host.clientWidth || 600); // a unit is a pixel, so that text has one size
  const most = nice(Math.max(0, ...series.flatMap((one) => one.values.filter((value) => value !== null))));
  const x = (at) => LEFT + (columns.length < 2 ? 0.5 : at / (columns.length - 1)) * (WIDTH - LEFT - 8);
  const y = (value) => TOP + (1 - Math.min(value, most) / most) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(drawn("line", {class: "grid-line", x1: LEFT, x2: WIDTH, y1: y(share * most), y2: y(share * most)}));
    const label = share ? format(share * most).replace(/(\.\d*?)0+(?= |$)/, (_, kept) => (kept === "." ? "" : kept)) : "0";
    if (columns.length) parts.push(drawn("text", {x: LEFT - 6, y: y(share * most) + 4, "text-anchor": "end"}, label));
  }
  if (columns.length) {
    parts.push(drawn("text", {x: LEFT, y: HEIGHT - 2}, `batch ${columns[0].batch}`));
    parts.push(drawn("text", {x: WIDTH - 8, y: HEIGHT - 2, "text-anchor": "end"}, `${columns.at(-1).batch}`));
  }
  for (const {values, colour} of series) {
    let path = "", open = false;
    values.forEach((value, at) => {
      if (value === null) { open = false; return; }
      path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      if (!open && (at + 1 === values.length || values[at + 1] === null)) path += "h2";
      open = true;
    });
    parts.push(drawn("path", {class: colour, d: path}));
  }
  const at = columns.findIndex((column) => column.batch === picked);
  if (at >= 0) parts.push(drawn("line", {class: "cursor", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM}));
  const now = (values) => format(values[at >= 0 ? at : values.length - 1] ?? null);
  const said = series.map((one) => `${one.name} ${now(one.values)}`).join(", ");
  const picture = drawn("svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said}, ...parts);
  const names = element("div", {className: "names"}, ...series.map((one) =>
    element("span", {}, element("i", {className: one.colour}), `${one.name} `, element("b", {textContent: now(one.values)}))));
  host.replaceChildren(names, picture);
}

function palette() {
  const style = getComputedStyle(document.documentElement);
  return ["--cold", "--mid", "--hot"].map((name) => style.getPropertyValue(name).split(",").map(Number));
}

// A load of 0 is cold, the fair share is in the middle, twice as much or more is hot.
function colour([cold, mid, hot], times) {
  const [from, to, share] = times < 1 ? [cold, mid, times] : [mid, hot, Math.min(1, times - 1)];
  return from.map((value, at) => Math.round(value + (to[at] - value) * share));
}

// A pixel for each load, then stretched by the browser: much less work than a colour for each pixel of the screen.
export function heat(canvas, columns, picked) {
  const across = Math.max(1, columns.length), down = Math.max(1, ...columns.map((column) => column.heat.length));
  const line = Math.max(1, Math.min(18, Math.floor(260 / down))), colours = palette();
  const small = element("canvas", {width: across, height: down}), cells = new ImageData(across, down);
  columns.forEach(({heat: loads}, at) => {
    const fair = loads.reduce((sum, load) => sum + load, 0) / Math.max(1, loads.length);
    loads.forEach((load, worker) => {
      const [red, green, blue] = colour(colours, fair ? load / fair : 0), place = 4 * (worker * across + at);
      cells.data[place] = red;
      cells.data[place + 1] = green;
      cells.data[place + 2] = blue;
      cells.data[place + 3] = 255;
    });
  });
  small.getContext("2d").putImageData(cells, 0, 0);
  canvas.width = Math.max(1, canvas.clientWidth);
  canvas.height = line * down;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  if (line > 4) for (let worker = 1; worker <= down; worker++) context.clearRect(0, worker * line - 1, canvas.width, 1);
  const at = columns.findIndex((column) => column.batch === picked);
  if (at >= 0) {
    context.strokeStyle = getComputedStyle(document.body).color;
    context.strokeRect(at * canvas.width / across + 0.5, 0.5, Math.max(2, canvas.width / across - 1), canvas.height - 1);
  }
}

export function scale(canvas) {
  const context = canvas.getContext("2d"), colours = palette();
  for (let px = 0; px < canvas.width; px++) {
    context.fillStyle = `rgb(${colour(colours, 2 * px / canvas.width).join()})`;
    context.fillRect(px, 0, 1, canvas.height);
  }
}

export function marks(host, columns, events) {
  const places = new Map(columns.map((column, at) => [column.batch, at]));
  const seen = events.filter((event) => places.has(event.batch)).map((event) => {
    const x = (100 * (places.get(event.batch) + 0.5)) / columns.length;
    return drawn("line", {class: `mark ${["cut", "merged", "moved", "hot"].includes(event.what) ? event.what : ""}`,
      x1: `${x}%`, x2: `${x}%`, y1: 1, y2: 11});
  });
  host.replaceChildren(drawn("svg", {}, ...seen));
  return seen.length > 0;
}

export function bar(share, mark) {
  const full = Math.max(0, Math.min(1, share));
  return drawn("svg", {class: "bar", viewBox: "0 0 90 9", "aria-hidden": "true"},
    drawn("rect", {class: "empty", width: 90, height: 9}),
    drawn("rect", {class: mark ? "over" : "full", width: 90 * full, height: 9}));
}
