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

-- statement: rows
-- The scored rows of a metric: its value, and the digest of what a person sees of the row.
SELECT
    rows.row_id, rows.case_id, rows.model_id, cases.case_key, models.model_key, row_scores.value,
    md5(concat_ws(
        '|',
        coalesce(hex(digests.question), ''), coalesce(hex(digests.retrieved_context), ''),
        coalesce(hex(digests.expected_answer), ''), coalesce(hex(digests.actual_answer), '')
    )) AS key
FROM row_scores
JOIN rows USING (row_id)
JOIN digests USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE row_scores.metric_id = ? AND row_scores.value IS NOT NULL AND isfinite(row_scores.value)
ORDER BY rows.row_id;

-- statement: texts
-- What a person sees of rows.
SELECT
    rows.row_id, cases.question, cases.expected_answers, rows.actual_answer,
    list_transform(rows.retrieved_context, lambda chunk: chunk.content) AS contexts
FROM rows JOIN cases USING (case_id)
WHERE rows.row_id IN (SELECT unnest(?))
ORDER BY rows.row_id;
