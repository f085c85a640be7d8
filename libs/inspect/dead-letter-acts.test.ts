import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { dismiss, dismissableOf, redrive, redriveWindow } from './dead-letter-acts.ts';
import {
  listDeadLetters,
  parseDeadLetterId,
  showDeadLetter,
  type DeadLetterSources,
} from './dead-letter-sources.ts';
import {
  addGivenUp,
  eventIds,
  paymentId,
  request,
  setAside,
  someSources,
} from './test/some-dead-letters.ts';

const why = { by: 'bob', why: 'of a test client' };
const dismissOne = (sources: DeadLetterSources, text: string) =>
  dismiss(sources, dismissableOf(parseDeadLetterId(text)), why);

test('a record that was dismissed leaves the list with who and why, and goes on only when it is asked for again', async (context) => {
  const sources = await someSources(context);
  await setAside(sources);
  const text = (await listDeadLetters(sources, 'waiting'))[0]!.id;
  const id = parseDeadLetterId(text);
  const twice = await Promise.all([dismissOne(sources, text), dismissOne(sources, text)]);
  assert.deepEqual(twice.map(({ outcome }) => outcome).sort(), ['dismissed', 'dismissed-before']);
  assert.deepEqual(await listDeadLetters(sources, 'waiting'), []);
  const [listed, ...others] = await listDeadLetters(sources, 'dismissed');
  assert.deepEqual(others, []);
  assert.partialDeepStrictEqual(listed, { id: text, dismissed: why, redriven: null });

  const refused = await redrive(sources, id, request);
  assert.partialDeepStrictEqual(refused, { outcome: 'dismissed-before', last: why });
  assert.equal((await redrive(sources, id, { ...request, again: true })).outcome, 'redriven');
  const [taken] = await listDeadLetters(sources, 'waiting');
  assert.partialDeepStrictEqual(taken, { id: text, dismissed: null, redriven: { by: 'ada' } });
  assert.deepEqual(await listDeadLetters(sources, 'dismissed'), []);
  const after = await dismissOne(sources, text);
  assert.partialDeepStrictEqual(after, { outcome: 'dismissed', redriven: { by: 'ada' } });
  const acts = await sources.database.query<{ act: string }>(
    'SELECT act FROM auditor.operator_acts WHERE subject = $1 ORDER BY act_id',
    [text],
  );
  assert.deepEqual(
    acts.map(({ act }) => act),
    ['dismiss', 'redrive', 'dismiss'],
  );
});

test('a webhook that was dismissed is in no window, and waits once more when it is given up again', async (context) => {
  const sources = await someSources(context);
  await addGivenUp(sources);
  const text = `webhook:${eventIds[0]}`;
  assert.equal((await dismissOne(sources, text)).outcome, 'dismissed');
  assert.equal((await dismissOne(sources, text)).outcome, 'dismissed-before');
  assert.deepEqual(await listDeadLetters(sources, 'waiting'), []);
  assert.equal(await redriveWindow(sources, { partner: 'acme' }, request), 0);
  const [kept] = await sources.database.query('SELECT state, attempts FROM webhooks.deliveries');
  assert.deepEqual(kept, { state: 'failed', attempts: 9 });

  await sources.database.query('UPDATE webhooks.deliveries SET finished_at = now()');
  assert.deepEqual(
    (await listDeadLetters(sources, 'waiting')).map(({ id }) => id),
    [text],
  );
  assert.deepEqual(await listDeadLetters(sources, 'dismissed'), []);
  // What was decided before is of the time before.
  const id = parseDeadLetterId(text);
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven');
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven-before');
  const failAgain = `UPDATE webhooks.deliveries SET state = 'failed', finished_at = now()`;
  await sources.database.query(failAgain);
  assert.equal(await redriveWindow(sources, { partner: 'acme' }, request), 1);
  assert.equal((await dismissOne(sources, text)).outcome, 'not-found', 'it is under way');
});

test('a webhook that is dismissed while its window is redriven stays where it is', async (context) => {
  const sources = await someSources(context);
  const { database } = sources;
  await addGivenUp(sources);
  const isWaiting = async () => {
    const waiting = await database.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return waiting.length > 0;
  };
  let window: Promise<number> | undefined;
  // The window begins when the dismissal is written and not committed, and waits for its commit.
  const transaction: typeof database.transaction = (work) =>
    database.transaction(async (tx) => {
      const result = await work(tx);
      window = redriveWindow(sources, { partner: 'acme' }, request);
      await eventually(isWaiting);
      return result;
    });
  const slow = { ...sources, database: { ...database, transaction } };
  assert.equal((await dismissOne(slow, `webhook:${eventIds[0]}`)).outcome, 'dismissed');
  assert.equal(await window, 0);
  const [kept] = await database.query('SELECT state FROM webhooks.deliveries');
  assert.deepEqual(kept, { state: 'failed' });
  assert.equal((await database.query('SELECT FROM auditor.operator_acts')).length, 1);
});

test('a redrive and a dismissal at once are one after the other, and both are told', async (context) => {
  const sources = await someSources(context);
  await addGivenUp(sources);
  const text = `webhook:${eventIds[0]}`;
  const [given, dismissed] = await Promise.all([
    redrive(sources, parseDeadLetterId(text), request),
    dismissOne(sources, text),
  ]);
  const acts = await sources.database.query('SELECT act FROM auditor.operator_acts');
  const first = [given.outcome, dismissed.outcome].join(' ');
  assert.ok(['redriven not-found', 'dismissed-before dismissed'].includes(first), first);
  assert.equal(acts.length, 1);
});

test('what is of an accepted payment is not dismissed, nor what is not there', async (context) => {
  for (const source of ['outbox', 'transaction']) {
    const id = parseDeadLetterId(`${source}:${eventIds[0]}`);
    assert.throws(() => dismissableOf(id), /waits until it goes on/);
  }
  const sources = await someSources(context);
  for (const text of ['kafka:0:7', `webhook:${eventIds[0]}`, 'refused:partner-notifier:7']) {
    assert.equal((await dismissOne(sources, text)).outcome, 'not-found', text);
  }
  assert.deepEqual(await sources.database.query('SELECT FROM auditor.operator_acts'), []);
});

test('a message that a consumer refused is shown with its bytes, and published again with them, once', async (context) => {
  const sources = await someSources(context);
  const refuse = (schema: string, id: string, attributes: object) =>
    sources.database.query(
      `INSERT INTO ${schema}.refused_messages
         (consumer, message_id, reason, detail, data, attributes)
       VALUES ($1, $2, 'invalid_event', 'schema 2', $3, $4)`,
      [schema, id, Buffer.from([0xff, 0x00]), JSON.stringify(attributes)],
    );
  const attributes = { event_id: eventIds[0]!, txn_id: paymentId, note: 'a NUL: \0' };
  await refuse('notifier', '7', attributes);
  await refuse('settlement', '7', { txn_id: paymentId });
  const text = 'refused:notifier:7';
  const listed = await listDeadLetters(sources, 'waiting');
  assert.deepEqual(
    listed.map(({ id, about, reason }) => [id, about, reason]),
    [
      [text, paymentId, 'invalid_event: schema 2'],
      ['refused:settlement:7', paymentId, 'invalid_event: schema 2'],
    ],
  );
  const id = parseDeadLetterId(text);
  const shown = await showDeadLetter(sources, id);
  assert.partialDeepStrictEqual(shown, { attributes, bytes: 2, value: { base64: '/wA=' } });

  const both = await Promise.all([redrive(sources, id, request), redrive(sources, id, request)]);
  assert.deepEqual(both.map(({ outcome }) => outcome).sort(), ['redriven', 'redriven-before']);
  assert.deepEqual(sources.published, [{ data: Buffer.from([0xff, 0x00]), attributes }]);
  // Without the id of an event no consumer can know it: it stays as it is, and nothing is recorded.
  const nameless = parseDeadLetterId('refused:settlement:7');
  assert.equal((await redrive(sources, nameless, request)).outcome, 'never-taken');
  assert.equal(sources.published.length, 1);
  assert.equal((await dismissOne(sources, 'refused:settlement:7')).outcome, 'dismissed');
  assert.equal((await sources.database.query('SELECT FROM auditor.operator_acts')).length, 2);
});

test('a message of which nobody knows whether it was published is redriven by whoever asks again', async (context) => {
  const sources = await someSources(context);
  await sources.database.query(
    `INSERT INTO auditor.refused_messages (consumer, message_id, reason, detail, data, attributes)
     VALUES ('auditor', '7', 'invalid_event', '', '', '{"event_id": "7"}')`,
  );
  const id = parseDeadLetterId('refused:auditor:7');
  const lost = { ...sources, publishAgain: () => Promise.reject(new Error('no answer')) };
  await assert.rejects(redrive(lost, id, request), /no answer/);
  const refused = { ...sources, publishAgain: async () => 'unpublishable' as const };
  assert.equal((await redrive(refused, id, request)).outcome, 'never-taken');
  assert.equal((await redrive(sources, id, request)).outcome, 'redriven');
});
