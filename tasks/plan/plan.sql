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
-- Whether several models answered one case.
compared_models AS MATERIALIZED (
    SELECT EXISTS (
        SELECT 1 FROM rows WHERE actual_answer IS NOT NULL GROUP BY case_id HAVING count(*) > 1
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
        CASE WHEN messages IS NOT NULL THEN 'messages' END,
        CASE WHEN history IS NOT NULL THEN 'history' END,
        CASE WHEN tool_calls IS NOT NULL THEN 'tool_calls' END,
        CASE WHEN tools IS NOT NULL THEN 'tools' END,
        CASE WHEN steps IS NOT NULL THEN 'steps' END,
        CASE WHEN expected_tool_calls IS NOT NULL THEN 'expected_tool_calls' END,
        CASE WHEN expected_outcome IS NOT NULL THEN 'expected_outcome' END,
        CASE WHEN scenario IS NOT NULL THEN 'scenario' END,
        CASE WHEN (FROM copied) THEN 'original_answer' END,
        CASE WHEN (FROM compared_models) THEN 'rival_answers' END
    ], lambda name: name IS NOT NULL)) AS fields
    FROM all_digests
    JOIN (SELECT row_id, error, duration_s, cost_usd, input_tokens, output_tokens FROM all_rows) USING (row_id)
    LEFT JOIN turn_digests USING (row_id)
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

-- Which of these sets each evaluator reads.
CREATE OR REPLACE TABLE reads (
    evaluator_id USMALLINT NOT NULL,
    reads_id     UTINYINT NOT NULL
);

-- The rows that an evaluator judges again, where only some are. Equal rows are judged once, and either may stand here.
CREATE OR REPLACE TABLE again (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL
);

-- What each row needs of each evaluator, and where it comes from.
CREATE OR REPLACE TABLE plan (
    evaluator_id USMALLINT NOT NULL,
    row_id       UINTEGER NOT NULL,
    state        VARCHAR NOT NULL    -- 'score', 'host_error', 'not_applicable', 'over_limit', 'not_needed'
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
JOIN (SELECT * EXCLUDE (question, expected_answers) FROM all_rows) AS rows USING (row_id)
JOIN cases USING (case_id)
LEFT JOIN (SELECT row_id, messages, history, tool_calls, tools, scenario FROM turns) AS talks USING (row_id)
WHERE to_compute.evaluator_id = {evaluator_id}

-- statement: pairs_to_ask
-- Pairs of different answers to a case of which at least one belongs to a row that is to be scored; equal ones count once
-- for each trial. Where more models answered a case than one is compared with, the share that is asked.
WITH answers AS (
    SELECT row_id, case_id, model_key, digests.actual_answer AS answer, count(*) OVER (PARTITION BY case_id) AS models
    FROM digests
    JOIN (SELECT row_id, case_id, model_id FROM rows) USING (row_id)
    JOIN models USING (model_id)
    WHERE digests.actual_answer IS NOT NULL
),
pairs AS (
    SELECT DISTINCT
        trial,
        mine.case_id,
        least(mine.answer, other.answer) AS one,
        greatest(mine.answer, other.answer) AS two,
        mine.models
    FROM (SELECT row_id, trial FROM to_compute WHERE evaluator_id = $evaluator_id)
    JOIN answers AS mine USING (row_id)
    JOIN answers AS other ON other.case_id = mine.case_id AND other.model_key <> mine.model_key
    WHERE mine.answer <> other.answer AND ($baseline = '' OR $baseline IN (mine.model_key, other.model_key))
)
SELECT coalesce(sum(CASE WHEN $baseline <> '' OR models - 1 <= $most THEN 1 ELSE $most / (models - 1) END), 0)
FROM pairs

-- statement: chosen_models
CREATE OR REPLACE TEMP TABLE chosen AS
SELECT row_id
FROM all_rows
JOIN models USING (model_id)
WHERE (len($models) = 0 OR list_contains($models, model_key))
  AND ($rows IS NULL OR list_contains($rows, conversation_id))

-- statement: keys
SELECT {reads_id}, row_id, unhex(substr(sha256(concat_ws('|', {parts})), 1, 32))
FROM {digests} SEMI JOIN chosen USING (row_id)

-- statement: present
-- Which of the fields that some evaluator requires each row has, and whether its host returned an error.
CREATE OR REPLACE TEMP TABLE present AS
SELECT row_id, unit, error IS NOT NULL AS has_failed, {present}
FROM {digests} SEMI JOIN chosen USING (row_id) JOIN (SELECT row_id, error, unit FROM all_rows) USING (row_id)

-- statement: states
SELECT {evaluator_id}, row_id,
       CASE WHEN NOT ({present}) THEN 'not_applicable'
            WHEN {failed} THEN 'host_error'
            WHEN NOT ({answered}) THEN 'not_applicable'
            ELSE 'score' END
FROM present
WHERE unit IN ('row', '{unit}') AND (unit <> 'turn' OR {turns})

-- statement: talks
-- Turns and calls of tools in all conversations.
SELECT coalesce(sum(turns), 0)::BIGINT, coalesce(sum(json_array_length(tool_calls)), 0)::BIGINT
FROM turns
WHERE unit <> 'turn'

-- statement: last_turns
row_id IN (SELECT row_id FROM turns WHERE turn = turns)

-- statement: drawn_turns
-- The same in every run, and a larger sample holds a smaller one.
row_id IN (
    SELECT row_id FROM turns WHERE unit = 'turn'
    QUALIFY row_number() OVER (PARTITION BY conversation_id ORDER BY messages_digest, row_id) <= {number}
)

-- statement: counts
SELECT evaluator_id, state, count(*) FROM plan GROUP BY ALL

-- statement: limit
-- Keeps the first rows, case by case, so that all models are measured on the same cases.
UPDATE plan SET state = 'over_limit'
WHERE evaluator_id = $evaluator_id AND state = 'score' AND row_id NOT IN (
    SELECT row_id
    FROM plan JOIN (SELECT row_id, case_id, model_id FROM all_rows) USING (row_id)
    WHERE evaluator_id = $evaluator_id AND state = 'score'
    ORDER BY case_id, model_id, row_id
    LIMIT $most
)

-- statement: wanted
CREATE OR REPLACE TEMP TABLE wanted AS
SELECT keys.key, min(keys.row_id) AS row_id, trials.trial
FROM keys JOIN plan ON plan.row_id = keys.row_id AND plan.evaluator_id = $evaluator AND plan.state = 'score',
     range($trials) AS trials(trial)
WHERE keys.reads_id = $reads
GROUP BY keys.key, trials.trial

-- statement: none_wanted
CREATE OR REPLACE TEMP TABLE wanted (key BLOB, row_id UINTEGER, trial BIGINT)

-- statement: wanted_again
-- Adds the further trials of the rows that are judged again.
INSERT INTO wanted
SELECT keys.key, min(keys.row_id), trials.trial
FROM keys JOIN again ON again.row_id = keys.row_id AND again.evaluator_id = $evaluator,
     range(1, $trials) AS trials(trial)
WHERE keys.reads_id = $reads
GROUP BY keys.key, trials.trial

-- statement: draw_rows
-- A part of the distinct rows, drawn by a digest of their keys: the same in every run, and a larger part holds a smaller.
-- Of a conversation that is drawn, all turns are.
INSERT INTO again
WITH planned AS (
    SELECT keys.row_id, keys.key, conversation_id
    FROM keys
    JOIN plan ON plan.row_id = keys.row_id AND plan.evaluator_id = $evaluator AND plan.state = 'score'
    JOIN (SELECT row_id, conversation_id FROM all_rows) AS parts ON parts.row_id = keys.row_id
    WHERE keys.reads_id = $reads
),
wholes AS (
    SELECT conversation_id, string_agg(hex(key), '' ORDER BY row_id) AS keys FROM planned GROUP BY conversation_id
),
drawn AS (
    SELECT conversation_id
    FROM (
        SELECT min(conversation_id) AS conversation_id, sha256(keys || $seed) AS lot, count(*) OVER () AS n
        FROM wholes
        GROUP BY keys
    )
    QUALIFY row_number() OVER (ORDER BY lot) <= least(greatest($least, ceil($share * n)), $most)
)
SELECT $evaluator, min(row_id) FROM planned SEMI JOIN drawn USING (conversation_id) GROUP BY key

-- statement: has_pairs
SELECT EXISTS (FROM relationships WHERE type = 'perturbation_source' AND case_id <> original_case_id)

-- statement: draw_pairs
-- The pairs whose rows are judged again: all that turned on some metric of the evaluator, and of each model's others a
-- part, drawn as rows are. Two rows of the same key share their trials, and say nothing of the judge's noise.
INSERT INTO judged_again
WITH measured AS (
    SELECT DISTINCT pairs.pair_id
    FROM pairs
    JOIN row_scores AS originals ON originals.row_id = original_row_id AND originals.value IS NOT NULL
    JOIN row_scores AS copies ON copies.row_id = perturbed_row_id AND copies.metric_id = originals.metric_id
        AND copies.value IS NOT NULL
    JOIN targets ON targets.metric_id = originals.metric_id AND compared AND above IS NOT NULL
    JOIN metrics ON metrics.metric_id = originals.metric_id AND evaluator_id = $evaluator
),
turned AS (
    SELECT DISTINCT original_row_id, perturbed_row_id, true AS turned
    FROM flips JOIN metrics USING (metric_id)
    WHERE evaluator_id = $evaluator
),
lots AS (
    SELECT
        model_id, original_row_id, perturbed_row_id, coalesce(turned.turned, false) AS turned,
        sha256(hex(originals.key) || hex(copies.key) || $seed) AS lot
    FROM pairs
    JOIN measured USING (pair_id)
    JOIN keys AS originals ON originals.row_id = original_row_id AND originals.reads_id = $reads
    JOIN keys AS copies ON copies.row_id = perturbed_row_id AND copies.reads_id = $reads
    LEFT JOIN turned USING (original_row_id, perturbed_row_id)
    WHERE originals.key <> copies.key
)
SELECT
    $evaluator, model_id, original_row_id, perturbed_row_id, turned,
    CASE WHEN turned THEN 1 ELSE n / least(n, greatest($least, ceil($share * n))) END
FROM (
    SELECT
        *,
        count(*) OVER (PARTITION BY model_id, turned) AS n,
        row_number() OVER (PARTITION BY model_id, turned ORDER BY lot) AS place
    FROM lots
)
WHERE turned OR place <= greatest($least, ceil($share * n))

-- statement: expect_pairs
-- As many pairs of each model as are likely to be judged again, drawn at random: what they say is not known yet.
INSERT INTO again
SELECT DISTINCT $evaluator, unnest([original_row_id, copy_row_id])
FROM (
    SELECT
        originals.row_id AS original_row_id,
        copies.row_id AS copy_row_id,
        row_number() OVER (
            PARTITION BY copies.model_id ORDER BY sha256(hex(original_keys.key) || hex(copy_keys.key) || $seed)
        ) AS place,
        count(*) OVER (PARTITION BY copies.model_id) AS n
    FROM (
        SELECT DISTINCT case_id, original_case_id
        FROM relationships
        WHERE type = 'perturbation_source' AND case_id <> original_case_id
    ) AS links
    JOIN rows AS copies ON copies.case_id = links.case_id
    JOIN rows AS originals ON originals.case_id = links.original_case_id AND originals.model_id = copies.model_id
    JOIN keys AS copy_keys ON copy_keys.row_id = copies.row_id AND copy_keys.reads_id = $reads
    JOIN keys AS original_keys ON original_keys.row_id = originals.row_id AND original_keys.reads_id = $reads
    JOIN plan ON plan.evaluator_id = $evaluator AND plan.row_id = copies.row_id AND plan.state = 'score'
    JOIN plan AS original_plan ON original_plan.evaluator_id = $evaluator
        AND original_plan.row_id = originals.row_id AND original_plan.state = 'score'
    WHERE original_keys.key <> copy_keys.key
)
WHERE place <= least(n, ceil($flipping * n) + greatest($least, ceil($share * (1 - $flipping) * n)))

-- statement: stored_repeats
-- How many further trials the store has of rows that may be judged again.
SELECT count(DISTINCT (held.key, held.trial))
FROM read_parquet({segments}) AS held
SEMI JOIN (SELECT key FROM keys WHERE reads_id = {reads_id}) AS mine ON mine.key = held.key
WHERE held.trial BETWEEN 1 AND {trials} - 1

-- statement: keep_repeats
-- Keeps so many of the further trials that are expected.
DELETE FROM to_compute
WHERE evaluator_id = $evaluator AND trial > 0 AND (row_id, trial) NOT IN (
    SELECT (row_id, trial) FROM to_compute WHERE evaluator_id = $evaluator AND trial > 0 ORDER BY key, trial LIMIT $most
)

-- statement: rows_of_pairs
INSERT INTO again
SELECT DISTINCT evaluator_id, unnest([original_row_id, perturbed_row_id])
FROM judged_again
WHERE evaluator_id = ?

-- statement: third_pairs
-- The pairs that are judged again, numbered as the rows of a dataset.
CREATE OR REPLACE TEMP TABLE third_pairs AS
SELECT
    (row_number() OVER (ORDER BY original_row_id, perturbed_row_id) - 1)::UINTEGER AS row_id,
    original_row_id,
    perturbed_row_id
FROM (SELECT DISTINCT original_row_id, perturbed_row_id FROM judged_again WHERE evaluator_id IN (SELECT unnest(?)))

-- statement: third_tables
-- Digests of the rows between the pairs: a case's fields are the original's, a row's are the copy's.
CREATE OR REPLACE TEMP TABLE third_digests AS
SELECT
    third_pairs.row_id,
    originals.question,
    originals.expected_answer,
    copies.retrieved_context,
    copies.actual_answer,
    originals.condition,
    originals.categories,
    originals.expected_documents,
    copies.retrieved_documents,
    CASE WHEN original_rows.metadata = copy_rows.metadata THEN originals.metadata
         WHEN original_cases.metadata = copy_cases.metadata THEN copies.metadata
         WHEN copy_rows.metadata = '{}' THEN unhex(left(sha256(original_cases.metadata), 32))
         WHEN original_cases.metadata = '{}' THEN unhex(left(sha256(copy_rows.metadata), 32))
         ELSE unhex(left(sha256(original_cases.metadata || copy_rows.metadata), 32)) END AS metadata,
    originals.expected_annotations,
    copies.predicted_annotations
FROM third_pairs
JOIN digests AS originals ON originals.row_id = original_row_id
JOIN digests AS copies ON copies.row_id = perturbed_row_id
JOIN (SELECT row_id, case_id, metadata FROM rows) AS original_rows ON original_rows.row_id = original_row_id
JOIN (SELECT row_id, case_id, metadata FROM rows) AS copy_rows ON copy_rows.row_id = perturbed_row_id
JOIN (SELECT case_id, metadata FROM cases) AS original_cases ON original_cases.case_id = original_rows.case_id
JOIN (SELECT case_id, metadata FROM cases) AS copy_cases ON copy_cases.case_id = copy_rows.case_id;

-- By evaluator and pair the key of the row between.
CREATE OR REPLACE TABLE third_rows (
    evaluator_id     USMALLINT NOT NULL,
    row_id           UINTEGER NOT NULL,
    original_row_id  UINTEGER NOT NULL,
    perturbed_row_id UINTEGER NOT NULL,
    key              BLOB NOT NULL
);

-- statement: third_keys
INSERT INTO third_rows
SELECT
    {evaluator_id}, row_id, original_row_id, perturbed_row_id, unhex(substr(sha256(concat_ws('|', {parts})), 1, 32))
FROM third_digests
JOIN third_pairs USING (row_id)
SEMI JOIN (FROM judged_again WHERE evaluator_id = {evaluator_id}) USING (original_row_id, perturbed_row_id)

-- statement: wanted_third
INSERT INTO wanted
SELECT key, min(row_id), trials.trial
FROM third_rows, range($trials) AS trials(trial)
WHERE evaluator_id = $evaluator
GROUP BY key, trials.trial

-- statement: third_size
SELECT count(DISTINCT case_id) FROM rows SEMI JOIN third_pairs ON rows.row_id = third_pairs.original_row_id

-- statement: third_models
FROM models ORDER BY model_id

-- statement: third_cases
FROM cases
WHERE case_id IN (SELECT case_id FROM rows SEMI JOIN third_pairs ON rows.row_id = third_pairs.original_row_id)
ORDER BY case_id

-- statement: third_relationships
FROM relationships LIMIT 0

-- statement: third_rows
SELECT third_pairs.row_id, originals.case_id, copies.* EXCLUDE (row_id, case_id)
FROM third_pairs
JOIN rows AS copies ON copies.row_id = perturbed_row_id
JOIN (SELECT row_id, case_id FROM rows) AS originals ON originals.row_id = original_row_id
ORDER BY third_pairs.row_id

-- statement: third_digests
FROM third_digests ORDER BY row_id

-- statement: write_third
COPY ({rows}) TO {file} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)

-- statement: expected_pairs
-- All pairs of an evaluator: which of them turn is not known before they are judged.
CREATE OR REPLACE TEMP TABLE judged_again AS
SELECT DISTINCT ?::USMALLINT AS evaluator_id, originals.row_id AS original_row_id, copies.row_id AS perturbed_row_id
FROM relationships
JOIN (SELECT row_id, case_id, model_id FROM rows) AS copies USING (case_id)
JOIN (SELECT row_id, case_id, model_id FROM rows) AS originals
    ON originals.case_id = relationships.original_case_id AND originals.model_id = copies.model_id
WHERE type = 'perturbation_source' AND relationships.case_id <> original_case_id

-- statement: expected_third
-- Third rows of the pairs that are likely to be judged again, apart from those whose score is their original's or copy's.
SELECT {evaluator_id}, min(perturbed_row_id), {first} + trials.trial, key
FROM third_rows
SEMI JOIN (SELECT row_id FROM again WHERE evaluator_id = {evaluator_id}) AS copies ON copies.row_id = perturbed_row_id
SEMI JOIN (SELECT row_id FROM again WHERE evaluator_id = {evaluator_id}) AS originals
    ON originals.row_id = original_row_id
ANTI JOIN (SELECT key FROM keys JOIN reads USING (reads_id) WHERE evaluator_id = {evaluator_id}) AS known USING (key),
     range({trials}) AS trials(trial)
WHERE evaluator_id = {evaluator_id}
GROUP BY key, trials.trial

-- statement: stored_third
-- How many scores of third rows the store has.
SELECT count(DISTINCT (held.key, held.trial))
FROM read_parquet({segments}) AS held
SEMI JOIN (SELECT key FROM third_rows WHERE evaluator_id = {evaluator_id}) AS mine ON mine.key = held.key
ANTI JOIN (SELECT key FROM keys JOIN reads USING (reads_id) WHERE evaluator_id = {evaluator_id}) AS known
    ON known.key = held.key
WHERE held.trial < {trials}

-- statement: lane
CREATE OR REPLACE TEMP TABLE lane AS
SELECT row_id, evaluator_id, trial, key, dense_rank() OVER (ORDER BY row_id) - 1 AS position
FROM to_compute
WHERE evaluator_id IN (SELECT unnest(?)) {only}
ORDER BY row_id, evaluator_id, trial

-- statement: write_lane
-- The lane in its order, which a table keeps: to sort it again would take its size in memory once more.
COPY (SELECT row_id, evaluator_id, trial, key FROM lane)
TO {file} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)

-- statement: windows
SELECT position // {size} AS number, min(row_id), max(row_id), count(DISTINCT row_id), count(*)
FROM lane
GROUP BY number
ORDER BY number

-- statement: rows_stored_in
-- How many rows of an evaluator have their score in some of the store's segments.
SELECT count(DISTINCT plan.row_id)
FROM plan JOIN keys ON keys.row_id = plan.row_id AND keys.reads_id = $reads
WHERE plan.evaluator_id = $evaluator AND plan.state = 'score'
  AND keys.key IN (SELECT key FROM read_parquet({segments}))
