import type { FastifyRequest, FastifySchema } from 'fastify';
import type { Transaction } from '../../accept/transaction.ts';

type Operation = { path: string; schema: FastifySchema };

/** The routes of one kind of transaction. */
export type KindRoutes = {
  /** A `POST` that takes effect once per key. */
  create: Operation;
  /** A `GET` by its id. */
  read: Operation;
  /**
   * What a request asks for. Id and fingerprint are made from the request alone.
   *
   * @throws Problem when the path, the key or the body is not one, or could be a card's number.
   */
  transactionOf(request: FastifyRequest): Transaction;
};
