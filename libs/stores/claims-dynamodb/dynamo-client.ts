import {
  ConditionalCheckFailedException,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  ResourceNotFoundException,
  ScanCommand,
  UpdateItemCommand,
  type AttributeValue,
  type DynamoDBClientConfig,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { unavailable } from '@triplock/claims';
import { withDeadline } from '@triplock/runtime';
import { watchServiceClock, type Moment } from './service-clock.ts';

/** A table of DynamoDB, and where the service is. */
export type DynamoAddress = {
  region: string;
  table: string;
  /**
   * The URL of a server that stands for the service. Without it the client finds the service and
   * its credentials as every AWS client does.
   */
  emulator?: string;
};

/** An item of the table; whole numbers, texts and truth values are all that claims need. */
export type Item = Readonly<Record<string, string | number | boolean>>;

/** A condition as DynamoDB writes it. Attributes are written `#name`, values `:name`. */
export type Condition = { condition: string; values: Item };

/** A step over a table: from behind an id, or from the beginning. */
export type Scan = Condition & { after?: string; limit: number; attributes: readonly string[] };

/**
 * What a conditional write came to. A refusal does not say what the item is, and whoever decides
 * anew by it reads it: DynamoDB could send it along, which would spare a read in a race, and the
 * open servers that stand for it cannot (docs/stores.md).
 */
export type Written = { outcome: 'written' } | { outcome: 'refused' };

/** The table during one step: what is asked for it alone ends with the step. */
export type Table = {
  /** Reads what was last written. */
  get(id: string): Promise<Item | undefined>;
  /**
   * Reads some items of the whole table, in an order of the service's own: looks at up to `limit`
   * of them, and gives those attributes of the ones that meet the condition.
   */
  scan(step: Scan): Promise<{ items: Item[]; next?: string }>;
  /** Without a condition the item is written over whatever was there. */
  put(item: Item, unless?: Condition): Promise<Written>;
  /** `change` is an update expression with the condition's values. */
  update(id: string, change: Condition & { change: string }): Promise<Written>;
  /** Names the table: another one that was made or restored under the same name has another. */
  tableId(): Promise<string>;
  /** The attribute by which DynamoDB deletes items, where that is on. */
  leavingAttribute(): Promise<string | undefined>;
  /** The service's time. Ask after something was read: every answer has it. */
  now(): Moment;
};

/** A table of DynamoDB that answers in time or not at all. */
export type DynamoConnection = {
  /** @throws ClaimsUnavailableError when the outcome of the step is unknown. */
  inTime<Result>(step: (table: Table) => Promise<Result>): Promise<Result>;
  close(): void;
};

// Nobody can restore a table under its old name in less: the old one has to be deleted first, which
// is noticed at once where there is traffic.
const tableIdHeldMs = 5_000;

/** Opens a client. DynamoDB may be away. */
export function connectDynamo(
  address: DynamoAddress & { answerTimeoutMs: number },
): DynamoConnection {
  const { table: TableName, answerTimeoutMs } = address;
  const client = new DynamoDBClient({ ...dynamoSettings(address), maxAttempts: 3 });
  const clock = learnTheTime(client);
  let known: { id: Promise<string>; at: number } | undefined;

  const tableDuring = (abortSignal: AbortSignal): Table => {
    const during = { abortSignal };
    const keyed = (id: string) => ({ TableName, Key: toAttributes({ id }) });
    return {
      async get(id) {
        const read = new GetItemCommand({ ...keyed(id), ConsistentRead: true });
        const { Item: item } = await client.send(read, during);
        return item && fromAttributes(item);
      },
      scan: async (step) => {
        const scan = new ScanCommand({ TableName, ...scanning(step) });
        const { Items: items = [], LastEvaluatedKey: last } = await client.send(scan, during);
        const next = last?.['id']?.S;
        return { items: items.map(fromAttributes), ...(next !== undefined && { next }) };
      },
      put: (item, unless) => {
        const put = { TableName, Item: toAttributes(item), ...(unless && conditional(unless)) };
        return written(client.send(new PutItemCommand(put), during));
      },
      update: (id, { change, ...unless }) => {
        const conditions = conditional(unless, change);
        const update = { ...keyed(id), UpdateExpression: change, ...conditions };
        return written(client.send(new UpdateItemCommand(update), during));
      },
      tableId() {
        const at = performance.now();
        if (known === undefined || at - known.at > tableIdHeldMs) {
          // Of a time of its own: steps that began later wait for this answer too.
          const ownTime = { abortSignal: AbortSignal.timeout(answerTimeoutMs) };
          const described = client.send(new DescribeTableCommand({ TableName }), ownTime);
          const id = described.then(({ Table: table }) => nameOf(table!));
          known = { id, at };
          id.catch(() => (known = undefined));
        }
        return known.id;
      },
      async leavingAttribute() {
        const asked = new DescribeTimeToLiveCommand({ TableName });
        const { TimeToLiveDescription: leaving } = await client.send(asked, during);
        return leaving?.AttributeName;
      },
      now: () => clock.now(),
    };
  };

  return {
    async inTime(step) {
      const ending = new AbortController();
      const limit = { ms: answerTimeoutMs, what: 'DynamoDB' };
      try {
        return await withDeadline(step(tableDuring(ending.signal)), limit);
      } catch (error) {
        if (error instanceof ResourceNotFoundException) known = undefined;
        throw unavailable(error);
      } finally {
        ending.abort();
      }
    },
    close: () => client.destroy(),
  };
}

/** A client's settings for the address. */
export function dynamoSettings({ region, emulator }: DynamoAddress): DynamoDBClientConfig {
  if (emulator === undefined) return { region };
  // It takes any credentials, and without some the client would look for real ones.
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  return { region, endpoint: emulator, credentials };
}

/** Some servers that stand for the service give tables no id; they keep when they were made. */
function nameOf({ TableId, CreationDateTime }: TableDescription): string {
  return TableId ?? `made at ${CreationDateTime!.toISOString()}`;
}

/** Many plain words are reserved, so every attribute is named this way. */
function namesIn(expressions: string): Record<string, string> {
  const names = new Set(expressions.match(/#\w+/g));
  return Object.fromEntries([...names].map((name) => [name, name.slice(1)]));
}

function scanning({ after, limit: Limit, attributes, condition, values }: Scan) {
  const shown = attributes.map((name) => `#${name}`).join(', ');
  return {
    Limit,
    ConsistentRead: true,
    ProjectionExpression: shown,
    ...(after !== undefined && { ExclusiveStartKey: toAttributes({ id: after }) }),
    FilterExpression: condition,
    ExpressionAttributeNames: namesIn(`${condition} ${shown}`),
    ExpressionAttributeValues: toAttributes(values),
  };
}

function conditional({ condition, values }: Condition, change = '') {
  return {
    ConditionExpression: condition,
    ExpressionAttributeNames: namesIn(`${condition} ${change}`),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: toAttributes(values) }),
  };
}

async function written(write: Promise<unknown>): Promise<Written> {
  try {
    await write;
    return { outcome: 'written' };
  } catch (error) {
    if (!(error instanceof ConditionalCheckFailedException)) throw error;
    return { outcome: 'refused' };
  }
}

/** Learns the service's time from every answer, those that refuse included. */
function learnTheTime(client: DynamoDBClient) {
  const clock = watchServiceClock();
  client.middlewareStack.add(
    (next) => async (request) => {
      const sentAt = performance.now();
      const answered = await next(request);
      const { headers } = answered.response as { headers: Record<string, string> };
      const date = new Date(headers['date'] ?? NaN);
      clock.learn({ sentAt, receivedAt: performance.now(), date });
      return answered;
    },
    // Inside of what parses an answer, and so once for every attempt.
    { step: 'deserialize', priority: 'low', name: 'learnTheTime' },
  );
  return clock;
}

/** An item as the service's interface wants it. */
function toAttributes(item: Item): Record<string, AttributeValue> {
  return Object.fromEntries(Object.entries(item).map(([name, value]) => [name, toValue(value)]));
}

/** An item as it came from the service. */
function fromAttributes(attributes: Record<string, AttributeValue>): Item {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name, fromValue(name, value)]),
  );
}

function toValue(value: string | number | boolean): AttributeValue {
  if (typeof value === 'string') return { S: value };
  return typeof value === 'number' ? { N: `${value}` } : { BOOL: value };
}

function fromValue(name: string, value: AttributeValue): string | number | boolean {
  if (value.S !== undefined) return value.S;
  if (value.N !== undefined) return Number(value.N);
  if (value.BOOL !== undefined) return value.BOOL;
  throw new Error(`the attribute ${name} is not one that claims write`);
}
