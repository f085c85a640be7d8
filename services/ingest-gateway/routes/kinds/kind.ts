import type { FastifySchema } from 'fastify';
import type { WhyNever } from '../../accept/transaction.ts';

type Operation = { path: string; schema: FastifySchema };

/** The routes of one kind of transaction. */
export type KindRoutes = {
  /** A `POST` that takes effect once per key. */
  create: Operation;
  /** A `GET` by its id. */
  read: Operation;
  /** What of its payment is refused at once, where the ledger says that it can never be had. */
  whyNever?: WhyNever;
};
