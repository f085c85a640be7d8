/** The version that the pinned `stripe` package speaks; a test compares the two. */
export const apiVersion = '2026-10-28.endive';
