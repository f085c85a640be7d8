import { leavingAttribute } from './check-table.ts';
import { dynamoSettings, type DynamoPlace } from './dynamo-place.ts';

/**
 * Makes the table of the claims where there is none, as the emulator and a first deployment need
 * it. Items leave by their attribute `leaves_at` (seconds), whenever DynamoDB gets to it. Loads the
 * client only when it is called.
 */
export async function createClaimsTable(place: DynamoPlace): Promise<'created' | 'was there'> {
  const aws = await import('@aws-sdk/client-dynamodb');
  const client = new aws.DynamoDBClient(dynamoSettings(place));
  const { table: TableName } = place;
  try {
    await client.send(
      new aws.CreateTableCommand({
        TableName,
        KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
        AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
        BillingMode: 'PAY_PER_REQUEST',
      }),
    );
    await aws.waitUntilTableExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
    const TimeToLiveSpecification = { Enabled: true, AttributeName: leavingAttribute };
    await client.send(new aws.UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
    return 'created';
  } catch (error) {
    if (error instanceof aws.ResourceInUseException) return 'was there';
    throw error;
  } finally {
    client.destroy();
  }
}
