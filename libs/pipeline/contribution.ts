/** Who is none of us, and may take as long as they like. */
export type Outsider = 'customer' | 'partner' | 'bank' | 'endpoint';

/**
 * When a check of the audit must find nothing, and so which kind of answer its ids are:
 *
 * - `always`, because what it compares commits together or one after the other: drift;
 * - `in the end`, because work that is still in flight looks the same as a loss: in flight, and
 *   drift once waiting is over;
 * - `once others acted`, because we have done our part: waiting, however long that takes. Each row
 *   has the `partner` whose customer, bank or endpoint it is.
 */
export type Rule = (
  { holds: 'always' | 'in the end' } | { holds: 'once others acted'; waitsFor: Outsider }
) & {
  /**
   * What must have been asked just now; without it the check would find what is only not known yet.
   */
  needs?: 'provider';
  /**
   * It adds up whole tables and takes no window: only for an audit that looks at all there ever
   * was.
   */
  whole?: true;
};

/**
 * What a service is audited by beside what all consumers are: of each check in its
 * `audit/checks.sql` the rule, by its name with `-` for `_`.
 */
export type Rules = Readonly<Record<string, Rule>>;

/** A metric, and of its values one, or all of them. */
export type CounterSource = readonly [metric: string, value?: string];
/** A metric, and what several replicas that show it have together. */
export type GaugeSource = readonly [metric: string, together: 'sum' | 'largest'];

/** What waits in a stage of a payment's way, and for whom: by metrics. */
export type Stage = {
  title: string;
  where: string;
  count: string;
  age: string;
  /** In charts of all stages, and what is counted as it leaves the stage. */
  charted?: { as: string; waits: string; passes: string; passed: string };
};

/** What a panel shows: a metric, and in which way; `by` is one of its labels. */
export type Shown =
  | { rateOf: string; by: string }
  | { timesOf: string; by: string }
  | { greatestOf: string; as: string; by?: string }
  | { sumOf: string; as: string };

/** A panel of a dashboard. */
export type WatchPanel = {
  title: string;
  /** What it shows, and what is to be expected. */
  description: string;
  /** As Grafana calls it: a number, seconds, so many a second. */
  unit: 'short' | 's' | 'reqps';
  shows: readonly Shown[];
};

/** A service on a payment's way, as the console's first page shows it. */
export type Hop = {
  /** What it takes payments or events from. */
  from: 'partners' | 'kafka' | 'outbox' | 'pubsub';
  guard: string;
  does: string;
  /** What its rate counts. */
  unit: string;
  /** Of the figures those that are shown, by their names. */
  rate: string;
  caught?: string;
  inHand?: string;
  oldest?: string;
  /** Of what it remembers by itself, how much was lost and is to be read back; 0: nothing. */
  cold?: string;
  /** What leaves it, where that is counted as well. */
  beneath?: { says: string; rate: string; waiting: string; oldest: string; parked: string };
};

/** What a service brings for the dashboards. */
export type Panels = {
  /** In titles. */
  title: string;
  /** How often, how many in vain and how long: of what, and the histogram of it. */
  duration: { of: string; metric: string };
  /** What left by age: the metric, by one of its labels. */
  reaped: { metric: string; by: string; legend: string };
  /** The stages in which a payment waits there, where its partner waits for them. */
  stages?: readonly Stage[];
  /** Numbers beside what guard 3 caught. */
  numbers?: readonly WatchPanel[];
  /** A row of lines of its own, on guard 3's dashboard. */
  row?: { title: string; panels: readonly WatchPanel[] };
};

/** What a service on the way tells, and its hop. */
export type Way = {
  /** Of one that guard 3 has to do with. */
  panels?: Panels;
  /** Figures of its own, by the names that the console's API has for them. */
  counters: Readonly<Record<string, readonly CounterSource[]>>;
  gauges: Readonly<Record<string, GaugeSource>>;
  hop: Hop;
};

/** How a consumer of events is shown to people. */
export type Watch = Way & {
  panels: Panels;
  /** In docs/operating.md: what it cannot start without, and what to look at as well. */
  manual: { needs: string; lookAt: string };
  /** Metrics that not every consumer has, as docs/observability.md tells of them. */
  metrics: readonly (readonly [name: string, labels: string, tells: string])[];
  /** In docs/failures.md: for each of its crash points what is durable there, and what follows. */
  crashWindows: Readonly<Record<string, readonly [durable: string, then: string]>>;
  /**
   * The most that it may ask of the database for each payment, with some air above what it does
   * (`npm run bench -- --counts`): raise it only with the reason for what that buys.
   */
  most: { statements: number; batches: number; walBytes: number };
  /** In a payment's trace: what it is called there, and the names of its fields in `--json`. */
  trace: {
    layer: string;
    says: string;
    rows: string;
    receivedAt: string;
    isPast: string;
  };
};
