import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { LauncherError } from '@triplock/launcher';
import type { Terminal } from '@triplock/operator';
import { loadScenarios } from './scenarios.ts';
import { loadElsewhere } from './run-load.ts';

const [scenario] = loadScenarios;
const options = { scenario: scenario!, rate: 1, seconds: 1 };

test('a gateway that nobody answers at is refused before anything is sent', async () => {
  const { signal } = new AbortController();
  const context = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  // Nobody listens there.
  const elsewhere = { gateway: 'http://127.0.0.1:1', token: 'any' };
  await assert.rejects(loadElsewhere(elsewhere, context, options), (error: unknown) => {
    assert.ok(error instanceof LauncherError);
    assert.match(error.message, /^nothing answers at http:\/\/127.0.0.1:1: .*give its URL$/);
    return true;
  });
});

test('a gateway that refuses the key is reported before anything is sent', async (t) => {
  const gateway = createServer((request, response) => {
    response.writeHead(request.headers.authorization === 'Bearer wrong' ? 401 : 200).end();
  });
  await once(gateway.listen(0, '127.0.0.1'), 'listening');
  t.after(() => gateway.close());
  const { signal } = new AbortController();
  const context = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  const { port } = gateway.address() as AddressInfo;
  const elsewhere = { gateway: `http://127.0.0.1:${port}`, token: 'wrong' };
  await assert.rejects(loadElsewhere(elsewhere, context, options), /does not know the key/);
});
