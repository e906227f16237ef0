// What a user did, in the form keyfold reads. Needs Node.js 18 and no package.

import { createHash } from 'node:crypto';
import { basename } from 'node:path';

/**
 * type is one of search, product_view, product_click and product_purchase;
 * reference is the phrase of a search and the product's id otherwise.
 *
 * The message_id follows from what happened and when. Make the event once and
 * keep it for as long as you may have to send it: sent twice, it counts once.
 */
export function event(userId, type, reference, metadata = {}, at = new Date()) {
  const occurredAt = at.toISOString(); // milliseconds, UTC
  const search = type === 'search';
  return {
    user_id: userId,
    event_type: type,
    search_phrase: search ? String(reference) : null,
    product_id: search ? null : Number(reference),
    occurred_at: occurredAt,
    metadata,
    message_id: createHash('sha256').update([userId, type, reference, occurredAt].join('|')).digest('hex'),
    version: '1.0',
  };
}

/** Reads an event from a command line: TYPE USER PHRASE-OR-PRODUCT. */
export function eventFromArguments([, path, ...given]) {
  const script = basename(path);
  const [type, userId, reference] = given;
  if (given.length !== 3 || !/^\d+$/.test(userId)) {
    console.error(`usage: node ${script} search 12345 'hiking boots'\n       node ${script} product_view 12345 789`);
    process.exit(2);
  }
  return event(Number(userId), type, reference, { source: script });
}
