// SPDX-License-Identifier: Apache-2.0
//
// What a test sees of the live page, by the attributes that doc/design/page.md promises. Loaded into the
// page before its own module; it changes nothing there.

globalThis.look = {
	all: selector => [...document.querySelectorAll(selector)],
	one: selector => document.querySelector(selector),
	words: element => element?.innerText.replace(/\s+/g, ' ').trim() ?? null,
	text: selector => look.words(look.one(selector)),
	shown: element => Boolean(element) && element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0,

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
		return needed <= width ? [] : [`${needed} in ${width}`, ...look.all('body *')
			.filter(element => element.getBoundingClientRect().right > width + 1 || element.scrollWidth > width)
			.slice(0, 10).map(element => `${element.localName}.${element.getAttribute('class') ?? ''}`)];
	},
};
