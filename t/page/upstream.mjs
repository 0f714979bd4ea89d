// SPDX-License-Identifier: Apache-2.0
//
// A server that says to the live page what a test wants it to hear: what has no answer of the test's own
// comes from a real daemon, with its headers. On loopback, on a port of the system's choice.

import { createServer, request } from 'node:http';

const kept_headers = ['content-type', 'content-security-policy', 'x-content-type-options', 'x-frame-options',
	'referrer-policy', 'cross-origin-opener-policy', 'cross-origin-resource-policy', 'permissions-policy'];

export class Upstream {
	constructor(from) {
		this.from = from;
		this.answers = new Map(); // by path: {status, type, body, headers} or {frames}
		this.streams = new Set();
		this.requests = [];
		this.server = createServer((ask, reply) => this.serve(ask, reply));
	}

	async listen() {
		await new Promise((resolve, reject) => {
			this.server.once('error', reject);
			this.server.listen(0, '127.0.0.1', resolve);
		});
		return `http://127.0.0.1:${this.server.address().port}/`;
	}

	// With "frames": an event stream that begins with these texts, and stays open. Without an answer: the daemon's again.
	answer(path, answer) {
		if (Object.keys(answer).some(key => !['id', 'do'].includes(key)))
			this.answers.set(path, answer);
		else
			this.answers.delete(path);
	}

	serve(ask, reply) {
		const path = new URL(ask.url, 'http://localhost').pathname;
		this.requests.push(`${ask.method} ${ask.url}`);
		const answer = this.answers.get(path);
		if (!answer)
			this.pass_on(ask, reply);
		else if (answer.frames)
			this.stream(reply, answer.frames);
		else
			reply.writeHead(answer.status ?? 200, {
				'content-type': answer.type ?? 'application/json', 'cache-control': 'no-store', ...answer.headers,
			}).end(answer.body ?? '');
	}

	stream(reply, frames) {
		reply.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
		for (const frame of frames)
			reply.write(frame);
		this.streams.add(reply);
		reply.on('close', () => this.streams.delete(reply));
	}

	pass_on(ask, reply) {
		const onwards = request(new URL(ask.url, this.from), { method: ask.method }, got => {
			const headers = Object.fromEntries(kept_headers.filter(name => got.headers[name]).map(name => [name, got.headers[name]]));
			reply.writeHead(got.statusCode, headers);
			got.pipe(reply);
		});
		onwards.on('error', error => {
			if (!reply.headersSent)
				reply.writeHead(502, { 'content-type': 'text/plain' });
			reply.end(String(error));
		});
		onwards.setTimeout(20000, () => onwards.destroy(new Error('the daemon takes too long')));
		onwards.end();
	}

	push(frames) {
		for (const stream of this.streams)
			for (const frame of frames)
				stream.write(frame);
		return this.streams.size;
	}

	// Breaks all event streams off.
	cut() {
		for (const stream of this.streams)
			stream.destroy();
	}

	seen() {
		return this.requests.splice(0);
	}

	close() {
		this.cut();
		this.server.closeAllConnections?.();
		this.server.close();
	}
}
