-- Rows of a run with their values, for a list of cases; one metric of a row is a line, its trials averaged.

-- statement: cases
WITH chosen AS (
    SELECT
        scores.row_id, scores.metric_id, avg(scores.value) AS value,
        count(*) FILTER (scores.status = 'unscored') AS n_unscored, any_value(scores.reason) AS reason
    FROM scores
    JOIN metrics USING (metric_id)
    JOIN evaluators USING (evaluator_id)
    WHERE NOT metrics.dataset_level
        AND ($evaluator IS NULL OR evaluators.evaluator = $evaluator)
        AND (CASE WHEN $metric IS NULL THEN metrics.is_primary ELSE metrics.metric = $metric END)
        AND ($problem IS NULL OR scores.row_id IN (
            SELECT unnest(row_ids) FROM problems WHERE problem_id = $problem
        ))
    GROUP BY ALL
), judged AS (
    SELECT
        *,
        CASE
            WHEN value IS NULL THEN CASE WHEN n_unscored > 0 THEN 'unscored' ELSE 'not_applicable' END
            WHEN threshold IS NULL THEN 'scored'
            WHEN (higher_is_better AND value >= threshold) OR (NOT higher_is_better AND value <= threshold) THEN 'passed'
            ELSE 'failed'
        END AS outcome
    FROM chosen JOIN metrics USING (metric_id)
)
SELECT
    cases.case_key AS "case", models.model_key AS model, evaluators.evaluator, judged.metric, judged.value,
    judged.threshold, judged.outcome, judged.reason, left(cases.question, 300) AS question, count(*) OVER () AS total
FROM judged
JOIN evaluators USING (evaluator_id)
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE ($model IS NULL OR models.model_key = $model)
    AND ($outcome IS NULL OR judged.outcome = $outcome)
ORDER BY
    CASE judged.outcome WHEN 'failed' THEN 0 WHEN 'unscored' THEN 1 WHEN 'scored' THEN 2 WHEN 'passed' THEN 3 ELSE 4 END,
    CASE WHEN judged.higher_is_better THEN judged.value ELSE -judged.value END NULLS LAST,
    judged.metric_id, rows.row_id
LIMIT $limit OFFSET $offset;

-- statement: problems
WITH listed AS MATERIALIZED (
    SELECT
        problems.problem_id, problems.severity, problems.type, problems.instrument, evaluators.evaluator,
        metrics.metric, models.model_key AS model, problems.description, problems.actions, problems.row_ids,
        count(*) OVER () AS total
    FROM problems
    LEFT JOIN evaluators USING (evaluator_id)
    LEFT JOIN metrics USING (metric_id)
    LEFT JOIN models USING (model_id)
    WHERE ($severity IS NULL OR problems.severity = $severity)
        AND ($model IS NULL OR models.model_key = $model)
    ORDER BY problems.problem_id
    LIMIT $limit OFFSET $offset
), found AS (
    SELECT problem_id, list(DISTINCT case_key ORDER BY case_key) AS first_cases
    FROM (SELECT problem_id, unnest(row_ids[:5]) AS row_id FROM listed)
    JOIN rows USING (row_id)
    JOIN cases USING (case_id)
    GROUP BY problem_id
)
SELECT
    problem_id AS problem, severity, type, instrument, evaluator, metric, model, description, actions,
    len(row_ids) AS n_rows, first_cases, total
FROM listed LEFT JOIN found USING (problem_id)
ORDER BY problem_id;
