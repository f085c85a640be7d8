/** The parts of an OpenAPI 3.1 document that the page shows. */
export type Document = {
  info: { title: string; version: string; description: string };
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  components: { schemas: Readonly<Record<string, Schema>> };
};

export type Operation = {
  operationId?: string;
  summary?: string;
  description?: string;
  parameters?: readonly Parameter[];
  requestBody?: { content: Content };
  responses: Readonly<Record<string, Response>>;
};

export type Parameter = {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Schema;
};

export type Response = {
  description: string;
  headers?: Readonly<Record<string, Schema & { schema?: Schema }>>;
  content?: Content;
};

type Content = Readonly<Record<string, { schema: Schema }>>;

export type Schema = {
  $ref?: string;
  type?: string | readonly string[];
  description?: string;
  enum?: readonly (string | null)[];
  const?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  items?: Schema;
  required?: readonly string[];
  properties?: Readonly<Record<string, Schema>>;
};
