import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupQuestions } from './group-questions.ts';

const hashOf = (n: number) => Buffer.from(`hash ${n}`);

/** A store that knows even numbers and answers when the test lets it. */
function aStore() {
  const asked: number[] = [];
  const held: PromiseWithResolvers<void>[] = [];
  const ask = groupQuestions<number>(async (hashes) => {
    asked.push(hashes.length);
    const hold = Promise.withResolvers<void>();
    held.push(hold);
    await hold.promise;
    const known = hashes.filter((hash) => Number(hash.toString().slice(5)) % 2 === 0);
    return new Map(known.map((hash) => [hash.toString('base64'), hash.length]));
  });
  return { asked, held, ask };
}

test('what is asked while a question is under way becomes one question', async () => {
  const { asked, held, ask } = aStore();
  const answers = Array.from({ length: 900 }, (_, n) => ask(hashOf(n)));
  assert.deepEqual(asked, [1]);
  held[0]!.resolve();
  await answers[0];
  await new Promise(setImmediate);
  assert.deepEqual(asked, [1, 899]);
  held[1]!.resolve();
  const all = await Promise.all(answers);
  assert.deepEqual([all[0], all[1], all[898]], [6, undefined, 8]);
});

test('an outage is told to all of its question and not to the next', async () => {
  let away = true;
  const ask = groupQuestions<string>(async (hashes) => {
    if (away) throw new Error('away');
    return new Map(hashes.map((hash) => [hash.toString('base64'), 'acme']));
  });
  const first = await Promise.allSettled([ask(hashOf(1)), ask(hashOf(2))]);
  assert.ok(first.every(({ status }) => status === 'rejected'));
  away = false;
  assert.equal(await ask(hashOf(1)), 'acme');
});

test('those who wait behind a store that hangs are bounded', async () => {
  const { asked, ask } = aStore();
  const answers = Array.from({ length: 10_001 }, (_, n) => ask(hashOf(n)));
  await assert.rejects(ask(hashOf(0)), /too many keys/);
  assert.deepEqual([asked, answers.length], [[1], 10_001]);
});
