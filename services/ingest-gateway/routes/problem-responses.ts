import { problemCodes, type ProblemCode } from '@triplock/contracts';

/**
 * What the OpenAPI document says of refusals: one response per status; several codes of one status
 * share it. A route that authenticates can also answer 429.
 */
export function problems(...codes: ProblemCode[]): Record<number, object> {
  const all: ProblemCode[] = codes.includes('unauthorized') ? [...codes, 'rate_limited'] : codes;
  const byStatus = Map.groupBy(all, (code) => problemCodes[code].status);
  const responses = [...byStatus].map(([status, shared]): [number, object] => [
    status,
    {
      description: shared.map((code) => `\`${code}\`: ${problemCodes[code].title}.`).join(' '),
      ...headersOf(status),
      content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
    },
  ]);
  return Object.fromEntries(responses);
}

function headersOf(status: number): { headers?: object } {
  if (status === 401) return { headers: { 'WWW-Authenticate': { type: 'string' } } };
  if (![409, 429, 503].includes(status)) return {};
  return { headers: { 'Retry-After': { type: 'integer', description: 'Seconds to wait.' } } };
}
