import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { eventOf, type PaymentEvent } from '@triplock/contracts';
import { openInbox, type ReceivedEvent } from '@triplock/inbox';
import { openEventFeed } from '@triplock/partners';
import { deriveEventId, type EventId, type PartnerId } from '@triplock/payments';
import { aPayment, createTestDatabase, eventually, succeeded } from '@triplock/testing';
import { notifyPartners, openDeliveries } from './deliveries.ts';
import { addEndpoint, manyRates, noRoom } from './test/webhooks.ts';

type Events = readonly ReceivedEvent<PaymentEvent>[];

const acme = 'acme' as PartnerId;

/** Notifiers that have events come, and the feed that a partner reads of them. */
async function aFeed(context: TestContext) {
  const store = await createTestDatabase(context);
  const feed = openEventFeed(store.open('triplock_gateway'));
  const owner = store.open();
  const aNotifier = () => {
    const database = store.open('triplock_notifier');
    const inbox = openInbox(database, 'partner-notifier');
    const deliveries = openDeliveries(database, manyRates);
    const effect = notifyPartners(deliveries, noRoom);
    return {
      receive: (events: Events) => inbox.receive(events, effect),
      /** As far as to before the commit, and from there on. */
      until: (events: Events, goOn: () => Promise<void>) =>
        inbox.receive(events, async (tx, received) => {
          const ended = await effect(tx, received);
          await goOn();
          return ended;
        }),
    };
  };
  const read = async (after: bigint) => {
    const page = await feed.read({ partnerId: acme, limit: 100, from: { after } });
    assert.ok(page.outcome === 'page');
    return { ...page, ids: page.events.map(({ eventId }) => eventId) };
  };
  return { owner, aNotifier, read };
}

/** The first events of a payment, as many as wished, in their order. */
function eventsOf(count: number) {
  const payment = aPayment();
  const first = succeeded(payment);
  return Array.from({ length: count }, (_, n) => {
    const type = n === 0 ? first.type : 'payment.disputed';
    const id = n === 0 ? first.event_id : deriveEventId(payment.txnId, `test.${n}` as never);
    return { ...eventOf({ ...first, event_id: id, type, sequence: n + 1 }), payloadHash: `${n}` };
  });
}

const idsOf = (events: readonly { id: string }[]) => events.map(({ id }) => id as EventId);

test('what is committed late is in the feed before all that is made after it, not before what was read', async (context) => {
  const { owner, aNotifier, read } = await aFeed(context);
  const [slow, quick] = [[...eventsOf(1), ...eventsOf(1)], eventsOf(1)];
  const standing = Promise.withResolvers<void>();
  const first = aNotifier().until(slow, () => standing.promise);
  const waits = (kind: string) => async () =>
    (await owner.query(`SELECT FROM pg_locks WHERE locktype = 'advisory' AND ${kind}`)).length > 0;
  await eventually(waits('granted'));
  const second = aNotifier().receive(quick);
  await eventually(waits('NOT granted'));
  assert.deepEqual((await read(0n)).ids, []);
  standing.resolve();
  await Promise.all([first, second]);
  assert.deepEqual((await read(0n)).ids, idsOf([...slow, ...quick]));
});

test('who reads while several notifiers are at work, and some of them fail, reads all once and each payment in order', async (context) => {
  const { owner, aNotifier, read } = await aFeed(context);
  await addEndpoint(owner, 'acme', { host: 'one.example' });
  await addEndpoint(owner, 'acme', { host: 'two.example', wants: ['payment.disputed'] });
  const payments = Array.from({ length: 60 }, (_, n) => eventsOf(1 + (n % 3)));
  const working = Promise.all(
    Array.from({ length: 4 }, async (_, nth) => {
      const { receive, until } = aNotifier();
      for (const [n, events] of payments.entries()) {
        if (n % 4 !== nth) continue;
        if (n % 5 === 0) {
          const dies = until(events, async () => {
            throw new Error('it dies before its commit');
          });
          await assert.rejects(dies, /it dies/);
        }
        await receive(events);
        await receive(events);
      }
    }),
  );
  let isOver = false;
  void working.finally(() => (isOver = true));
  const seen: EventId[] = [];
  for (let after = 0n, wasOver = false; !wasOver;) {
    wasOver = isOver;
    const page = await read(after);
    seen.push(...page.ids);
    after = page.next;
    if (page.more) wasOver = false;
  }
  await working;
  assert.deepEqual(seen.toSorted(), payments.flatMap(idsOf).toSorted());
  for (const ids of payments.map(idsOf)) {
    assert.deepEqual(
      seen.filter((id) => ids.includes(id)),
      ids,
    );
  }
  assert.deepEqual((await read(0n)).ids, seen.slice(0, 100));
});
