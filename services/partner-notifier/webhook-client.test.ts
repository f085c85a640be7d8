import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { LookupAddress } from 'node:dns';
import { createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import { currentApiVersion } from '@triplock/contracts';
import { isAllowedAddress, type TargetPolicy } from '@triplock/partners';
import type { EventId } from '@triplock/payments';
import { freePort } from '@triplock/testing';
import { Webhook } from 'standardwebhooks';
import { aReceiver } from './test/webhooks.ts';
import {
  checkedLookup,
  createSendWebhook,
  resolverFor,
  signWebhook,
  type SendWebhookOptions,
  type WebhookRequest,
} from './webhook-client.ts';

const secret = 'whsec_c2VjcmV0LW9uZS1vZi1hY21lLTI0Ynl0ZXM=';
const eventId = '328391a9-46c9-8809-a8b6-3591db80e499' as EventId;
const body = '{"type":"payment.succeeded"}';

type Wish = Partial<SendWebhookOptions> & Pick<WebhookRequest, 'readAnswer'> & { secret?: string };

function sendTo(url: string, { readAnswer, ...options }: Wish = {}) {
  const send = createSendWebhook({
    policy: 'loopback-too',
    resolve: async () => ['127.0.0.1'],
    timeoutMs: 5_000,
    ...options,
  });
  const endpoint = { url, secrets: [options.secret ?? secret] };
  const { signal } = new AbortController();
  return send({ endpoint, id: eventId, body, signal, ...(readAnswer && { readAnswer }) });
}

async function receiverThatAnswers(context: TestContext, status: number, head = {}) {
  const receiver = await aReceiver(context);
  receiver.answerWith((response) => void response.writeHead(status, head).end('some words'));
  return receiver;
}

test('a webhook arrives as it was signed, and any 2xx is a delivery', async (context) => {
  const receiver = await receiverThatAnswers(context, 202);
  assert.deepEqual(await sendTo(receiver.url), { outcome: 'delivered', status: 202 });
  const [received] = receiver.received;
  assert.equal(received!.body, body);
  assert.equal(received!.headers['content-type'], 'application/json');
  assert.equal(received!.headers['triplock-version'], currentApiVersion);
  const headers = received!.headers as Record<string, string>;
  assert.deepEqual(new Webhook(secret).verify(received!.body, headers), JSON.parse(body));
});

test('a redirect is not followed, and is no delivery', async (context) => {
  const target = await aReceiver(context);
  const receiver = await receiverThatAnswers(context, 307, { location: target.url });
  assert.deepEqual(await sendTo(receiver.url), { outcome: 'refused', status: 307 });
  assert.equal(target.received.length, 0);
});

test('an error answer is no delivery', async (context) => {
  const receiver = await receiverThatAnswers(context, 500);
  assert.deepEqual(await sendTo(receiver.url), { outcome: 'refused', status: 500 });
});

test('a receiver that switches protocols holds up nobody, and is no delivery', async (context) => {
  const switching = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n');
    });
  });
  const port = await freePort();
  await new Promise<void>((resolve) => switching.listen(port, '127.0.0.1', resolve));
  context.after(() => void switching.close());
  const outcome = await sendTo(`http://127.0.0.1:${port}/`);
  assert.deepEqual(outcome, { outcome: 'unanswered', error: 'closed unanswered' });
});

test('a receiver that never answers costs no more than the time-out', async (context) => {
  const receiver = await aReceiver(context);
  receiver.answerWith(() => undefined);
  const started = performance.now();
  const outcome = await sendTo(receiver.url, { timeoutMs: 200 });
  assert.deepEqual(outcome, { outcome: 'unanswered', error: 'no answer in time' });
  assert.ok(performance.now() - started < 2_000);
});

test('an endless answer is not read to its end, whether or not anybody wants to know it', async (context) => {
  // The time-out of an attempt ends its answer as well: here it never comes.
  const timeoutMs = 86_400_000;
  for (const wish of [{ timeoutMs }, { readAnswer: { bytesMax: 4_096, timeoutMs } }]) {
    const receiver = await aReceiver(context);
    const end = pourInto(receiver);
    assert.deepEqual(await sendTo(receiver.url, wish), { outcome: 'delivered', status: 200 });
    assert.equal(await end, 'cut');
  }
});

/** Answers with more than the sockets on the way hold, and tells whether it was all taken. */
function pourInto({ answerWith }: Awaited<ReturnType<typeof aReceiver>>): Promise<'cut' | 'read'> {
  const end = Promise.withResolvers<'cut' | 'read'>();
  const chunk = Buffer.alloc(64 * 1024);
  answerWith((response) => {
    let chunksLeft = 1_024;
    response.on('close', () => end.resolve(response.writableFinished ? 'read' : 'cut'));
    response.on('error', () => end.resolve('cut'));
    response.writeHead(200);
    const pour = () => {
      while (chunksLeft > 0) {
        chunksLeft -= 1;
        if (!response.write(chunk)) return;
      }
      response.end();
    };
    response.on('drain', pour);
    pour();
  });
  return end.promise;
}

test('nobody listening is no answer', async () => {
  const outcome = await sendTo(`http://127.0.0.1:${await freePort()}/`);
  assert.deepEqual(outcome, { outcome: 'unanswered', error: 'ECONNREFUSED' });
});

test('in production nothing is sent over http, to a private address or to its name', async (context) => {
  const receiver = await aReceiver(context);
  const { port } = new URL(receiver.url);
  for (const url of [
    receiver.url,
    `https://127.0.0.1:${port}/`,
    `https://partner.example:${port}/`,
  ]) {
    const { outcome } = await sendTo(url, { policy: 'public' });
    assert.equal(outcome, 'unsendable', url);
  }
  assert.equal(receiver.received.length, 0);
});

test('a name is checked anew at every connection, and all its addresses are', async (context) => {
  const receiver = await aReceiver(context);
  const answers = [['8.8.8.8', '127.0.0.1'], ['127.0.0.1']];
  const url = `https://partner.example:${new URL(receiver.url).port}/`;
  const resolve = async () => answers.shift()!;
  assert.equal((await sendTo(url, { policy: 'public', resolve })).outcome, 'unsendable');
  assert.equal((await sendTo(url, { policy: 'public', resolve })).outcome, 'unsendable');
  assert.equal(receiver.received.length, 0);
});

test('a malformed URL or secret is reported without quoting it', async () => {
  for (const outcome of [
    await sendTo('not a url'),
    await sendTo('http://127.0.0.1:1/', { secret: 'whsec_%%%not-base64%%%' }),
  ]) {
    assert.equal(outcome.outcome, 'unsendable');
    assert.doesNotMatch(JSON.stringify(outcome), /not a url|not-base64/);
  }
});

const older = secret;
const newer = 'whsec_c2VjcmV0LXR3by1vZi1hY21lLTI0Ynl0ZXM=';
const text = '{"type":"payment.succeeded","data":{"description":"Grüße €"}}';

test('a receiver verifies with either secret while they rotate', () => {
  const headers = signWebhook([newer, older], { id: eventId, body: text, at: new Date() });
  for (const secret of [newer, older]) {
    assert.deepEqual(new Webhook(secret).verify(text, headers), JSON.parse(text));
  }
  assert.equal(headers['webhook-id'], eventId);
});

test('a receiver refuses an altered body, another secret and an old attempt', () => {
  const headers = signWebhook([newer], { id: eventId, body: text, at: new Date() });
  assert.throws(() => new Webhook(newer).verify(`${text} `, headers));
  assert.throws(() => new Webhook(older).verify(text, headers));
  const old = signWebhook([newer], {
    id: eventId,
    body: text,
    at: new Date(Date.now() - 3_600_000),
  });
  assert.throws(() => new Webhook(newer).verify(text, old), /too old/);
});

test('each attempt has a time and a signature of its own, and the same id', () => {
  const [first, second] = [1_000, 2_000].map((ms) =>
    signWebhook([newer], { id: eventId, body: text, at: new Date(ms) }),
  );
  assert.equal(first!['webhook-id'], second!['webhook-id']);
  assert.notEqual(first!['webhook-timestamp'], second!['webhook-timestamp']);
  assert.notEqual(first!['webhook-signature'], second!['webhook-signature']);
});

test('every signature is the one that the library of Standard Webhooks makes', () => {
  const at = new Date(1_700_000_000_987);
  const bodies = ['', text, 'x'.repeat(10_000)];
  for (let bytes = 1; bytes <= 64; bytes += 1) {
    const secret = `whsec_${randomBytes(bytes).toString('base64')}`;
    for (const body of bodies) {
      const { 'webhook-signature': signature } = signWebhook([secret], { id: eventId, body, at });
      assert.equal(signature, new Webhook(secret).sign(eventId, at, body));
    }
  }
});

test('a secret that is not whsec_ and base64 signs nothing', () => {
  for (const secret of ['', 'whsec_', 'whsec_abc', 'whsec_ab-_', 'c2VjcmV0', `${newer} `]) {
    const sign = () => signWebhook([secret], { id: eventId, body: text, at: new Date() });
    assert.throws(sign, TypeError, secret);
  }
});

function lookUp(addresses: string[], policy: TargetPolicy): Promise<string | LookupAddress[]> {
  const lookup = checkedLookup(policy, async () => addresses);
  return new Promise((resolve, reject) => {
    lookup('partner.example', { all: true }, (error, found) =>
      error ? reject(error) : resolve(found),
    );
  });
}

test('a connection goes to just the addresses that were checked', async () => {
  assert.deepEqual(await lookUp(['8.8.8.8', '2606:4700::1111'], 'public'), [
    { address: '8.8.8.8', family: 4 },
    { address: '2606:4700::1111', family: 6 },
  ]);
});

test('a name with one private address among its public ones is refused', async () => {
  await assert.rejects(lookUp(['8.8.8.8', '10.0.0.1'], 'public'), { name: 'AddressRefusedError' });
  await assert.rejects(lookUp(['127.0.0.1'], 'public'), { name: 'AddressRefusedError' });
  assert.equal((await lookUp(['127.0.0.1'], 'loopback-too')).length, 1);
});

test('a demo finds the names of its own machine, and a name that nobody has stays without address', async () => {
  const resolve = resolverFor('loopback-too');
  const found = await resolve('localhost');
  assert.ok(found.length > 0);
  for (const address of found) assert.equal(isAllowedAddress(address, 'loopback-too'), true);
  await assert.rejects(resolve('partner.invalid'), { message: 'its host name has no address' });
});
