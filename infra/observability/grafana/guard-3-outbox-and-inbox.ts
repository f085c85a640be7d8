import { greatest, halfAndMost, lines, numbers, rate, type Dashboard } from './dashboard.ts';
import {
  brought,
  broughtBefore,
  broughtByConsumers,
  consumers,
  numbersOf,
  rowsOf,
} from './watched.ts';

/** Whoever receives events; the auditor admits none by an inbox, and sees every copy. */
const receivers = [...consumers, { prefix: 'triplock_auditor', name: 'Auditor' }];

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
        ...brought.flatMap((panels) => (panels.numbers ?? []).map(numbersOf)),
      ],
    },
    ...rowsOf(broughtBefore),
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
        lines({
          title: 'Left by age',
          description: 'Rows per second that reapers removed from outbox, inboxes and deliveries.',
          unit: 'reqps',
          queries: brought.map(({ reaped: { metric, by, legend } }) => ({
            ...rate(metric, { by }),
            legend,
          })),
        }),
      ],
    },
    ...rowsOf(broughtByConsumers),
  ],
};
