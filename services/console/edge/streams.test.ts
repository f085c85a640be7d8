import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@triplock/testing';
import { shareStreams, streamShares } from './streams.ts';
import { aConsole } from '../test/a-console.ts';

test('however many streams a viewer opens, others are let in and see the flow, and the oldest is told why it ends', async (t) => {
  const console = await aConsole(t);
  const { ask, openStream, service } = console;
  const eve = await console.logIn(await console.anOperator('eve', 'viewer'));
  const ada = await console.logIn(await console.anOperator('ada', 'viewer'));
  const first = await openStream({ cookie: eve.cookie });
  const streams = [first];
  t.after(() => streams.forEach((each) => each.close()));
  // Each is looked up before it is a stream: of thirty at once some wait too long for that where
  // the machine has other work.
  for (let round = 0; round < 12; round += 1) {
    const more = Array.from({ length: 12 }, () => openStream({ cookie: eve.cookie }));
    streams.push(...(await Promise.all(more)));
  }
  assert.equal((await ask('/payments', { headers: { cookie: ada.cookie } })).status, 200);
  const hers = await openStream({ cookie: ada.cookie });
  t.after(() => hers.close());
  assert.match(await hers.next(), /^data: /);
  const last = await first.rest();
  assert.match(last, /(^|\n)event: superseded\ndata: You opened more windows/);
  await eventually(async () => {
    const told = await service.admin('/metrics?name[]=triplock_console_streams');
    const [, open] = /^triplock_console_streams\{.*\} (\d+)$/m.exec(await told.text())!;
    return Number(open) === streamShares.perSession + 1;
  });
});

test('whoever has most streams makes way, by session, by operator and in all', () => {
  const { take } = shareStreams({ perSession: 2, perOperator: 3, inAll: 5 });
  const places = new Map<string, ReturnType<typeof take>>();
  const open = (name: string, operator: string, session?: string) =>
    places.set(name, take({ operator, session }));
  const ended = () =>
    [...places].filter(([, { superseded }]) => superseded.aborted).map(([name]) => name);
  open('eve 1', 'eve', 'a');
  open('eve 2', 'eve', 'b');
  open('eve 3', 'eve', 'a');
  assert.deepEqual(ended(), []);
  open('eve 4', 'eve', 'a');
  assert.deepEqual(ended(), ['eve 1'], 'the oldest of her session');
  open('eve 5', 'eve');
  assert.deepEqual(ended(), ['eve 1', 'eve 2'], 'her oldest');
  open('ada', 'ada', 'c');
  open('bob', 'bob');
  open('cid', 'cid');
  assert.deepEqual(ended(), ['eve 1', 'eve 2', 'eve 3'], 'the oldest of who has most');
  places.get('ada')!.leave();
  places.get('ada')!.leave();
  open('dan', 'dan');
  assert.deepEqual(ended(), ['eve 1', 'eve 2', 'eve 3'], 'there is room where one has left');
});
