/** A database of Cloud Spanner. */
export type SpannerPlace = {
  /** `projects/…/instances/…/databases/…` */
  database: string;
  /** `host:port` of the emulator; absent for Cloud Spanner, whose credentials the client finds. */
  emulatorHost?: string | undefined;
};

/** The parts of a database's name. */
export type DatabaseName = { project: string; instance: string; database: string };

const form = /^projects\/([^/]+)\/instances\/([^/]+)\/databases\/([^/]+)$/;

/** @throws Error when it is no database's full name. */
export function parseDatabaseName(name: string): DatabaseName {
  const [, project, instance, database] = form.exec(name) ?? [];
  if (project === undefined || instance === undefined || database === undefined) {
    throw new Error(`'${name}' is not of the form projects/…/instances/…/databases/…`);
  }
  return { project, instance, database };
}
