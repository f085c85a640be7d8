import {
  ConditionalCheckFailedException,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  ResourceNotFoundException,
  UpdateItemCommand,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { withDeadline } from '@triplock/runtime';
import { ClaimsUnavailableError } from '@triplock/claims';
import { dynamoSettings, type DynamoPlace } from './dynamo-place.ts';
import { fromAttributes, toAttributes, type Item } from './item.ts';
import { watchServiceClock, type Moment } from './service-clock.ts';

/** A condition in DynamoDB's words. Attributes are written `#name`, values `:name`. */
export type Condition = { condition: string; values: Item };

/** What a conditional write came to; when it was refused, the item as it is. */
export type Written = { outcome: 'written' } | { outcome: 'refused'; item: Item | undefined };

/** The table during one step: what is asked for it alone ends with the step. */
export type Table = {
  /** Reads what was last written. */
  get(id: string): Promise<Item | undefined>;
  put(item: Item, unless: Condition): Promise<Written>;
  /** `change` is an update expression with the condition's values. */
  update(id: string, change: Condition & { change: string }): Promise<Written>;
  /** Names the table: another one that was made or restored under the same name has another. */
  tableId(): Promise<string>;
  /** The attribute by which DynamoDB deletes items, where that is on. */
  leavingAttribute(): Promise<string | undefined>;
  /** The service's time. Ask after something was read: every answer tells it. */
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
export function connectDynamo(place: DynamoPlace & { answerTimeoutMs: number }): DynamoConnection {
  const { table: TableName, answerTimeoutMs } = place;
  const client = new DynamoDBClient({ ...dynamoSettings(place), maxAttempts: 3 });
  const clock = hearTheTime(client);
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
      put: (item, unless) => {
        const put = { TableName, Item: toAttributes(item), ...conditional(unless) };
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

/** DynamoDB Local gives tables no id; it keeps when they were made. */
function nameOf({ TableId, CreationDateTime }: TableDescription): string {
  return TableId ?? `made at ${CreationDateTime!.toISOString()}`;
}

function conditional({ condition, values }: Condition, change = '') {
  const names = new Set(`${condition} ${change}`.match(/#\w+/g));
  return {
    ConditionExpression: condition,
    // Many plain words are reserved, so every attribute is named this way.
    ExpressionAttributeNames: Object.fromEntries([...names].map((name) => [name, name.slice(1)])),
    ...(Object.keys(values).length > 0 && { ExpressionAttributeValues: toAttributes(values) }),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
  };
}

async function written(write: Promise<unknown>): Promise<Written> {
  try {
    await write;
    return { outcome: 'written' };
  } catch (error) {
    if (!(error instanceof ConditionalCheckFailedException)) throw error;
    return { outcome: 'refused', item: error.Item && fromAttributes(error.Item) };
  }
}

/** Learns the service's time from every answer, those that refuse included. */
function hearTheTime(client: DynamoDBClient) {
  const clock = watchServiceClock();
  client.middlewareStack.add(
    (next) => async (request) => {
      const sentAt = performance.now();
      const answered = await next(request);
      const { headers } = answered.response as { headers: Record<string, string> };
      const date = new Date(headers['date'] ?? NaN);
      clock.hear({ sentAt, heardAt: performance.now(), date });
      return answered;
    },
    // Inside of what parses an answer, and so once for every attempt.
    { step: 'deserialize', priority: 'low', name: 'hearTheTime' },
  );
  return clock;
}

function unavailable(error: unknown): ClaimsUnavailableError {
  const message = error instanceof Error ? error.message : String(error);
  return new ClaimsUnavailableError(message, { cause: error });
}
