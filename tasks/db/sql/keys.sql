-- For each set of fields that some evaluator reads, the key of every row: a digest of just those fields.
CREATE OR REPLACE TABLE keys (
    reads_id UTINYINT NOT NULL,
    row_id   UINTEGER NOT NULL,
    key      BLOB NOT NULL
);

-- What each row needs of each evaluator, and where it comes from.
CREATE OR REPLACE TABLE plan (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL,
    state        VARCHAR NOT NULL    -- 'score', 'host_error', 'not_applicable', 'over_limit'
);

-- The distinct scores that the store does not hold, each with one row that stands for all equal ones.
CREATE OR REPLACE TABLE to_compute (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL,
    trial        UTINYINT NOT NULL,  -- repetition: 0 alone but for evaluators that ask a judge
    key          BLOB NOT NULL
);
