// SPDX-License-Identifier: Apache-2.0
//
// The live page (doc/design/page.md): keeps what live and live/events say, and shows it. What has
// changed is drawn in animation frames, a few ms in each: nodes are kept by key, and written to only
// where something is another one. Strings become text, never markup. hours.js and queue.js are
// served in front of it, as one module with it.

const SVG = "http://www.w3.org/2000/svg";
const $ = (selector) => document.querySelector(selector);
const on = (target, ...rest) => target.addEventListener(...rest);
const $$ = (selector) => document.querySelectorAll(selector);

// An attribute, only if it's another one; null takes it away.
function set(node, name, value) {
	if (value === null || value === undefined) node.removeAttribute(name);
	else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
	return node;
}

function say(node, text) {
	if (node.said !== text) node.textContent = node.said = text;
	return node;
}

function fill(node, attributes, children = []) {
	for (const name in attributes) set(node, name, attributes[name]);
	node.append(...children);
	return node;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// Keeps parent's children in step with items: one node a key, made once, moved only where it must be. Once it has taken away,
// made, moved, and updated where that says that it was work, so many (most.n, which goes down), it returns that there is more to do.
function keep(parent, items, keyOf, create, update, most = {n: Infinity}) {
	const old = parent.kept ?? new Map();
	const kept = parent.kept = new Map();
	for (const item of items) {
		const key = keyOf(item);
		if (old.has(key)) kept.set(key, old.get(key));
		old.delete(key);
	}
	for (const node of old.values()) {
		node.remove();
		most.n--;
	}
	let at = parent.firstChild;
	for (const item of items) {
		if (most.n <= 0) return true;
		const key = keyOf(item), node = kept.get(key) ?? create(item);
		kept.set(key, node);
		if (update(node, item) || node !== at) most.n--;
		if (node === at) at = at.nextSibling;
		else parent.insertBefore(node, at);
	}
	return false;
}

// A table's rows; the first cell is the row's heading. At most so many are written: of those that look as they did, none is.
function keepRows(body, items, cellsOf, most) {
	return keep(body, items, (item) => item.key, () => make("tr", {}, make("th", {scope: "row"})), (tr, item) => {
		const name = who(item);
		if (most && tr.item === item && tr.name === name) return false;
		Object.assign(tr, {item, name});
		cellsOf(item).forEach((text, i) => say(tr.children[i] ?? tr.appendChild(make("td")), String(text)));
		return true;
	}, most);
}

const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
const ipus = (n) => count(n, "IPU"), sizeOf = (item) => item.ipus ? ipus(item.ipus) : "size not known";
const brief = (text) => text.length > 32 ? `${text.slice(0, 18)}…${text.slice(-13)}` : text; // so that a sentence stays one
const wordsFor = (flags) => Object.keys(flags).filter((words) => flags[words]);
const list = (words) => words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

let skew = 0; // the daemon's clock less ours
const now = () => Date.now() + skew;
const two = (n) => String(n).padStart(2, "0");
const clock = (t) => `${two(t.getHours())}:${two(t.getMinutes())}`, second = (t) => `${clock(t)}:${two(t.getSeconds())}`;
const {format} = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});
const exact = (t) => isNaN(t) ? "" : format(t);

function age(ms) {
	const s = Math.max(0, Math.floor(ms / 1000));
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min`;
	if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)}`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

// A <time> that ticks (class "age") or tells the hour; the exact time is its title.
function sayTime(node, iso, ticks) {
	if (node.iso === iso) return node;
	const t = new Date(iso);
	node.iso = iso;
	node.at = ticks ? t.getTime() : undefined;
	fill(node, {datetime: iso, title: exact(t)});
	return say(node, ticks ? age(now() - t) : second(t));
}

function tick() {
	for (const node of $$("time"))
		if (node.at !== undefined) say(node, age(now() - node.at));
}

// ---- what is known ----

// Which parts of the page show what a change has.
const SHOWN = {total: ["totals"], put: ["grid", "queue", "usage", "table"], order: ["queue"], steps: ["steps"], points: ["hours"], usage: ["usage"]};
const KINDS = ["controllers", "partitions", "waiting", "held"];
const pod = {known: false, total: {}, order: [], steps: [], usage: [], history: {period: 60, end: "", points: []},
	controllers: new Map(), partitions: new Map(), waiting: new Map(), held: new Map()};
let names = new Map(), limits = ""; // by owner's key and namespace; what may not be seen
const dirty = {racks: new Set(), partitions: new Set(), parts: new Set()}; // keys, and parts of the page
let planned = false, byController = new Map();

function plan(...parts) {
	for (const part of parts) dirty.parts.add(part);
	if (!planned) requestAnimationFrame(redraw);
	if (pod.known) set($("main"), "aria-busy", true);
	planned = true;
}

// All that is drawn of some partitions (those of others: racks alone).
function touch(keys) {
	for (const key of keys) {
		const p = pod.partitions.get(key);
		dirty.partitions.add(key);
		if (p) dirty.racks.add(p.controller);
	}
}

function touchAll() {
	touch(pod.partitions.keys());
	for (const key of pod.controllers.keys()) dirty.racks.add(key);
}

// By controller, in the order of their places.
const placeAt = (p) => p.at ??= p.places.length ? 64 * p.places[0].domain + bitsOf(p.places[0]).indexOf(1) : Infinity;
const regroup = () => { byController = Map.groupBy([...pod.partitions.values()].sort((a, b) => placeAt(a) - placeAt(b) || 0), (p) => p.controller); };

function heardTime(iso) {
	const t = Date.parse(iso);
	if (!isNaN(t) && Math.abs(t - now()) > 1500) skew = t - Date.now();
}

function takeSnapshot({controllers, partitions, waiting, held = [], ...rest}) {
	const kinds = {controllers, partitions, waiting, held}, spaces = [...partitions, ...waiting, ...held, ...rest.usage].map((item) => item.namespace);
	heardTime(rest.time);
	touchAll();
	for (const kind of KINDS) pod[kind] = new Map(kinds[kind].map((item) => [item.key, item]));
	touchAll();
	for (const namespace of [...new Set(spaces)].filter(Boolean).sort()) shadeOf(namespace);
	regroup();
	const first = !pod.known;
	if (first) fitRange(rest.history.points.length);
	Object.assign(pod, rest, {known: true, order: [...pod.waiting.keys()]});
	if (first) drawTotals(drawPicker()); // from then on they come last
	plan(...Object.values(SHOWN).flat(), "about");
}

// A change's drops, then its puts, then the queue's order.
function takeChange({time, drop = {}, put = {}, ...rest}) {
	heardTime(time);
	const moved = [...drop.partitions ?? [], ...(put.partitions ?? []).map((p) => p.key)];
	touch(moved);
	for (const kind of KINDS) {
		for (const key of drop[kind] ?? []) pod[kind].delete(key);
		for (const item of put[kind] ?? []) pod[kind].set(item.key, item);
	}
	touch(moved);
	if (moved.length) regroup();
	for (const c of pod.controllers.values()) if (put.controllers?.includes(c) || c.reserved?.length) dirty.racks.add(c.key);
	pod.order = [...new Set([...rest.order ?? [], ...pod.order, ...pod.waiting.keys()])].filter((key) => pod.waiting.has(key));
	pod.total = rest.total ?? pod.total;
	pod.usage = rest.usage ?? pod.usage;
	const last = pod.steps.at(-1)?.n ?? -1, {end, points, period} = pod.history;
	if (rest.steps) pod.steps = [...pod.steps, ...rest.steps.filter((step) => step.n > last)].slice(-200);
	if (rest.points && rest.points.end !== end)
		pod.history = {period, end: rest.points.end, points: [...points, ...rest.points.points].slice(-86400 / period)};
	for (const part of [...Object.keys(rest), "put"]) plan(...(SHOWN[part] ?? []), "totals");
}

// Who it is, as far as is known: "team-a/train", or the namespace and the key's beginning.
const seen = (item) => names.get(item.owner + item.namespace), nameOf = (item) => item.name ?? seen(item)?.name;
function who(item) {
	if (item.external) return item.id ? `made by hand (${item.id})` : "made by hand";
	const name = nameOf(item) ?? item.owner?.slice(0, 6);
	return name ? `${item.namespace ?? "?"}/${name}${item.instance ? ` #${item.instance}` : ""}` : item.namespace ?? "owner unknown";
}
const numberOf = (c) => c ? `controller ${c.number}` : "a controller that is gone";
const titleOf = (c) => `Controller ${c.number}`;
const calledOf = (c) => [c.name, c.label].filter(Boolean).join(" · ");
const fullNameOf = (c) => [titleOf(c), calledOf(c)].filter(Boolean).join(": ");

// A namespace's colour and its two letters: by hash, the next one where that is taken.
const COLOURS = 8, shades = new Map();
const hash = (text) => [...text].reduce((h, letter) => Math.imul(h ^ letter.codePointAt(0), 16777619) >>> 0, 2166136261) >>> 3;

function shadeOf(namespace) {
	const others = [...shades.values()];
	if (shades.has(namespace)) return shades.get(namespace);
	const words = namespace.split(/[^\p{L}\p{N}]+/u).filter(Boolean), letters = words.join("") || "?";
	const tags = [words.length > 1 ? words[0][0] + words.at(-1)[0] : letters.slice(0, 2), ...[...letters].map((letter) => letters[0] + letter)];
	let colour = hash(namespace) % COLOURS;
	const round = others.slice(others.length - others.length % COLOURS);
	while (round.some((other) => other.colour === colour)) colour = (colour + 1) % COLOURS;
	shades.set(namespace, {colour, tag: tags.find((tag) => others.every((other) => other.tag !== tag)) ?? letters[0] + others.length});
	return shades.get(namespace);
}
const colourOf = (item) => item.external ? "external" : item.namespace === undefined ? "nobody"
	: `c${shadeOf(item.namespace).colour} s${hash(item.owner ?? "") % 3}`;

// ---- masks and places ----

const COLUMNS = 16, CELL = 24, GAP = 4; // a machine has four IPUs, and a gap behind it
const left = (column) => column * CELL + (column >> 2) * GAP;

// A mask's 64 bits, the first IPU's first.
function bits(mask) {
	const high = parseInt(mask.slice(0, 8), 16), low = parseInt(mask.slice(-8), 16);
	return Array.from({length: 64}, (_, i) => (i < 32 ? low >>> i : high >>> i - 32) & 1);
}

const bitsOf = (place) => place.bits ??= bits(place.mask);

// Runs of what is set, as [first, how many].
function runs(list) {
	const found = [];
	list.forEach((one, i) => {
		if (one && i && list[i - 1]) found.at(-1)[1]++;
		else if (one) found.push([i, 1]);
	});
	return found;
}

// A run as rectangles: one a row, rows of the same width being one.
function boxes([first, length]) {
	const found = [];
	for (let at = first; at < first + length;) {
		const row = Math.floor(at / COLUMNS), end = Math.min((row + 1) * COLUMNS, first + length);
		const x = left(at % COLUMNS), width = left((end - 1) % COLUMNS) + CELL - x, last = found.at(-1);
		if (last && last.x === x && last.width === width) last.height += CELL;
		else found.push({x, y: row * CELL, width, height: CELL});
		at = end;
	}
	return found;
}

const path = (rectangles, inset) => rectangles.map((r) => `M${r.x + inset} ${r.y + inset}h${r.width - 2 * inset}` +
	`v${r.height - 2 * inset}h${2 * inset - r.width}z`).join("");
const positions = (mask) => runs(bits(mask)).map(([first, n]) => n === 1 ? `${first}` : `${first}–${first + n - 1}`).join(", ");
const placeOf = (p) => p.places.length ? p.places.map((place) => `domain ${place.domain}, ${positions(place.mask)}`).join("; ") : "not placed yet";

// ---- racks ----

const GLYPHS = {creating: "+", resetting: "↻", error: "!", releasing: "−", orphan: "?"};
const blocks = new Map(); // a partition's key → its nodes, one a place
const grid = $("#grid");
let wanted = Number(location.hash.slice(1)) || 16, current = null; // the size that is asked about, the block that Tab comes to

const takes = (c) => c.reach === "yes" && c.configured && !c.cordoned && !c.noReadyNode;
const fitsOf = (item, size) => item.fits?.[size] ?? 0;
const largestOf = (item) => Math.max(0, ...Object.keys(item.fits ?? {}).filter((size) => item.fits[size] > 0));

const racksInOrder = () => [...pod.controllers.values()].sort((a, b) => a.number - b.number);

const withLost = (racks) => [...racks, ...[...byController.keys()].filter((key) => !pod.controllers.has(key)).map((key) => ({key, lost: "their controller is not known"}))];

// Which racks there are; what is in them is drawn by and by.
function drawGrid() {
	const racks = withLost(racksInOrder());
	keep(grid, racks, (c) => c.key, rackNode, () => {});
	set(grid, "class", racks.length < 5 ? "few" : racks.length < 10 ? "some" : null);
	sayEmpty(racks);
}

function drawRack(key) {
	const node = grid.kept.get(key);
	if (node) updateRack(node, pod.controllers.get(key) ?? withLost([]).find((c) => c.key === key), byController.get(key) ?? []);
}

function rackNode(c) {
	dirty.racks.add(c.key);
	return make("article", {class: "rack", "data-controller": c.key}, make("h3", {}, make("span"), make("small")), make("p", {class: "marks"}),
		make("p", {class: "rack-fit"}), make("div", {class: "domains"}), make("div", {class: "foot"}, make("p"), make("div", {class: "chips"})));
}

// What keeps new partitions away from it, and what isn't known, in words.
const marksOf = (c) => c.lost ? [] : wordsFor({[`unreachable since ${clock(new Date(c.since))}`]: c.reach === "no", "not asked yet": c.reach === "unknown", "gone from the configuration": !c.configured,
	draining: c.draining, cordoned: c.cordoned && !c.draining, "without a ready node": c.noReadyNode, "positions unknown": !c.exact && c.reach !== "unknown"});

function updateRack(node, c, partitions) {
	const [title, marks, fit, domains, foot] = node.children, n = takes(c) ? fitsOf(c, wanted) : 0;
	const errors = partitions.filter((p) => p.state === "error").length;
	fill(node, {class: c.lost || takes(c) ? "rack" : "rack closed", "data-reach": c.reach, "data-marks": wordsFor({cordoned: c.cordoned, draining: c.draining, unconfigured: !c.lost && !c.configured, nonode: c.noReadyNode, inexact: !c.lost && !c.exact}).join(" ")});
	say(title.firstChild, c.lost ? "Elsewhere" : titleOf(c));
	say(title.lastChild, calledOf(c));
	set(node, "aria-label", c.lost ? "Elsewhere" : fullNameOf(c));
	say(fit, c.lost ? "" : n ? `${n} × ${wanted}` : `no ${wanted}`);
	set(fit, "class", n ? "rack-fit yes" : "rack-fit");
	set(say(marks, [errors && `${errors} in error`, ...marksOf(c)].filter(Boolean).join(" · ")), "class", errors ? "marks bad" : "marks");
	say(foot.firstChild, c.lost || c.reach !== "yes" && c.reason || `${c.usedIPUs} of ${c.totalIPUs} in use${c.externalIPUs ? ` · ${c.externalIPUs} by hand` : ""} · ${
		c.freeIPUs} free${c.reservedIPUs ? `, ${c.reservedIPUs} of them reserved for ${keptFor(c)}` : ""}`);
	const sizes = (c.domains ?? []).map((size, index) => ({size, index, alone: c.domains.length === 1}));
	keep(domains, sizes, (d) => `${d.index}/${d.size}`, (d) => domainNode(d, partitions), () => {});
	drawDomains(c, domains, partitions, n);
}

function domainNode({size, index, alone}, partitions) {
	const rows = Math.ceil(size / COLUMNS), cells = Array.from({length: size}, (_, i) => boxes([i, 1])[0]);
	for (const p of partitions) dirty.partitions.add(p.key); // they have a new home
	return make("figure", {class: "domain"}, make("figcaption", {class: alone ? "unseen" : null}, `IPU-Link domain ${index}`),
		draw("svg", {viewBox: `0 0 ${left(COLUMNS - 1) + CELL} ${rows * CELL}`, role: "group", "aria-label": `Domain ${index}, ${size} IPUs`},
			draw("path", {class: "cells", d: path(cells, 2.5)}), draw("path", {class: "fits"}), draw("g", {class: "fit-labels"}),
			draw("g"), draw("path", {class: "kept"}, draw("title"))));
}

const keptFor = (c) => list([...new Set((c.reserved ?? []).map((r) => pod.waiting.get(r.for)).filter(Boolean).map((item) => brief(who(item))))]) || "the queue's head";

// Free aligned blocks of the wanted size, as many as the daemon says; above 64, rows of whole domains.
function findFits(taken, sizes, n) {
	const span = Math.max(1, wanted / 64), size = Math.min(64, wanted), found = [];
	let row = [];
	taken.forEach((set, domain) => {
		for (let first = 0; first + size <= sizes[domain]; first += size) {
			row = set.slice(first, first + size).includes(1) ? [] : [...row, {domain, first, boxes: boxes([first, size])}];
			if (row.length === span) found.push(...row.splice(0));
		}
	});
	return found.slice(0, n * span);
}

function drawDomains(c, domains, partitions, n) {
	const sizes = c.domains ?? [], taken = sizes.map(() => new Array(64).fill(0)), kept = sizes.map(() => []);
	const take = (place) => bitsOf(place).forEach((bit, i) => bit && taken[place.domain] && (taken[place.domain][i] = 1));
	for (const p of partitions) p.places.forEach(take);
	for (const r of c.reserved ?? []) {
		take(r);
		kept[r.domain]?.push(...runs(bitsOf(r)).flatMap(boxes));
	}
	const found = c.exact ? findFits(taken, sizes, n) : [];
	sizes.forEach((_, d) => {
		const [, fits, labels, , outline] = domains.children[d].lastChild.children, here = found.filter((f) => f.domain === d);
		fill(fits, {d: path(here.flatMap((f) => f.boxes), 2), "data-fit": here.length ? wanted : null});
		set(outline, "d", path(kept[d], 2));
		say(outline.firstChild, `reserved for ${keptFor(c)}`);
		keep(labels, wanted < 2 ? [] : here, (f) => `${f.first}/${wanted}`, ({boxes: [b]}) =>
			draw("text", {x: b.x + b.width / 2, y: b.y + b.height / 2}), (node) => say(node, wanted < 8 ? String(wanted) : `room for ${wanted}`));
	});
}

// ---- blocks ----

// Words of racks in units of their drawing: 12 of 396, or more where a rack is small, so that they can be read.
let unit = 12;

function measure() {
	const width = grid.querySelector(".domain svg")?.clientWidth, rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
	const fitting = width ? Math.min(18, Math.max(12, Math.ceil(0.8 * rem * 396 / width))) : unit;
	if (fitting === unit) return;
	grid.style.setProperty("--unit", `${unit = fitting}px`);
	touchAll();
	plan();
}

// A block's words, as long as there's room for them.
function labelOf(p, width) {
	const glyph = GLYPHS[p.state] ?? "", tag = p.external ? "" : p.namespace === undefined ? "?" : shadeOf(p.namespace).tag;
	if (!width) return `${tag || "by hand"} ${glyph}`;
	if (width <= CELL) return unit > 13 ? glyph || tag : tag + glyph;
	const room = Math.floor((width - 10) / (0.62 * unit)) - (glyph ? 2 : 0);
	const words = p.external ? [p.id && `by hand: ${p.id}`, "by hand"] : [who(p), nameOf(p), p.namespace];
	return `${glyph} ${words.find((text) => text && text.length <= room) ?? tag}`.trim();
}

function updateBlocks(key) {
	const p = pod.partitions.get(key), had = blocks.get(key) ?? [];
	const rack = p && grid.kept.get(p.controller);
	const layers = rack ? p.places.map((place) => rack.children[3].children[place.domain]?.lastChild.children[3]) : [];
	const placed = layers.length > 0 && layers.every(Boolean);
	const homes = placed ? layers : rack ? [rack.querySelector(".chips")] : [];
	if (had.length !== homes.length || had.some((node, i) => node.parentNode !== homes[i])) {
		const made = homes.map((home, i) => {
			const node = placed ? draw("g", {role: "button", tabindex: -1}, draw("title"), draw("path"), draw("text")) : make("button", {tabindex: -1});
			node.at = placed && bitsOf(p.places[i]).indexOf(1);
			return home.insertBefore(node, [...home.children].find((other) => other.at > node.at) ?? null);
		});
		if (had.includes(current)) comeTo(made[0] ?? current, document.activeElement === current);
		for (const node of had) node.remove();
		blocks.set(key, made);
		if (!p) blocks.delete(key);
	}
	blocks.get(key)?.forEach((node, i) => updateBlock(node, p, placed ? p.places[i] : null));
	if (key === chosen) showDetails();
}

function updateBlock(node, p, place) {
	const words = `${who(p)}, ${ipus(p.ipus)}, ${p.state}, ${numberOf(pod.controllers.get(p.controller))}, ${placeOf(place ? {places: [place]} : p)}`;
	fill(node, {class: `block ${place ? "" : "chip "}${colourOf(p)}`, "data-partition": p.key, "data-state": p.state, "data-owner": p.owner,
		"data-namespace": p.namespace, "data-ipus": p.ipus, "data-external": p.external ? "" : null, "data-unplaced": place ? null : ""});
	if (!place) return void set(say(node, `${labelOf(p, 0)} ${p.ipus}`), "title", words);
	const [title, shape, text] = node.children;
	const all = runs(bitsOf(place)).flatMap(boxes);
	const widest = all.reduce((a, b) => b.width > a.width ? b : a, {x: 0, y: 0, width: 0, height: 0});
	say(title, words);
	set(shape, "d", path(all, 1.5));
	fill(say(text, labelOf(p, widest.width)), {x: widest.x + (widest.width <= CELL ? widest.width / 2 : 7), y: widest.y + widest.height / 2,
		class: widest.width <= CELL ? "tight" : null});
}

// One block at a time is reached by Tab; arrows go on from there.
function comeTo(node, focus) {
	if (current) set(current, "tabindex", -1);
	current = node;
	if (!node) return;
	node.focused = focus;
	set(node, "tabindex", 0);
	if (focus) node.focus();
}

// The nearest block on that side; one that is beside it counts as farther away.
function neighbour(node, key) {
	const all = [...grid.querySelectorAll(".block")], [near, far, start, end] = /Left|Right/.test(key) ? ["left", "right", "top", "bottom"] : ["top", "bottom", "left", "right"];
	if (key === "Home" || key === "End") return key === "Home" ? all[0] : all.at(-1);
	const from = node.getBoundingClientRect(), way = /Down|Right/.test(key) ? 1 : -1;
	const ranked = all.map((one) => {
		const to = one.getBoundingClientRect(), ahead = way * (to[near] + to[far] - from[near] - from[far]) / 2;
		return {one, ahead, cost: ahead + 8 * Math.max(0, to[start] - from[end] + 4, from[start] - to[end] + 4)};
	}).filter(({ahead}) => ahead > 2);
	return ranked.sort((a, b) => a.cost - b.cost)[0]?.one ?? node;
}

function listenToBlocks() {
	const blockAt = (event) => event.target.closest?.(".block");
	on(grid, "click", (event) => {
		if (!blockAt(event)) return;
		comeTo(blockAt(event), true);
		choose(current.dataset.partition);
	});
	on(grid, "keydown", (event) => {
		const node = blockAt(event);
		if (!node || event.ctrlKey || event.altKey || event.metaKey) return;
		if (event.key === "Enter" || event.key === " ") choose(node.dataset.partition);
		else if (/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) comeTo(neighbour(node, event.key), true);
		else return;
		event.preventDefault();
		if (chosen) choose(current.dataset.partition);
	});
	for (const kind of ["pointerover", "focusin"]) on(grid, kind, (event) => markOwner(blockAt(event)?.dataset.owner));
	on(grid, "pointerleave", () => markOwner());
	on(document, "keydown", (event) => event.key === "Escape" && choose(""));
	on($("#close"), "click", () => choose(""));
}

// All that one owner has stands out while one of its blocks is looked at.
function markOwner(owner) {
	for (const node of grid.querySelectorAll("[data-same]")) set(node, "data-same", null);
	for (const node of owner ? grid.querySelectorAll(`[data-owner="${CSS.escape(owner)}"]`) : []) set(node, "data-same", "");
}

let chosen = "", lastChosen; // the key, and what was known of it last

function choose(key) {
	const panel = $("#details"), inside = panel.contains(document.activeElement);
	for (const node of openers()) set(node, "aria-expanded", null);
	const from = openers()[0];
	set(panel, "data-details", (chosen = key) || null).hidden = !key;
	if (!key) return void (inside && from?.focus());
	showDetails();
	set(panel, "class", null);
	const block = openers()[0]?.getBoundingClientRect(), over = panel.getBoundingClientRect();
	if (block && block.bottom > over.top && block.left < over.right && block.right > over.left) set(panel, "class", "high");
}

// What stands for the one that is chosen: its blocks, or its row's button.
const openers = () => blocks.get(chosen) ?? [...$$(".rows button")].filter((node) => node.parentNode.key === chosen);

const podsOf = (p) => p.pods ?? (seen(p)?.pods ?? []).filter((one) => (one.instance ?? p.instance ?? 0) === (p.instance ?? 0));

function showDetails() {
	const here = pod.partitions.get(chosen) ?? [...queue, ...pod.steps].find((item) => keyOf(item) === chosen), p = lastChosen = here ?? lastChosen;
	if (!p) return;
	for (const node of openers()) set(node, "aria-expanded", "true");
	const c = pod.controllers.get(p.controller), pods = podsOf(p), kind = p.kind ?? seen(p)?.kind;
	const rows = [["Owner", [kind, who(p)].join(" ")], ["Owner's key", p.owner], ["Identifier", p.id], ["Size", sizeOf(p)],
		...p.n ? [["Step", `${p.step}, ${exact(new Date(p.time))}`], ["Controller", c && fullNameOf(c)], ["Why", p.message]]
		: !p.places ? waitingRows(p, here) : [["State", here ? p.state : `gone (it was ${p.state})`], ["Why", p.reason || /error|orphan/.test(p.state) && seen(p)?.message], ["Since", exact(new Date(p.since))],
		["Ends", p.external || !/active|resetting/.test(p.state) ? "" : p.endsBy ? `by ${exact(new Date(p.endsBy))} at the latest` : "no known end"],
		["Controller", c ? fullNameOf(c) : numberOf(c)], ["Place", placeOf(p)]]].filter((row) => row[1]);
	say($("#details-title"), `${who(p)}, ${sizeOf(p)}`);
	const [dl, title, ul] = $("#details [aria-live]").children;
	keep(dl, rows, (row) => row[0], (row) => make("div", {}, make("dt", {}, row[0]), make("dd")), (node, row) => say(node.lastChild, row[1]));
	title.hidden = ul.hidden = p.external === true || !p.places;
	const words = pods.length ? pods : [{name: kind === "Pod" ? "the Pod itself" : pod.mode === "full" || names.size ? "none that is known here" : "ipuctl ui shows them"}];
	keep(ul, words, (one) => one.name, () => make("li"), (node, one) => say(node, [one.name, one.phase, one.node && `on ${one.node}`].filter(Boolean).join(" · ")));
}

function answer() {
	const racks = racksInOrder(), n = fitsOf(pod.total, wanted), {freeIPUs: free, reservedIPUs: kept} = pod.total;
	const answering = racks.filter((c) => c.reach === "yes"), largest = Math.max(0, ...answering.map((c) => c.totalIPUs));
	const where = racks.filter((c) => fitsOf(c, wanted) > 0).map((c) => `${fitsOf(c, wanted)} on ${numberOf(c)}`);
	if (n > 0) return [`Yes, now: ${count(n, "place")}`, `${list(where.length > 6 ? [...where.slice(0, 5), `more on ${where.length - 5} others`] : where)}.`];
	if (!racks.length) return ["No", "no V-IPU controller is configured."];
	if (!answering.length) return ["Nobody knows", "no V-IPU controller answers."];
	if (wanted > largest) return ["No", `the largest controller that answers has ${ipus(largest)}.`];
	const most = largestOf(pod.total), fitting = most ? `the largest job that fits now has ${ipus(most)}` : "nothing fits now";
	const closed = racks.filter((c) => !takes(c) && (c.freeIPUs > 0 || c.reach === "no"));
	return ["Not now", `${ipus(free)} ${free === 1 ? "is" : "are"} free${kept ? `, ${kept} of them reserved for ${keptFor({reserved: racks.flatMap((c) => c.reserved ?? [])})}` : ""}; ${fitting}.${
		closed.length > 2 ? ` ${closed.length} controllers take nothing new.`
		: closed.length ? ` ${list(closed.map((c, i) => `${i ? numberOf(c) : titleOf(c)} is ${marksOf(c)[0]}`))}.` : ""}`];
}

function drawPicker() {
	const sizes = Object.keys(pod.total.fits ?? {}).map(Number).sort((a, b) => a - b);
	if (sizes.length && !sizes.includes(wanted)) wanted = sizes.findLast((size) => size <= wanted) ?? sizes[0];
	keep($("#sizes"), sizes, (size) => size, (size) => make("label", {"data-size": size},
		make("input", {type: "radio", name: "size", value: size}), make("b", {}, String(size)), make("small")), (node, size) => {
		const n = fitsOf(pod.total, size);
		node.firstChild.checked = size === wanted;
		set(node, "data-fits", n);
		say(node.lastChild, n ? `${n} ×` : "none");
	});
	const [head, rest] = answer(), node = set($("#answer"), "data-answer", head.startsWith("Yes") ? "yes" : "no");
	say(say(node.firstChild, head).nextSibling, ` – ${rest}`);
}

function drawTotals() {
	const numbers = {waiting: pod.total.waiting};
	for (const name of ["used", "external", "reserved", "free", "total"]) numbers[name] = pod.total[`${name}IPUs`];
	for (const node of $$("[data-total]")) say(node, String(numbers[node.dataset.total]));
	let from = 0; // each lies over those in front of it, so that none has another size
	for (const part of $("#bar").children) {
		part.style.transform = `translateX(${100 * from / Math.max(1, numbers.total)}%)`;
		from += numbers[part.className];
	}
	const open = racksInOrder().filter(takes).reduce((sum, c) => sum + c.freeIPUs - c.reservedIPUs, 0);
	say($("#open"), open === numbers.free ? "" : ` · ${open} to have now`);
	const asked = [...pod.waiting.values()].reduce((sum, item) => sum + item.ipus, 0);
	say($("#wanted"), asked ? `for ${ipus(asked)}` : "");
	const held = Math.max(pod.total.held ?? 0, queue.filter((item) => !isQueued(item)).length);
	say($("#held"), held ? `${held} held, not in the queue` : pod.total.held === undefined && !names.size ? "suspended jobs are not known here" : "");
	say($("title"), `${numbers.free} free, ${numbers.waiting} waiting – IPUs`);
}

function sayEmpty(racks) {
	const node = $("#racks-empty"), silent = racks.length > 0 && racks.every((c) => c.reach !== "yes");
	node.hidden = racks.length > 0 && !silent;
	say(node, silent ? "No V-IPU controller answers: this was known last. Jobs that run go on."
		: "No V-IPU controller is configured. Name one (in the chart: vipuControllers), and its rack stands here.");
}

// ---- the whole of it ----

// A table a rack, as what isn't to be seen needn't be laid out (page.css).
function tableOfRacks() {
	const most = {n: 2 * ROWS_AT_ONCE}, racks = racksInOrder();
	let more = false;
	keepRows($("#racks-table tbody"), racks, (c) => [fullNameOf(c), marksOf(c).join(", ") || "reachable",
		c.totalIPUs, c.usedIPUs, c.externalIPUs, c.freeIPUs, c.reservedIPUs ? `${c.reservedIPUs} for ${keptFor(c)}` : 0, largestOf(c)]);
	keep($("#tables"), withLost(racks), (c) => c.key, () => make("div", {class: "lazy"}, make("table", {}, make("caption"), make("thead", {},
		make("tr", {}, ...["Owner", "IPUs", "State", "Place", "Since"].map((name) => make("th", {scope: "col"}, name)))), make("tbody"))), (node, c) => {
		const [caption, , body] = node.firstChild.children, partitions = byController.get(c.key) ?? [];
		say(caption, `${c.lost ? "Elsewhere" : fullNameOf(c)}: ${count(partitions.length, "partition")}`);
		node.hidden = !partitions.length;
		node.style.setProperty("--n", partitions.length);
		more = most.n <= 0 || keepRows(body, partitions, (p) => [who(p), p.ipus, p.state, placeOf(p), exact(new Date(p.since))], most) || more;
	});
	return more;
}

function sayAbout() {
	const t = new Date(pod.since), whole = now() - t > 86400000;
	for (const node of $$("[data-since]"))
		set(say(node, whole ? "in the last 24 hours" : `since ${clock(t)}, when this process started`), "title", `${exact(t)}; another replica, which may answer after a reload, has its own`);
	say($("#about"), `ipu-operator ${pod.version} · ${pod.mode === "full" ? "jobs and Pods are named"
		: names.size ? `jobs that you may see are named${limits && `; ${limits}`}` : "owners are keys; ipuctl ui names those that you may see"}`);
}

// In this order; the sums are last, when all that they are of is drawn.
const PARTS = [["queue", drawQueue], ["usage", drawUsage], ["steps", drawSteps], ["about", sayAbout], ["hours", drawHours], ["table", drawTable], ["totals", drawSums]];
const DRAW_MS = 2; // a frame; what is left then is drawn in the next one

function drawTable() {
	return !$("#racks-table").hidden && tableOfRacks();
}

function drawSums() {
	if (!current?.isConnected) comeTo(grid.querySelector(".block"), current?.focused && document.activeElement === document.body);
	drawTotals();
	drawPicker();
	if (pointed === null) $("#chart svg")?.onpointerleave();
	if (pod.history.points.length < 15) drawHours();
}

// One thing that is to be drawn: false where there is none. A part with many rows has a frame for itself, and its rest the next one.
function drawNext(rest) {
	if (dirty.parts.delete("grid")) return drawGrid(), true;
	for (const [keys, drawOne] of [[dirty.racks, drawRack], [dirty.partitions, updateBlocks]])
		for (const key of keys) return keys.delete(key), drawOne(key), true;
	const part = PARTS.find(([name]) => dirty.parts.delete(name));
	if (part?.[1]()) rest.add(part[0]);
	return Boolean(part);
}

function redraw() {
	const end = performance.now() + DRAW_MS, rest = new Set();
	planned = false;
	if (!pod.known) return;
	while (drawNext(rest))
		if (rest.size || performance.now() > end) break;
	for (const name of rest) dirty.parts.add(name);
	const more = dirty.racks.size + dirty.partitions.size + dirty.parts.size > 0;
	set($("main"), "aria-busy", more);
	if (more) plan();
}

function listenToControls() {
	on(document, "change", ({target}) => {
		if (target.name === "size") history.replaceState(null, "", `#${wanted = Number(target.value)}`);
		else range = Number(target.value);
		for (const key of pod.controllers.keys()) dirty.racks.add(key);
		plan("totals", "hours");
	});
	for (const button of $$("button[data-table]")) on(button, "click", () => {
		const shown = button.getAttribute("aria-pressed") !== "true", name = button.dataset.table;
		set(button, "aria-pressed", shown);
		$(`#${name}-table`).hidden = !shown;
		$(name === "racks" ? "#grid" : "#chart").hidden = shown;
		plan(name === "racks" ? "table" : name);
	});
	new ResizeObserver(() => plan("hours")).observe($("#chart"));
	new ResizeObserver(measure).observe(grid);
	setInterval(tick, 1000);
}

// ---- the connection ----

const ASK_MS = 5000, SILENT_MS = 22000, FIRST_MS = 20000, TRY_EVENTS_MS = 60000, MOST_BYTES = 32 << 20;
let heardAt = Date.now(), wake = () => {}, stop = () => {};

function connection(state, words) {
	const node = $("#status");
	if (state !== "away") heardAt = Date.now();
	set(node, "data-connection", state);
	document.body.className = state;
	if (state !== "away" || !node.said?.startsWith("No answer")) say(node, words);
}
const away = (why = "") => connection("away", `No answer since ${new Date(heardAt).toLocaleTimeString()}${why}; trying again`);

const pause = (ms) => new Promise((resolve) => {
	const timer = setTimeout(resolve, ms);
	wake = () => { clearTimeout(timer); resolve(); };
});

// Reads events until they end. Returns after how many ms to try again; throws when nothing answers.
async function followEvents() {
	const control = new AbortController();
	let silence = setTimeout(() => control.abort(), FIRST_MS), rest = "", heard = false;
	stop = () => control.abort();
	try {
		const headers = pod.id ? {"Last-Event-ID": pod.id} : {};
		const answer = await fetch("live/events", {headers, cache: "no-store", signal: control.signal});
		if (answer.status === 503) return ASK_MS;
		if (answer.status === 404 || answer.ok && !(answer.body && answer.headers.get("content-type")?.startsWith("text/event"))) return TRY_EVENTS_MS;
		if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
		for (const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();;) {
			const {done, value} = await reader.read();
			if (done) return heard ? 0 : TRY_EVENTS_MS;
			clearTimeout(silence);
			silence = setTimeout(() => { away(); control.abort(); }, SILENT_MS);
			if (!heard) connection("live", "Live");
			heard = true;
			heardAt = Date.now();
			const frames = (rest + value).split("\n\n");
			rest = frames.pop();
			if (rest.length > MOST_BYTES) throw new Error("an event that has no end");
			for (const frame of frames) {
				const [event, id, data] = ["event", "id", "data"].map((field) => frame.match(new RegExp(`^${field}: ?(.*)$`, "m"))?.[1]);
				if (event === "bye") return 0;
				if (event === "snapshot") takeSnapshot(JSON.parse(data));
				if (event === "change") takeChange(JSON.parse(data));
				pod.id = id ?? pod.id;
			}
		}
	} catch (error) {
		if (error instanceof SyntaxError) pod.id = ""; // an event that makes no sense: all of it again
		if (!heard && !control.signal.aborted) throw error;
		return heard ? 0 : TRY_EVENTS_MS; // something on the way keeps them to itself
	} finally {
		clearTimeout(silence);
		control.abort();
	}
}

async function ask() {
	const headers = pod.id ? {"If-None-Match": `"${pod.id}"`} : {};
	const answer = await fetch("live", {headers, cache: "no-store", signal: AbortSignal.timeout(ASK_MS * 2)});
	if (answer.status !== 304 && !answer.ok) throw new Error(`HTTP ${answer.status}`);
	if (answer.ok) takeSnapshot(await answer.json());
	connection("asking", "Asking every 5 s: no events come through");
}

// Events where they can be had; else asking, with a try now and then.
async function stayConnected() {
	for (let failures = 0, eventsAt = 0;;) {
		try {
			const later = Date.now() >= eventsAt && await followEvents();
			if (later === 0) await pause(100 + 400 * Math.random());
			else {
				if (later) eventsAt = Date.now() + later;
				await ask();
				await pause(ASK_MS);
			}
			failures = 0;
		} catch (error) {
			away(error.message.startsWith("HTTP") ? ` (${error.message})` : "");
			eventsAt = 0;
			await pause(Math.min(10000, 500 * 2 ** failures++) * (0.5 + Math.random()));
		}
	}
}

async function learnNames() {
	for (let said = "", more = true; more; await new Promise((resolve) => setTimeout(resolve, ASK_MS))) {
		const answer = document.hidden ? null : await fetch("names", {cache: "no-store"}).catch(() => null);
		if (answer?.status === 404) return;
		const told = answer?.ok ? await answer.json().catch(() => null) : null, text = JSON.stringify(told);
		if (!told || text === said) continue; // who doesn't answer is asked again
		said = text;
		more = told.names;
		names = new Map(told.items.map((item) => [item.owner + item.namespace, item]));
		limits = told.limited ?? "";
		touchAll();
		plan("queue", "steps", "about", "table", "totals");
	}
}

function comeBack() {
	if (document.hidden) return;
	tick();
	if (Date.now() - heardAt > SILENT_MS) stop();
	wake();
}

listenToBlocks();
listenToRows($("#waiting"));
listenToRows($("#happened"));
listenToControls();
on(document, "visibilitychange", comeBack);
on(window, "online", comeBack);
stayConnected();
learnNames();
