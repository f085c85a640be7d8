import type { Insertion } from './insertions.ts';

/** The checks of what it received, with a harm that each new one finds. */
export function audited(name: string): readonly Insertion[] {
  const harms = 'services/auditor/test/harm-to-consumers.ts';
  const hops = 'services/auditor/test/hops.ts';
  return [
    ...comparedInbox(name),
    {
      file: 'services/auditor/checks.ts',
      before: `    'delivery-waiting': `,
      text: `    '${name}-missing': inTheEnd,\n`,
    },
    {
      file: harms,
      before: `  'settlement-differs-from-ledger': [`,
      text: `  '${name}-missing': [remove('${name}.cursors', cursorOfRefund)],\n`,
    },
    {
      file: harms,
      before: `} as const;\ntype Schema`,
      text: `  ${name}: { name: '${name}', receive: '${name}' },\n`,
    },
    {
      file: 'services/auditor/checks.test.ts',
      before: `  'auditor.accepted.kafka_*'`,
      text: `  '${name}.counts*': 'an example: yours needs a check that compares it with the ledger',\n`,
    },
    {
      file: hops,
      before: `    auditor: store.open('triplock_auditor'),`,
      text: `    ${name}: store.open('triplock_${name}'),\n`,
    },
    {
      file: hops,
      before: `    deliver: (eventId: EventId) =>`,
      text: `    // What its effect is does not matter to a check.\n    ${name}: inboxHop(owners.${name}, '${name}', () => Promise.resolve()),\n`,
    },
    {
      file: 'services/auditor/test/whole-system.ts',
      before: `    await hops.deliver(event.event_id);`,
      text: `    await hops.${name}(event);\n`,
    },
    {
      file: 'services/auditor/windows.test.ts',
      before: `,auditor}')`,
      text: `,${name}`,
    },
  ];
}

/** Its inbox, cursors and horizons, beside the other consumers' in the checks. */
function comparedInbox(name: string): readonly Insertion[] {
  const file = 'services/auditor/checks/consumers.sql';
  return [
    {
      file,
      before: `), doubtful AS MATERIALIZED (\n`,
      text: `  UNION ALL\n  SELECT event_id, payload_hash, received_at FROM ${name}.inbox\n  WHERE received_at >= $1 AND received_at < $2\n`,
    },
    {
      file,
      before: `) AS altered\n`,
      text: `  UNION ALL\n  SELECT event_id, first_seen FROM ${name}.altered_copies\n`,
    },
    { file, before: `) AS early\n`, text: earlySql(name) },
    {
      file,
      before: `), cursors AS MATERIALIZED (\n`,
      text: `  UNION ALL\n  SELECT '${name}', ordering_key, sequence, received_at\n  FROM ${name}.inbox WHERE consumer = '${name}'\n`,
    },
    {
      file,
      before: `    OFFSET 0\n  ) AS cursors\n`,
      text: `    UNION ALL\n    SELECT * FROM ${name}.cursors WHERE consumer = '${name}' AND ordering_key = id\n`,
    },
    {
      file,
      before: `)\nSELECT ordering_key::text AS id, min(since)`,
      text: `  UNION ALL\n  SELECT consumer, reaped_before FROM ${name}.inbox_horizons\n`,
    },
    {
      file: 'services/auditor/migrations/0001-baseline.sql',
      after: `settlement.inbox\n    WHERE consumer = 'settlement-feed' AND inbox.event_id = others.event_id OFFSET 0\n  ) AS inbox\n`,
      text: appliedSql(name),
    },
    { file, before: `  ) AS counted\n`, text: reapedSql(name) },
    { file, before: `-- name: delivery_waiting\n`, text: missingSql(name) },
  ];
}

function missingSql(name: string): string {
  return `-- name: ${name}_missing
-- Events that are marked as published and that ${name} has neither applied, by its cursor, nor kept
-- early. A key conflict has no sequence and is not counted.
SELECT outbox.event_id::text AS id, outbox.published_at AS since
FROM ledger.outbox
LEFT JOIN LATERAL (
  SELECT last_sequence FROM ${name}.cursors
  WHERE consumer = '${name}' AND ordering_key = outbox.payment_id OFFSET 0
) AS cursors ON true
WHERE outbox.state = 'published' AND outbox.published_at >= $1 AND outbox.published_at < $2
  AND outbox.sequence > coalesce(cursors.last_sequence, 0)
  AND NOT EXISTS (
    SELECT FROM ${name}.early_events
    WHERE early_events.consumer = '${name}' AND early_events.event_id = outbox.event_id
    OFFSET 0
  )

`;
}

function earlySql(name: string): string {
  return `  UNION ALL
  SELECT event_id, kept_at FROM ${name}.early_events AS early
  WHERE NOT EXISTS (
    SELECT FROM ${name}.cursors
    WHERE cursors.consumer = early.consumer AND cursors.ordering_key = early.ordering_key
      AND cursors.last_sequence >= early.sequence
    OFFSET 0
  )
`;
}

/** What of its inbox is missing, and what was removed by age. */
function reapedSql(name: string): string {
  return `    UNION ALL
    SELECT '${name}.inbox/' || consumer, last_sequence, 0, NULL FROM ${name}.cursors
    UNION ALL
    SELECT '${name}.inbox/' || consumer, -1, 0, NULL FROM ${name}.inbox WHERE sequence IS NOT NULL
    UNION ALL
    SELECT '${name}.inbox/' || consumer, 0, events, reaped_before FROM ${name}.inbox_horizons
`;
}

/** What it applied of the events of a window: most came about then, the others are looked up. */
function appliedSql(name: string): string {
  const about = `SELECT event_id, ordering_key, sequence FROM ${name}.inbox
    WHERE consumer = '${name}'
      AND received_at >= since - interval '1 minute' AND received_at < until + interval '1 minute'`;
  return `  UNION ALL
  SELECT '${name}', inbox.* FROM (
    ${about}
  ) AS inbox
  UNION ALL
  SELECT '${name}', inbox.*
  FROM (
    SELECT event_id FROM ledger.outbox
    WHERE state = 'published' AND published_at >= since AND published_at < until
    EXCEPT ${about.replace(', ordering_key, sequence', '')}
  ) AS others
  CROSS JOIN LATERAL (
    SELECT event_id, ordering_key, sequence FROM ${name}.inbox
    WHERE consumer = '${name}' AND inbox.event_id = others.event_id OFFSET 0
  ) AS inbox
`;
}
