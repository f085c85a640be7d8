import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { test } from 'node:test';
import { systemStatus, usualNames } from '@triplock/launcher';
import { home, onTheSystem } from './test/system.ts';

onTheSystem();

/** What there is to ask for at one port or another, by whoever has no token and no key. */
const paths = [
  '/',
  '/metrics',
  '/crash-points',
  '/v1/payments',
  '/v1/payment_intents',
  `/v1/projects/triplock/topics/${usualNames.eventsTopic}:publish`,
  '/v1/projects/triplock/topics',
  '/api/v1/flow',
  '/flow/events',
];

type Asking = { method: string; path: string; headers: Readonly<Record<string, string>> };
type Answered = { status: number; headers: IncomingHttpHeaders };

test('a page elsewhere reads nothing at any port of the system, and has nothing done there', async () => {
  const { processes } = await systemStatus({ home, withinMs: 60_000 });
  const ports = processes.flatMap(({ name, ports }) =>
    Object.entries(ports).map(([use, port]) => ({ where: `${name} ${use}`, port })),
  );
  assert.ok(ports.length > 15, JSON.stringify(ports));
  const answering = new Set<string>();
  for (const { where, port } of ports) {
    for (const path of paths) {
      const elsewhere = { origin: 'https://evil.example' };
      const own = `127.0.0.1:${port}`;
      const rebound = `rebound.example:${port}`;
      const json = { 'access-control-request-method': 'POST' };
      const wanted = { 'access-control-request-headers': 'content-type' };
      const asked: Asking[] = [
        { method: 'OPTIONS', path, headers: { host: own, ...elsewhere, ...json, ...wanted } },
        { method: 'POST', path, headers: { host: own, ...elsewhere } },
        { method: 'GET', path, headers: { host: own, ...elsewhere } },
        // Once its name points here, a page is of the same origin as what it asks.
        { method: 'POST', path, headers: { host: rebound, origin: `http://${rebound}` } },
        { method: 'GET', path, headers: { host: rebound } },
      ];
      for (const asking of asked) {
        const answered = await ask(port, asking);
        if (answered === undefined) continue;
        answering.add(where);
        const what = `${where}: ${JSON.stringify([asking, answered])}`;
        assert.equal(answered.headers['access-control-allow-origin'], undefined, what);
        if (asking.method !== 'OPTIONS') assert.ok(answered.status >= 400, what);
      }
    }
  }
  assert.ok(answering.has('pubsub port'), JSON.stringify([...answering]));
});

/** What comes back as HTTP; nothing from a port that speaks something else. */
async function ask(port: number, asking: Asking): Promise<Answered | undefined> {
  const body = JSON.stringify({ messages: [{ data: 'e30=' }] });
  const type = { 'content-type': 'text/plain' };
  const headers = asking.method === 'POST' ? { ...type, ...asking.headers } : asking.headers;
  const options = { ...asking, host: '127.0.0.1', port, headers, agent: false };
  const sent = request({ ...options, signal: AbortSignal.timeout(5_000) });
  try {
    sent.end(asking.method === 'POST' ? body : undefined);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const { statusCode: status = 0 } = response;
    response.destroy();
    return { status, headers: response.headers };
  } catch {
    return undefined;
  }
}
