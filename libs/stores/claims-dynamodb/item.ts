import type { AttributeValue } from '@aws-sdk/client-dynamodb';

/** An item of the table; whole numbers, texts and truth values are all that claims need. */
export type Item = Readonly<Record<string, string | number | boolean>>;

// Only room is won by deleting, so there is no hurry.
const leavesAfterMs = 3_600_000;

/** When DynamoDB may delete what expires then: milliseconds in, seconds out. */
export function leavesAt(expiresAtMs: number): number {
  return Math.ceil((expiresAtMs + leavesAfterMs) / 1_000);
}

/** An item as the service's interface wants it. */
export function toAttributes(item: Item): Record<string, AttributeValue> {
  return Object.fromEntries(Object.entries(item).map(([name, value]) => [name, toValue(value)]));
}

/** An item as it came from the service. */
export function fromAttributes(attributes: Record<string, AttributeValue>): Item {
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
