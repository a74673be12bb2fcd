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

-- Beside them, in a dataset of conversations, turns.parquet: what a row has of a conversation, and the turns of those
-- with several, each with what loading knows of the turn. What is read of both is the view all_rows, see attach_dataset.
-- Messages, calls, tools and steps are JSON in the forms of evaluators/data/messages.py; beside each field that is read,
-- a column <field>_digest. A turn has the categories and metadata of its conversation, and no condition.
CREATE TABLE turns (
    row_id            UINTEGER PRIMARY KEY, -- of a turn from 2^31 on
    unit              VARCHAR NOT NULL,     -- 'row': one turn, which is all; 'conversation'; 'turn': one of several
    conversation_id   UINTEGER NOT NULL,    -- the row that it belongs to, or is
    turn              USMALLINT,            -- from 1; NULL for a conversation
    turns             USMALLINT NOT NULL,   -- of the conversation
    case_id           UINTEGER NOT NULL,
    model_id          USMALLINT NOT NULL,
    question          VARCHAR,              -- this and the next seven of a turn only, as in cases and rows
    expected_answers  VARCHAR[],
    actual_answer     VARCHAR,
    retrieved_context STRUCT(content VARCHAR, doc_uri VARCHAR)[],
    error             VARCHAR,
    duration_s        DOUBLE,
    cost_usd          DOUBLE,
    input_tokens      UBIGINT,
    output_tokens     UBIGINT,
    messages          VARCHAR NOT NULL,     -- all, or the turn's
    history           VARCHAR,              -- what was said before a turn, the latest HISTORY messages of it
    tool_calls        VARCHAR NOT NULL,
    tools             VARCHAR,
    steps             VARCHAR,
    expected_tool_calls VARCHAR,
    expected_outcome  VARCHAR,
    scenario          VARCHAR
);

-- Beside them, in a large dataset, searched.parquet: the texts in small letters as load/searched gives them.

-- Beside them, in a suite of conversations, recordings.parquet: case_key, recording (the conversation that was held, as
-- JSON); a case has as many as the file. Only collecting reads it.

-- Beside them, in a dataset with a column of people's labels, labels.parquet. Evaluators read none of it, nor do digests.
-- row_id, question (EVALUATOR or EVALUATOR.METRIC, as the dataset names it), value (1 good, 0 bad, or a number; NULL for
-- "can't tell"), person ('unnamed' where nobody is named), note
