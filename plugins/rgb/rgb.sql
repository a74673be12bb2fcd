-- The tables of the RGB paper.

-- statement: rows
-- Per model, testbed, task, noise and metric: how many rows there are, how many are scored, and how many of those are 1.
-- What an answer of a counterfactual case is worth as a plain answer stands in the evidence.
WITH tags AS (
    SELECT
        rows.row_id,
        models.model_key,
        -- in a file of answers the case's metadata stands in the row
        coalesce(json_extract(rows.metadata, '$.rgb'), json_extract(cases.metadata, '$.rgb')) AS rgb
    FROM rows
    JOIN cases USING (case_id)
    JOIN models USING (model_id)
),
tagged AS (
    SELECT
        row_id,
        model_key,
        json_extract_string(rgb, '$.testbed') AS testbed,
        json_extract_string(rgb, '$.task') AS task,
        TRY_CAST(json_extract_string(rgb, '$.noise') AS DOUBLE) AS noise
    FROM tags
    WHERE json_extract_string(rgb, '$.task') IS NOT NULL
),
values_of_rows AS (
    SELECT scores.row_id, metrics.metric, scores.status, scores.value
    FROM scores
    JOIN metrics USING (metric_id)
    JOIN evaluators USING (evaluator_id)
    WHERE evaluators.evaluator LIKE 'rgb.%' AND scores.trial = 0 AND scores.status <> 'not_applicable'
    UNION ALL
    SELECT
        evidence.row_id,
        'accuracy',
        CAST('scored' AS status),
        CAST(CAST(json_extract(evidence.evidence, '$.data.correct') AS BOOLEAN) AS DOUBLE)
    FROM evidence
    JOIN evaluators USING (evaluator_id)
    WHERE evaluators.evaluator = 'rgb.counterfactual_robustness'
        AND json_valid(evidence.evidence)
        AND json_extract(evidence.evidence, '$.data.correct') IS NOT NULL
)
SELECT
    model_key,
    testbed,
    task,
    noise,
    metric,
    count(*) AS n,
    count(*) FILTER (WHERE status = 'scored') AS scored,
    CAST(coalesce(sum(value) FILTER (WHERE status = 'scored'), 0) AS UBIGINT) AS hits
FROM tagged
JOIN values_of_rows USING (row_id)
GROUP BY ALL
ORDER BY ALL
