-- One line per run, from its record run.json; `record` holds all of it.
CREATE TABLE runs (
    run            VARCHAR PRIMARY KEY,
    name           VARCHAR,
    status         VARCHAR NOT NULL,    -- 'running', 'completed', 'failed', 'interrupted'
    started        TIMESTAMP,           -- UTC
    seconds        DOUBLE,
    dataset        VARCHAR,             -- digest of the dataset
    dataset_name   VARCHAR,
    dataset_source VARCHAR,
    rows           UBIGINT,
    cases          UBIGINT,
    gate           VARCHAR,             -- 'pass', 'fail', 'inconclusive', NULL before it was decided
    gate_reason    VARCHAR,
    scored         UBIGINT,             -- scores: metrics of rows, counted singly
    unscored       UBIGINT,
    not_applicable UBIGINT,
    reused         UBIGINT,             -- row scores
    computed       UBIGINT,
    high           UBIGINT,             -- problems
    medium         UBIGINT,
    low            UBIGINT,
    report         VARCHAR,
    error          VARCHAR,
    record         JSON NOT NULL
);
