import type { Role } from '@triplock/inspect';
import type { Console, Route } from '../console.ts';
import * as json from '../edge/schema.ts';

/** What came of an act: in words, and for programs. A secret is shown once and stored nowhere. */
export type Acted = {
  outcome: 'done' | 'nothing' | 'refused' | 'unknown';
  detail: string;
  result: unknown;
  secret?: string;
};

/** Who acts, and why. */
type Actor = { by: string; why: string };

/** An act whose fields make sense. */
export type Prepared = {
  /** What it is done to, as the record of acts names it. */
  target: string;
  perform(console: Console, actor: Actor): Promise<Acted>;
};

/** A kind of act: what it is called, who may do it, and what it asks. */
export type KindOfAct = {
  /** On its button, in a title, and in the description of the API. */
  label: string;
  role: Role;
  /** Where it cannot be done. */
  except?: Route['except'];
  /** What it is asked by, with a reason. */
  asks: json.Schema;
  /** The page on which one sees what came of it; its record where there is none. */
  then?: `/${string}`;
  /** @throws CommandError that says what is wrong with what was asked. */
  prepare(asked: object): Prepared;
};

/** What every act is asked by. */
export type AskedOfAll = { reason: string; form?: string };

const ofAll = {
  reason: {
    ...json.sent('why, in 1 to 500 characters', '^[^\\u0000]*$'),
    maxLength: 500,
  },
  form: json.optional(
    json.sent(
      'a UUID: the same one acts once',
      '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
    ),
  ),
};

type Asking<Of extends json.Fields> = Omit<KindOfAct, 'asks' | 'prepare'> & {
  fields: Of;
  prepare(asked: json.ObjectOf<Of>): Prepared;
};

/** A kind of act, by the fields that it asks for besides a reason. */
export function act<Of extends json.Fields>({ fields, prepare, ...kind }: Asking<Of>): KindOfAct {
  const asks = json.object({ ...fields, ...ofAll });
  return { ...kind, asks, prepare };
}
