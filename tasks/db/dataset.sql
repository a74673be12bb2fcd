-- The tables of a dataset, kept as Parquet files in datasets/<digest>/: models, cases, relationships, rows, digests.

CREATE TABLE models (
    model_id  USMALLINT PRIMARY KEY,
    model_key VARCHAR NOT NULL UNIQUE,
    name      VARCHAR NOT NULL,         -- defaults to the key
    version   VARCHAR,
    is_rag    BOOLEAN NOT NULL          -- some row of it has a retrieved context
);

CREATE TABLE cases (
    case_id            UINTEGER PRIMARY KEY,
    case_key           VARCHAR NOT NULL UNIQUE,
    question           VARCHAR,
    expected_answers   VARCHAR[] NOT NULL,
    expected_documents VARCHAR[] NOT NULL,
    condition          VARCHAR,         -- source text of a text-matching condition
    categories         VARCHAR[] NOT NULL,
    metadata           VARCHAR NOT NULL, -- JSON object
    expected_annotations VARCHAR        -- ground truth of a data item: JSON list, see evaluators/data/annotations.py
);

-- A perturbed case points at its original.
CREATE TABLE relationships (
    case_id          UINTEGER NOT NULL,
    original_case_id UINTEGER NOT NULL,
    type             VARCHAR NOT NULL,  -- 'perturbation_source'
    perturbation     VARCHAR NOT NULL   -- e.g. 'typo', 'comma'; '' when the dataset does not say
);

CREATE TABLE rows (
    row_id            UINTEGER PRIMARY KEY, -- in the order of (case, model) first seen; not an identity
    case_id           UINTEGER NOT NULL,
    model_id          USMALLINT NOT NULL,
    actual_answer     VARCHAR,
    retrieved_context STRUCT(content VARCHAR, doc_uri VARCHAR)[] NOT NULL,
    error             VARCHAR,          -- what the model's host returned instead of an answer
    duration_s        DOUBLE,
    cost_usd          DOUBLE,
    input_tokens      UBIGINT,
    output_tokens     UBIGINT,
    metadata          VARCHAR NOT NULL, -- JSON object
    predicted_annotations VARCHAR       -- what the model found in a data item: JSON list
);

-- Per row, a 16-byte digest of each field that an evaluator can read; NULL where the field is absent.
-- The columns are leadline.tasks.db.connection.STORED; digests of the other fields are made when they are asked for.
CREATE TABLE digests (
    row_id              UINTEGER PRIMARY KEY,
    question            BLOB,
    expected_answer     BLOB,
    retrieved_context   BLOB,
    actual_answer       BLOB,
    condition           BLOB,
    categories          BLOB,
    expected_documents  BLOB,
    retrieved_documents BLOB,
    metadata            BLOB,
    expected_annotations  BLOB,
    predicted_annotations BLOB
);

-- Beside them, in a dataset with a column of people's labels, labels.parquet. Evaluators read none of it, nor do digests.
-- row_id, question (EVALUATOR or EVALUATOR.METRIC, as the dataset names it), value (1 good, 0 bad, or a number; NULL for
-- "can't tell"), person ('unnamed' where nobody is named), note
