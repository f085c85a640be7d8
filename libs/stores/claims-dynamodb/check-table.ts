import type { DynamoConnection } from './connect-dynamo.ts';

/** The attribute by which the claims' table lets DynamoDB delete items, in seconds. */
export const leavingAttribute = 'leaves_at';

/** Claims must not be deleted before they expire, because that cannot be noticed. */
export class DynamoTableError extends Error {
  override name = 'DynamoTableError';
}

/**
 * Checks by what DynamoDB deletes items of the table.
 *
 * @throws DynamoTableError when it may delete claims early, ClaimsUnavailableError when it is away.
 */
export async function checkTable(dynamo: DynamoConnection): Promise<void> {
  const attribute = await dynamo.inTime((table) => table.leavingAttribute());
  if (attribute === undefined || attribute === leavingAttribute) return;
  throw new DynamoTableError(
    `the table of the claims lets items leave by ${attribute}, which may drop claims unnoticed: ` +
      `set its time to live to the attribute ${leavingAttribute}`,
  );
}
