// SPDX-License-Identifier: Apache-2.0
//
// A server that says to the live page what a test wants it to hear: what has no answer of the test's own
// comes from a real daemon, with its headers. On loopback, on a port of the system's choice.

import { createServer, request } from 'node:http';

const kept_headers = ['content-type', 'content-encoding', 'etag', 'cache-control', 'vary', 'content-security-policy', 'x-content-type-options', 'x-frame-options',
	'referrer-policy', 'cross-origin-opener-policy', 'cross-origin-resource-policy', 'permissions-policy'];

const pick = (headers, names) => Object.fromEntries(names.filter(name => headers[name]).map(name => [name, headers[name]]));

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
		if (['status', 'type', 'body', 'headers', 'frames'].some(key => key in answer))
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
		const asked = { host: new URL(this.from).host, ...pick(ask.headers, ['accept', 'accept-encoding', 'if-none-match', 'last-event-id']) };
		const onwards = request(new URL(ask.url, this.from), { method: ask.method, headers: asked }, got => {
			reply.writeHead(got.statusCode, pick(got.headers, kept_headers));
			reply.flushHeaders();
			got.on('error', () => reply.destroy());
			got.pipe(reply);
		});
		onwards.on('error', () => reply.destroy()); // as if the daemon were here
		reply.on('close', () => onwards.destroy());
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
