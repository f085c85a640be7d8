/**
 * What a store declares, in its file `part.ts`, of the server that stands for it on a developer's
 * machine. The launcher starts it by this, docker-compose.yml and what is looked for before
 * anything starts are made from it by `npm run generate`, and its licences are judged with all
 * others. To services it means nothing: they are given an address.
 */
export type PartDeclaration<Name extends string = string> = {
  /** Also its container, its profile in docker-compose.yml and its name in a home's endpoints. */
  name: Name;
  /** In a person's words. */
  title: string;
  /** The folder that it comes with, absolute. */
  folder: string;
  /** The environment variable that names one that runs elsewhere, and what that may say. */
  given: { variable: string; example: string };
  /** Where it listens on a developer's machine, and the variable that asks for another port. */
  port: { usual: number; variable: string };
  /** What services are given where it listens there. */
  addressOf(host: string, port: number): string;
  /** Asks it something that only a ready one answers; throws when it does not. */
  probe(address: string): Promise<void>;
  /** Whether what it was told is there again after a stop. */
  keeps: 'everything' | 'nothing';
  program: ProgramInSdk | ProgramOfNpm;
  container: PartContainer;
  /** What is fetched with it whole, each under its own terms. */
  licences: readonly ProgramLicence[];
};

/** A program of the gcloud SDK, which a user installs. */
export type ProgramInSdk = {
  from: 'gcloud SDK';
  /** Within the SDK. */
  file: string;
  /** The component of the SDK, and the package of Debian, that bring it. */
  component: string;
  debian: string;
  /** The only system that Google ships it for. */
  only: { platform: NodeJS.Platform; name: string };
  /** Its words, where it is to listen on that port of this machine. */
  args(port: number): string[];
  /** The variable that says what tests run on: `native`, `container`, or `none` where none is. */
  testVariable: string;
};

/** A program of ours over a package of npm, which comes with all others. */
export type ProgramOfNpm = {
  from: 'npm';
  package: string;
  /** Its workspace, from the part's folder; its main.ts runs. */
  workspace: string;
  /** By itself V8 lets gigabytes fill with what nobody needs. */
  oldSpaceMiB: number;
  /** Its settings, where it is to listen on that port and keep its data in that folder. */
  settings(at: { host: string; port: number; folder: string }): Readonly<Record<string, string>>;
};

/** How it runs in a container; what is alike of all follows from the rest of the declaration. */
export type PartContainer = {
  /** The port inside. */
  port: number;
  /**
   * An image of others, and the variable that names another; without it it is built from `program`.
   */
  image?: { name: string; variable: string; command: readonly string[] };
  memoryMiB: number;
  /** A path that answers when it is ready; without it the step before the services asks. */
  ready?: string;
  /** Why its image is without something that the other containers have. */
  lacks: { healthCheck?: string; readOnly?: string; user?: string };
};

/**
 * A program that comes whole in something that others made, and its own terms, which may be others
 * than those of what it comes in.
 */
export type ProgramLicence = {
  /** Who gives it to us. */
  source: 'image' | 'npm' | 'Maven' | 'PyPI' | 'Go';
  /** What it comes in: an image's repository, a package, an artifact, a module. */
  name: string;
  /** The beginning of the versions that this holds for: terms change with a version. */
  line: string;
  program: string;
  /** SPDX. */
  licence: string;
  /** Where that is said. */
  knownFrom: string;
};
