import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { Logger } from '@triplock/runtime';
import type { DynamoAddress, DynamoConnection } from './dynamo-client.ts';

/** Claims must not be deleted before they expire, because that cannot be noticed. */
export class DynamoTableError extends Error {
  override name = 'DynamoTableError';
}

/**
 * Connects to a table and checks it; DynamoDB may be away. The client takes a third of a second to
 * load, so it is loaded here and not at import.
 *
 * @throws DynamoTableError when the table is there and DynamoDB may delete items early.
 */
export async function openTable(
  options: DynamoAddress & { logger: Logger; answerTimeoutMs?: number },
): Promise<DynamoConnection> {
  const { connectDynamo } = await import('./dynamo-client.ts');
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

/**
 * Makes the table of the claims where there is none, as a first deployment and a server that stands
 * for the service need it. Items leave by their attribute `leaves_at` (seconds), whenever DynamoDB
 * gets to it; one that leaves by another is left as it is, and openTable refuses it. A crash in
 * between leaves a table that keeps everything, and the next call mends it. Loads the client only
 * when it is called.
 */
export async function createClaimsTable(address: DynamoAddress): Promise<'created' | 'was there'> {
  const aws = await import('@aws-sdk/client-dynamodb');
  const { dynamoSettings } = await import('./dynamo-client.ts');
  const client = new aws.DynamoDBClient(dynamoSettings(address));
  const { table: TableName } = address;
  const create = new aws.CreateTableCommand({
    TableName,
    KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
    BillingMode: 'PAY_PER_REQUEST',
  });
  try {
    const made = await client.send(create).then(
      () => 'created' as const,
      (error: unknown) => {
        if (error instanceof aws.ResourceInUseException) return 'was there' as const;
        throw error;
      },
    );
    await aws.waitUntilTableExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
    await letItemsLeave(client, TableName);
    return made;
  } finally {
    client.destroy();
  }
}

/** Has DynamoDB delete items by the attribute of the claims, unless it deletes by any already. */
async function letItemsLeave(client: DynamoDBClient, TableName: string): Promise<void> {
  const aws = await import('@aws-sdk/client-dynamodb');
  const asked = await client.send(new aws.DescribeTimeToLiveCommand({ TableName }));
  if (asked.TimeToLiveDescription?.AttributeName !== undefined) return;
  const TimeToLiveSpecification = { Enabled: true, AttributeName: leavingAttribute };
  try {
    await client.send(new aws.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
  } catch (error) {
    // A server that stands for the service may not know of it: then items stay, which costs room.
    // The service refuses where somebody else sets it at this moment, or did within the hour; what
    // came of that openTable judges.
    const isLeft = ['UnknownOperationException', 'ValidationException'];
    if (!isLeft.includes((error as Error).name)) throw error;
  }
}

/** The attribute by which the claims' table lets DynamoDB delete items, in seconds. */
const leavingAttribute = 'leaves_at';

/**
 * Checks by what DynamoDB deletes items of the table.
 *
 * @throws DynamoTableError when it may delete claims early, ClaimsUnavailableError when it is away.
 */
async function checkTable(dynamo: DynamoConnection): Promise<void> {
  const attribute = await dynamo.inTime((table) => table.leavingAttribute());
  if (attribute === undefined || attribute === leavingAttribute) return;
  throw new DynamoTableError(
    `the table of the claims lets items leave by ${attribute}, which may drop claims unnoticed: ` +
      `set its time to live to the attribute ${leavingAttribute}`,
  );
}

// Only space is won by deleting, so there is no hurry.
const leavesAfterMs = 3_600_000;

/** When DynamoDB may delete what expires then: milliseconds in, seconds out. */
export function leavesAt(expiresAtMs: number): number {
  return Math.ceil((expiresAtMs + leavesAfterMs) / 1_000);
}
