-- What the page of cases asks of a run's database with its dataset, and of the datasets of all runs.

-- statement: clusters
-- Failing rows of a model that have something in common, as its problems tell them apart: named by the words that set
-- their questions apart, else by the case in their middle. Problems of several metrics may have parts of the same.
SELECT
    left(
        model_key || ': '
            || CASE WHEN words = [] THEN 'like ' || central_cases[1] ELSE array_to_string(words, ', ') END, 200
    ) AS cluster,
    model_id, cases, row_ids
FROM (
    SELECT
        model_id, [] AS row_ids, unnest(from_json(attrs->'failure_clusters',
            '[{"words": ["VARCHAR"], "central_cases": ["VARCHAR"], "cases": ["VARCHAR"]}]'), recursive := true)
    FROM problems
    UNION ALL BY NAME
    SELECT
        model_id, row_ids, from_json(attrs->'words', '["VARCHAR"]') AS words,
        from_json(attrs->'central_cases', '["VARCHAR"]') AS central_cases, [] AS cases
    FROM problems
    WHERE kind = 'failure_cluster'
)
JOIN models USING (model_id)

-- statement: in_cluster
-- The query of clusters is filled in.
WITH chosen AS (FROM ({clusters}) WHERE cluster = $cluster)
SELECT unnest(row_ids) AS row_id FROM chosen
UNION ALL
SELECT row_id
FROM (SELECT model_id, unnest(cases) AS case_key FROM chosen)
JOIN cases USING (case_key) JOIN rows USING (case_id, model_id)

-- statement: choices
-- What a reader may filter by. The query of clusters is filled in.
SELECT
    (SELECT list([cluster, cluster] ORDER BY cluster)
        FROM (SELECT DISTINCT cluster FROM ({clusters}) ORDER BY cluster LIMIT 100)) AS clusters,
    (SELECT list(
        [evaluator || '.' || metric, evaluators.name || CASE WHEN is_primary THEN '' ELSE ' · ' || metrics.name END]
        ORDER BY evaluators.evaluator_id, is_primary DESC, metric_id)
        FROM metrics JOIN evaluators USING (evaluator_id) WHERE NOT dataset_level) AS metrics,
    (SELECT list([model_key, model_key] ORDER BY model_id) FROM models) AS models,
    (SELECT list(DISTINCT question ORDER BY question) FROM rules JOIN metrics USING (metric_id)
        WHERE role <> 'information' AND metrics.threshold IS NOT NULL) AS questions,
    (SELECT list([problem_id::VARCHAR, description] ORDER BY problem_id)
        FROM (FROM problems WHERE len(row_ids) > 0 ORDER BY problem_id LIMIT 100)) AS problems,
    (SELECT list([s, s] ORDER BY s) FROM (
        SELECT DISTINCT slice_column || '=' || slice_value AS s FROM slices LIMIT 300)) AS slices;

-- statement: metric
SELECT metric_id, threshold, higher_is_better
FROM metrics JOIN evaluators USING (evaluator_id)
WHERE evaluator || '.' || metric = $metric AND NOT dataset_level;

-- statement: metric_trials
SELECT coalesce(max(trial), 0) AS trials, count(*) AS total FROM scores WHERE metric_id = $metric;

-- statement: measured_once
-- The values of a metric of which each row has one score.
SELECT row_id, value, status = 'unscored' AS unscored FROM scores WHERE metric_id = $metric

-- statement: measured_often
SELECT row_id, avg(value) AS value, bool_or(status = 'unscored') AS unscored
FROM scores WHERE metric_id = $metric GROUP BY row_id

-- statement: extent
SELECT
    count(*) AS total, coalesce(max(row_id), 0) AS last_row,
    (SELECT coalesce(bool_or(is_rag), false) FROM models) AS has_context
FROM rows;

-- statement: deciding
-- The metrics that help to answer a question of the verdict.
SELECT metric_id, threshold, higher_is_better
FROM metrics JOIN rules USING (metric_id)
WHERE rules.question = $question AND rules.role <> 'information' AND NOT dataset_level AND threshold IS NOT NULL;

-- statement: of_question
-- Rows that miss a threshold; values are held against what is written down, in half the time that a join takes.
SELECT row_id FROM scores WHERE {missed}

-- statement: every_row
-- Where a metric lacks rows.
SELECT row_id, is_measured IS NOT NULL AS is_measured, value, unscored
FROM (SELECT row_id FROM rows) LEFT JOIN (SELECT *, true AS is_measured FROM ({measured})) USING (row_id)

-- statement: measured_rows
SELECT *, true AS is_measured FROM ({measured})

-- statement: hits
-- Rows that fit with their values, only numbers, so that texts are read for those of the page alone. Outcomes are places
-- in RANKED of cases.py. Names in braces are filled in.
SELECT row_id, value, outcome
FROM (
    SELECT
        row_id, value,
        CASE
            WHEN NOT is_measured THEN NULL
            WHEN value IS NULL THEN CASE WHEN unscored THEN 1 ELSE 4 END
            WHEN $threshold IS NULL THEN 2
            WHEN (CASE WHEN $upper THEN value >= $threshold ELSE value <= $threshold END) THEN 3
            ELSE 0
        END::TINYINT AS outcome
    FROM ({measured})
    WHERE {filters}
)
WHERE $outcome IS NULL OR outcome = $outcome

-- statement: keep_hits
-- Where sets of rows have to be found, once for the count and the page.
CREATE OR REPLACE TEMP TABLE hits AS {hits};

-- statement: count_hits
SELECT count(*) FROM ({hits});

-- statement: of_problem
SELECT unnest(row_ids) AS row_id FROM problems WHERE problem_id = $problem

-- statement: of_slice
SELECT row_id FROM slice_rows
WHERE (slice_column, slice_value) IN (SELECT unnest($columns::VARCHAR[]), unnest($values::VARCHAR[]))

-- statement: kept_texts
SELECT parse_path(filename)[-2] AS dataset, case_id, row_id, text FROM read_parquet([{files}], filename = true)

-- statement: of_texts
-- Rows with words in their case or answer. Names in braces are filled in.
SELECT row_id FROM ({searched}) WHERE {words}

-- statement: of_texts_and_contexts
-- Rows with words in their case, answer or context; those in whose case or answer a word stands are bits, so that their
-- contexts are not looked at.
WITH asked AS MATERIALIZED (SELECT {asked} FROM ({searched}))
SELECT row_id FROM rows, asked WHERE {filters}

-- statement: rows_with
bitstring_agg(row_id, 0, {last}) FILTER ({stands}) AS {word}

-- statement: has_word
(get_bit(asked.{word}, row_id::INTEGER) = 1
    OR (len(retrieved_context) > 0
        AND len(list_filter(retrieved_context, lambda chunk: contains(lower(chunk.content), lower(${word})))) > 0))

-- statement: of_model
SELECT row_id FROM rows WHERE model_id = (SELECT model_id FROM models WHERE model_key = $model)

-- statement: of_every_row
SELECT row_id FROM rows

-- statement: in_set
row_id IN ({rows})

-- statement: bits
-- Rows as bits, each once: their number and any page of them come of one reading, and nothing is sorted.
SELECT bitstring_agg(row_id, 0, {last}) FROM ({rows}) WHERE {filters};

-- statement: found
-- The worst by the metric come first, or last to read the list from its end.
SELECT row_id, value, outcome
FROM ({hits})
ORDER BY coalesce(outcome, 4) {way}, {sign}value {way}, row_id {way}
LIMIT $limit OFFSET $offset;

-- statement: texts
-- Answers of a page; questions are read apart, in a fifth less time than a join of both takes.
SELECT row_id, case_id, model_key AS model, left(actual_answer, 300) AS answer, error
FROM rows JOIN models USING (model_id)
WHERE row_id IN (SELECT unnest($rows::UINTEGER[]));

-- statement: questions
SELECT case_id, case_key AS "case", left(question, 300) AS question
FROM cases WHERE case_id IN (SELECT unnest($cases::UINTEGER[]));

-- statement: stands_in
contains(text, lower(${word}))

-- statement: failing_metrics
-- The metrics that the page's rows fail, worst role first.
SELECT row_id, list(DISTINCT evaluators.name ORDER BY evaluators.name) AS names
FROM scores JOIN metrics USING (metric_id) JOIN evaluators USING (evaluator_id) JOIN rules USING (metric_id)
WHERE row_id IN (SELECT unnest($rows::UINTEGER[])) AND rules.role <> 'information' AND NOT metrics.dataset_level
    AND (CASE WHEN higher_is_better THEN value < threshold ELSE value > threshold END)
GROUP BY row_id;

-- statement: everywhere
-- Cases of the datasets of all runs in which every word of a search stands, with an answer to it. Names in braces are
-- filled in; texts are read for those of the page alone.
CREATE TEMP TABLE found AS
SELECT dataset, case_id, min(row_id) AS row_id FROM ({searched}) WHERE {words} GROUP BY ALL;

-- statement: page_everywhere
FROM found ORDER BY dataset, case_id LIMIT $limit OFFSET $offset;

-- statement: questions_everywhere
SELECT parse_path(filename)[-2] AS dataset, case_id, case_key AS "case", left(question, 300) AS question
FROM read_parquet($files, filename = true) WHERE case_id IN (SELECT unnest($ids::UINTEGER[]));

-- statement: answers_everywhere
SELECT parse_path(filename)[-2] AS dataset, row_id, left(actual_answer, 300) AS answer
FROM read_parquet($files, filename = true) WHERE row_id IN (SELECT unnest($ids::UINTEGER[]));

-- statement: dialogues
SELECT model_key, messages
FROM rows JOIN turns USING (row_id) JOIN models ON models.model_id = rows.model_id
WHERE rows.case_id = $case AND length(messages) <= $longest
ORDER BY rows.row_id;

-- statement: judged_evaluators
SELECT DISTINCT evaluator FROM evaluators WHERE lane = 'judge';

-- statement: judged_row
-- An answer's number, and how many trials of an evaluator the run has of it.
SELECT
    row_id,
    (SELECT coalesce(max(trial) + 1, 0) FROM scores JOIN metrics USING (metric_id) JOIN evaluators USING (evaluator_id)
        WHERE scores.row_id = rows.row_id AND evaluator = $evaluator)
FROM rows
WHERE case_id = (SELECT case_id FROM cases WHERE case_key = $case)
    AND model_id = (SELECT model_id FROM models WHERE model_key = $model);
