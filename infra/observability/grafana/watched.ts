import { declarations } from '@triplock/launcher';
import type { Panels, Shown, WatchPanel } from '@triplock/pipeline';
import {
  greatest,
  halfAndMost,
  lines,
  numbers,
  rate,
  type Panel,
  type Query,
  type Row,
} from './dashboard.ts';

/** Whoever consumes events, and how the names of its metrics begin. */
export const consumers = declarations.flatMap(({ metrics: [first = ''], watch }) =>
  watch === undefined ? [] : [{ prefix: first.replace(/_$/, ''), name: watch.panels.title }],
);

/** What services bring for the dashboards, consumers and whoever is before them on the way. */
export const broughtBefore = declarations.flatMap(({ way }) => way?.panels ?? []);
export const broughtByConsumers = declarations.flatMap(({ watch }) => watch?.panels ?? []);
export const brought = [...broughtBefore, ...broughtByConsumers];

/** The stages of a payment's way that are theirs, in its order. */
export const stages = brought.flatMap((panels) => panels.stages ?? []);

/** Those of them that are charted beside the others. */
export const chartedStages = stages.flatMap(({ age, charted }) =>
  charted === undefined ? [] : [{ age, ...charted }],
);

/** The rows that they have of their own. */
export function rowsOf(some: readonly Panels[]): Row[] {
  return some.flatMap(({ row }) =>
    row === undefined ? [] : { title: row.title, panels: row.panels.map(linesOf) },
  );
}

/** A panel of a service's as lines. */
function linesOf(panel: WatchPanel): Panel {
  return lines(drawn(panel));
}

/** A panel of a service's as numbers. */
export function numbersOf(panel: WatchPanel): Panel {
  return numbers(drawn(panel));
}

function drawn({ shows, ...panel }: WatchPanel): Omit<Panel, 'kind'> {
  return { ...panel, queries: shows.flatMap(queriesOf) };
}

function queriesOf(shown: Shown): Query[] {
  if ('rateOf' in shown) return [rate(shown.rateOf, shown)];
  if ('timesOf' in shown) return halfAndMost(shown.timesOf, shown);
  if ('greatestOf' in shown) return [greatest(shown.greatestOf, shown.as, shown.by)];
  return [{ expr: `sum(${shown.sumOf}{instance=~"$instance"})`, legend: shown.as }];
}
