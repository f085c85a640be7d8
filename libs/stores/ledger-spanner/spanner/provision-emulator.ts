import { openDatabaseAdmin, openInstanceAdmin } from './spanner-api.ts';
import { status, statusOf } from './errors.ts';
import { parseDatabaseName, type SpannerPlace } from './place.ts';

/** An emulator, which anybody may make instances in. */
export type EmulatorPlace = SpannerPlace & { emulatorHost: string };

/** Throws when the emulator does not answer. */
export async function pingEmulator(emulatorHost: string): Promise<void> {
  const admin = await openInstanceAdmin({ database: anyDatabase, emulatorHost });
  try {
    await admin.listInstanceConfigs({ parent: 'projects/any' }, { timeout: 2_000, retry: null });
  } finally {
    await admin.close();
  }
}

const anyDatabase = 'projects/any/instances/any/databases/any';

/**
 * Makes the database in the emulator, and the instance that it is in, unless they are there. Says
 * whether this call made the database.
 */
export async function createInEmulator(place: EmulatorPlace): Promise<{ made: boolean }> {
  const { project, instance, database } = parseDatabaseName(place.database);
  const instances = await openInstanceAdmin(place);
  const databases = await openDatabaseAdmin(place);
  try {
    await unlessThere(async () => {
      const config = `projects/${project}/instanceConfigs/emulator-config`;
      const [operation] = await instances.createInstance({
        parent: `projects/${project}`,
        instanceId: instance,
        instance: { config, displayName: instance, nodeCount: 1 },
      });
      await operation.promise();
    });
    const made = await unlessThere(async () => {
      const [operation] = await databases.createDatabase({
        parent: `projects/${project}/instances/${instance}`,
        createStatement: `CREATE DATABASE \`${database}\``,
      });
      await operation.promise();
    });
    return { made };
  } finally {
    await Promise.all([instances.close(), databases.close()]);
  }
}

/** Drops the database again. */
export async function dropFromEmulator(place: EmulatorPlace): Promise<void> {
  const databases = await openDatabaseAdmin(place);
  try {
    await databases.dropDatabase({ database: place.database });
  } finally {
    await databases.close();
  }
}

async function unlessThere(create: () => Promise<void>): Promise<boolean> {
  try {
    await create();
    return true;
  } catch (error) {
    if (statusOf(error) !== status.alreadyExists) throw error;
    return false;
  }
}
