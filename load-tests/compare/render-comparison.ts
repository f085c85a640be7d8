import { renderTable, style } from '@triplock/demo';
import type { Spread } from '../bench/cost-sheet.ts';
import type { Comparison, StoreFigures } from './compare-stores.ts';

/** The stores side by side, for people. */
export function renderComparison({ rig, settings, stores }: Comparison): string[] {
  const { cpu, cores, memoryGiB, os, node, commit, loadBefore } = rig;
  const { seconds, repeat, atOnce } = settings;
  const figures = (digits: number) => (spread: Spread) => {
    const [median, min, max] = [spread.median, spread.min, spread.max].map((figure) =>
      figure.toFixed(digits),
    );
    return `${median} (${min}–${max})`;
  };
  const [whole, fine] = [figures(0), figures(2)];
  const rows = [
    ['claim and completion/s', ...stores.map(({ perSecond }) => whole(perSecond))],
    ['claim after, ms, p50', ...stores.map(({ latencyMs }) => fine(latencyMs.p50))],
    ['claim after, ms, p99', ...stores.map(({ latencyMs }) => fine(latencyMs.p99))],
    ['CPU of Node, µs', ...stores.map(({ cpuMicros }) => whole(cpuMicros))],
    ['bytes a claim', ...stores.map(({ bytesPerClaim }) => bytesPerClaim.toFixed(0))],
    ['kept after kill -9', ...stores.map(({ afterKill }) => keptOf(afterKill))],
    ['lost, noticed', ...stores.map(({ afterKill }) => `${afterKill.lostNoticed}`)],
    ['lost, unnoticed', ...stores.map(({ afterKill }) => `${afterKill.lostUnnoticed}`)],
    ['new keys afterwards', ...stores.map(({ afterKill }) => newKeysOf(afterKill))],
  ];
  const columns = [
    { head: 'median (min–max)' },
    ...stores.map(({ store }) => ({ head: store, align: 'right' as const })),
  ];
  return [
    ...[
      `${cpu}, ${cores} cores, ${memoryGiB} GiB; ${os}; Node ${node}; commit ${commit}; load before ${loadBefore}`,
      `${repeat} × ${seconds} s each in turn, ${atOnce} claims at once; stores and client share the machine; dynamodb is DynamoDB Local`,
    ].map(style.faint),
    '',
    ...renderTable(columns, rows),
  ];
}

function keptOf({ kept, acknowledged }: StoreFigures['afterKill']): string {
  return `${kept} of ${acknowledged}`;
}

function newKeysOf({ coldAfterwards }: StoreFigures['afterKill']): string {
  return coldAfterwards ? 'ask the ledger' : 'claimed at once';
}
