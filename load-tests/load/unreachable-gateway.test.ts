import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Terminal } from '@triplock/demo';
import { LauncherError } from '@triplock/infra';
import { loadScenarios } from './load-scenarios.ts';
import { loadElsewhere } from './run-load.ts';

test('a gateway that nobody answers at is refused before anything is sent', async () => {
  const [scenario] = loadScenarios;
  const options = { scenario: scenario!, rate: 1, seconds: 1 };
  const { signal } = new AbortController();
  const parts = { terminal: {} as Terminal, signal, folder: '/nowhere' };
  // Nobody listens there.
  const elsewhere = { gateway: 'http://127.0.0.1:1', token: 'any' };
  await assert.rejects(loadElsewhere(elsewhere, parts, options), (error: unknown) => {
    assert.ok(error instanceof LauncherError);
    assert.match(error.message, /^nothing answers at http:\/\/127.0.0.1:1: .*give its URL$/);
    return true;
  });
});
