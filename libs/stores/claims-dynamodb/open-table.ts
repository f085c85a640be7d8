import type { Logger } from '@triplock/runtime';
import { checkTable, DynamoTableError } from './check-table.ts';
import type { DynamoConnection } from './connect-dynamo.ts';
import type { DynamoPlace } from './dynamo-place.ts';

/**
 * Connects to a table and checks it; DynamoDB may be away. The client takes a third of a second to
 * load, so it is loaded here and not at import.
 *
 * @throws DynamoTableError when the table is there and DynamoDB may delete items early.
 */
export async function openTable(
  options: DynamoPlace & { logger: Logger; answerTimeoutMs?: number },
): Promise<DynamoConnection> {
  const { connectDynamo } = await import('./connect-dynamo.ts');
  const dynamo = connectDynamo({ answerTimeoutMs: 1_500, ...options });
  try {
    await checkTable(dynamo);
  } catch (error) {
    if (error instanceof DynamoTableError) {
      dynamo.close();
      throw error;
    }
    options.logger.warn({ err: error }, 'dynamodb does not answer at startup, will retry');
  }
  return dynamo;
}
