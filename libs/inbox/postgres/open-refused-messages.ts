import { loadSql, type Database } from '@triplock/postgres';
import type { RefusedMessages } from '../refused-messages.ts';

const recordRefusedMessage = loadSql(import.meta.url, 'record-refused-message.sql');

// The message itself is kept beside it.
const detailLengthMax = 500;

/** A consumer's refused messages, in the schema that the database's role works in. */
export function openRefusedMessages(database: Database, consumer: string): RefusedMessages {
  return {
    async record({ id, data, attributes }, { reason, detail }) {
      // PostgreSQL's text refuses a NUL, and a message that cannot be stored would come for ever.
      const storable = detail.slice(0, detailLengthMax).replaceAll('\0', '\\0');
      const parameters = [consumer, id, reason, storable, data, JSON.stringify(attributes)];
      const rows = await database.query(recordRefusedMessage, parameters);
      return rows.length > 0 ? 'recorded' : 'known';
    },
  };
}
