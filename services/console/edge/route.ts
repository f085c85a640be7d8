import type { Answer, Console, Route, Visit } from '../console.ts';
import * as json from './schema.ts';

type Handler<Asked, Given> = (console: Console, visit: Visit<Asked>) => Promise<Given>;

/** A page for every operator, or a piece or a file of one, and what its query can ask for. */
export function page<Asked>(
  path: Route['path'],
  answer: Handler<Asked, Answer>,
  asks?: json.Schema<Asked>,
): Route {
  const how = { method: 'GET', path, role: 'viewer' } as const;
  return { ...how, ...(asks && { asks }), answer: answer as Route['answer'] };
}

/** What the document says of a path that reads. */
type Reading<Asked, Given> = {
  operationId: string;
  summary: string;
  asks?: json.Schema<Asked>;
  answers: json.Schema<Given>;
  read: Handler<Asked, Given>;
};

/** What every operator's program can read, under /api/v1. */
export function reading<Asked, Given>(
  path: Route['path'],
  { asks, read, ...api }: Reading<Asked, Given>,
): Route {
  return {
    ...page(`/api/v1${path}`, async (console, visit: Visit<Asked>) => {
      return { is: 'json', body: await read(console, visit) };
    }),
    asks: asks ?? json.query({}),
    api,
  };
}

/** What several lists can be asked for. */
export const ofPartner = json.sent('the name of a partner, whose alone are then shown');
export const after = json.sent('the `next` of a page, behind which to go on');
