import { declarations } from '@triplock/launcher';

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
