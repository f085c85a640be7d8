import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Cleanup } from '@triplock/testing';

/** One request that was made, by its operation, such as `GetItem`. */
export type ServiceRequest = { operation: string; input: Readonly<Record<string, unknown>> };

/** The server of the tests with what it lacks beside the service. */
export type ServiceFront = {
  url: string;
  /** What it was asked by now. */
  requests: readonly ServiceRequest[];
};

/**
 * The server of the tests with the two operations that it lacks, UpdateTimeToLive and
 * DescribeTimeToLive, answered as AWS documents them (Amazon DynamoDB API Reference, version
 * 2012-08-10). Nothing is deleted: the service takes days.
 */
export async function asTheService(test: Cleanup, server: string): Promise<ServiceFront> {
  const tables = new Map<string, TimeToLive>();
  const requests: ServiceRequest[] = [];
  const front = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      const operation = String(request.headers['x-amz-target']).split('.').at(-1)!;
      const input = JSON.parse(body) as ServiceRequest['input'];
      requests.push({ operation, input });
      const own = ownOperations[operation]?.(tables, input as Asked);
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
  return { url: `http://127.0.0.1:${(front.address() as AddressInfo).port}`, requests };
}

/** By what the service was told to delete items of a table. */
type TimeToLive = { AttributeName: string; Enabled: boolean };

type Asked = { TableName: string; TimeToLiveSpecification: TimeToLive };

type Answer = { status: number; body: string };

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
