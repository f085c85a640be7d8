import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
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
  assert.ok((await show())?.disabledAt instanceof Date);
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
