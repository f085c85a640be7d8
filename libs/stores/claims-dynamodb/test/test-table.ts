import { rareTestPart, testNamespace, type Cleanup } from '@triplock/testing';
import { createClaimsTable } from '../claims-table.ts';
import { dynamoServer } from '../part.ts';

/** Where a table is; `emulator` is the URL of the server that stands for the service. */
export type TestTableAddress = { region: string; table: string; emulator: string };

/**
 * A DynamoDB table of one test's own whose items have the key `id`, and hands to change them with.
 */
export type TestTable = TestTableAddress & {
  /** Deletes every item whose id begins so. */
  deleteItems(prefix: string): Promise<void>;
  /** Adds to numbers of an item. */
  addTo(id: string, numbers: Readonly<Record<string, number>>): Promise<void>;
  /** Sets texts of an item. */
  set(id: string, texts: Readonly<Record<string, string>>): Promise<void>;
};

/** Makes a table of claims, and deletes it after the test. */
export async function createTestTable(test: Cleanup): Promise<TestTable> {
  // Loaded here, because it takes a third of a second that few tests need.
  const aws = await import('@aws-sdk/client-dynamodb');
  const emulator = await rareTestPart({ part: dynamoServer, options: ['--claims', 'dynamodb'] });
  const address = { region: 'eu-central-1', table: testNamespace(), emulator };
  await createClaimsTable(address);
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const client = new aws.DynamoDBClient({
    region: address.region,
    endpoint: emulator,
    credentials,
  });
  const TableName = address.table;
  test.after(async () => {
    await client.send(new aws.DeleteTableCommand({ TableName }));
    client.destroy();
  });

  const update = async (id: string, verb: 'ADD' | 'SET', values: Record<string, object>) => {
    const names = Object.keys(values);
    const entries = Object.entries(values);
    const changes = names.map((name) => `#${name} ${verb === 'SET' ? '= ' : ''}:${name}`);
    await client.send(
      new aws.UpdateItemCommand({
        TableName,
        Key: { id: { S: id } },
        UpdateExpression: `${verb} ${changes.join(', ')}`,
        ConditionExpression: 'attribute_exists(id)',
        ExpressionAttributeNames: Object.fromEntries(names.map((name) => [`#${name}`, name])),
        ExpressionAttributeValues: Object.fromEntries(
          entries.map(([name, value]) => [`:${name}`, value as { S: string }]),
        ),
      }),
    );
  };
  return {
    ...address,
    async deleteItems(prefix) {
      for await (const { Items: items = [] } of aws.paginateScan({ client }, { TableName })) {
        const doomed = items.filter(({ id }) => id!.S!.startsWith(prefix));
        const deletes = doomed.map(
          ({ id }) => new aws.DeleteItemCommand({ TableName, Key: { id: id! } }),
        );
        await Promise.all(deletes.map((each) => client.send(each)));
      }
    },
    addTo: (id, numbers) =>
      update(
        id,
        'ADD',
        mapValues(numbers, (number) => ({ N: `${number}` })),
      ),
    set: (id, texts) =>
      update(
        id,
        'SET',
        mapValues(texts, (text) => ({ S: text })),
      ),
  };
}

function mapValues<Value>(record: Readonly<Record<string, Value>>, map: (value: Value) => object) {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}
