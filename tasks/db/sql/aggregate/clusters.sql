-- How far the rows of one original and its copies deviate together from their model's mean m. With the mean c and the
-- variance v of a cluster's n values, (sum of deviations)² - sum of squared deviations = n (n - 1) (c - m)² - n v.
SELECT
    metric_id,
    model_id,
    sum(n)::BIGINT AS n,
    count(*) AS clusters,
    sum(n * (n - 1) * (centre - mean) * (centre - mean) - n * variance) AS covariance
FROM (
    SELECT
        metric_id,
        any_value(model_id) AS model_id,
        count(*) AS n,
        avg(value) AS centre,
        var_pop(value) AS variance
    FROM row_scores
    JOIN cluster_rows USING (row_id)
    WHERE value IS NOT NULL
    GROUP BY metric_id, cluster
)
JOIN sums USING (metric_id, model_id)
GROUP BY metric_id, model_id
