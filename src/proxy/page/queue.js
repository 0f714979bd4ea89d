// SPDX-License-Identifier: Apache-2.0
//
// The live page's queue, namespaces and steps: rows that have their place by a transform, so that nothing is laid
// out anew, or jumps, when one comes or goes. Served in front of page.js, as one module with it (src/proxy/local.mk).

const REASONS = {WaitingForIPUs: "No room", WaitingInQueue: "Kept for one ahead", QuotaExceeded: "Quota", HeldByKueue: "Held by Kueue", NotRunning: "Not running yet", NoIPUoFConfig: "No IPUoF configuration"};
const reasonOf = (word) => REASONS[word] ?? word.replace(/\B[A-Z](?=[a-z])/g, (letter) => ` ${letter.toLowerCase()}`);

// When it's its turn, as far as that is known. An end is when a job ends at the latest, so it never says that something isn't before.
function turnOf({reason, quota, startsBy, ipus: size}, isKept, place) {
	const over = quota && Math.max(0, quota.used + size - quota.limit);
	if (!startsBy) return reason === "TooLarge" || over && size > quota.limit ? `never, with ${over ? "this quota" : "these controllers"}`
		: over ? `when its namespace gives back ${ipus(over)}` : isKept ? "when its block is free" : place ? "behind those ahead, or in a gap" : "not known";
	const at = new Date(startsBy);
	return at <= now() ? "any minute now" : `by ${clock(at)}${at - now() > 864e5 ? ` on ${at.toLocaleDateString()}` : ""} at the latest`;
}
const wordsOf = (item) => (!item.name && seen(item)?.message) || item.message || "no more is known";
const asOf = (item) => item.asOf ? ` (as of ${second(new Date(item.asOf))})` : "";

// The rows: the queue, then what is held; those have no instance.
let queue = [];
const isQueued = (item) => item.instance !== undefined;
const keyOf = (item) => item.n ? `s${item.n}` : item.key;

// Jobs that neither run nor are in the queue (which is what has no state), nor are just being given IPUs, as far as the operator tells, or may be seen; the newest first.
function heldJobs() {
	const asking = new Set([...pod.waiting.values(), ...pod.partitions.values()].filter((item) => /^(u|c|res)/.test(item.state)).map((item) => item.owner));
	const found = new Map([...pod.held.values()].map((item) => [item.owner + item.namespace, item]));
	for (const [key, item] of names) if (item.held) found.set(key, {...item, ...item.held, key: item.owner});
	return [...found.values()].filter((item) => !asking.has(item.owner)).sort((a, b) => a.since < b.since ? 1 : -1);
}

const waitingRows = (item, here) => [["Place", !here ? "it waits no more" : isQueued(item) ? `${queue.indexOf(item) + 1} of ${pod.order.length}` : "not in the queue"],
	["Since", exact(new Date(item.since))], ["Why", `${reasonOf(item.reason)} – ${wordsOf(item)}${asOf(item)}`], ["Its turn", here && isQueued(item) && turnOf(item, keptBlocks().has(item.key), queue.indexOf(item))],
	["Kept", here && keptBlocks().get(item.key)?.where], ["Quota", item.quota && `${item.quota.used} of ${ipus(item.quota.limit)} in use`], ["Priority", item.priority?.toString()]];

const tagNode = () => make("i", {class: "tag", "aria-hidden": "true"});
const sayTag = (node, item) => set(say(node, item.namespace ? shadeOf(item.namespace).tag : ""), "class", `tag ${item.namespace ? colourOf(item) : "nobody"}`);

function queueRow(item) {
	return make("li", {[isQueued(item) ? "data-waiting" : "data-held"]: item.key}, make("b", {class: "position"}),
		make("button", {class: "who", tabindex: -1}, tagNode(), make("span")), make("b", {class: "size"}),
		make("p", {class: "why"}, make("b"), " – ", make("small", {class: "unseen"}), make("span")),
		make("p", {class: "quota", hidden: ""}, make("span", {class: "meter", "aria-hidden": "true"}, make("i")), make("span")),
		make("p", {class: "ahead"}, make("span"), " · waits ", make("time"), make("span")));
}

const ROWS_AT_ONCE = 8; // that are made or moved in a frame: a whole namespace's jobs may go at once

// The blocks that are kept for some, by their keys: how large, and in words.
function keptBlocks() {
	const kept = new Map();
	for (const c of racksInOrder()) for (const r of c.reserved ?? []) {
		const size = bits(r.mask).filter(Boolean).length + (kept.get(r.for)?.size ?? 0), free = Math.min(size, c.reservedIPUs);
		kept.set(r.for, {size, where: `${size} kept on ${numberOf(c)}, ${free} free`});
	}
	return kept;
}

function drawQueue() {
	const items = queue = [...pod.order.map((key) => pod.waiting.get(key)), ...heldJobs()], kept = keptBlocks();
	let heads = items.filter((item) => kept.has(item.key)), ahead = 0, position = 0;
	const list = $("#waiting"), said = new Map();
	list.style.setProperty("--n", items.length);
	const more = keep(list, items, (item) => item.key, queueRow, (node, item) => {
		const [place, owner, size, why, quota, last] = node.children, queued = isQueued(item);
		node.key = item.key;
		if (node.at !== position) node.style.setProperty("--at", node.at = position);
		position++;
		fill(node, {"data-position": queued ? position : null, "data-reason": item.reason});
		say(place, queued ? String(position) : "–");
		say(sayTag(owner.firstChild, item).nextSibling, who(item));
		say(size, sizeOf(item));
		say(why.firstChild, item.reason === "WaitingInQueue" && heads.length === 1 && heads[0] !== item
			? `Kept for ${items.indexOf(heads[0]) + 1}, ${brief(who(heads[0]))}` : reasonOf(item.reason));
		const words = wordsOf(item);
		const known = words.match(/^waiting for \d+ IPUs?(, place \d+ in the queue)?: /)?.[0] ?? ""; // stands above already
		say(why.children[1], known);
		// Behind the first clause, what has been said of another one, such as why a controller is away, isn't said again.
		const clauses = words.slice(known.length).split("; "), news = clauses.filter((clause, i) => !i || (said.get(clause) ?? position) === position);
		for (const clause of clauses) if (!said.has(clause)) said.set(clause, position);
		say(why.lastChild, [...news, news.length < clauses.length && `the rest as with ${said.get(clauses.find((clause) => !news.includes(clause)))}`].filter(Boolean).join("; ") + asOf(item));
		quota.hidden = !item.quota;
		if (item.quota) {
			say(quota.lastChild, `${item.quota.used} of ${ipus(item.quota.limit)} in use`);
			quota.firstChild.firstChild.style.width = `${Math.min(100, 100 * item.quota.used / Math.max(1, item.quota.limit))}%`;
		}
		const line = position === 1 ? "first in line" : `${position - 1} ahead, for ${ipus(ahead)}`;
		say(last.firstChild, queued ? `its turn: ${turnOf(item, kept.has(item.key), position - 1)}` : "not in the queue");
		sayTime(last.children[1], item.since, true);
		say(last.lastChild, queued ? ["", `priority ${item.priority}`, kept.get(item.key)?.where ?? (/^(Quota|Policy|TooL)/.test(item.reason) ? "" : line)].filter((text, i) => !i || text).join(" · ") : "");
		ahead += item.ipus;
	}, {n: ROWS_AT_ONCE});
	$("#queue-empty").hidden = items.length > 0;
	offer(list);
	if (chosen && !blocks.has(chosen)) showDetails();
	return more;
}

// One row at a time is reached by Tab; arrows go on from there.
function offer(list) {
	if (list.firstChild && !list.querySelector("[tabindex='0']")) set(list.querySelector("button"), "tabindex", 0);
}

function listenToRows(list) {
	const come = (row) => {
		for (const node of list.querySelectorAll("[tabindex='0']")) set(node, "tabindex", -1);
		set(row.querySelector("button"), "tabindex", 0).focus();
	};
	on(list, "click", (event) => {
		const row = event.target.closest("li");
		if (row) come(row);
		if (row) choose(row.key);
	});
	on(list, "keydown", (event) => {
		const row = event.target.closest("li"), to = {ArrowDown: row?.nextSibling, ArrowUp: row?.previousSibling, Home: list.firstChild, End: list.lastChild}[event.key];
		if (!/^(Arrow(Up|Down)|Home|End)$/.test(event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
		event.preventDefault();
		if (!to) return;
		come(to);
		if (chosen) choose(to.key);
	});
}

function drawUsage() {
	const rows = new Map(pod.usage.map(({namespace, ipuHours}) => [namespace, {namespace, hours: ipuHours, ipus: 0}]));
	for (const {namespace, ipus} of pod.partitions.values()) {
		if (namespace === undefined) continue;
		if (!rows.has(namespace)) rows.set(namespace, {namespace, hours: 0, ipus: 0});
		rows.get(namespace).ipus += ipus;
	}
	const sorted = [...rows.values()].sort((a, b) => (a.namespace === "") - (b.namespace === "") || b.hours - a.hours || (a.namespace < b.namespace ? -1 : 1));
	keep($("#usage"), sorted, (row) => row.namespace, (row) => make("tr", {"data-usage": row.namespace},
		make("th", {scope: "row"}, tagNode(), make("span")), make("td", {class: "n"}), make("td", {class: "n"})), (node, row) => {
		const [name, size, share] = node.children;
		say(sayTag(name.firstChild, row).nextSibling, row.namespace || "all others");
		say(size, row.namespace ? String(row.ipus) : "");
		say(share, row.hours.toFixed(row.hours < 1 ? 2 : row.hours < 100 ? 1 : 0));
	});
	$("#usage").parentNode.hidden = !($("#usage-empty").hidden = sorted.length > 0);
}

function drawSteps() {
	const list = $("#happened"), newest = pod.steps.at(-1)?.n ?? 0, base = list.base ??= newest;
	list.style.setProperty("--n", newest - base);
	const more = keep(list, [...pod.steps].reverse(), (step) => step.n, (step) => make("li", {"data-step": step.n}, make("time"),
		make("b", {class: `step ${step.step}`}, step.step), make("button", {class: "who", tabindex: -1}), make("small")), (node, step) => {
		node.key = keyOf(step);
		if (node.at !== step.n) node.style.setProperty("--at", (node.at = step.n) - base);
		sayTime(node.firstChild, step.time, false);
		say(node.children[2], who(step));
		say(node.lastChild, [ipus(step.ipus), step.controller && numberOf(pod.controllers.get(step.controller)), step.message].filter(Boolean).join(" · "));
	}, {n: ROWS_AT_ONCE});
	$("#steps-empty").hidden = pod.steps.length > 0;
	offer(list);
	return more;
}

