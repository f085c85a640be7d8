import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumSeries } from './services.ts';

const text = `# HELP events_total Events
# TYPE events_total counter
events_total{outcome="applied",service="partner-notifier"} 40
events_total{outcome="duplicate",service="partner-notifier"} 2
events_total{outcome="duplicate",kind="late",service="partner-notifier"} 1.5e1
events_total_other{outcome="duplicate"} 9
plain_total 3
`;

test('a counter is the sum of its series that carry the labels', () => {
  assert.equal(sumSeries(text, { name: 'events_total', labels: { outcome: 'duplicate' } }), 17);
  assert.equal(sumSeries(text, { name: 'events_total' }), 57);
  assert.equal(sumSeries(text, { name: 'plain_total' }), 3);
});

test('a counter without a series yet is 0', () => {
  assert.equal(sumSeries(text, { name: 'events_total', labels: { outcome: 'early' } }), 0);
});
