-- How much the trials of a row differ. A line per metric and model of which some row was scored more than once.
-- within_std pools the rows' variances, each with its number of trials less one. The means of the trials are taken over
-- the rows that every trial scored, so that they do not differ by which rows they could score.
INSERT INTO trial_spread
WITH asked AS (
    SELECT metric_id, max(trial) + 1 AS n_trials FROM scores GROUP BY metric_id HAVING max(trial) > 0
),
repeated AS (
    SELECT
        metric_id,
        model_id,
        row_id,
        count(*) AS n,
        min(value) AS low,
        max(value) AS high,
        var_samp(value) FILTER (isfinite(value)) AS variance,
        CASE WHEN any_value(above) IS NOT NULL THEN count_if(value >= above) BETWEEN 1 AND count(*) - 1 END AS crosses
    FROM scores
    JOIN asked USING (metric_id)
    JOIN targets USING (metric_id)
    JOIN rows USING (row_id)
    WHERE status = 'scored'
    GROUP BY metric_id, model_id, row_id
    HAVING count(*) > 1
),
by_row AS (
    SELECT
        metric_id,
        model_id,
        count(*) AS n_rows,
        count_if(low < high) AS n_differ,
        CASE WHEN count(crosses) > 0 THEN count_if(crosses) END AS n_cross,
        sqrt(
            sum((n - 1) * variance) FILTER (isfinite(low) AND isfinite(high))
            / sum(n - 1) FILTER (isfinite(low) AND isfinite(high))
        ) AS within_std
    FROM repeated
    GROUP BY metric_id, model_id
),
by_trial AS (
    SELECT metric_id, repeated.model_id, trial, avg(value) AS mean
    FROM scores
    JOIN repeated USING (metric_id, row_id)
    JOIN asked USING (metric_id)
    WHERE n = n_trials AND isfinite(low) AND isfinite(high)
    GROUP BY metric_id, repeated.model_id, trial
),
means AS (
    SELECT metric_id, model_id, min(mean) AS lowest_mean, max(mean) AS highest_mean, stddev_samp(mean) AS means_std
    FROM by_trial
    GROUP BY metric_id, model_id
)
SELECT
    metric_id, model_id, n_trials, n_rows, n_differ, n_differ / n_rows, n_cross, n_cross / n_rows, within_std,
    lowest_mean, highest_mean, means_std
FROM by_row
JOIN asked USING (metric_id)
LEFT JOIN means USING (metric_id, model_id)
ORDER BY metric_id, model_id
