-- Rows of a run with a judge's scores, as people label them.

-- statement: metric
-- The metrics of a name, "evaluator" or "evaluator.metric", the primary one first.
SELECT
    metrics.metric_id, evaluators.evaluator, metrics.metric, metrics.name, metrics.description,
    metrics.higher_is_better, metrics.low, metrics.high, metrics.threshold, metrics.is_share, metrics.dataset_level,
    evaluators.config
FROM metrics JOIN evaluators USING (evaluator_id)
WHERE evaluators.evaluator = ? AND metrics.metric = coalesce(?, metrics.metric)
ORDER BY metrics.is_primary DESC, metrics.metric_id;

-- statement: metrics
-- The metrics that rows have.
SELECT
    metrics.metric_id, evaluators.evaluator, metrics.metric, metrics.name, metrics.description,
    metrics.higher_is_better, metrics.low, metrics.high, metrics.threshold, metrics.is_share, evaluators.config
FROM metrics JOIN evaluators USING (evaluator_id)
WHERE NOT metrics.dataset_level
ORDER BY metrics.metric_id;

-- statement: decided_by
-- What decides the metrics that ask a judge.
UPDATE rules
SET use = CASE
    WHEN judged AND metrics.threshold IS NOT NULL AND NOT metrics.dataset_level AND NOT metrics.pooled
    THEN CASE $gate_on WHEN 'policy' THEN use ELSE $gate_on END
    ELSE 'judge'
END
FROM metrics
WHERE metrics.metric_id = rules.metric_id;

-- statement: more_labels
-- The column that runs of earlier versions do not have.
ALTER TABLE certificates ADD COLUMN IF NOT EXISTS more_labels UBIGINT;

-- statement: row_key
md5(concat_ws(
    '|',
    coalesce(hex(digests.question), ''), coalesce(hex(digests.retrieved_context), ''),
    coalesce(hex(digests.expected_answer), ''), coalesce(hex(digests.actual_answer), '')
))

-- statement: rows
-- The scored rows of a metric: its value, and the digest of what a person sees of the row.
SELECT
    rows.row_id, rows.case_id, rows.model_id, cases.case_key, models.model_key, row_scores.value,
    {row_key} AS key
FROM row_scores
JOIN rows USING (row_id)
JOIN digests USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE row_scores.metric_id = ? AND row_scores.value IS NOT NULL AND isfinite(row_scores.value)
ORDER BY rows.row_id;

-- statement: answered
-- The rows with an answer, whatever metrics say of them.
SELECT
    rows.row_id, rows.case_id, cases.case_key, models.model_key, 1.0::DOUBLE AS value, {row_key} AS key
FROM rows
JOIN digests USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE rows.error IS NULL AND coalesce(rows.actual_answer, '') <> ''
ORDER BY rows.row_id;

-- statement: texts
-- What a person sees of rows.
SELECT
    rows.row_id, cases.question, cases.expected_answers, rows.actual_answer,
    list_transform(rows.retrieved_context, lambda chunk: chunk.content) AS contexts
FROM rows JOIN cases USING (case_id)
WHERE rows.row_id IN (SELECT unnest(?))
ORDER BY rows.row_id;


-- statement: rows_of_keys
-- The rows of a dataset that people labelled, by the digest of what they saw.
SELECT keyed.key, rows.row_id, rows.case_id, cases.case_key, models.model_key
FROM (SELECT row_id, {row_key} AS key FROM digests) AS keyed
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE keyed.key IN (SELECT unnest(?))
ORDER BY rows.row_id;

-- statement: keys_of_cases
SELECT case_id, case_key FROM cases WHERE case_id IN (SELECT unnest(?)) ORDER BY case_key;

-- statement: case_of_key
SELECT case_id FROM cases WHERE case_key = $case;

-- statement: row_of_case
SELECT rows.row_id FROM rows JOIN models USING (model_id) WHERE rows.case_id = $case AND models.model_key = $model;

-- statement: key_of_row
SELECT {row_key} FROM digests WHERE row_id = $row;

-- statement: messages
SELECT messages FROM turns WHERE row_id = $row;

-- statement: planned_rows
-- The rows that were planned, with the key of their score.
SELECT plan.row_id, plan.state, keys.key FROM plan JOIN keys USING (row_id) ORDER BY plan.row_id;

-- statement: verdicts
-- What the store holds of the planned rows for one metric: its value, and the evidence, which names the calls.
SELECT key, any_value("m:{metric}") AS value, any_value(evidence) AS evidence, any_value(unscorable) AS unscorable
FROM read_parquet({segments})
SEMI JOIN keys USING (key)
WHERE trial = 0
GROUP BY key;

-- statement: names
-- The names by which labels may call the metrics that rows have: EVALUATOR.METRIC, and EVALUATOR for the primary one.
SELECT evaluators.evaluator || '.' || metrics.metric AS name, evaluators.evaluator || '.' || metrics.metric AS id
FROM metrics JOIN evaluators USING (evaluator_id)
WHERE NOT metrics.dataset_level
UNION ALL
SELECT evaluators.evaluator, evaluators.evaluator || '.' || metrics.metric
FROM metrics JOIN evaluators USING (evaluator_id)
WHERE NOT metrics.dataset_level AND metrics.is_primary;

-- statement: given
-- The labels that came with a run's dataset, each with the digest of what a person sees of its row.
SELECT
    labels.question, labels.value, labels.person, labels.note, cases.case_key, models.model_key,
    {row_key} AS key
FROM read_parquet({labels}) AS labels
JOIN rows USING (row_id)
JOIN digests USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY labels.row_id;
