import { declarations } from '@triplock/launcher';
import type { Shown, WatchPanel } from '@triplock/pipeline';
import {
  greatest,
  halfAndMost,
  lines,
  numbers,
  rate,
  type Panel,
  type Query,
} from './dashboard.ts';

/** What each consumer brings for the dashboards, and how the names of its metrics begin. */
export const watchedConsumers = declarations.flatMap(({ metrics: [first = ''], watch }) =>
  watch === undefined ? [] : [{ prefix: first.replace(/_$/, ''), ...watch }],
);

/** The stages of a payment's way that are theirs, in its order. */
export const stagesOfConsumers = watchedConsumers.flatMap(({ panels }) => panels.stages ?? []);

/** Those of them that are charted beside the others. */
export const chartedStages = stagesOfConsumers.flatMap(({ age, charted }) =>
  charted === undefined ? [] : [{ age, ...charted }],
);

/** A panel of a consumer's as lines. */
export function linesOf(panel: WatchPanel): Panel {
  return lines(drawn(panel));
}

/** A panel of a consumer's as numbers. */
export function numbersOf(panel: WatchPanel): Panel {
  return numbers(drawn(panel));
}

function drawn({ shows, ...panel }: WatchPanel): Omit<Panel, 'kind'> {
  return { ...panel, queries: shows.flatMap(queriesOf) };
}

function queriesOf(shown: Shown): Query[] {
  if ('rateOf' in shown) return [rate(shown.rateOf, shown)];
  if ('timesOf' in shown) return halfAndMost(shown.timesOf, shown);
  if ('greatestOf' in shown) return [greatest(shown.greatestOf, shown.as)];
  return [{ expr: `sum(${shown.sumOf}{instance=~"$instance"})`, legend: shown.as }];
}
