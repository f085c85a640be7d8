import type { AttributeValue, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { bucketCount } from '@triplock/contracts';
import { bucketOf, type TxnId } from '@triplock/payments';
import type { ClaimsInspector } from '@triplock/claims';

type Attributes = Record<string, AttributeValue>;

/** A table of claims; `emulator` is the URL of a server that stands for the service. */
export type DynamoTable = { region: string; table: string; emulator?: string | undefined };

/** Claims in DynamoDB. */
export function inspectDynamoClaims({
  region,
  table: TableName,
  emulator,
  namespace,
}: DynamoTable & { namespace: string }): ClaimsInspector {
  // Loaded when it is needed, because it takes a third of a second.
  const library = import('@aws-sdk/client-dynamodb');
  const opened = library.then(
    (aws) =>
      new aws.DynamoDBClient({ region, ...(emulator && { endpoint: emulator, credentials }) }),
  );
  const withClient = async <Result>(
    work: (aws: Awaited<typeof library>, client: DynamoDBClient) => Promise<Result>,
  ) => work(await library, await opened);
  const keyOf = (txnId: string) => ({ id: { S: `${namespace}#claim#${txnId}` } });
  const ourItems = (kind = '') =>
    withClient(async (aws, client) => {
      const ours: Attributes[] = [];
      for await (const { Items = [] } of aws.paginateScan({ client }, { TableName })) {
        ours.push(...Items.filter(({ id }) => id!.S!.startsWith(`${namespace}#${kind}`)));
      }
      return ours;
    });
  const eachOf = (items: readonly Attributes[], change: (id: AttributeValue) => Promise<unknown>) =>
    inBatches(items, (item) => change(item['id']!));
  return {
    look: (txnId) =>
      withClient(async (aws, client) => {
        const get = { TableName, Key: keyOf(txnId), ConsistentRead: true };
        const { Item: item } = await client.send(new aws.GetItemCommand(get));
        const leftMs = Number(item?.['expires_at']?.N) - Date.now();
        return item === undefined || leftMs <= 0 ? undefined : seen(item, leftMs);
      }),
    expire: (txnId) =>
      withClient((aws, client) => expireItem({ aws, client, TableName }, keyOf(txnId))),
    forget: () =>
      withClient(async (aws, client) => {
        const remove = (item: Attributes) => removeAsSeen({ aws, client, TableName }, item);
        const items = await ourItems();
        // A bucket's marker goes before its claims: claims that go before it would be a loss that
        // nobody sees. Once it is gone the bucket is cold, and what goes after it is of before.
        const markers = items.filter(isMarker);
        const gone = await inBatches(markers, remove);
        const kept = new Set(markers.filter((_, at) => !gone[at]).map(bucketOfItem));
        const rest = items.filter((item) => !isMarker(item) && !kept.has(bucketOfItem(item)));
        const keys = [...gone, ...(await inBatches(rest, remove))].filter(Boolean).length;
        return { command: 'DELETE of all items in DynamoDB', keys };
      }),
    count: async () => (await ourItems('claim#')).length + (await ourItems('marker#')).length,
    ageMarkers: (ms) =>
      withClient(async (aws, client) => {
        const markers = await ourItems('marker#');
        await eachOf(markers, (id) => {
          const ExpressionAttributeValues = { ':older': { N: `${-ms}` } };
          const change = { UpdateExpression: 'ADD since :older', ExpressionAttributeValues };
          return client.send(new aws.UpdateItemCommand({ TableName, Key: { id }, ...change }));
        });
        return markers.length;
      }),
    bytesPerClaim: async () => {
      const billed = async (kind: string) => {
        const some = (await ourItems(kind)).slice(0, 500);
        return some.reduce((sum, item) => sum + billedBytes(item), 0) / some.length;
      };
      return { claim: await billed('claim#'), shown: await billed('shown#') };
    },
    close: async () => (await opened).destroy(),
  };
}

/** A table in the hands of its client. */
type OpenTable = {
  aws: typeof import('@aws-sdk/client-dynamodb');
  client: DynamoDBClient;
  TableName: string;
};

/**
 * Deletes an item that is still what was seen of it, and says whether it did: a claim that was
 * completed meanwhile, after its bucket became cold, is in no loss that the bucket knows of.
 */
async function removeAsSeen(
  { aws, client, TableName }: OpenTable,
  { id, ...seenThen }: Attributes,
): Promise<boolean> {
  const told = Object.entries(seenThen).filter(([name]) => tellingAttributes.includes(name));
  const same = told.map(([name]) => `#${name} = :${name}`);
  const condition = {
    ConditionExpression: same.join(' AND '),
    ExpressionAttributeNames: Object.fromEntries(told.map(([name]) => [`#${name}`, name])),
    ExpressionAttributeValues: Object.fromEntries(told.map(([name, value]) => [`:${name}`, value])),
  };
  const doomed = { TableName, Key: { id: id! }, ...(told.length > 0 && condition) };
  try {
    await client.send(new aws.DeleteItemCommand(doomed));
    return true;
  } catch (error) {
    if (error instanceof aws.ConditionalCheckFailedException) return false;
    throw error;
  }
}

/** What is another after each step of a claim (`version`, `s`, `o`) or of a marker (`epoch`). */
const tellingAttributes = ['version', 's', 'o', 'epoch'];

/** Has an item's life be over; returns whether there is one. */
async function expireItem(
  { aws, client, TableName }: OpenTable,
  Key: Attributes,
): Promise<boolean> {
  const change = {
    UpdateExpression: 'SET expires_at = :past',
    // Without it the update would make an item.
    ConditionExpression: 'attribute_exists(id)',
    ExpressionAttributeValues: { ':past': { N: '0' } },
  };
  try {
    await client.send(new aws.UpdateItemCommand({ TableName, Key, ...change }));
    return true;
  } catch (error) {
    if (error instanceof aws.ConditionalCheckFailedException) return false;
    throw error;
  }
}

/**
 * What DynamoDB bills an item's storage by: names and values in UTF-8, numbers by their digits, and
 * 100 bytes for the index (AWS, "DynamoDB item sizes and formats").
 */
function billedBytes(item: Attributes): number {
  const sizes = Object.entries(item).map(([name, { S, N = '' }]) => {
    const value = S === undefined ? Math.ceil(N.length / 2) + 1 : Buffer.byteLength(S);
    return Buffer.byteLength(name) + value;
  });
  return sizes.reduce((sum, size) => sum + size, 100);
}

const isMarker = ({ id }: Attributes) => id!.S!.includes('#marker#');

/** The bucket of an item: markers and counts are named by it, the others by their ids. */
function bucketOfItem({ id }: Attributes): number {
  const name = id!.S!.split('#').at(-1)!;
  return /^\d+$/.test(name) ? Number(name) : bucketOf(name as TxnId, bucketCount);
}

// It takes any; without some the client would look for real ones.
const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };

const atOnceMax = 32;

async function inBatches<Item, Result>(
  items: readonly Item[],
  change: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  for (let done = 0; done < items.length; done += atOnceMax) {
    results.push(...(await Promise.all(items.slice(done, done + atOnceMax).map(change))));
  }
  return results;
}

/** The attributes of a claim: see claim-items.ts of claims-dynamodb. */
function seen(item: Attributes, leftMs: number) {
  const text = (name: string) => item[name]?.S ?? '';
  return {
    state: text('s'),
    partner: text('p'),
    fingerprint: text('f'),
    leftMs,
    acceptedAt: new Date(Number(item['a']!.N)),
  };
}
