-- All that means, extremes, coverage and pass shares need, in one pass over the scores.
CREATE OR REPLACE TEMP TABLE sums AS
WITH by_status AS (
    SELECT
        metric_id,
        model_id,
        status,
        count(*) AS n,
        sum(value) AS total,
        sum(value * value) AS squares,
        min(value) AS minimum,
        max(value) AS maximum,
        count_if(value >= above) AS n_above
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN targets USING (metric_id)
    GROUP BY metric_id, model_id, status
),
summed AS (
    SELECT
        metric_id,
        model_id,
        coalesce(sum(n) FILTER (status = 'scored'), 0)::BIGINT AS n_scored,
        coalesce(sum(n) FILTER (status = 'unscored'), 0)::BIGINT AS n_unscored,
        coalesce(sum(n) FILTER (status = 'not_applicable'), 0)::BIGINT AS n_not_applicable,
        sum(total) AS total,
        sum(squares) AS squares,
        min(minimum) AS minimum,
        max(maximum) AS maximum,
        sum(n_above)::BIGINT AS n_above
    FROM by_status
    GROUP BY metric_id, model_id
)
SELECT
    metric_id,
    model_id,
    n_scored,
    n_unscored,
    n_not_applicable,
    CASE WHEN minimum = maximum THEN minimum WHEN n_scored > 0 THEN total / n_scored END AS mean,
    CASE WHEN minimum = maximum THEN 0 WHEN n_scored > 0 THEN squares - total * total / n_scored END AS squares,
    minimum,
    maximum,
    CASE WHEN upper_is_good THEN n_above ELSE n_scored - n_above END AS n_pass
FROM summed
JOIN targets USING (metric_id)
