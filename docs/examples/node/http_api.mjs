// Sends events to keyfold's HTTP API. Needs Node.js 18 and no package.
//
//   KEYFOLD_URL=http://127.0.0.1:7080 KEYFOLD_TOKEN=... node http_api.mjs search 12345 'hiking boots'

import { setTimeout as sleep } from 'node:timers/promises';

import { eventFromArguments } from './event.mjs';

// 0: no answer came. The others say that it may work later.
const passing = [0, 408, 429, 502, 503, 504];

class KeyfoldApi {
  constructor(url, { token = '', timeout = 5000, attempts = 4 } = {}) {
    Object.assign(this, { url, token, timeout, attempts });
  }

  /**
   * Stores events, all or none, and returns their message ids. Whatever goes
   * wrong on the way, sending the same events again is safe.
   */
  async send(events) {
    const body = events.map((event) => JSON.stringify(event)).join('\n');
    for (let attempt = 1; ; attempt++) {
      const { status, retryAfter, answer } = await this.post(body);
      if (status === 202) {
        return JSON.parse(answer).message_ids;
      }
      if (!passing.includes(status) || attempt === this.attempts) {
        throw new Error(`keyfold answered ${status}: ${answer}`);
      }
      await sleep(1000 * (retryAfter ?? 2 ** (attempt - 1)));
    }
  }

  async post(body) {
    const headers = { 'Content-Type': 'application/x-ndjson' };
    if (this.token !== '') {
      headers.Authorization = `Bearer ${this.token}`;
    }
    try {
      const response = await fetch(`${this.url}/v1/events`, {
        method: 'POST',
        headers,
        body,
        redirect: 'manual', // a redirected POST would lose its body
        signal: AbortSignal.timeout(this.timeout),
      });
      const seconds = response.headers.get('Retry-After') ?? '';
      return {
        status: response.status,
        retryAfter: /^\d+$/.test(seconds) ? Number(seconds) : null,
        answer: await response.text(), // that of a 400 says what is wrong
      };
    } catch (error) {
      return { status: 0, retryAfter: null, answer: String(error.cause ?? error) };
    }
  }
}

const event = eventFromArguments(process.argv);
const api = new KeyfoldApi(process.env.KEYFOLD_URL || 'http://127.0.0.1:7080', { token: process.env.KEYFOLD_TOKEN });
try {
  console.log((await api.send([event])).join('\n'));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
