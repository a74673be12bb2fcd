-- Per primary metric the case that most models fail; among equals the one with the worst mean, then the first.
WITH by_case AS (
    SELECT
        metric_id,
        case_id,
        count(*) AS n_models,
        count_if((value >= above) <> upper_is_good) AS n_failed,
        avg(CASE WHEN upper_is_good THEN value ELSE -value END) AS goodness
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN targets USING (metric_id)
    WHERE value IS NOT NULL AND above IS NOT NULL AND metric_id IN (SELECT unnest(?))
    GROUP BY metric_id, case_id
),
most AS (SELECT metric_id, max(n_failed) AS n_failed FROM by_case GROUP BY metric_id HAVING max(n_failed) > 0),
hardest AS (
    SELECT
        metric_id,
        n_failed,
        count(*) AS n_alike,
        arg_min(case_id, (goodness, case_id)) AS case_id,
        arg_min(n_models, (goodness, case_id)) AS n_models
    FROM by_case
    JOIN most USING (metric_id, n_failed)
    GROUP BY metric_id, n_failed
)
SELECT metric_id, case_key, question, n_models, n_failed, n_alike, list(row_id ORDER BY row_id) AS row_ids
FROM hardest
JOIN cases USING (case_id)
JOIN rows USING (case_id)
JOIN row_scores USING (metric_id, row_id)
JOIN targets USING (metric_id)
WHERE (value >= above) <> upper_is_good
GROUP BY ALL
ORDER BY metric_id
