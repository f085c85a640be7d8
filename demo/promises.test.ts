import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BrokenPromise, until } from './promises.ts';

test('a wait gives the state that it waited for, whatever failed before', async () => {
  let asked = 0;
  const check = async () => {
    asked += 1;
    if (asked === 1) throw new Error('not up yet');
    return asked === 3 && 'there';
  };
  assert.equal(await until({ what: 'it', check }), 'there');
});

test('a wait in vain says for what, and why the last look failed', async () => {
  const check = () => Promise.reject(new Error('refused'));
  await assert.rejects(until({ what: 'the webhook', check, withinMs: 1 }), (error: Error) => {
    return /in vain for the webhook/.test(error.message) && /refused/.test(String(error.cause));
  });
});

test('a wait lasts as long as there is progress', async () => {
  let step = 0;
  const check = async () => (step += 1) >= 4;
  assert.equal(await until({ what: 'it', check, withinMs: 150, progress: () => step }), true);
});

test('a broken promise and Ctrl-C end a wait at once', async () => {
  const broken = () => Promise.reject(new BrokenPromise('one effect', ['id']));
  await assert.rejects(until({ what: 'it', check: broken }), BrokenPromise);
  const signal = AbortSignal.abort();
  await assert.rejects(until({ what: 'it', check: async () => false, signal }), {
    name: 'AbortError',
  });
});
