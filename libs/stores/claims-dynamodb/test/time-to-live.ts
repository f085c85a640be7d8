import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Cleanup } from '@triplock/testing';

/** What the service was told by what it shall delete items of a table. */
type TimeToLive = { AttributeName: string; Enabled: boolean };

type Answer = { status: number; body: string };

/**
 * The server of the tests with the two operations that it lacks, UpdateTimeToLive and
 * DescribeTimeToLive, answered as AWS documents them (Amazon DynamoDB API Reference, version
 * 2012-08-10). Nothing is deleted: the service takes days.
 *
 * @returns its URL.
 */
export async function withTimeToLive(test: Cleanup, server: string): Promise<string> {
  const tables = new Map<string, TimeToLive>();
  const front = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const operation = String(request.headers['x-amz-target']).split('.').at(-1);
      const own = ownOperations[operation ?? '']?.(tables, JSON.parse(body) as Asked);
      const { status, body: answer } = own ?? (await forward(server, request.headers, body));
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' });
      response.end(answer);
    })();
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  test.after(async () => {
    front.closeAllConnections();
    front.close();
    await once(front, 'close');
  });
  return `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
}

type Asked = { TableName: string; TimeToLiveSpecification: TimeToLive };

const ownOperations: Readonly<
  Record<string, (tables: Map<string, TimeToLive>, asked: Asked) => Answer>
> = {
  UpdateTimeToLive(tables, { TableName, TimeToLiveSpecification: wanted }) {
    const isOn = tables.get(TableName)?.Enabled ?? false;
    if (isOn === wanted.Enabled) {
      const __type = 'com.amazon.coral.validate#ValidationException';
      const message = `TimeToLive is already ${isOn ? 'enabled' : 'disabled'}`;
      return { status: 400, body: JSON.stringify({ __type, message }) };
    }
    tables.set(TableName, wanted);
    return { status: 200, body: JSON.stringify({ TimeToLiveSpecification: wanted }) };
  },
  DescribeTimeToLive(tables, { TableName }) {
    const set = tables.get(TableName);
    const TimeToLiveDescription = set?.Enabled
      ? { TimeToLiveStatus: 'ENABLED', AttributeName: set.AttributeName }
      : { TimeToLiveStatus: 'DISABLED' };
    return { status: 200, body: JSON.stringify({ TimeToLiveDescription }) };
  },
};

async function forward(
  server: string,
  { 'x-amz-target': target, 'x-amz-date': date, authorization }: IncomingHttpHeaders,
  body: string,
): Promise<Answer> {
  const headers = {
    'content-type': 'application/x-amz-json-1.0',
    'x-amz-target': String(target),
    'x-amz-date': String(date),
    authorization: authorization!,
  };
  const response = await fetch(server, { method: 'POST', headers, body });
  return { status: response.status, body: await response.text() };
}
