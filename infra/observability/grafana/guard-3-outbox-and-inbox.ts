import { greatest, halfAndMost, lines, numbers, rate, type Dashboard } from './dashboard.ts';
import { linesOf, numbersOf, watchedConsumers } from './watched-consumers.ts';

/** Whoever receives events; the auditor admits none by an inbox, and sees every copy. */
const receivers = [
  ...watchedConsumers.map(({ prefix, panels }) => ({ prefix, name: panels.title })),
  { prefix: 'triplock_auditor', name: 'Auditor' },
];

/** Guard 3: outbox and inboxes, and what consumers make of the events. */
export const guard3: Dashboard = {
  uid: 'triplock-guard-3-outbox-and-inbox',
  title: 'Triplock: guard 3, outbox and inbox',
  description: 'Published at least once in order, applied once per consumer, sent to the partner.',
  rows: [
    {
      title: 'What it caught',
      panels: [
        numbers({
          title: 'Duplicates caught',
          description: 'Events that an inbox already knew, since the consumers started.',
          unit: 'short',
          queries: [
            {
              expr: 'sum by (service) (triplock_duplicates_caught_total{guard="inbox",instance=~"$instance"})',
              legend: '{{service}}',
            },
          ],
        }),
        ...watchedConsumers.flatMap(({ panels }) => (panels.numbers ?? []).map(numbersOf)),
        numbers({
          title: 'Buckets leased',
          description: '64 in all while a dispatcher lives, shared among them.',
          unit: 'short',
          queries: [greatest('triplock_dispatcher_leases', '{{instance}}', 'instance')],
        }),
      ],
    },
    {
      title: 'Outbox',
      panels: [
        lines({
          title: 'Events waiting',
          description:
            'Events that are not published yet, counted up to 10 000; held ones are parked or stand behind a parked one, until a redrive. Every dispatcher counts the whole outbox.',
          unit: 'short',
          queries: [
            greatest('triplock_outbox_pending_rows', 'events'),
            greatest('triplock_outbox_held_rows', 'held'),
          ],
        }),
        lines({
          title: 'Oldest event waiting',
          description: 'How long the oldest of them has waited.',
          unit: 's',
          queries: [greatest('triplock_outbox_oldest_seconds', 'oldest')],
        }),
        lines({
          title: 'Published',
          description:
            'Events, by outcome of publishing. unknown is tried again; parked needs a person.',
          unit: 'reqps',
          queries: [rate('triplock_dispatcher_events_total', { by: 'outcome' })],
        }),
        lines({
          title: 'Time of a publish',
          description: 'Time until Pub/Sub acknowledged the events of one bucket.',
          unit: 's',
          queries: halfAndMost('triplock_dispatcher_publish_seconds', { by: 'outcome' }),
        }),
        lines({
          title: 'Published under a lost lease',
          description:
            'Events that the next owner of the bucket publishes again: copies that the inboxes catch.',
          unit: 'reqps',
          queries: [rate('triplock_dispatcher_unmarked_total', { by: 'instance' })],
        }),
        lines({
          title: 'Left by age',
          description: 'Rows per second that reapers removed from outbox, inboxes and deliveries.',
          unit: 'reqps',
          queries: [
            { ...rate('triplock_outbox_reaped_total', { by: 'service' }), legend: 'outbox' },
            ...watchedConsumers.map(({ prefix, panels: { reaped } }) => ({
              ...rate(`${prefix}_reaped_total`, { by: reaped.by }),
              legend: reaped.legend,
            })),
          ],
        }),
      ],
    },
    {
      title: 'Inboxes',
      panels: [
        ...receivers.map(({ prefix, name }) =>
          lines({
            title: `${name}: events`,
            description:
              'By outcome. early: kept until an earlier one came; altered: not applied, a person has to look.',
            unit: 'reqps',
            queries: [rate(`${prefix}_events_total`, { by: 'outcome' })],
          }),
        ),
        ...receivers.map(({ prefix, name }) =>
          lines({
            title: `${name}: time of an event`,
            description: 'From arrival to ack or nack.',
            unit: 's',
            queries: halfAndMost(`${prefix}_handle_seconds`, { by: 'outcome' }),
          }),
        ),
        lines({
          title: 'In hand',
          description: 'Messages received and neither acknowledged nor given back yet.',
          unit: 'short',
          queries: receivers.map(({ prefix, name }) => greatest(`${prefix}_events_in_hand`, name)),
        }),
        lines({
          title: 'Oldest in hand',
          description: 'How long ago the oldest of them was published.',
          unit: 's',
          queries: receivers.map(({ prefix, name }) =>
            greatest(`${prefix}_events_oldest_seconds`, name),
          ),
        }),
        lines({
          title: 'Refused messages',
          description:
            'Messages that are not valid events, by reason. They are kept aside and have no effect.',
          unit: 'reqps',
          queries: receivers.map(({ prefix, name }) => ({
            ...rate(`${prefix}_refused_messages_total`, { by: 'reason' }),
            legend: `${name}: {{reason}}`,
          })),
        }),
      ],
    },
    ...watchedConsumers.flatMap(({ panels: { row } }) =>
      row === undefined ? [] : { title: row.title, panels: row.panels.map(linesOf) },
    ),
  ],
};
