import { deriveId } from '@triplock/payments';
import { commitTimestamp, type SpannerDatabase } from '@triplock/spanner';
import type { RefusedMessages } from '../refused-messages.ts';

// The message itself is kept beside it.
const detailLengthMax = 500;

const knownSql = 'SELECT id FROM inbox_refused_messages WHERE consumer = @consumer AND id = @id';

/**
 * The refused messages of a consumer that keeps its data in Spanner. After a commit without an
 * answer a message is reported as known, which it then is.
 */
export function openSpannerRefusedMessages(
  database: SpannerDatabase,
  consumer: string,
): RefusedMessages {
  return {
    record: (message, { reason, detail }) => {
      const id = deriveId('refused-message', message.id);
      const row = {
        ...{ consumer, id, message_id: message.id, reason, first_seen: commitTimestamp },
        // Half a surrogate pair would be no text, and a message that cannot be stored would come
        // for ever.
        detail: detail.slice(0, detailLengthMax).toWellFormed(),
        // Bytes travel as base64.
        data: message.data.toString('base64'),
        attributes: JSON.stringify(message.attributes),
      };
      return database.transaction(async (tx) => {
        if ((await tx.query(knownSql, { consumer, id })).length > 0) return 'known';
        tx.write({ kind: 'insert', table: 'inbox_refused_messages', row });
        return 'recorded';
      });
    },
  };
}
