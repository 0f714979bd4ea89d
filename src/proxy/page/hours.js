// SPDX-License-Identifier: Apache-2.0
//
// The live page's last hours: a chart, what is under the mouse in words, and a table. Served in front of
// page.js, as one module with it (src/proxy/local.mk).

// By the minutes shown: those between the axis' times, and between a table's rows.
const RANGES = {15: [3, 1], 60: [10, 5], 360: [60, 30], 1440: [240, 120]};
const SERIES = [["used", "In use"], ["external", "By hand"], ["reserved", "Reserved"], ["free", "Free, not reserved"], ["waiting", "Waiting"]];
const HIGH = 170, QUEUE = 46, TOP = 8, SIDE = 44;
let range = 360, pointed = null; // minutes; the slot under the mouse, counted from the present one

// A point in the order that it's drawn in; what is reserved is no longer free.
const layersOf = (point) => point && [point[0], point[2], point[1], Math.max(0, point[3] - point[1]), point[4]];
const present = () => layersOf([pod.total.usedIPUs, pod.total.reservedIPUs, pod.total.externalIPUs, pod.total.freeIPUs, pod.total.waiting]);
const timeOf = (fromNewest) => new Date(Date.parse(pod.history.end) - fromNewest * pod.history.period * 1000);

// At first as much as there is something of.
function fitRange(points) {
	range = points < 15 ? 15 : points < 60 ? 60 : 360;
	$(`[name=range][value="${range}"]`).checked = true;
}

// A point is the mean of its minute, a step as wide as that; behind the last one is what is now.
function drawHours() {
	const chart = $("#chart"), width = Math.max(240, chart.clientWidth), {period, end} = pod.history;
	if (!chart.firstChild) {
		chart.append(draw("svg", {role: "img"}, ...SERIES.map(([name]) => draw("path", {class: `area ${name}`})), draw("g", {class: "axis"})));
		$("#readout").append(make("time"), ...SERIES.map(([name, words]) => make("span", {}, make("i", {class: `key ${name}`}), words, make("b"))));
	}
	const svg = chart.firstChild, slots = range * 60 / period, wide = width - SIDE - 8;
	const ended = pod.history.points.slice(1 - slots).map(layersOf), points = [...ended, present()];
	const known = points.filter(Boolean), stretches = runs(points); // null is where nothing was known
	const most = Math.max(4, pod.total.totalIPUs, ...known.map((p) => p[0] + p[1] + p[2] + p[3])), longest = Math.ceil(Math.max(4, ...known.map((p) => p[4])));
	const x = (i) => SIDE + wide * (1 - (points.length - 1 - i) / slots), base = TOP + HIGH, floor = base + 14 + QUEUE;
	const sums = points.map(() => 0);
	SERIES.forEach(([name], s) => {
		const y = (value) => (name === "waiting" ? floor - QUEUE * value / longest : base - HIGH * value / most).toFixed(1);
		const below = name === "waiting" ? sums.map(() => 0) : [...sums];
		const upper = points.map((p, i) => p && (name === "waiting" ? p[s] : sums[i] += p[s]));
		const steps = (values, [first, n]) => values.slice(first, first + n).map((value, i) => [`${x(first + i - 1).toFixed(1)} ${y(value)}`, `${x(first + i).toFixed(1)} ${y(value)}`]).flat();
		set(svg.children[s], "d", stretches.map((run) => `M${steps(upper, run).join("L")}L${steps(below, run).reverse().join("L")}Z`).join("") || "M0 0");
	});
	fill(svg, {viewBox: `0 0 ${width} ${floor + 20}`, "aria-label": `IPUs and the queue's length over the last ${range < 60 ? `${range} minutes` : count(range / 60, "hour")}`});
	const marks = [[0, base], [most, TOP], [Math.round(most / 2), base - HIGH / 2], [longest, floor - QUEUE]].map(([n, y], i) =>
		({key: `y${i}`, text: Math.round(n), x: SIDE - 6, y, line: `M${SIDE} ${y}H${width - 8}`, side: "side"}));
	const step = RANGES[range][0] * (width < 480 ? 120000 : 60000), zone = new Date().getTimezoneOffset() * 60000, last = Date.parse(end);
	for (let t = Math.floor((last - zone) / step) * step + zone; t > last - range * 60000 && end; t -= step) {
		const at = x(ended.length - 1 - (last - t) / period / 1000);
		if (at > SIDE + 16) marks.push({key: t, text: clock(new Date(t)), x: Math.min(at, width - 24), y: floor + 14, line: `M${at} ${TOP}V${floor}`});
	}
	const before = x(-1) - SIDE;
	if (before > 200) marks.push({key: "before", text: `not known before ${clock(new Date(pod.since))}`, x: SIDE + before / 2, y: TOP + HIGH / 4, line: "M0 0"});
	keep(svg.lastChild, marks, (mark) => mark.key, () => draw("g", {}, draw("path"), draw("text")), (node, mark) => {
		set(node.firstChild, "d", mark.line);
		fill(say(node.lastChild, mark.text), {x: mark.x, y: mark.y, class: mark.side});
	});
	readOut(points);
	svg.onpointermove = (event) => readOut(points, Math.floor((width - 8 - (event.clientX - svg.getBoundingClientRect().left)) / wide * slots));
	svg.onpointerleave = () => readOut(points, null);
	if (!$("#hours-table").hidden) tableOfHours(ended);
}

// The line above the chart: what was at the time that the mouse is at, else now.
function readOut(points, at = pointed) {
	pointed = at > 0 && at < points.length ? at : null;
	const node = $("#readout").children, values = pointed === null ? present() : points[points.length - 1 - pointed];
	say(node[0], pointed === null ? "now" : clock(timeOf(pointed - 1)));
	SERIES.forEach((_, s) => say(node[s + 1].lastChild, values ? String(Math.round(values[s] || 0)) : "–"));
}

function tableOfHours(points) {
	const size = Math.ceil(RANGES[range][1] * 60 / pod.history.period), rows = [];
	for (let to = points.length; to > 0; to -= size) {
		const some = points.slice(Math.max(0, to - size), to).filter(Boolean);
		const mean = (i) => some.length ? (some.reduce((sum, p) => sum + p[i], 0) / some.length).toFixed(1) : "–";
		const at = timeOf(points.length - to);
		rows.push({key: at.getTime(), cells: [clock(at), mean(0), mean(2), mean(1), mean(3), mean(4)]});
	}
	keepRows($("#hours-table tbody"), rows, (row) => row.cells);
}

