import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test, type TestContext } from 'node:test';
import { bringUp, thisMachineFor } from '@triplock/launcher';
import { eventually, freePort } from '@triplock/testing';
import { command, home, onTheSystem, restore } from './test/system.ts';
import {
  type Answer,
  type PartnerRequest,
  type WebhookReceiver,
  isSignedBy,
  newKey,
  openWebhookReceiver,
  sendTo,
} from './test/partner.ts';

const endpointPath = '/v1/webhook-endpoint';
const name = `hooked-${randomBytes(6).toString('hex')}`;

let apiKey: string;
let receiver: WebhookReceiver;

const setup = onTheSystem(async () => {
  receiver = await openWebhookReceiver(thisMachineFor(home));
  const added = await command('partners', 'add', name, '--json');
  assert.equal(added.code, 0, added.stderr);
  ({ apiKey } = JSON.parse(added.stdout) as { apiKey: string });
});
after(() => receiver?.close());

let sent = 0;

/** Asks as the new partner, one gateway after the other. */
async function ask(request: PartnerRequest): Promise<{ status: number; body: Asked }> {
  const { gateways } = setup.system;
  const gateway = gateways[sent++ % gateways.length]!;
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer: Answer = await sendTo(gateway, { ...request, headers });
  return { status: answer.status, body: JSON.parse(answer.body) as Asked };
}

type Asked = Record<string, unknown>;

const setUrl = (url: string) => ask({ method: 'PUT', path: endpointPath, body: { url } });

/** Pays and gives the webhook that came of it. */
async function webhookOfAPayment() {
  const before = receiver.received.length;
  const request = { amount: 3, currency: 'EUR' };
  const paid = await ask({ method: 'POST', path: '/v1/payments', key: newKey(), body: request });
  assert.equal(paid.status, 202);
  const txnId = String(paid.body['id']);
  const webhook = await eventually(async () =>
    receiver.received.slice(before).find(({ body }) => body.includes(txnId)),
  );
  return { webhook, txnId };
}

test('a partner sets its endpoint and rotates its secret: both sign until the old one ends', async () => {
  const none = await ask({ path: endpointPath });
  assert.equal(none.status, 404);
  const made = await setUrl(receiver.url);
  assert.equal(made.status, 201);
  const old = String(made.body['secret']);
  assert.ok(isSignedBy(old, (await webhookOfAPayment()).webhook));

  const rotation = { method: 'POST', path: `${endpointPath}/secrets`, key: newKey('rotation') };
  const rotated = await ask(rotation);
  assert.equal(rotated.status, 201);
  const next = String(rotated.body['secret']);
  assert.deepEqual(await ask(rotation), rotated);
  const { webhook: during } = await webhookOfAPayment();
  assert.deepEqual([isSignedBy(next, during), isSignedBy(old, during)], [true, true]);
  assert.equal(isSignedBy(old, { ...during, body: `${during.body} ` }), false);

  // The day of both is over.
  await setup.look.database.query(
    `UPDATE partners.webhook_endpoints SET second_secret_until = now() - interval '1 second'
     WHERE partner_id = $1`,
    [name],
  );
  const { webhook: after } = await webhookOfAPayment();
  assert.deepEqual([isSignedBy(next, after), isSignedBy(old, after)], [true, false]);
});

test('a webhook that is asked for again comes again, the same under the same id', async () => {
  await setUrl(receiver.url);
  const { webhook, txnId } = await webhookOfAPayment();
  const delivered = async (attempts: number) => {
    const { body } = await ask({ path: '/v1/webhook-deliveries?status=delivered&limit=100' });
    const found = (body['data'] as Asked[]).find((each) => each['txn_id'] === txnId);
    return found?.['attempts'] === attempts && found;
  };
  const first = await eventually(() => delivered(1));
  assert.equal(first['id'], webhook.id);

  const again = `/v1/webhook-deliveries/${webhook.id}/redeliver`;
  const other = await setup.acme.send({ method: 'POST', path: again });
  assert.equal(other.status, 404, other.body);
  const asked = await ask({ method: 'POST', path: again });
  assert.deepEqual([asked.status, asked.body['status']], [202, 'pending']);
  await eventually(() => delivered(2));
  const copies = receiver.received.filter(({ id }) => id === webhook.id);
  assert.equal(copies.length, 2);
  assert.equal(copies[1]!.body, webhook.body);
});

test('where it is required a URL that is set gets a question and no webhook until it echoes the token; then all that waits', async (t) => {
  if (thisMachineFor(home) !== '127.0.0.1') {
    t.skip('containers are given their settings by docker-compose.yml');
    return;
  }
  const required = { 'partner-notifier': { WEBHOOK_VERIFICATION: 'required' } };
  await bringUp({ home, replicas: 2, settings: required });
  t.after(restore);
  const victim = await openWebhookReceiver();
  t.after(() => victim.close());
  await setUrl(victim.url);
  const request = { amount: 4, currency: 'EUR' };
  const paid = await ask({ method: 'POST', path: '/v1/payments', key: newKey(), body: request });
  const txnId = String(paid.body['id']);
  const isParked = async () => {
    const { body } = await ask({ path: '/v1/webhook-deliveries?status=parked&limit=100' });
    return (body['data'] as Asked[]).some((each) => each['txn_id'] === txnId);
  };
  const asked = async () => victim.received.length > 0 && (await isParked());
  await eventually(asked, { withinMs: 60_000, what: 'a question, and a webhook that waits' });
  const typesAt = ({ received }: WebhookReceiver) =>
    received.map(({ body }) => (JSON.parse(body) as { type: string }).type);
  assert.deepEqual(new Set(typesAt(victim)), new Set(['endpoint.verification']));

  victim.answer = (_, { body }) => {
    const { data } = JSON.parse(body) as { data: { token?: string } };
    return { status: 200, body: data.token ?? '' };
  };
  const delivered = async () => victim.received.some(({ body }) => body.includes(txnId));
  await eventually(delivered, { withinMs: 60_000, what: 'the webhook of a server that echoed' });
  const types = typesAt(victim);
  const first = types.findIndex((type) => type !== 'endpoint.verification');
  assert.ok(first > 1 && !types.slice(first).includes('endpoint.verification'), String(types));
});

test('an endpoint inside a private network is refused, and the one before it stays', async () => {
  await setUrl(receiver.url);
  for (const url of [
    'http://10.0.0.1/hooks',
    'https://192.168.1.1/hooks',
    'https://169.254.169.254/latest/meta-data/',
    'https://[fd00::1]/',
    'https://[::ffff:10.0.0.1]/',
    'https://0xa000001/',
    'ftp://partner.example/',
    'https://user:password@partner.example/',
  ]) {
    const refused = await setUrl(url);
    assert.deepEqual([refused.status, refused.body['code']], [400, 'invalid_request'], url);
  }
  assert.equal((await ask({ path: endpointPath })).body['url'], receiver.url);
});

const page = readFileSync(new URL('../docs/partners.md', import.meta.url), 'utf8');

/** What the page has in a language, in its order. */
const snippets = (language: string) =>
  [...page.matchAll(new RegExp(`^\`{3}${language}\\n(.*?)^\`{3}$`, 'gms'))].map(
    ([, code]) => code!,
  );

type Language = { tool: string; file: string; build?: string[]; run: string[] };

/** The servers of the page, and how each is run. */
const languages: Readonly<Record<string, Language>> = {
  js: { tool: process.execPath, file: 'hooks.mjs', run: [process.execPath, 'hooks.mjs'] },
  python: { tool: 'python3', file: 'hooks.py', run: ['python3', 'hooks.py'] },
  go: { tool: 'go', file: 'hooks.go', build: ['build', 'hooks.go'], run: ['./hooks'] },
};

/** Runs all requests of the page in one shell, as a new partner with its server at the URL. */
async function followPage(hookUrl: string) {
  const added = await command('partners', 'add', `${name}-page`, '--json');
  assert.equal(added.code, 0, added.stderr);
  const { apiKey: API_KEY } = JSON.parse(added.stdout) as { apiKey: string };
  const [GATEWAY] = setup.system.gateways;
  const env = { ...process.env, GATEWAY, API_KEY, HOOK_URL: hookUrl };
  const script = [...snippets('bash'), 'printf "\\n%s" "$WEBHOOK_SECRET"'].join('\n');
  const printed = execFileSync('bash', ['-euo', 'pipefail', '-c', script], { env }).toString();
  const headers = { authorization: `Bearer ${API_KEY}` };
  const send = (request: PartnerRequest) => sendTo(GATEWAY!, { headers, ...request });
  return { printed, secret: printed.split('\n').at(-1)!, send };
}

/** Runs the page's server of a language, and gives what it has printed until now. */
async function serve(t: TestContext, language: string, env: Record<string, string>) {
  const { file, tool, build, run } = languages[language]!;
  const folder = mkdtempSync(join(tmpdir(), 'partners-page-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, file), snippets(language).join('\n'));
  if (build) execFileSync(tool, build, { cwd: folder });
  const options = { cwd: folder, env: { ...process.env, ...env } };
  const child = spawn(run[0]!, run.slice(1), { ...options, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(async () => {
    if (child.kill()) await once(child, 'exit');
  });
  let printed = '';
  child.stdout.on('data', (chunk) => (printed += String(chunk)));
  return () => printed;
}

/** A webhook as a partner's server gets it, signed `secondsAgo` by the secret. */
function signed(secret: string, body: string, secondsAgo = 0): Record<string, string> {
  const at = `${Math.floor(Date.now() / 1_000) - secondsAgo}`;
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const mac = createHmac('sha256', key).update(`msg.${at}.${body}`).digest('base64');
  return { 'webhook-id': 'msg', 'webhook-timestamp': at, 'webhook-signature': `v1,AAAA v1,${mac}` };
}

test('every snippet of the page for partners does what the page says, in each language of this machine', async (t) => {
  const port = await freePort();
  const { printed, secret, send } = await followPage(
    `http://${thisMachineFor(home)}:${port}/hooks`,
  );
  for (const shown of ['"pending"', '"succeeded"', '"refund"', '"balance"', '"webhook_secret"']) {
    assert.ok(printed.includes(shown), `${shown} is not in ${printed}`);
  }
  assert.ok(!printed.includes('"code"'), printed);
  const { data } = JSON.parse((await send({ path: '/v1/payments' })).body) as { data: object[] };
  assert.equal(data.length, 1);

  for (const [language, { tool }] of Object.entries(languages)) {
    await t.test(language, async (each) => {
      const isHere = ['-c', `command -v ${tool} || true`];
      if (execFileSync('bash', isHere).length === 0) return each.skip(`${tool} is not here`);
      const env = { WEBHOOK_SECRET: secret, PORT: `${port}` };
      const output = await serve(each, language, env);
      const post = (body: string, headers: Record<string, string>) =>
        fetch(`http://127.0.0.1:${port}/hooks`, { method: 'POST', body, headers });
      const token = newKey();
      const question = JSON.stringify({ type: 'endpoint.verification', data: { token } });
      const answers = async () => {
        const answer = await post(question, signed(secret, question)).catch(() => undefined);
        return answer?.status === 200 && (await answer.text());
      };
      assert.equal(await eventually(answers, { withinMs: 60_000, what: 'its server' }), token);

      const request = { amount: 3, currency: 'EUR' };
      const paid = await send({
        method: 'POST',
        path: '/v1/payments',
        key: newKey(),
        body: request,
      });
      const { id } = JSON.parse(paid.body) as { id: string };
      const told = async () => output().includes(`payment.succeeded ${id}`);
      await eventually(told, { withinMs: 60_000, what: `the webhook of ${id}` });

      const forged = JSON.stringify({ type: 'payment.succeeded', data: { id: 'forged' } });
      const other = `whsec_${Buffer.alloc(32).toString('base64')}`;
      for (const [what, headers] of Object.entries({
        'no signature': {},
        'that of another body': signed(secret, question),
        'that of another secret': signed(other, forged),
        'an old one': signed(secret, forged, 301),
        'one of no time': { ...signed(secret, forged), 'webhook-timestamp': 'now' },
      })) {
        assert.equal((await post(forged, headers)).status, 401, `${language}: ${what}`);
      }
      assert.ok(!output().includes('forged'), output());
    });
  }
});
