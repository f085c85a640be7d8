import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  ConditionalCheckFailedException,
  CreateTableCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  DynamoDBClient,
  GetItemCommand,
  ListTablesCommand,
  PutItemCommand,
  UpdateItemCommand,
  waitUntilTableExists,
  waitUntilTableNotExists,
} from '@aws-sdk/client-dynamodb';
import { compileCache, eventually, freePort } from '@triplock/testing';

// What guard 1 stands on where claims are in DynamoDB: what it does is what they do.

const TableName = 'a-table';
const itemsAtOnce = 200;

/** A server of one test's own, with a folder that it keeps when it is started again. */
async function aServer(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-dynamodb-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const client = new DynamoDBClient({ region: 'eu-central-1', endpoint: url, credentials });
  let child: ChildProcess;
  const start = async () => {
    child = spawn(process.execPath, [fileURLToPath(import.meta.resolve('./main.ts'))], {
      env: { ...compileCache(), DYNAMODB_SERVER_PORT: `${port}`, DYNAMODB_SERVER_FOLDER: folder },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await eventually(() => client.send(new ListTablesCommand({})));
  };
  const end = async (signal: NodeJS.Signals) => {
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  };
  t.after(async () => {
    client.destroy();
    if (child.exitCode === null && child.signalCode === null) await end('SIGKILL');
    rmSync(folder, { recursive: true });
  });
  await start();
  return { client, port, start, end };
}

async function makeTable(client: DynamoDBClient): Promise<string> {
  const made = await client.send(
    new CreateTableCommand({
      TableName,
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
  return made.TableDescription!.TableId!;
}

const isThere = async (client: DynamoDBClient, id: string) => {
  const read = new GetItemCommand({ TableName, Key: { id: { S: id } }, ConsistentRead: true });
  return (await client.send(read)).Item !== undefined;
};

test('of a thousand conditional writes of one item at once one is made, and counts of it add up', async (t) => {
  const { client } = await aServer(t);
  await makeTable(client);
  const first = new PutItemCommand({
    TableName,
    Item: { id: { S: 'one' }, count: { N: '0' } },
    ConditionExpression: 'attribute_not_exists(id)',
  });
  const count = new UpdateItemCommand({
    TableName,
    Key: { id: { S: 'one' } },
    UpdateExpression: 'SET #count = #count + :one',
    ConditionExpression: '#count < :max',
    ExpressionAttributeNames: { '#count': 'count' },
    ExpressionAttributeValues: { ':one': { N: '1' }, ':max': { N: '700' } },
  });
  /** How many of a thousand were made; the others were refused. */
  const made = async (send: () => Promise<unknown>) => {
    const all = await Promise.allSettled(Array.from({ length: 1_000 }, send));
    const refused = all.filter((each) => each.status === 'rejected');
    for (const { reason } of refused) {
      assert.ok(reason instanceof ConditionalCheckFailedException, String(reason));
    }
    return all.length - refused.length;
  };
  assert.equal(await made(() => client.send(first)), 1);
  assert.equal(await made(() => client.send(count)), 700);
  const read = new GetItemCommand({ TableName, Key: { id: { S: 'one' } }, ConsistentRead: true });
  assert.equal((await client.send(read)).Item!['count']!.N, '700');
});

test('what was acknowledged before SIGKILL is there after it', async (t) => {
  const { client, start, end } = await aServer(t);
  const tableId = await makeTable(client);
  const acknowledged: string[] = [];
  const writer = async (name: number) => {
    for (let n = 0; ; n += 1) {
      const id = `${name}-${n}`;
      const put = new PutItemCommand({ TableName, Item: { id: { S: id } } });
      const isDone = await client.send(put).then(
        () => true,
        () => false,
      );
      if (!isDone) return;
      acknowledged.push(id);
    }
  };
  const writers = Promise.all([0, 1, 2, 3].map(writer));
  await eventually(() => Promise.resolve(acknowledged.length >= itemsAtOnce));
  await end('SIGKILL');
  await writers;
  await start();
  const there = await Promise.all(acknowledged.map((id) => isThere(client, id)));
  assert.deepEqual(
    acknowledged.filter((_, at) => !there[at]),
    [],
  );
  const described = await client.send(new DescribeTableCommand({ TableName }));
  assert.equal(described.Table!.TableId, tableId);
});

test('a client that goes in the middle of its request takes nobody else’s server along', async (t) => {
  const { client, port } = await aServer(t);
  await makeTable(client);
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  await new Promise<void>((resolve) => {
    socket.write('POST / HTTP/1.1\r\nhost: any\r\ncontent-length: 100\r\n\r\nhalf', () =>
      resolve(),
    );
  });
  // An answer to a later request says that the half of this one was read.
  await client.send(new ListTablesCommand({}));
  socket.destroy();
  await once(socket, 'close');
  const put = new PutItemCommand({ TableName, Item: { id: { S: 'another' } } });
  await client.send(put);
  assert.ok(await isThere(client, 'another'));
});

test('a table that is made anew under its name is another, and empty', async (t) => {
  const { client } = await aServer(t);
  const before = await makeTable(client);
  await client.send(new PutItemCommand({ TableName, Item: { id: { S: 'kept' } } }));
  await client.send(new DeleteTableCommand({ TableName }));
  await waitUntilTableNotExists({ client, maxWaitTime: 60, minDelay: 1 }, { TableName });
  assert.notEqual(await makeTable(client), before);
  assert.equal(await isThere(client, 'kept'), false);
});

test('no page elsewhere, and none whose name was made to point here, reads or writes a table', async (t) => {
  const { client, port } = await aServer(t);
  await makeTable(client);
  const ask = async (headers: Readonly<Record<string, string>>, method = 'POST') => {
    const options = { host: '127.0.0.1', port, method, agent: false };
    const sent = request({ ...options, headers: { host: `127.0.0.1:${port}`, ...headers } });
    sent.end(method === 'POST' ? '{}' : undefined);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    return [response.statusCode, response.headers['access-control-allow-origin']];
  };
  const call = {
    'content-type': 'application/x-amz-json-1.0',
    'x-amz-target': 'DynamoDB_20120810.ListTables',
  };
  const origin = 'https://evil.example';
  const wanted = { 'access-control-request-method': 'POST' };
  assert.deepEqual(await ask({ origin, ...wanted }, 'OPTIONS'), [403, undefined]);
  assert.deepEqual(await ask({ origin, ...call }), [403, undefined]);
  assert.deepEqual(await ask({ host: `rebound.example:${port}`, ...call }), [403, undefined]);
  const { TableNames } = await client.send(new ListTablesCommand({}));
  assert.deepEqual(TableNames, [TableName]);
});
