import { declarations } from '@triplock/launcher';

/** What each consumer brings for the dashboards, and how the names of its metrics begin. */
export const watchedConsumers = declarations.flatMap(({ metrics: [first = ''], watch }) =>
  watch === undefined ? [] : [{ prefix: first.replace(/_$/, ''), ...watch }],
);
