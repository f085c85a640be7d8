import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isFinal, transition, type Settlement, type TransactionState } from './transaction.ts';

const settlement = fc.constantFrom<Settlement>(
  { state: 'succeeded' },
  { state: 'failed', failure: { code: 'declined', message: 'The card was declined.' } },
);

test('a pending transaction takes the first settlement and no later one', () => {
  fc.assert(
    fc.property(fc.array(settlement, { minLength: 1 }), (settlements) => {
      let state: TransactionState = 'pending';
      for (const [turn, each] of settlements.entries()) {
        const change = transition(state, each);
        assert.equal(change.outcome, turn === 0 ? 'settles' : 'already-final');
        state = change.state;
      }
      assert.equal(state, settlements[0]!.state);
    }),
  );
});

test('only pending can still change', () => {
  assert.deepEqual((['pending', 'succeeded', 'failed'] as const).map(isFinal), [false, true, true]);
});
