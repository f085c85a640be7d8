import type { FastifySchema } from 'fastify';

type Operation = { path: string; schema: FastifySchema };

/** The routes of one kind of transaction. */
export type KindRoutes = {
  /** A `POST` that takes effect once per key. */
  create: Operation;
  /** A `GET` by its id. */
  read: Operation;
};
