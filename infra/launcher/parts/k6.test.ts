import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LauncherError } from '../errors.ts';
import { findK6 } from './k6.ts';

test('where k6 cannot be had the ways to get it are named', async (t) => {
  const { PATH } = process.env;
  t.after(() => void (process.env['PATH'] = PATH));
  process.env['PATH'] = import.meta.dirname;
  const { signal } = new AbortController();
  await assert.rejects(findK6({ report: () => undefined, signal }), (error: unknown) => {
    assert.ok(error instanceof LauncherError);
    assert.match(error.message, /^k6 is not on PATH, no engine has its image.*\n {2}install k6/);
    assert.match(error.message, /docker pull grafana\/k6:\d/);
    return true;
  });
});
