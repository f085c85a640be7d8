import http from 'k6/http';
import { settings } from './settings.ts';

/** Waits until a payment is final, for a few seconds at most, and says how it ended. */
export function stateOf(partner: string, payment: string): string {
  const answer = http.get(`${settings.gateways[0]}/v1/payments/${payment}`, {
    headers: { authorization: `Bearer ${settings.apiKeys[partner]}`, prefer: 'wait=20' },
    timeout: '25s',
    responseType: 'text',
    tags: { name: '/v1/payments/{id}' },
  });
  return answer.status === 200 ? (answer.json('status') as string) : `${answer.status}`;
}
