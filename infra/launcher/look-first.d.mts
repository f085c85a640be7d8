/** What is asked about a machine. */
export type Machine = {
  environment: Readonly<Record<string, string | undefined>>;
  platform: string;
  arch: string;
  /** Where programs are that PATH need not name. */
  places: { java: readonly string[]; gcloud: readonly string[] };
};

export function lookFirst(
  asked: { name: string; args: readonly string[]; root: string },
  machine?: Machine,
): Promise<string | undefined>;

export function waysTo(
  part: string,
  platform?: string,
): { title: string; install: string; given: string };
