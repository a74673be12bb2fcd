-- The metrics that have a value per row. above is the least value on the upper side of the threshold: a value passes
-- when (value >= above) = upper_is_good. The threshold itself is good in both directions, so for a metric that is
-- better when lower the upper side starts at the next greater number. above is NULL without a threshold.
CREATE OR REPLACE TEMP TABLE targets AS
SELECT
    metrics.metric_id,
    higher_is_better AS upper_is_good,
    CASE WHEN higher_is_better THEN threshold ELSE nextafter(threshold, 'inf'::DOUBLE) END AS above,
    leaderboard <> 'bool' OR is_primary AS compared -- of a pass/fail board the other metrics repeat the primary one
FROM metrics
JOIN evaluators USING (evaluator_id)
WHERE NOT dataset_level
