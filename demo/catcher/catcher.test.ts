import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { followWebhooks } from '@triplock/inspect';
import { askAsStrangers, testControlToken } from '@triplock/testing';
import { Webhook } from 'standardwebhooks';
import { serveCatcher } from './serve.ts';
import {
  type ArrivalsPage,
  type CaughtWebhook,
  createArrivals,
  createBehaviour,
  createCaughtWebhooks,
} from './webhooks.ts';

const secret = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';
const body = JSON.stringify({ type: 'payment.succeeded', data: { id: 'txn-1', amount: 9 } });

async function aCatcher(context: TestContext, webhooksMax = 10) {
  const catcher = await serveCatcher(
    {
      secrets: new Map([['acme', secret]]),
      caught: createCaughtWebhooks(webhooksMax),
      arrivals: createArrivals(webhooksMax),
      behaviour: createBehaviour(),
      controlToken: testControlToken,
    },
    { host: '127.0.0.1', port: 0 },
  );
  context.after(() => catcher.close());
  const post = async (path: string, text = '', headers = {}) => {
    const answer = await fetch(`${catcher.url}${path}`, {
      method: 'POST',
      body: text,
      headers: { authorization: `Bearer ${testControlToken}`, ...headers },
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  const signed = (id: string, text: string) => {
    const at = new Date();
    return {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
      'webhook-signature': new Webhook(secret).sign(id, at, text),
    };
  };
  return {
    url: catcher.url,
    post,
    send: (id: string, text = body) => post('/hooks/acme', text, signed(id, text)),
    signed,
    async arrived(after: number) {
      const answer = await fetch(`${catcher.url}/arrivals?after=${after}`);
      return (await answer.json()) as ArrivalsPage;
    },
    async received(query = '') {
      const answer = await fetch(`${catcher.url}/received${query}`);
      return (await answer.json()) as CaughtWebhook[];
    },
  };
}

test('a webhook that comes twice is taken once', async (context) => {
  const { send, received } = await aCatcher(context);
  assert.equal(await send('event-1'), 204);
  assert.equal(await send('event-1'), 204);
  const [webhook, ...more] = await received();
  assert.deepEqual(more, []);
  assert.partialDeepStrictEqual(webhook, {
    id: 'event-1',
    partner: 'acme',
    verified: true,
    attempts: 2,
    effects: 1,
    altered: 0,
    type: 'payment.succeeded',
    txnId: 'txn-1',
    body: JSON.parse(body),
  });
});

test('a forged webhook is refused and is no attempt of the real one', async (context) => {
  const { post, send, signed, received } = await aCatcher(context);
  await send('event-1');
  const forged = body.replace('9', '9000');
  assert.equal(await post('/hooks/acme', forged, signed('event-1', body)), 401);
  const seen = (await received()).map(({ verified, attempts, effects }) => [
    verified,
    attempts,
    effects,
  ]);
  assert.deepEqual(seen, [
    [true, 1, 1],
    [false, 1, 0],
  ]);
});

test('an endpoint fails as often as it was ordered to and then takes the webhook', async (context) => {
  const { post, send, received } = await aCatcher(context);
  assert.equal(await post('/behaviour?partner=acme&status=503&times=2'), 200);
  const answers = [await send('event-1'), await send('event-1'), await send('event-1')];
  assert.deepEqual(answers, [503, 503, 204]);
  assert.partialDeepStrictEqual((await received())[0], { attempts: 3, effects: 1 });
});

test('an order that cannot be followed is refused', async (context) => {
  const { post } = await aCatcher(context);
  for (const query of ['', '?partner=nobody&status=500', '?partner=acme&status=9']) {
    assert.equal(await post(`/behaviour${query}`), 400, query);
  }
});

test('what is no webhook is refused and not listed', async (context) => {
  const { post, signed, received } = await aCatcher(context);
  assert.equal(await post('/hooks/nobody', body, signed('event-1', body)), 404);
  assert.equal(await post('/hooks/acme', body), 400);
  assert.equal(await post('/hooks/acme', 'not json', signed('event-1', 'not json')), 400);
  assert.deepEqual(await received(), []);
});

test('the newest webhooks are kept, and can be asked for by id', async (context) => {
  const { send, received } = await aCatcher(context, 2);
  for (const id of ['event-1', 'event-2', 'event-3']) await send(id);
  const ids = async (query: string) => (await received(query)).map(({ id }) => id);
  assert.deepEqual(await ids(''), ['event-2', 'event-3']);
  assert.deepEqual(await ids('?id=event-3'), ['event-3']);
  assert.deepEqual(await ids('?txn=txn-1'), ['event-2', 'event-3']);
  assert.deepEqual(await ids(`?since=${new Date(Date.now() + 60_000).toISOString()}`), []);
});

test('who follows the arrivals gets every copy as it came, and sees when some are gone', async (context) => {
  const { send, post, signed, arrived } = await aCatcher(context, 4);
  const spaced = body.replace(':', ': ');
  assert.equal(await send('event-1'), 204);
  assert.equal(await send('event-1', spaced), 204);
  assert.equal(await post('/hooks/acme', spaced, signed('event-2', body)), 401);
  const first = await arrived(0);
  assert.deepEqual(
    first.arrivals.map(({ number, id, verified, body }) => [number, id, verified, body]),
    [
      [1, 'event-1', true, body],
      [2, 'event-1', true, spaced],
      [3, 'event-2', false, spaced],
    ],
  );
  assert.equal(first.last, 3);
  assert.deepEqual((await arrived(3)).arrivals, []);
  for (const id of ['event-3', 'event-4']) await send(id);
  const { catcher, arrivals } = await arrived(0);
  assert.equal(catcher, first.catcher);
  assert.deepEqual(
    arrivals.map(({ number }) => number),
    [3, 4, 5],
  );
});

test('who follows the arrivals misses none when its connection is closed under a request', async (context) => {
  const { url, send } = await aCatcher(context);
  let [asked, closed] = [0, 0];
  // As a busy server does with a connection that has rested.
  const between = createServer((request, response) => {
    asked += 1;
    if (asked % 2 === 0) {
      closed += 1;
      request.socket.destroy();
      return;
    }
    void fetch(`${url}${request.url}`).then(async (answer) => response.end(await answer.text()));
  }).listen(0, '127.0.0.1');
  await once(between, 'listening');
  context.after(() => between.close());
  const { port } = between.address() as AddressInfo;
  const seen: string[] = [];
  const webhook = ({ id }: { id: string }) => seen.push(id);
  const following = await followWebhooks({ webhook }, `http://127.0.0.1:${port}`);
  await send('msg-1');
  await send('msg-2');
  await following.stop();
  assert.deepEqual(seen, ['msg-1', 'msg-2']);
  assert.ok(closed > 0);
});

test('a question that is signed is answered with its token, and is no webhook that came', async (context) => {
  const { url, signed, received, arrived } = await aCatcher(context);
  const question = JSON.stringify({ type: 'endpoint.verification', data: { token: 'echo-me' } });
  const ask = (headers: Record<string, string>) =>
    fetch(`${url}/hooks/acme`, { method: 'POST', body: question, headers });
  const answer = await ask(signed('question-1', question));
  assert.deepEqual([answer.status, await answer.json()], [200, { token: 'echo-me' }]);
  assert.deepEqual([await received(), (await arrived(0)).last], [[], 0]);
  const forged = await ask(signed('question-2', body));
  assert.deepEqual([forged.status, await forged.text()], [401, '']);
});

test('how a partner answers is ordered by whoever has the token of the home, and no page elsewhere may look', async (context) => {
  const { url, send, received } = await aCatcher(context);
  const order = { method: 'POST', path: '/behaviour?partner=acme&status=503&times=9' };
  for (const [who, status] of await askAsStrangers(url, order)) assert.equal(status, 403, who);
  const look = { method: 'GET', path: '/received' };
  for (const [who, status] of await askAsStrangers(url, look, 'from elsewhere')) {
    assert.equal(status, 403, who);
  }
  assert.equal(await send('event-1'), 204);
  assert.equal((await received())[0]?.effects, 1);
});
