import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { openPlaces, type Asker } from './places.ts';

test('whoever waits, at most as many are in as there are places, and all get in', async () => {
  const askers = fc.array(fc.constantFrom<Asker>('batch', 'resolver'), { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(askers, fc.integer({ min: 1, max: 5 }), async (some, placesMax) => {
      const places = openPlaces(placesMax);
      let [inside, most] = [0, 0];
      await Promise.all(
        some.map(async (asker) => {
          await places.take(asker);
          inside += 1;
          most = Math.max(most, inside);
          await new Promise(setImmediate);
          inside -= 1;
          places.giveBack();
        }),
      );
      assert.equal(most, Math.min(placesMax, some.length));
      assert.equal(places.free(), placesMax);
    }),
  );
});

test('where both wait they get places in turn, however many of one there are', async () => {
  const places = openPlaces(1);
  await places.take('batch');
  const order: string[] = [];
  const wait = async (asker: Asker) => {
    await places.take(asker);
    order.push(asker);
    places.giveBack();
  };
  const all = [...Array<Asker>(5).fill('batch'), 'resolver' as const, 'resolver' as const].map(
    wait,
  );
  places.giveBack();
  await Promise.all(all);
  assert.deepEqual(order.slice(0, 4).sort(), ['batch', 'batch', 'resolver', 'resolver']);
  assert.equal(order.length, 7);
});

test('what is taken at once is what is free, and nothing that somebody waits for', async () => {
  const places = openPlaces(3);
  await places.take('batch');
  assert.equal(places.takeFree(Infinity), 2);
  assert.equal(places.takeFree(1), 0);
  const waited = places.take('batch');
  places.giveBack();
  await waited;
  assert.equal(places.takeFree(1), 0);
});
