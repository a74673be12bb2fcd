-- Loading a dataset. Names in braces are filled in by tasks/load.

-- statement: macros
-- What a field's content is identified by: the first 16 bytes of the SHA-256 of an unambiguous text; NULL when absent.
CREATE TEMP MACRO digest(content) AS unhex(left(sha256(content), 32));
CREATE TEMP MACRO digest_list(contents) AS if(len(contents) > 0, digest(to_json(contents)::VARCHAR), NULL);
CREATE TEMP MACRO digest_contents(chunks) AS digest_list(if(
    list_bool_or(list_transform(chunks, lambda x: x.content <> '')), list_transform(chunks, lambda x: x.content), NULL
));
CREATE TEMP MACRO digest_documents(chunks) AS digest_list(if(
    list_bool_or(list_transform(chunks, lambda x: x.doc_uri IS NOT NULL)),
    list_transform(chunks, lambda x: x.doc_uri), NULL
));

-- statement: staging
-- Digests of what an answer brings with it, in the order of staged_rows; chunks is how many it was given.
CREATE TABLE staged_digests (
    row_id                UINTEGER NOT NULL,
    retrieved_context     BLOB,
    actual_answer         BLOB,
    retrieved_documents   BLOB,
    predicted_annotations BLOB,
    metadata              BLOB NOT NULL,
    is_bare               BOOLEAN NOT NULL,    -- without metadata
    chunks                UINTEGER NOT NULL
);

-- statement: staged
-- What a load has read. One line per mention of a case, however often it is repeated.
-- record and part say where it stands in the file; seq counts mentions, row_id counts answers, both from 0 without gaps.

-- seq, record, part, case_key, derived (the key was made from the content), bare (an answer that names the case and says
-- nothing of it), question, expected_answers, expected_documents, condition, categories, expected_annotations, metadata
CREATE VIEW case_mentions AS FROM read_parquet({cases});
CREATE VIEW staged_cases AS FROM case_mentions;

-- record, part, case_key, target, perturbation
CREATE VIEW staged_links AS FROM read_parquet({links});

-- row_id, record, part, case_key, derived, case_seq (the mention of its case that came with it), model_id,
-- actual_answer, retrieved_context (structs of content and doc_uri), error, duration_s, cost_usd, input_tokens,
-- output_tokens, metadata, predicted_annotations
CREATE VIEW staged_rows AS FROM read_parquet({rows});

-- statement: digests
-- Digests of the rows of a batch, which is a table of Arrow's.
INSERT INTO staged_digests
SELECT
    row_id,
    digest_contents(retrieved_context),
    if(error IS NULL, digest(actual_answer), NULL),
    digest_documents(retrieved_context),
    if(error IS NULL, digest(predicted_annotations), NULL),
    if(metadata = '{}', digest('{}'), digest(metadata)),
    metadata = '{}',
    len(retrieved_context)
FROM batch

-- statement: coco
-- What was read of COCO files. file is -1 for the ground truth, else the number of the model.
CREATE TABLE coco_images (record UINTEGER NOT NULL, image VARCHAR NOT NULL, metadata VARCHAR NOT NULL);
CREATE TABLE coco_categories (record UINTEGER NOT NULL, category VARCHAR NOT NULL, label VARCHAR NOT NULL);
CREATE TABLE coco_found (
    file     INTEGER NOT NULL,
    record   UINTEGER NOT NULL,
    image    VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    score    VARCHAR NOT NULL,  -- ',"score":0.9' or ''
    rest     VARCHAR NOT NULL   -- the geometry as a member of an annotation's JSON, with a comma before it
);

-- statement: coco_rows
-- Every image with its ground truth (file -1) and what each model found, as JSON in the one form of annotations.
SELECT
    images.record,
    images.image,
    images.metadata,
    files.file,
    '[' || coalesce(found.annotations, '') || ']' AS annotations
FROM coco_images AS images
CROSS JOIN (SELECT range AS file FROM range(-1, $models)) AS files
LEFT JOIN (
    SELECT
        image, file,
        string_agg('{"labels":[' || label || score || '}]' || rest || '}', ',' ORDER BY coco_found.record) AS annotations
    FROM coco_found
    JOIN coco_categories USING (category)
    GROUP BY image, file
) AS found ON found.image = images.image AND found.file = files.file
ORDER BY images.record, files.file

-- statement: coco_faults
-- What in one file refers to nothing, and, in the ground truth, what is there twice.
SELECT record, part, message
FROM (
    SELECT record, if($file < 0, 'annotations[].', '') AS part,
           'there is no image ' || image || ' in the ground truth' AS message
    FROM coco_found ANTI JOIN coco_images USING (image)
    WHERE file = $file
    UNION ALL
    SELECT record, if($file < 0, 'annotations[].', ''), 'there is no category ' || category || ' in the ground truth'
    FROM coco_found ANTI JOIN coco_categories USING (category)
    WHERE file = $file
    UNION ALL
    SELECT max(record), 'images[].', 'image ' || image || ' is listed a second time'
    FROM coco_images
    WHERE $file < 0
    GROUP BY image
    HAVING count(*) > 1
    UNION ALL
    SELECT max(record), 'categories[].', 'category ' || category || ' is listed a second time'
    FROM coco_categories
    WHERE $file < 0
    GROUP BY category
    HAVING count(*) > 1
)
ORDER BY record

-- statement: cases
-- The cases that were mentioned, in the order of their first mention, each with the mention that describes it best.

CREATE TABLE case_ids AS
SELECT row_number() OVER (ORDER BY first_seq) - 1 AS case_id, *
FROM (
    SELECT
        case_key,
        min(seq) AS first_seq,
        coalesce(min(seq) FILTER (NOT bare), min(seq)) AS best_seq,
        bool_and(bare) AS only_named,
        count(*) FILTER (NOT bare) AS mentions
    FROM staged_cases
    GROUP BY case_key
);

-- What the best mention leaves out and a later one says; a line only where there are several.
CREATE TABLE case_patches AS
SELECT
    s.case_key,
    arg_min(s.question, s.seq) FILTER (s.question IS NOT NULL)                     AS question,
    arg_min(s.expected_answers, s.seq) FILTER (s.expected_answers IS NOT NULL)     AS expected_answers,
    arg_min(s.expected_documents, s.seq) FILTER (s.expected_documents IS NOT NULL) AS expected_documents,
    arg_min(s.condition, s.seq) FILTER (s.condition IS NOT NULL)                   AS condition,
    arg_min(s.categories, s.seq) FILTER (s.categories IS NOT NULL)                 AS categories,
    arg_min(s.expected_annotations, s.seq) FILTER (s.expected_annotations IS NOT NULL) AS expected_annotations,
    arg_min(s.metadata, s.seq) FILTER (s.metadata IS NOT NULL)                     AS metadata
FROM staged_cases s
SEMI JOIN (
    SELECT case_key
    FROM staged_cases
    WHERE NOT bare
    GROUP BY case_key
    HAVING count(*) > 1 AND (
        count(question) NOT IN (0, count(*)) OR count(expected_answers) NOT IN (0, count(*))
        OR count(expected_documents) NOT IN (0, count(*)) OR count(condition) NOT IN (0, count(*))
        OR count(categories) NOT IN (0, count(*)) OR count(metadata) NOT IN (0, count(*))
        OR count(expected_annotations) NOT IN (0, count(*))
    )
) uneven USING (case_key)
GROUP BY s.case_key;

-- statement: row_cases
-- The case of every row, in the order of staged_rows.
CREATE TABLE row_cases AS
SELECT r.row_id, i.case_id::UINTEGER AS case_id
FROM staged_rows r
LEFT JOIN repeats USING (row_id)
JOIN case_ids i ON i.case_key = coalesce(repeats.case_key, r.case_key)
ORDER BY row_id

-- statement: conditions
-- Every condition once, with its first mention.
SELECT arg_min(record, seq) AS record, arg_min(part, seq) AS part, arg_min(case_key, seq) AS case_key, condition
FROM staged_cases
WHERE condition IS NOT NULL
GROUP BY condition
ORDER BY min(seq)

-- statement: conflicts
-- Mentions of a case whose {column} is another than that of its first mention that has one.
SELECT later.record, later.part, later.case_key, pair.first_record
FROM staged_cases later
JOIN (
    SELECT case_key, arg_min(hash({column}), seq) AS first_hash, arg_min(record, seq) AS first_record
    FROM staged_cases
    WHERE {column} IS NOT NULL
    GROUP BY case_key
    HAVING min(hash({column})) <> max(hash({column}))
) pair USING (case_key)
WHERE later.{column} IS NOT NULL AND hash(later.{column}) <> pair.first_hash
ORDER BY later.seq

-- statement: dangling
-- Relationships whose target is the case itself, or no case; not those whose target may stand in what could not be read.
SELECT record, part, case_key, target
FROM staged_links
WHERE
    target = case_key
    OR (
        target NOT IN (SELECT case_key FROM case_ids)
        AND NOT contains(getvariable('lost'), target)  -- null, and so no fault, if nobody knows what is lost
    )
ORDER BY record

-- statement: duplicates
-- Answers of a model to a case that it has answered before.
SELECT later.record, later.part, later.case_key, later.model_id, first.record AS first_record
FROM staged_rows later
JOIN (
    SELECT case_key, model_id, min(row_id) AS row_id
    FROM staged_rows
    WHERE NOT derived
    GROUP BY case_key, model_id
    HAVING count(*) > 1
) pair ON pair.case_key = later.case_key AND pair.model_id = later.model_id AND pair.row_id < later.row_id
JOIN staged_rows first ON first.row_id = pair.row_id
ORDER BY later.row_id

-- statement: repeats
-- Cases without a key of their own that one model answered several times: every time after the first is a case
-- of its own, numbered, so that no answer is lost.

CREATE TABLE repeats AS
SELECT row_id, case_seq, case_key || '-' || nth AS case_key
FROM (
    SELECT row_id, case_seq, case_key, row_number() OVER (PARTITION BY case_key, model_id ORDER BY row_id) AS nth
    FROM staged_rows
    WHERE derived
)
WHERE nth > 1;

CREATE OR REPLACE VIEW staged_cases AS
SELECT m.* REPLACE (coalesce(repeats.case_key, m.case_key) AS case_key)
FROM case_mentions m
LEFT JOIN repeats ON repeats.case_seq = m.seq;

-- statement: undeclared
-- Answers to cases that the document does not have; not those of cases that may stand in what could not be read.
SELECT record, part, case_key
FROM staged_rows
WHERE
    case_key IN (SELECT case_key FROM case_ids WHERE only_named)
    AND NOT contains(getvariable('lost'), case_key)  -- null, and so no fault, if nobody knows what is lost
ORDER BY row_id

-- statement: write_models
SELECT
    m.model_id::USMALLINT AS model_id,
    m.model_key,
    coalesce(m.name, m.model_key) AS name,
    m.version,
    coalesce(r.is_rag, false) AS is_rag
FROM staged_models m
LEFT JOIN (
    SELECT model_id, bool_or(d.chunks > 0) AS is_rag
    FROM staged_rows JOIN staged_digests d USING (row_id)
    GROUP BY model_id
) r USING (model_id)
ORDER BY model_id

-- statement: write_cases
-- The cases whose best mention is one of some that follow each other.
SELECT
    i.case_id::UINTEGER AS case_id,
    i.case_key,
    coalesce(s.question, p.question) AS question,
    coalesce(s.expected_answers, p.expected_answers, []) AS expected_answers,
    coalesce(s.expected_documents, p.expected_documents, []) AS expected_documents,
    coalesce(s.condition, p.condition) AS condition,
    coalesce(s.categories, p.categories, []) AS categories,
    coalesce(s.metadata, p.metadata, '{}') AS metadata,
    coalesce(s.expected_annotations, p.expected_annotations) AS expected_annotations
FROM case_ids i
JOIN staged_cases s ON s.seq = i.best_seq
LEFT JOIN case_patches p ON p.case_key = i.case_key
WHERE s.seq BETWEEN $first AND $last AND i.best_seq BETWEEN $first AND $last
ORDER BY case_id

-- statement: write_relationships
SELECT DISTINCT
    c.case_id::UINTEGER AS case_id,
    o.case_id::UINTEGER AS original_case_id,
    'perturbation_source' AS type,
    max(l.perturbation) AS perturbation
FROM staged_links l
JOIN case_ids c ON c.case_key = l.case_key
JOIN case_ids o ON o.case_key = l.target
GROUP BY ALL
ORDER BY ALL

-- statement: searched
-- What a search looks for words in: each answer with its question and key, in small letters. No word has a line's end.
-- Files of rows and of cases are filled in, in the same order of their datasets.
SELECT
    parse_path(filename)[-2] AS dataset, case_id, row_id,
    lower(concat_ws(chr(10), question, case_key, actual_answer)) AS text
FROM (SELECT filename, file_index, case_id, row_id, actual_answer FROM read_parquet([{rows}], filename = true))
JOIN (SELECT file_index, case_id, case_key, question FROM read_parquet([{cases}])) USING (file_index, case_id)

-- statement: searched_bytes
-- About how many bytes that is, before any answer is read.
SELECT sum(total_uncompressed_size * if(path_in_schema = 'question', answers.num_rows / questions.num_rows, 1))
FROM parquet_metadata([{cases}, {rows}]), parquet_file_metadata({rows}) AS answers,
    parquet_file_metadata({cases}) AS questions
WHERE path_in_schema IN ('question', 'actual_answer')

-- statement: write_searched
-- LZ4 is read in half the time of ZSTD. Row groups end by their bytes only where their order is free.
SET preserve_insertion_order = false;
COPY (SELECT case_id, row_id, text FROM ({searched})) TO {file}
(FORMAT parquet, COMPRESSION lz4_raw, ROW_GROUP_SIZE {group_rows}, ROW_GROUP_SIZE_BYTES {group_bytes});

-- statement: write_turns
-- A batch of turns, each with its row's case and model, and digests of what evaluators read of it.
SELECT
    t.row_id, t.unit, t.conversation_id, t.turn, t.turns, c.case_id, r.model_id,
    t.* EXCLUDE (row_id, unit, conversation_id, turn, turns),
    digest(question) AS question_digest,
    digest_list(expected_answers) AS expected_answer_digest,
    digest_contents(t.retrieved_context) AS retrieved_context_digest,
    if(t.error IS NULL, digest(t.actual_answer), NULL) AS actual_answer_digest,
    digest_documents(t.retrieved_context) AS retrieved_documents_digest,
    digest(messages) AS messages_digest,
    digest(history) AS history_digest,
    digest(tool_calls) AS tool_calls_digest,
    digest(tools) AS tools_digest,
    digest(steps) AS steps_digest,
    digest(expected_tool_calls) AS expected_tool_calls_digest,
    digest(expected_outcome) AS expected_outcome_digest,
    digest(scenario) AS scenario_digest
FROM turn_batch AS t
JOIN row_cases AS c ON c.row_id = t.conversation_id
JOIN (SELECT row_id, model_id FROM staged_rows) AS r ON r.row_id = t.conversation_id
ORDER BY t.row_id

-- statement: are_in_order
-- Whether the cases stand in the order of their best mentions.
SELECT coalesce(bool_and(best_seq > before), true)
FROM (SELECT best_seq, lag(best_seq) OVER (ORDER BY case_id) AS before FROM case_ids)

-- statement: cases_of_rows
SELECT case_id FROM row_cases WHERE row_id >= $first AND row_id < $end ORDER BY row_id

-- statement: case_digests
-- Texts are digested as they are read: a join would keep them in memory.
CREATE TABLE case_digests AS
SELECT
    case_id,
    digest(question) AS question,
    digest_list(expected_answers) AS expected_answer,
    digest(condition) AS condition,
    if(len(categories) = 0, digest('[]'), digest(to_json(categories)::VARCHAR)) AS categories,
    digest_list(expected_documents) AS expected_documents,
    if(metadata = '{{}}', digest('{{}}'), digest(metadata)) AS metadata,
    metadata = '{{}}' AS is_bare,
    digest(expected_annotations) AS expected_annotations
FROM read_parquet({cases});

-- Of rows with metadata whose cases have some too.
CREATE TABLE both_digests AS
SELECT r.row_id, digest(c.metadata || r.metadata) AS metadata
FROM staged_rows r
JOIN row_cases USING (row_id)
JOIN read_parquet({cases}) c USING (case_id)
WHERE r.metadata <> '{{}}' AND c.metadata <> '{{}}'

-- statement: write_digests
-- The digests of some rows that follow each other.
SELECT
    d.row_id,
    c.question,
    c.expected_answer,
    d.retrieved_context,
    d.actual_answer,
    c.condition,
    c.categories,
    c.expected_documents,
    d.retrieved_documents,
    CASE WHEN d.is_bare THEN c.metadata WHEN c.is_bare THEN d.metadata ELSE b.metadata END AS metadata,
    c.expected_annotations,
    d.predicted_annotations
FROM staged_digests d
JOIN row_cases USING (row_id)
JOIN case_digests c USING (case_id)
LEFT JOIN both_digests b USING (row_id)
WHERE row_id >= $first AND row_id < $end
ORDER BY row_id
