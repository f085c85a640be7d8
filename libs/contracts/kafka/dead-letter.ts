/**
 * Headers added to a dead letter. Key, value bytes and every original header are kept as they
 * were; an original header of the same name is kept under `original.<name>`.
 */
export type DeadLetterHeaders = {
  'dead-letter.reason': string;
  'dead-letter.detail': string;
  'dead-letter.topic': string;
  'dead-letter.partition': string;
  'dead-letter.offset': string;
  /** RFC 3339, UTC. */
  'dead-letter.at': string;
};
