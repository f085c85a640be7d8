declare module 'dynalite' {
  import type { Server } from 'node:http';

  /**
   * A DynamoDB that keeps its tables in a LevelDB in the folder `path`. It listens when told to.
   */
  const dynalite: (options: {
    path: string;
    /** How long a table is in the states between, milliseconds. */
    createTableMs: number;
    deleteTableMs: number;
  }) => Server;
  export = dynalite;
}
