import { UsageError } from '@triplock/launcher';

/** Where a dead letter lies. `kafka` is its place in the dead-letter topic. */
export type LetterId =
  | { source: 'kafka'; partition: number; offset: bigint }
  | { source: 'outbox' | 'webhook'; eventId: string };

const kafkaId = /^kafka:(\d{1,9}):(\d{1,18})$/;
const rowId = /^(outbox|webhook):([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;

/** @throws UsageError when the text is no id of a dead letter. */
export function parseLetterId(text: string): LetterId {
  const place = kafkaId.exec(text);
  if (place) return { source: 'kafka', partition: Number(place[1]), offset: BigInt(place[2]!) };
  const row = rowId.exec(text);
  if (row) return { source: row[1] as 'outbox' | 'webhook', eventId: row[2]!.toLowerCase() };
  throw new UsageError(
    `'${text}' is no dead letter: expected kafka:<partition>:<offset>, outbox:<event id> or webhook:<event id>`,
  );
}

/** The id as it is shown and recorded; one letter has one. */
export function renderLetterId(id: LetterId): string {
  if (id.source === 'kafka') return `kafka:${id.partition}:${id.offset}`;
  return `${id.source}:${id.eventId}`;
}
