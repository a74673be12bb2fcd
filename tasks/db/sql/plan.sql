-- Planning. Names in braces are filled in by tasks/plan.

-- statement: words
-- About how many words a text has. Where words are not set apart by blanks (Chinese, Japanese, Thai), some two characters
-- of three bytes count as one.
CREATE OR REPLACE TEMP MACRO words(text) AS greatest(
    strlen(text) - strlen(replace(replace(text, ' ', ''), chr(10), '')) + 1,
    (strlen(text) - length(text)) // 4
);
-- What texts that mean the same label have in common; long texts are no labels.
CREATE OR REPLACE TEMP MACRO label(text) AS CASE WHEN strlen(text) <= 200 THEN hash(lower(trim(text, ' .!'))) END;

-- The form of a text, told from its beginning: 'json', 'sql', 'number' or nothing; in a fence of Markdown or not. A number
-- may have the sign of a currency before it, and of percent or a unit behind it.
CREATE OR REPLACE TEMP MACRO form(text) AS CASE
    WHEN regexp_matches(text, '^(```[a-zA-Z]*)?\s*(\{\s*["}]|\[\s*([{"\[\]\d-]|true|false|null))')
        AND regexp_matches(right(text, 20), '[}\]]\s*(```)?\s*$') THEN 'json'
    WHEN regexp_matches(left(text, 100), '^(```[a-zA-Z]*)?\s*(SELECT|WITH)\s', 'i')
        AND regexp_matches(text, '\b(FROM|SELECT)\b', 'i') THEN 'sql'
    WHEN strlen(text) <= 40 AND regexp_matches(text, '^\s*[-+]?[$€£]?\s*[-+]?\d[\d., \x27]*([eE][-+]?\d+)?\s*([%\pL°²³/]{1,12})?\.?\s*$')
        THEN 'number'
END

-- statement: dataset_profile
-- What decides which evaluators a dataset is for; the columns are those of DatasetProfile, and of what it makes its
-- annotations from. A dataset without annotations counts as one of texts. Loading writes annotations in one form, so that
-- looking for its members is enough: labels come first, and where nothing but labels stands in an annotation, it is of
-- the whole item.
WITH kinds AS (
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
        ), false) AS instances,
        coalesce(bool_or(contains(cases.metadata, '"rgb":') OR contains(rows.metadata, '"rgb":')), false) AS rgb
    FROM rows
    JOIN cases USING (case_id)
),
-- Whether some case is a copy of another, perturbed or asked again.
copied AS MATERIALIZED (
    SELECT EXISTS (FROM relationships) OR EXISTS (
        SELECT 1
        FROM digests
        JOIN (SELECT row_id, model_id FROM rows) USING (row_id)
        WHERE question IS NOT NULL
        GROUP BY model_id, question, expected_answer, condition, expected_documents
        HAVING count(*) > 1
    )
),
fields AS (
    SELECT list(DISTINCT list_filter([
        CASE WHEN question IS NOT NULL THEN 'question' END,
        CASE WHEN expected_answer IS NOT NULL THEN 'expected_answer' END,
        CASE WHEN retrieved_context IS NOT NULL THEN 'retrieved_context' END,
        CASE WHEN actual_answer IS NOT NULL OR error IS NOT NULL THEN 'actual_answer' END,
        CASE WHEN condition IS NOT NULL THEN 'condition' END,
        CASE WHEN categories IS NOT NULL THEN 'categories' END,
        CASE WHEN expected_documents IS NOT NULL THEN 'expected_documents' END,
        CASE WHEN retrieved_documents IS NOT NULL THEN 'retrieved_documents' END,
        CASE WHEN metadata IS NOT NULL THEN 'metadata' END,
        CASE WHEN expected_annotations IS NOT NULL THEN 'expected_annotations' END,
        CASE WHEN predicted_annotations IS NOT NULL OR error IS NOT NULL THEN 'predicted_annotations' END,
        CASE WHEN duration_s IS NOT NULL THEN 'duration_s' END,
        CASE WHEN cost_usd IS NOT NULL THEN 'cost_usd' END,
        CASE WHEN input_tokens IS NOT NULL THEN 'input_tokens' END,
        CASE WHEN output_tokens IS NOT NULL THEN 'output_tokens' END,
        CASE WHEN (FROM copied) THEN 'original_answer' END
    ], lambda name: name IS NOT NULL)) AS fields
    FROM digests
    JOIN (SELECT row_id, error, duration_s, cost_usd, input_tokens, output_tokens FROM rows) USING (row_id)
),
-- Lengths of some 100,000 rows are enough.
measured AS MATERIALIZED (
    SELECT
        case_id,
        CASE WHEN question IS NULL THEN case_id ELSE hash(question) END AS question_id,
        words(question) AS question_words,
        list_transform(expected_answers, lambda expected: words(expected)) AS reference_words,
        label(expected_answers[1]) AS label,
        form(expected_answers[1]) AS form,
        json_keys(cases.metadata) AS metadata_keys
    FROM cases
    WHERE case_id % (SELECT 1 + count(*) // 100_000 FROM rows) = 0
),
-- Perturbed copies repeat what their original says, and a question that is asked again is no other question.
questions AS (
    SELECT any_value(question_words) AS question_words, any_value(reference_words)[1] AS n_words, any_value(label) AS label,
        any_value(form) AS form
    FROM measured
    ANTI JOIN relationships USING (case_id)
    GROUP BY question_id
),
lengths AS (
    SELECT
        coalesce(median(question_words), 0) AS question_words,
        count(n_words) AS references,
        count(DISTINCT label) + count(CASE WHEN n_words > 0 AND label IS NULL THEN 1 END) AS distinct_references,
        coalesce(median(n_words), 0) AS reference_words,
        coalesce(quantile_disc(n_words, 0.95), 0) AS longest_references,
        coalesce(count(CASE form WHEN 'json' THEN 1 END) / count(n_words), 0) AS json_references,
        coalesce(count(CASE form WHEN 'sql' THEN 1 END) / count(n_words), 0) AS sql_references,
        coalesce(count(CASE form WHEN 'number' THEN 1 END) / count(n_words), 0) AS number_references
    FROM questions
),
answers AS (
    SELECT
        case_id,
        words(actual_answer) AS n_words,
        label(actual_answer) AS label,
        form(actual_answer) AS form,
        -- brackets in code are indexes
        regexp_matches(regexp_replace(left(actual_answer, 20_000), '(?s)```.*?(```|$)|`[^`\n]*`', '', 'g'), '\[[1-9]\d{0,2}(, ?\d{1,3})*\]|【\d') AS cites,
        regexp_matches(left(actual_answer, 20_000), '["“„«][^"“”„«»\n]+ [^"“”„«»\n]+ [^"“”„«»\n]+["”“»]') AS quotes,
        json_keys(rows.metadata) AS metadata_keys
    FROM rows
    SEMI JOIN measured USING (case_id)
    WHERE actual_answer IS NOT NULL
),
compared AS (
    SELECT
        coalesce(median(n_words), 0) AS answer_words,
        coalesce(avg(coalesce(answers.label IN (SELECT label FROM questions WHERE label IS NOT NULL), false)::UTINYINT), 0)
            AS answers_among_references,
        -- the expected answer that is nearest in length
        coalesce(median(list_min(list_transform(
            reference_words, lambda expected: greatest(expected / n_words, n_words / expected)
        ))), 0) AS length_ratio,
        coalesce(avg((answers.form IS NOT DISTINCT FROM 'json')::UTINYINT), 0) AS json_answers,
        coalesce(avg((cites AND answers.form IS DISTINCT FROM 'json')::UTINYINT), 0) AS cited_answers,
        coalesce(avg((quotes AND answers.form IS DISTINCT FROM 'json')::UTINYINT), 0) AS quoting_answers
    FROM answers
    JOIN measured USING (case_id)
)
SELECT
    kinds.*,
    fields.fields,
    lengths.*,
    compared.*,
    (
        SELECT list(DISTINCT key)[:1000]
        FROM (SELECT unnest(metadata_keys) AS key FROM measured UNION ALL SELECT unnest(metadata_keys) FROM answers)
    ) AS metadata_keys,
    (
        SELECT list(DISTINCT category)[:1000]
        FROM (SELECT unnest(categories) AS category FROM cases)
        WHERE regexp_matches(category, 'encod|base|hex|rot', 'i')
    ) AS encodings
FROM kinds, fields, lengths, compared

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
FROM {digests} SEMI JOIN chosen USING (row_id)

-- statement: states
INSERT INTO plan
SELECT {evaluator_id}, row_id,
       CASE WHEN NOT ({present}) THEN 'not_applicable'
            WHEN {failed} THEN 'host_error'
            WHEN NOT ({answered}) THEN 'not_applicable'
            ELSE 'score' END
FROM {digests} SEMI JOIN chosen USING (row_id) JOIN (SELECT row_id, error FROM rows) USING (row_id)

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
