import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { thisMachineFor } from '@triplock/launcher';
import { eventually, freePort } from '@triplock/testing';
import { newKey, sendTo, type PartnerRequest } from './test/partner.ts';
import { command, home, onTheSystem } from './test/system.ts';

const setup = onTheSystem();

const page = readFileSync(new URL('../docs/partners.md', import.meta.url), 'utf8');

/** What the page has in a language, in its order. */
const snippets = (language: string) =>
  [...page.matchAll(new RegExp(`^\`{3}${language}\\n(.*?)^\`{3}$`, 'gms'))].map(
    ([, code]) => code!,
  );

/** What its requests charge, at each provider that has a request there. */
const methods = snippets('bash').flatMap((code) =>
  [...code.matchAll(/"payment_method": "([^"]+)"/g)].map(([, method]) => method!),
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
  const added = await command(
    'partners',
    'add',
    `reader-${randomBytes(6).toString('hex')}`,
    '--json',
  );
  assert.equal(added.code, 0, added.stderr);
  const { apiKey: given } = JSON.parse(added.stdout) as { apiKey: string };
  const [GATEWAY] = setup.system.gateways;
  const env = { ...process.env, GATEWAY, API_KEY: given, HOOK_URL: hookUrl };
  const kept = 'printf "\\n%s\\n%s" "$WEBHOOK_SECRET" "$API_KEY"';
  const script = [...snippets('bash'), kept].join('\n');
  const printed = execFileSync('bash', ['-euo', 'pipefail', '-c', script], { env }).toString();
  const [secret, apiKey] = printed.split('\n').slice(-2) as [string, string];
  assert.notEqual(apiKey, given, 'it was rotated');
  const headers = { authorization: `Bearer ${apiKey}` };
  const send = (request: PartnerRequest) => sendTo(GATEWAY!, { headers, ...request });
  return { printed, secret, send, env: { ...env, API_KEY: apiKey } };
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

test('the line of the page for a demo shows the secret of its partner', () => {
  const [line, ...more] = snippets('sh');
  assert.deepEqual(more, []);
  const here = line!.replace('--json', `--json --home ${home}`);
  assert.notEqual(here, line);
  const script = `${here}\nprintf %s "$WEBHOOK_SECRET"`;
  const printed = execFileSync('bash', ['-euo', 'pipefail', '-c', script]).toString();
  const { webhookSecret } = setup.system.partners.find(({ id }) => id === 'acme')!;
  assert.equal(printed, webhookSecret);
});

test('every snippet of the page for partners does what the page says, in each language of this machine', async (t) => {
  const port = await freePort();
  const { printed, secret, send, env } = await followPage(
    `http://${thisMachineFor(home)}:${port}/hooks`,
  );
  for (const shown of [
    '"pending"',
    '"succeeded"',
    '"refund"',
    '"balance"',
    '"webhook_secret"',
    '"refunds only"',
    ...methods.map((method) => `"${method}"`),
  ]) {
    assert.ok(printed.includes(shown), `${shown} is not in ${printed}`);
  }
  assert.ok(!printed.includes('"code"'), printed);
  type List = { data: { id: string; txn_id?: string; payment_method?: string }[] };
  const list = async (path: string) => JSON.parse((await send({ path })).body) as List;
  // It shows what is posted: the last was accepted a moment ago.
  const charged = await eventually(async () => {
    const { data } = await list('/v1/payments');
    const found = methods.map((each) => data.find(({ payment_method: method }) => method === each));
    return found.every((each) => each !== undefined) && found;
  });
  // The key that was given is gone, and its successor does the same.
  const keys = JSON.parse((await send({ path: '/v1/api-keys' })).body) as {
    data: { scope: string; name: string; current: boolean }[];
  };
  assert.deepEqual(
    keys.data.map(({ scope, name, current }) => ({ scope, name, current })),
    [{ scope: 'full', name: 'shop', current: true }],
  );
  const endpoints = (await list('/v1/webhook-endpoints')).data;
  assert.equal(endpoints.length, 1, 'the other was deleted');
  // Its server ends with this test: its webhooks would be tried for a day, under later tests.
  t.after(() => send({ method: 'DELETE', path: `/v1/webhook-endpoints/${endpoints[0]!.id}` }));

  await t.test('what enables an endpoint again sets that one, and no older one', async () => {
    type Endpoint = { id: string; updated_at: string };
    const body = { url: `http://${thisMachineFor(home)}:${port}/more` };
    const path = '/v1/webhook-endpoints';
    const made = JSON.parse(
      (await send({ method: 'POST', path, key: newKey(), body })).body,
    ) as Endpoint;
    const [again, ...more] = snippets('bash').filter((code) => code.includes('/redeliver'));
    assert.deepEqual(more, []);
    const its = { ...env, ORDER: newKey(), DISABLED: made.id, HOOK_URL: `${body.url}/again` };
    execFileSync('bash', ['-euo', 'pipefail', '-c', again!], { env: its });
    const [oldest, second] = (await list(path)).data as (Endpoint & { url: string })[];
    assert.partialDeepStrictEqual(second, { id: made.id, url: its.HOOK_URL });
    assert.deepEqual(oldest, endpoints[0]);
    assert.equal((await send({ method: 'DELETE', path: `${path}/${made.id}` })).status, 204);
  });

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
      // Nobody answered when the page set it.
      const path = '/v1/webhook-endpoint';
      const shown = async () => JSON.parse((await send({ path })).body) as Record<string, unknown>;
      await send({ method: 'PUT', path, body: { url: (await shown())['url'] } });
      await eventually(async () => (await shown())['status'] === 'verified');

      const paid = await send({
        method: 'POST',
        path: '/v1/payments',
        key: newKey(),
        body: { amount: 3, currency: 'EUR' },
      });
      const { id } = JSON.parse(paid.body) as { id: string };
      await eventually(async () => output().includes(`payment.succeeded ${id}`));

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
  // Some are settled later. What is told then needs the endpoint: without, it would wait for one.
  await eventually(async () => {
    const { data } = await list('/v1/webhook-deliveries');
    return charged.every(({ id }) => data.some(({ txn_id: of }) => of === id));
  });
});
