import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import type { EventType, Fingerprint, IdempotencyKey, PartnerId } from '@triplock/payments';
import { Webhook } from 'standardwebhooks';
import { aNotifier, aReceiver, type Received } from './test/webhooks.ts';
import { askEndpoint } from './endpoint-verification.ts';

const tokenOf = ({ body }: Received) =>
  (JSON.parse(body) as { data: { token: string } }).data.token;
const typesOf = (received: readonly Received[]) =>
  received.map(({ body }) => (JSON.parse(body) as { type: string }).type);
const echo = (response: ServerResponse, question: Received) =>
  void response.writeHead(200).end(JSON.stringify({ token: tokenOf(question) }));

test('nothing but a signed question goes to an endpoint before it has echoed its token, and then all that waits', async (context) => {
  const { ask, askAgainLater, setUrl, show, notify, release, sender, states } =
    await aNotifier(context);
  const receiver = await aReceiver(context);
  const made = await setUrl(receiver.url);
  assert.ok(made.outcome === 'made');
  await notify('acme');
  assert.equal(await ask(), 1);
  assert.deepEqual([await release(), await sender.pass(), await states()], [0, 0, ['parked 0']]);
  const [question] = receiver.received;
  const headers = question!.headers as Record<string, string>;
  const verified = new Webhook(made.secret).verify(question!.body, headers) as object;
  assert.deepEqual(Object.keys(verified), ['type', 'timestamp', 'data']);
  assert.match(tokenOf(question!), /^[\w-]{43}$/);
  assert.equal((await show())?.verified, false);

  receiver.answerWith(echo);
  await askAgainLater();
  assert.equal(await ask(), 1);
  assert.equal((await show())?.verified, true);
  assert.equal(await ask(), 0);
  assert.equal(await release(), 1);
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['delivered 1']);
  const { type: first } = verified as { type: string };
  const [, again, sent] = typesOf(receiver.received);
  assert.deepEqual([first, again, sent], [first, 'endpoint.verification', 'payment.succeeded']);
});

const proofless: Readonly<Record<string, (response: ServerResponse, question: Received) => void>> =
  {
    'sends back whatever it gets': (response, { body }) => void response.end(body),
    'answers nothing': (response) => void response.writeHead(204).end(),
    'echoes with an error': (response, question) =>
      void response.writeHead(500).end(tokenOf(question)),
    'echoes half of it': (response, question) => void response.end(tokenOf(question).slice(0, 20)),
    'echoes it among other words': (response, question) =>
      void response.end(`thanks for ${tokenOf(question)}`),
    'echoes it as a list': (response, question) =>
      void response.end(JSON.stringify({ token: [tokenOf(question)] })),
    'echoes it in ten megabytes': (response, question) =>
      void response.end(JSON.stringify({ token: tokenOf(question), more: 'x'.repeat(10_000_000) })),
    'breaks off after it': (response, question) => {
      response.writeHead(200, { 'content-length': 100 }).write(tokenOf(question));
      setImmediate(() => response.destroy());
    },
  };

for (const [what, answer] of Object.entries(proofless)) {
  test(`a server that ${what} has not said that it wants webhooks`, async (context) => {
    const { ask, setUrl, show, metrics } = await aNotifier(context);
    const receiver = await aReceiver(context);
    receiver.answerWith(answer);
    await setUrl(receiver.url);
    assert.equal(await ask(), 1);
    assert.equal(receiver.received.length, 1);
    assert.equal((await show())?.verified, false);
    const { echoed = 0, ...others } = metrics.verifications.counted();
    assert.deepEqual([echoed, Object.values(others)], [0, [1]]);
  });
}

test('the token as text or as the field of a JSON object is an echo', async (context) => {
  for (const answer of [
    echo,
    (response: ServerResponse, question: Received) => void response.end(`${tokenOf(question)}\n`),
  ]) {
    const { ask, setUrl, show } = await aNotifier(context);
    const receiver = await aReceiver(context);
    receiver.answerWith(answer);
    await setUrl(receiver.url);
    await ask();
    assert.equal((await show())?.verified, true);
  }
});

test('a redirect to a server that echoes is not followed and proves nothing', async (context) => {
  const { ask, setUrl, show } = await aNotifier(context);
  const [victim, receiver] = [await aReceiver(context), await aReceiver(context)];
  victim.answerWith(echo);
  receiver.answerWith((response) => void response.writeHead(307, { location: victim.url }).end());
  await setUrl(receiver.url);
  await ask();
  assert.deepEqual([victim.received, (await show())?.verified], [[], false]);
});

test('an answer to another question, or to another partner’s, proves nothing', async (context) => {
  const { ask, askAgainLater, setUrl, show } = await aNotifier(context);
  const receiver = await aReceiver(context);
  const late = await aReceiver(context);
  await setUrl(receiver.url, 'globex');
  await setUrl(late.url);
  await ask();
  const [theirs, own] = [receiver.received[0]!, late.received[0]!];
  assert.notEqual(tokenOf(theirs), tokenOf(own));
  for (const [nth, old] of [own, theirs].entries()) {
    late.answerWith((response) => void response.end(tokenOf(old)));
    await askAgainLater();
    assert.equal(await ask(), 2);
    assert.deepEqual([late.received.length, (await show())?.verified], [nth + 2, false]);
  }
});

test('a URL that is changed while it is asked is not opened by the old one’s echo, and gets nothing', async (context) => {
  const { ask, setUrl, show, notify, release, sender } = await aNotifier(context);
  const [own, victim] = [await aReceiver(context), await aReceiver(context)];
  own.answerWith((response, question) => {
    void setUrl(victim.url).then(() => echo(response, question));
  });
  await setUrl(own.url);
  await notify('acme');
  await ask();
  assert.deepEqual([own.received.length, (await show())?.verified], [1, false]);
  assert.deepEqual([await release(), await sender.pass()], [0, 0]);
  assert.deepEqual(victim.received, []);
});

test('an open endpoint whose URL is changed gets nothing until the new one has echoed', async (context) => {
  const { ask, askAgainLater, setUrl, notify, release, sender, states } = await aNotifier(context);
  const [first, second] = [await aReceiver(context), await aReceiver(context)];
  for (const each of [first, second]) each.answerWith(echo);
  await setUrl(first.url);
  await ask();
  // Made while it was open, and due after it was changed.
  await notify('acme');
  await setUrl(second.url);
  await sender.pass();
  await sender.settled();
  assert.deepEqual(await states(), ['parked 1']);
  assert.deepEqual([first.received.length, second.received.length], [1, 0]);
  await askAgainLater();
  await ask();
  assert.equal(await release(), 1);
  await sender.pass();
  await sender.settled();
  assert.deepEqual(
    [typesOf(first.received), typesOf(second.received)],
    [['endpoint.verification'], ['endpoint.verification', 'payment.succeeded']],
  );
});

test('a server that answers the question with 410 Gone is not asked again until its endpoint is set', async (context) => {
  const { ask, askAgainLater, setUrl, show } = await aNotifier(context);
  const receiver = await aReceiver(context);
  receiver.answerWith((response) => void response.writeHead(410).end());
  await setUrl(receiver.url);
  await ask();
  assert.equal((await show())?.disabled?.because, 'gone');
  await askAgainLater();
  assert.deepEqual([await ask(), receiver.received.length], [0, 1]);
  await setUrl(receiver.url);
  await askAgainLater();
  assert.equal(await ask(), 1);
});

test('where nobody has to prove anything an endpoint is open without a question', async (context) => {
  const { verify, setUrl, show } = await aNotifier(context);
  const receiver = await aReceiver(context);
  for (const url of [receiver.url, `${receiver.url}/moved`]) {
    await setUrl(url);
    assert.deepEqual([await verify(), await verify()], [1, 0]);
    assert.equal((await show())?.verified, true);
  }
  assert.deepEqual(receiver.received, []);
});

test('an answer has ten seconds, to its end', async (context) => {
  const { send } = await aNotifier(context);
  const receiver = await aReceiver(context);
  receiver.answerWith(
    (response, question) => void response.writeHead(200).write(tokenOf(question)),
  );
  const endpoint = { url: receiver.url, secrets: ['whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM='] };
  const given: unknown[] = [];
  const hasty: typeof send = ({ readAnswer, ...request }) => {
    given.push(readAnswer);
    return send({ ...request, readAnswer: { ...readAnswer!, timeoutMs: 200 } });
  };
  const answer = await askEndpoint(hasty, endpoint, new AbortController().signal);
  assert.deepEqual(given, [{ bytesMax: 4_096, timeoutMs: 10_000 }]);
  assert.equal(answer.outcome, 'unanswered');
});

const rowsOf = `SELECT ordinal, state FROM webhooks.deliveries
  WHERE event_id = $1 ORDER BY event_id, ordinal`;

test('an event goes to each endpoint that wants it, under one webhook-id, and to no other', async (context) => {
  const { owner, endpoint, endpoints, verify, notifyAll, sender } = await aNotifier(context);
  const [first, second, third] = [
    await aReceiver(context),
    await aReceiver(context),
    await aReceiver(context),
  ];
  await endpoint('acme', first.url);
  const make = (key: string, url: string, wants: 'all' | EventType[]) =>
    endpoints.make({
      partnerId: 'acme' as PartnerId,
      url,
      wants,
      key: key as IdempotencyKey,
      fingerprint: key as Fingerprint,
    });
  const made = await make('one', second.url, ['payment.succeeded', 'refund.failed']);
  await make('two', third.url, ['refund.failed']);
  assert.ok(made.outcome === 'made');
  await verify();
  const [eventId] = await notifyAll(['acme'], sender);
  await sender.settled();
  assert.deepEqual([third.received.length, await sender.pass()], [0, 0]);
  for (const [{ received }, secret] of [
    [first, 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM='],
    [second, made.secret],
  ] as const) {
    assert.equal(received.length, 1);
    assert.equal(received[0]!.headers['webhook-id'], eventId);
    new Webhook(secret).verify(received[0]!.body, received[0]!.headers as Record<string, string>);
  }
  const rows = await owner.query(rowsOf, [eventId]);
  const delivered = [1, 2].map((ordinal) => ({ ordinal, state: 'delivered' }));
  assert.deepEqual(rows, delivered);

  // Whoever wants it alone gets it alone; what none wants is written down as such, and not sent.
  await owner.query(`UPDATE partners.webhook_endpoints SET event_types = '{refund.failed}'`);
  const [unwanted] = await notifyAll(['acme'], sender);
  await sender.settled();
  assert.deepEqual(await owner.query(rowsOf, [unwanted]), [{ ordinal: 1, state: 'unwanted' }]);
  assert.deepEqual([first.received.length, second.received.length], [1, 1]);
});

test('a test goes signed to the one endpoint, whatever it wants, and what came back is told', async (context) => {
  const { owner, endpoint, endpoints, ask, show } = await aNotifier(context);
  const receiver = await aReceiver(context);
  await endpoint('acme', receiver.url);
  await owner.query(`UPDATE partners.webhook_endpoints SET event_types = '{refund.failed}'`);
  const { id } = (await show())!;
  const acme = { partnerId: 'acme' as PartnerId, id };
  const testId = randomUUID();
  assert.equal(await endpoints.askTest(acme, testId), 'asked');
  assert.equal(await endpoints.readTest(id, testId), undefined);
  assert.equal(await ask(), 1);
  const [{ headers, body } = assert.fail('nothing came')] = receiver.received;
  const secret = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';
  assert.partialDeepStrictEqual(new Webhook(secret).verify(body, headers as never), {
    type: 'endpoint.test',
    data: { object: 'webhook_endpoint', id },
  });
  assert.equal(headers['webhook-id'], testId);
  const came = await endpoints.readTest(id, testId);
  assert.partialDeepStrictEqual(came, { outcome: 'delivered', status: 204 });

  // One in ten seconds, and of a server that fails what it answered; nothing is tried again.
  assert.equal(await endpoints.askTest(acme, randomUUID()), 'too-soon');
  await owner.query(`UPDATE partners.endpoint_tests SET asked_at = now() - interval '10 seconds'`);
  receiver.answerWith((response) => void response.writeHead(500).end());
  const again = randomUUID();
  assert.equal(await endpoints.askTest(acme, again), 'asked');
  assert.deepEqual([await ask(), await ask()], [1, 0]);
  const refused = { outcome: 'refused', status: 500 };
  assert.partialDeepStrictEqual(await endpoints.readTest(id, again), refused);
  assert.equal(await endpoints.readTest(id, testId), undefined);
  // Its URL is changed before anybody takes it: a server that has proved nothing is sent none.
  await owner.query(`UPDATE partners.endpoint_tests SET asked_at = now() - interval '10 seconds'`);
  assert.equal(await endpoints.askTest(acme, randomUUID()), 'asked');
  await endpoints.change(acme, { url: `${receiver.url}/elsewhere` });
  assert.equal(await ask(), 1);
  assert.deepEqual(
    receiver.received.map((each) => (JSON.parse(each.body) as { type: string }).type),
    ['endpoint.test', 'endpoint.test', 'endpoint.verification'],
  );
  const globex = { ...acme, partnerId: 'globex' as PartnerId };
  assert.equal(await endpoints.askTest(globex, randomUUID()), 'no-endpoint');
  await owner.query('UPDATE partners.webhook_endpoints SET disabled_at = now()');
  assert.equal(await endpoints.askTest(acme, randomUUID()), 'not-open');
});
