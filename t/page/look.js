// SPDX-License-Identifier: Apache-2.0
//
// What a test sees of the live page, by the attributes that doc/design/page.md promises. Loaded into the
// page before its own module; it changes nothing there.

globalThis.look = {
	all: selector => [...document.querySelectorAll(selector)],
	one: selector => document.querySelector(selector),
	words: element => (element?.innerText ?? element?.textContent)?.replace(/\s+/g, ' ').trim() ?? null,
	text: selector => look.words(look.one(selector)),
	shown: element => Boolean(element) && element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0,

	// Whether something that is known isn't drawn yet: a large change takes some frames.
	busy: () => look.one('main').getAttribute('aria-busy') === 'true',

	connection: () => look.one('[data-connection]')?.dataset.connection ?? '',

	// The numbers at the top: {used: 12, …}; a text that isn't a number alone stays a text.
	totals: () => Object.fromEntries(look.all('[data-total]').map(element => {
		const text = element.textContent.trim();
		return [element.dataset.total, /^\d+$/.test(text) ? Number(text) : text];
	})),

	controllers: () => look.all('[data-controller]').map(({ dataset }) =>
		({ key: dataset.controller, reach: dataset.reach, marks: dataset.marks.split(' ').filter(Boolean).sort() })),

	// Each partition once, though it has a block at each of its places.
	partitions: () => {
		const found = new Map();
		for (const element of look.all('[data-partition]')) {
			const { partition: key, state, owner, namespace, ipus, external, unplaced } = element.dataset;
			const one = found.get(key) ?? {
				key, state, owner: owner ?? '', namespace: namespace ?? '', ipus: Number(ipus),
				external: external !== undefined, unplaced: unplaced !== undefined, blocks: 0,
				controller: element.closest('[data-controller]')?.dataset.controller ?? '',
			};
			one.blocks++;
			found.set(key, one);
		}
		return [...found.values()];
	},

	waiting: () => look.all('[data-waiting]').map(element => ({
		key: element.dataset.waiting, position: Number(element.dataset.position), reason: element.dataset.reason,
		text: look.words(element),
	})),

	held: () => look.all('[data-held]').map(element => ({ key: element.dataset.held, reason: element.dataset.reason, text: look.words(element) })),

	steps: () => look.all('[data-step]').map(element => ({ n: Number(element.dataset.step), text: look.words(element) })),

	// What has the keyboard.
	focus: () => {
		const element = document.activeElement;
		return { tag: element?.localName ?? '', text: look.words(element) ?? '', ...element?.dataset };
	},

	// How much wider the page is than the window, and by which elements: nothing, or it would have to be moved sideways.
	too_wide: () => {
		const width = document.documentElement.clientWidth;
		const needed = document.documentElement.scrollWidth;
		const clipped = element => element && (getComputedStyle(element).overflowX !== 'visible' || clipped(element.parentElement));
		return needed <= width ? [] : [`${needed} in ${width}`, ...look.all('body *')
			.filter(element => !clipped(element.parentElement) && (element.getBoundingClientRect().right > width + 1 || !clipped(element) && element.scrollWidth > width))
			.slice(0, 5).map(element => `${element.localName}#${element.id}.${element.getAttribute('class') ?? ''} in #${element.parentElement.id}`)];
	},

	// From now on an animation frame comes when it's asked for, laid out; whether there is more to draw.
	hold: () => {
		const held = [];
		globalThis.requestAnimationFrame = callback => held.push(callback);
		look.held_frames = () => held.length;
		look.frame = () => {
			held.splice(0).forEach(callback => callback(performance.now()));
			document.body.getBoundingClientRect();
			return held.length > 0;
		};
		return true;
	},

	// From now on: the states that each partition is seen in, in their order, and which parts of the page move by themselves.
	watch: () => {
		look.states = {};
		look.shifts = [];
		look.moved = 0; // the sum of Chromium's layout shifts (CLS without its windows)
		look.movers = [];
		const note = element => {
			const { partition, state } = element.dataset ?? {};
			if (partition && look.states[partition]?.at(-1) !== state)
				(look.states[partition] ??= []).push(state);
		};
		look.all('[data-partition]').forEach(note);
		new MutationObserver(changes => changes.forEach(({ target, addedNodes }) => {
			note(target);
			for (const node of addedNodes)
				if (node.querySelectorAll)
					[node, ...node.querySelectorAll('[data-partition]')].forEach(note);
		})).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state', 'data-partition'] });
		new PerformanceObserver(list => list.getEntries().filter(entry => !entry.hadRecentInput).forEach(entry => {
			look.moved += entry.value;
			for (const { node } of entry.sources)
				look.movers.push(`${entry.value.toFixed(4)} ${node?.localName ?? node?.nodeName} ${node?.id ?? ''} in ${node?.parentElement?.closest('[id]')?.id}: ${look.words(node)?.slice(0, 40)}`);
			for (const { node, previousRect, currentRect } of entry.sources)
				if (/^(section|header|main|form|h2)$/.test(node?.localName))
					look.shifts.push(`${node.localName} ${node.id}: ${Math.round(currentRect.top - previousRect.top)} px`);
		})).observe({ type: 'layout-shift' });
		return true;
	},
};
