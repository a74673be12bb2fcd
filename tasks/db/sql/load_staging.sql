-- What a load has read so far. One line per mention of a case, however often it is repeated.
-- record and part say where it stands in the file; seq counts mentions, row_id counts answers, both from 0 without gaps.

CREATE TABLE staged_cases (
    seq                UINTEGER NOT NULL,
    record             UINTEGER NOT NULL,
    part               VARCHAR NOT NULL,
    case_key           VARCHAR NOT NULL,
    derived            BOOLEAN NOT NULL,    -- the key was made from the content
    bare               BOOLEAN NOT NULL,    -- an answer that names the case and says nothing of it
    question           VARCHAR,
    expected_answers   VARCHAR[],
    expected_documents VARCHAR[],
    condition          VARCHAR,
    categories         VARCHAR[],
    expected_annotations VARCHAR,
    metadata           VARCHAR
);

CREATE TABLE staged_links (
    record       UINTEGER NOT NULL,
    part         VARCHAR NOT NULL,
    case_key     VARCHAR NOT NULL,
    target       VARCHAR NOT NULL,
    perturbation VARCHAR NOT NULL
);

CREATE TABLE staged_rows (
    row_id            UINTEGER NOT NULL,
    record            UINTEGER NOT NULL,
    part              VARCHAR NOT NULL,
    case_key          VARCHAR NOT NULL,
    derived           BOOLEAN NOT NULL,
    case_seq          UINTEGER NOT NULL,    -- the mention of its case that came with it
    model_id          USMALLINT NOT NULL,
    actual_answer     VARCHAR,
    retrieved_context STRUCT(content VARCHAR, doc_uri VARCHAR)[] NOT NULL,
    error             VARCHAR,
    duration_s        DOUBLE,
    cost_usd          DOUBLE,
    input_tokens      UBIGINT,
    output_tokens     UBIGINT,
    metadata          VARCHAR NOT NULL,
    predicted_annotations VARCHAR
);
