/**
 * The versions of the HTTP interface that can be asked for, the newest last. One is named by the
 * day from which it could be. What changes within a version, docs/partners.md promises.
 */
export const apiVersions = ['2026-11-01'] as const;
export type ApiVersion = (typeof apiVersions)[number];

/** What a new API key is made under. */
export const currentApiVersion: ApiVersion = '2026-11-01';

/** Whether there is such a version. */
export function isApiVersion(text: string): text is ApiVersion {
  return apiVersions.some((each) => each === text);
}
