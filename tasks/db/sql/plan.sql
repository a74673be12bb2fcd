-- Planning. Names in braces are filled in by tasks/plan.

-- statement: dataset_kind
-- What a dataset has: texts, and annotations by what they are drawn as. A dataset without annotations counts as one of
-- texts. Loading writes annotations in one form, so that looking for its members is enough: labels come first, and where
-- nothing but labels stands in an annotation, it is of the whole item.
SELECT
    coalesce(bool_or(
        cases.question IS NOT NULL OR rows.actual_answer IS NOT NULL
        OR (cases.expected_annotations IS NULL AND rows.predicted_annotations IS NULL)
    ), true) AS texts,
    coalesce(bool_or(contains(cases.expected_annotations, '}]}')), false) AS whole,
    coalesce(bool_or(contains(cases.expected_annotations, '"box":')), false) AS box,
    coalesce(bool_or(contains(cases.expected_annotations, '"polygon":')), false) AS polygon,
    coalesce(bool_or(contains(cases.expected_annotations, '"raster":')), false) AS raster,
    -- an annotation that is no single object says so
    coalesce(bool_or(
        len(regexp_extract_all(cases.expected_annotations, '"labels":'))
        > len(regexp_extract_all(cases.expected_annotations, '"is_instance":false'))
    ), false) AS instances
FROM rows
JOIN cases USING (case_id)

-- statement: tables
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

-- statement: estimate
-- Rows that an evaluator has to score, trials counted, and the mean length of what it reads of them.
SELECT
    count(*) AS scores,
    coalesce(avg({length}), 0) AS characters
FROM to_compute
JOIN rows USING (row_id)
JOIN cases USING (case_id)
WHERE to_compute.evaluator_id = {evaluator_id}

-- statement: chosen_models
CREATE OR REPLACE TEMP TABLE chosen AS
SELECT row_id FROM rows JOIN models USING (model_id) WHERE len($models) = 0 OR list_contains($models, model_key)

-- statement: keys
INSERT INTO keys
SELECT {reads_id}, row_id, unhex(substr(sha256(concat_ws('|', {parts})), 1, 32))
FROM digests SEMI JOIN chosen USING (row_id)

-- statement: states
INSERT INTO plan
SELECT {evaluator_id}, row_id,
       CASE WHEN NOT ({present}) THEN 'not_applicable'
            WHEN {failed} THEN 'host_error'
            WHEN NOT ({answered}) THEN 'not_applicable'
            ELSE 'score' END
FROM digests SEMI JOIN chosen USING (row_id) JOIN (SELECT row_id, error FROM rows) USING (row_id)

-- statement: limit
-- Keeps the first rows, case by case, so that all models are measured on the same cases.
UPDATE plan SET state = 'over_limit'
WHERE evaluator_id = $evaluator_id AND state = 'score' AND row_id NOT IN (
    SELECT row_id
    FROM plan JOIN (SELECT row_id, case_id, model_id FROM rows) USING (row_id)
    WHERE evaluator_id = $evaluator_id AND state = 'score'
    ORDER BY case_id, model_id, row_id
    LIMIT $most
)

-- statement: wanted
CREATE OR REPLACE TEMP TABLE wanted AS
SELECT keys.key, min(keys.row_id) AS row_id, trials.trial
FROM keys JOIN plan ON plan.row_id = keys.row_id AND plan.evaluator_id = ? AND plan.state = 'score',
     range(?) AS trials(trial)
WHERE keys.reads_id = ?
GROUP BY keys.key, trials.trial

-- statement: lane
CREATE OR REPLACE TEMP TABLE lane AS
SELECT row_id, evaluator_id, trial, key, dense_rank() OVER (ORDER BY row_id) - 1 AS position
FROM to_compute
WHERE evaluator_id IN (SELECT unnest(?))
ORDER BY row_id, evaluator_id, trial

-- statement: write_lane
COPY (SELECT row_id, evaluator_id, trial, key FROM lane ORDER BY row_id, evaluator_id, trial)
TO {file} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)

-- statement: windows
SELECT position // {size} AS number, min(row_id), max(row_id), count(DISTINCT row_id), count(*)
FROM lane
GROUP BY number
ORDER BY number
