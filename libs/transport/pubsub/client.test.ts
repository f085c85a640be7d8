import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keepClient } from './client.ts';

/** A maker that fails so often at first, as one without credentials does. */
function failingMaker(failures: number) {
  const made: { closed: boolean }[] = [];
  let left = failures;
  const make = async () => {
    if (left > 0) {
      left -= 1;
      throw new Error('no credentials yet');
    }
    const client = { closed: false };
    made.push(client);
    return { client, close: async () => void (client.closed = true) };
  };
  return { make, made };
}

test('one client is made and kept until it is forgotten', async () => {
  const { make, made } = failingMaker(0);
  const kept = keepClient(make);
  const first = await kept.get();
  assert.equal(await kept.get(), first);
  await kept.forget(first);
  assert.notEqual(await kept.get(), first);
  await kept.forget(first);
  await kept.get();
  assert.deepEqual(made, [{ closed: true }, { closed: false }]);
  await kept.close();
  assert.deepEqual(made, [{ closed: true }, { closed: true }]);
});

test('a client that could not be made is an error once, and the next one is made', async () => {
  const { make } = failingMaker(1);
  const kept = keepClient(make);
  await Promise.all([assert.rejects(kept.get()), assert.rejects(kept.get())]);
  await kept.get();
  const away = keepClient(failingMaker(1).make);
  await assert.rejects(away.get());
  await away.close();
});
