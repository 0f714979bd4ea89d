// SPDX-License-Identifier: Apache-2.0
//
// Drives Chromium for the tests of the live page: takes commands on standard input, a JSON object a line
// ({"id", "do", …}), and answers each with one ({"id", "result"} or {"id", "error"}). Ends, and Chromium
// with it, when its input ends. t/lib/Browser.pm is the other side.

import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Upstream } from './upstream.mjs';

const env = process.env;
const require = createRequire(env.IPU_PAGE_MODULES + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core'), 'utf8');
const look = readFileSync(new URL('look.js', import.meta.url), 'utf8');
const pause_ms = 50;

let browser;
const pages = new Map(); // by name: {page, context, faults, requests}
const upstreams = new Map();

async function launch() {
	browser = await chromium.launch({
		executablePath: new URL('browser', import.meta.url).pathname,
		chromiumSandbox: process.getuid() !== 0, // root can't have one
		timeout: 180000,
		args: [
			'--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', // nothing leaves this machine
			'--font-render-hinting=none',
			'--force-color-profile=srgb',
		],
	});
	return browser.version();
}

// What a page must not do is kept as a line of text each.
function watch(name, page) {
	const kept = { page, context: page.context(), faults: [], requests: [] };
	const fault = (kind, text) => kept.faults.push(`${kind}: ${text}`);
	page.on('console', message => {
		if (['error', 'warning', 'assert'].includes(message.type()))
			fault(`console ${message.type()}`, `${message.text()} (${message.location().url})`);
	});
	page.on('pageerror', error => fault('uncaught', error.stack || String(error)));
	page.on('dialog', dialog => {
		fault('dialog', dialog.message());
		dialog.dismiss().catch(() => {});
	});
	page.on('crash', () => fault('crash', 'the page has crashed'));
	page.on('popup', popup => fault('popup', popup.url()));
	page.on('download', download => fault('download', download.url()));
	page.on('request', request => {
		kept.requests.push(`${request.method()} ${request.url()}`);
		if (new URL(request.url()).origin !== kept.origin && !request.url().startsWith('data:'))
			fault('request to another place', request.url());
	});
	pages.set(name, kept);
	return kept;
}

async function open({ page: name, url, width = 1280, height = 900, dark = false, reduced = false, script = true, clock = false }) {
	await pages.get(name)?.context.close();
	const context = await browser.newContext({
		viewport: { width, height },
		colorScheme: dark ? 'dark' : 'light',
		reducedMotion: reduced ? 'reduce' : 'no-preference',
		javaScriptEnabled: script,
		locale: 'en-GB',
		timezoneId: 'UTC',
	});
	if (clock) // leaps when it's told to, and goes on from there
		await context.clock.install();
	await context.addInitScript({ content: look });
	const kept = watch(name, await context.newPage());
	kept.origin = new URL(url).origin;
	const answer = await kept.page.goto(url, { waitUntil: 'load', timeout: 180000 });
	return { status: answer.status(), headers: answer.headers() };
}

// Polls until the expression is true; not by animation frames, which a page that isn't in front has few of.
async function wait_for(page, { expression, seconds = 90 }) {
	const end = Date.now() + seconds * 1000;
	for (;;) {
		const result = await page.evaluate(expression);
		if (result)
			return result;
		if (Date.now() > end)
			throw new Error(`waited ${seconds} s in vain for ${expression}`);
		await new Promise(resolve => setTimeout(resolve, pause_ms));
	}
}

// A picture's size, and the mean colours of the fields of a grid over it.
async function grid_of({ path, columns = 8, rows = 6 }) {
	const context = await browser.newContext();
	try {
		const page = await context.newPage();
		return await page.evaluate(async ({ data, columns, rows }) => {
			const bitmap = await createImageBitmap(await (await fetch(data)).blob());
			const canvas = new OffscreenCanvas(columns, rows);
			const brush = canvas.getContext('2d');
			brush.imageSmoothingQuality = 'high';
			brush.drawImage(bitmap, 0, 0, columns, rows);
			const colours = [...brush.getImageData(0, 0, columns, rows).data].filter((_, i) => i % 4 !== 3);
			return { width: bitmap.width, height: bitmap.height, colours };
		}, { data: `data:image/png;base64,${readFileSync(path).toString('base64')}`, columns, rows });
	} finally {
		await context.close();
	}
}

// What axe-core has to say, a line a finding, those first that keep people out; unsure: what it can't decide.
async function judge(page, { rules, unsure = false }) {
	await page.evaluate(axe);
	const result = await page.evaluate(options => globalThis.axe.run(document, options),
		{ resultTypes: ['violations', 'incomplete'], rules: rules ?? {} });
	return result[unsure ? 'incomplete' : 'violations'].map(({ id, impact, help, nodes }) => ({
		id, impact, help, targets: nodes.map(node => node.target.join(' ')),
		nodes: nodes.slice(0, 5).map(node => `${node.target.join(' ')}: ${node.failureSummary.split('\n').slice(1).join('; ').trim()}`),
	}));
}

function upstream(name) {
	const found = upstreams.get(name);
	if (!found)
		throw new Error(`there is no upstream ${name}`);
	return found;
}

// Milliseconds of a processor that the page's thread has used so far, whoever else uses the machine.
const sessions = new WeakMap();
async function cpu(page) {
	if (!sessions.has(page)) {
		sessions.set(page, await page.context().newCDPSession(page));
		await sessions.get(page).send('Performance.enable', { timeDomain: 'threadTicks' });
	}
	const { metrics } = await sessions.get(page).send('Performance.getMetrics');
	return 1000 * metrics.find(({ name }) => name === 'TaskDuration').value;
}

// What each of these takes of a processor: the expression, then animation frames (look.hold) until there are no more.
async function stretches(page, { expression }) {
	const found = [];
	for (let before = await cpu(page), more = await page.evaluate(expression); ; more = await page.evaluate('look.frame()')) {
		const after = await cpu(page);
		found.push(after - before);
		if (!more)
			return found;
		before = after;
	}
}

const of_page = {
	cpu,
	stretches,
	eval: (page, { expression }) => page.evaluate(expression),
	wait: wait_for,
	press: (page, { key, times = 1 }) => times <= 1 ? page.keyboard.press(key)
		: page.keyboard.press(key).then(() => of_page.press(page, { key, times: times - 1 })),
	click: (page, { selector }) => page.locator(selector).first().click({ timeout: 90000 }),
	hover: (page, { selector }) => page.locator(selector).first().hover({ timeout: 90000 }),
	shot: (page, { path, selector, full = false }) => selector
		? page.locator(selector).first().screenshot({ path, animations: 'disabled', scale: 'css' })
		: page.screenshot({ path, fullPage: full, animations: 'disabled', caret: 'hide', scale: 'css' }),
	axe: judge,
	size: (page, { width, height }) => page.setViewportSize({ width, height }),
	media: (page, { dark, reduced, forced }) => page.emulateMedia({
		...(forced === undefined ? {} : { forcedColors: forced ? 'active' : 'none' }),
		...(dark === undefined ? {} : { colorScheme: dark ? 'dark' : 'light' }),
		...(reduced === undefined ? {} : { reducedMotion: reduced ? 'reduce' : 'no-preference' }),
	}),
	leap: (page, { ms }) => page.clock.fastForward(ms),
	reload: page => page.reload({ waitUntil: 'load', timeout: 180000 }).then(() => true),
	tree: page => page.locator('body').ariaSnapshot({ timeout: 90000 }),
};

const of_driver = {
	launch,
	open,
	grid: grid_of,
	close: async ({ page: name }) => {
		await pages.get(name)?.context.close();
		pages.delete(name);
	},
	// What was kept since the last time.
	faults: ({ page: name }) => pages.get(name).faults.splice(0),
	requests: ({ page: name }) => pages.get(name).requests.splice(0),
	listen: async ({ name, from }) => {
		const made = new Upstream(from);
		upstreams.set(name, made);
		return made.listen();
	},
	answer: ({ name, path, ...answer }) => upstream(name).answer(path, answer),
	move: ({ name, from }) => { upstream(name).from = from; },
	push: ({ name, frames }) => upstream(name).push(frames),
	cut: ({ name }) => upstream(name).cut(),
	seen: ({ name }) => upstream(name).seen(),
};

async function obey(command) {
	if (of_driver[command.do])
		return of_driver[command.do](command);
	const kept = pages.get(command.page);
	if (!of_page[command.do] || !kept)
		throw new Error(`can't ${command.do} ${command.page ?? ''}`);
	return of_page[command.do](kept.page, command);
}

for await (const line of createInterface({ input: process.stdin })) {
	const command = JSON.parse(line);
	let answer;
	try {
		answer = { id: command.id, result: await obey(command) ?? null };
	} catch (error) {
		answer = { id: command.id, error: String(error.message ?? error) };
	}
	process.stdout.write(JSON.stringify(answer) + '\n');
}
for (const one of upstreams.values())
	one.close();
await browser?.close();
process.exit(0);
